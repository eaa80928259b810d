"""Makes retrievers from text: `bm25:title`, `hybrid(bm25, dense, prefetch=100)`, `my_app:search` or `http://…`."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from karat.errors import ConfigError, UnknownName, did_you_mean, shorten
from karat.files.yaml import read_document
from karat.retrievers.base import REGISTRY, Retriever, parameters

_SPEC = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)(?::(?P<first>[^()]*))?(?:\((?P<rest>.*)\))?", re.S)
_URL = re.compile(r"(?P<scheme>https?|postgres(?:ql)?)://\S+")
YAML = (".yaml", ".yml")
# Retrievers that run only Karat's code if their options do: parts, models and plain values.
_OWN = ("bm25", "random", "dense", "hybrid", "rerank")
_PARTS, _MODELS, _STATIC = ("first", "second"), ("model", "reranker"), "static"
_PLAIN = ("field", "k1", "b", "language", "seed", "prefetch", "constant", "weight", "top_n")


def make_retriever(spec: Any, options: Mapping[str, Any] | None = None) -> Retriever:
    """Make a retriever from text, a mapping with `retriever` and its options, a callable, or a retriever.

    >>> settings = make_retriever("bm25:title(k1=1.2)").settings()
    >>> settings["field"], settings["k1"]
    ('title', 1.2)
    """
    given = dict(options or {})
    if isinstance(spec, Retriever):
        return spec
    if isinstance(spec, Mapping):
        inner = {name: value for name, value in spec.items() if name != "retriever"}
        if "retriever" not in spec:
            expected = "a retriever such as bm25"
            raise ConfigError("no retriever is given", code="bad-retriever", field="retriever", expected=expected)
        return make_retriever(spec["retriever"], inner | given)
    if not isinstance(spec, str):
        return build(REGISTRY.require("function"), [spec], given)
    if spec.endswith(YAML):
        return make_retriever(read_options(spec), given)
    name, positional, named = parse(spec)
    return build(REGISTRY.require(name), positional, named | given)


def parse(spec: str) -> tuple[str, list[str], dict[str, Any]]:
    """Return the name, positional arguments and keyword arguments of a spec.

    >>> parse("hybrid(bm25(k1=1), my:search, prefetch=50)")
    ('hybrid', ['bm25(k1=1)', 'my:search'], {'prefetch': '50'})
    >>> parse("my_app.search:find")
    ('function', ['my_app.search:find'], {})
    """
    text = spec.strip()
    address = _URL.fullmatch(text)
    if address:
        return "postgres" if address["scheme"].startswith("p") else "http", [text], {}
    parts = _SPEC.fullmatch(text)
    if parts is None:
        expected = "name, name(option=value), module:callable or http://…"
        raise ConfigError(f"invalid retriever {shorten(spec)!r}", code="bad-retriever", expected=expected)
    name, first, rest = parts["name"], parts["first"], parts["rest"]
    if first is not None and REGISTRY.get(name) is None:
        name, first = "function", f"{name}:{first}"
    elif REGISTRY.get(name) is None:
        hint = did_you_mean(name, sorted(REGISTRY.everything())) or "write your own code as module:callable"
        raise UnknownName("retriever", name, [], hint)
    positional, named = ([] if first is None else [first.strip()]), {}
    for argument in _arguments(rest or ""):
        option = re.match(r"([A-Za-z_]\w*)\s*=(.*)", argument, re.S)
        if option:
            named[option[1]] = option[2].strip()
        else:
            positional.append(argument)
    return name, positional, named


def _arguments(text: str) -> Iterator[str]:
    """Split text at commas outside brackets."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if depth or (start and not text[start:].strip()):
        what = f"the brackets of {shorten(text)!r} do not match"
        raise ConfigError(what, code="bad-retriever", expected="name(option=value, …)")
    if text.strip():
        yield text[start:].strip()


def is_self_contained(spec: Any) -> bool:
    """Return whether a spec uses only Karat's own retrievers, which run no other code, call no server and read no file.

    >>> own = ("bm25:title(k1=1.2)", "hybrid(bm25, dense)", {"retriever": "rerank", "top_n": 9})
    >>> [is_self_contained(spec) for spec in own]
    [True, True, True]
    >>> others = ("my_app:search", "http://h/s", "dense(m, url=http://h)", "s.yaml", "rerank(bm25, my_app:score)")
    >>> [is_self_contained(spec) for spec in others]
    [False, False, False, False, False]
    """
    given: dict[str, Any] = {}
    if isinstance(spec, Mapping):
        given = {name: value for name, value in spec.items() if name != "retriever"}
        spec = spec.get("retriever")
    if not isinstance(spec, str) or spec.endswith(YAML):
        return False
    try:
        name, positional, named = parse(spec)
    except ConfigError:
        return False
    if name not in _OWN:
        return False
    given |= named | dict(zip(parameters(REGISTRY.require(name)), positional, strict=False))
    return all(
        is_self_contained(value) if option in _PARTS else value == _STATIC if option in _MODELS else option in _PLAIN
        for option, value in given.items()
    )


def read_options(path: str) -> dict[str, Any]:
    """Read the options of a retriever, and its name if given, from a YAML file."""
    found = read_document(Path(path)).value
    if not isinstance(found, dict):
        expected = "lines of the form `option: value`"
        raise ConfigError("not options of a retriever", code="wrong-type", file=path, expected=expected, got=found)
    return found


def build(kind: type[Retriever], positional: list[Any], named: Mapping[str, Any]) -> Retriever:
    known = parameters(kind)
    called = f"the retriever {kind.name!r}"
    listed = f"its options are: {', '.join(known)}" if known else "it has no options"
    if len(positional) > len(known):
        too_many = positional[len(known)]
        raise ConfigError(f"{called} takes {len(known)} options", code="too-many-options", got=too_many, hint=listed)
    given = dict(zip(known, positional, strict=False))
    for name, value in named.items():
        if name not in known:
            hint = did_you_mean(name, known) or listed
            raise ConfigError(f"{called} has no option {shorten(name, 40)!r}", code="unknown-option", hint=hint)
        if name in given:
            what = f"the option {name!r} of {kind.name!r} is given twice"
            raise ConfigError(what, code="duplicate-option", got=value)
        given[name] = value
    for name, parameter in known.items():
        if name not in given and parameter.default is parameter.empty:
            raise ConfigError(f"{called} needs the option {name!r}", code="missing-option", hint=listed)
    hints = typing.get_type_hints(kind.__init__)
    return kind(**{name: _converted(kind, name, value, hints.get(name, Any)) for name, value in given.items()})


def _converted(kind: type[Retriever], name: str, value: Any, hint: Any) -> Any:
    if hint is Retriever or Retriever in typing.get_args(hint):
        return make_retriever(value)
    if hint is Any:
        return value
    try:
        return msgspec.convert(value, hint, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        choices = [str(choice) for choice in typing.get_args(hint) if isinstance(choice, str)]
        expected = " or ".join(choices) or str(error).partition(",")[0].removeprefix("Expected ").replace("`", "")
        what = f"invalid value of the option {name!r} of {kind.name!r}"
        raise ConfigError(what, code="wrong-type", expected=expected, got=value) from None
