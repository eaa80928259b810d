"""Reads YAML safely, with the line of every entry, and into structs; errors have line and column.

Ids stay as written: dates, 007 and keys are text.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from pathlib import Path as File
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from karat.errors import ConfigError, InputError, did_you_mean

# The line of each entry of a list, by the list's id(): of the outermost list, or of those right under a mapping.
Lines: TypeAlias = dict[int, list[int]]

_DEEPEST = 100
_TAG = "tag:yaml.org,2002:"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Safe loading without YAML 1.1's surprises: `no`, 2025-06-01, 010, 0x1F, 1_000 and 12:30 are text."""


_SURPRISING = (":timestamp", ":bool", ":int", ":float")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(_SURPRISING)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _pattern, _firsts in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^(?:0|-?[1-9][0-9]*)$", "-0123456789"),
    (
        "float",
        r"^(?:-?(?:0|[1-9][0-9]*)\.[0-9]*(?:[eE][-+]?[0-9]+)?|-?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-.0123456789",
    ),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(_pattern), list(_firsts))


def load_yaml(text: bytes, label: str) -> tuple[Any, Lines]:
    """Return the document, and the lines of its list entries."""
    try:
        _refuse_depth_and_bombs(text, label)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, {}
            _settle_keys(node, label, set())
            value = loader.construct_document(node)
            return value, _entry_lines(node, value)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line, column = _spot(error.problem_mark or error.context_mark)
        tabs = b"\t" in text and "cannot start any token" in str(error.problem)
        hint = "YAML is indented with spaces, not tabs" if tabs else None
        what = f"not YAML: {error.problem or error.context}"
        raise InputError(what, code="not-yaml", file=label, line=line, column=column, hint=hint) from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", code="not-yaml", file=label) from error
    except (AttributeError, LookupError, TypeError) as error:  # raised by PyYAML for `!!int ""` or `!!timestamp today`
        raise InputError("not YAML: a tag does not match its value", code="not-yaml", file=label) from error


def _refuse_depth_and_bombs(text: bytes, label: str) -> None:
    """Check nesting and aliases first: the C loader recurses without a limit, and nested aliases grow exponentially."""
    depth, anchored = 0, 0  # depth in total, and inside the outermost anchored collection
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            anchored += bool(anchored or event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            anchored -= anchored > 0
        elif isinstance(event, yaml.AliasEvent) and anchored:
            what, hint, (line, _) = "an alias inside an anchor", "write the values out", _spot(event.start_mark)
            raise InputError(what, code="nested-alias", file=label, line=line, hint=hint)
        if depth > _DEEPEST:
            line, _ = _spot(event.start_mark)
            raise InputError("nested too deeply", code="nested-too-deeply", file=label, line=line)


def _spot(mark: Any) -> tuple[Any, Any]:
    """Return (line, column), counted from 1."""
    return (None, None) if mark is None else (mark.line + 1, mark.column + 1)


def _entry_lines(node: Any, value: Any) -> Lines:
    lists = [(node, value)]
    if isinstance(value, dict):
        lists = [(child, value.get(key.value)) for key, child in node.value if isinstance(key, yaml.ScalarNode)]
    return {
        id(found): [entry.start_mark.line + 1 for entry in child.value]
        for child, found in lists
        if isinstance(found, list)
    }


def _settle_keys(node: Any, label: str, seen_nodes: set[int]) -> None:
    """Check that keys are text, as in JSON, and unique."""
    if id(node) in seen_nodes:  # an alias, already checked
        return
    seen_nodes.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _settle_keys(child, label, seen_nodes)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    what, (line, column) = f"duplicate key {key.value!r}", _spot(key.start_mark)
                    raise InputError(what, code="duplicate-key", file=label, line=line, column=column)
                keys.add(key.value)
                if key.tag != _TAG + "merge":
                    key.tag = _TAG + "str"
            _settle_keys(value, label, seen_nodes)


Path: TypeAlias = tuple[str | int, ...]
Places: TypeAlias = dict[Path, tuple[int, int]]  # (line, column) of every value; of a key under its path and KEY
KEY = "key of"


def _note_places(node: Any, path: Path, places: Places) -> None:
    places[path] = _spot(node.start_mark)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            places[(*path, key.value, KEY)] = _spot(key.start_mark)
            _note_places(value, (*path, key.value), places)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _note_places(value, (*path, i), places)


S = TypeVar("S", bound=msgspec.Struct)

_AT = re.compile(r" - at `\$([^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.S)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_TYPE = re.compile(r"Expected `(.*)`, got `(.*)`")
_BOUND = re.compile(r"Expected `\w+` (>=|<=) (\S+)")
_NAMES = {"float": "number", "str": "text", "int": "whole number", "object": "mapping", "array": "list"}
_OPEN = "..."  # msgspec's name for any key of a mapping


class YamlDocument(msgspec.Struct, frozen=True):
    """The content of a file, with the places of its values."""

    file: str | None  # None: from memory, without lines
    value: Any
    places: Places

    def line(self, path: Path) -> int:
        return self._place(path)[0]

    def placed(self, problem: ConfigError, path: Path) -> ConfigError:
        """Add the place of the value at a path to an error."""
        if self.file is not None:
            problem.file = self.file
            problem.line, problem.column = self._place(path)
        problem.field = ".".join(str(p) for p in path if p != KEY) or None
        return problem

    def convert(self, kind: type[S]) -> S:
        try:
            return msgspec.convert(self.value, kind)
        except (msgspec.ValidationError, SystemError) as error:
            # Before msgspec 0.22, an integer too large for a float is a SystemError.
            said = "Number out of range" if isinstance(error, SystemError) else str(error)
            problem, path = _explain(said, self.value, kind)
            raise self.placed(problem, path) from error

    def _place(self, path: Path) -> tuple[int, int]:
        """Return the place of a value, or of what contains it: values from a merge key have no place."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))


def read_document(file: File) -> YamlDocument:
    try:
        text = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", code="unreadable", file=str(file)) from error
    try:
        value, _ = load_yaml(text, str(file))
    except InputError as error:
        raise ConfigError(
            error.what, code=error.code, file=error.file, line=error.line, column=error.column, hint=error.hint
        ) from error
    places: Places = {}
    node = yaml.compose(text, Loader=_Base)
    if node is not None:
        _note_places(node, (), places)
    return YamlDocument(str(file), value, places)


def _explain(message: str, value: Any, kind: Any) -> tuple[ConfigError, Path]:
    """Turn an error of msgspec into a ConfigError and its path."""
    found = _AT.search(message)
    path, text = _path(found[1] if found else ""), message[: found.start()] if found else message
    if _OPEN in path:
        return _explain_entry(path[: path.index(_OPEN)], value, kind)
    kinds, got = [part for k in _kinds_at(kind, path) for part in _parts(k)], _at(value, path)
    if unknown := _UNKNOWN.match(text):
        known = [name for k in kinds for name in getattr(k, "__struct_fields__", ())]
        what, hint = f"unknown field {unknown[1]!r}", did_you_mean(unknown[1], known)
        return ConfigError(what, code="unknown-field", hint=hint), (*path, unknown[1], KEY)
    if missing := _MISSING.match(text):
        return ConfigError(f"the field {missing[1]!r} is missing", code="missing-field"), path
    if wanted := _TYPE.match(text):
        expected = " or ".join(_NAMES.get(k, k) for k in wanted[1].split(" | ") if k != "null")
        hint = "write a plain number, such as 0.85" if "float" in wanted[1] and isinstance(got, str) else None
        return ConfigError("wrong type", code="wrong-type", expected=expected, got=got, hint=hint), path
    if bound := _BOUND.match(text):
        more = "or more" if bound[1] == ">=" else "or less"
        return ConfigError("out of range", code="bad-value", expected=f"{float(bound[2]):g} {more}", got=got), path
    if text.startswith("Invalid enum value"):
        choices = [str(choice) for k in kinds if get_origin(k) is Literal for choice in get_args(k)]
        expected = " or ".join(part for part in (", ".join(choices[:-1]), *choices[-1:]) if part)
        hint = did_you_mean(str(got), choices)
        return ConfigError("unknown choice", code="unknown-choice", expected=expected, got=got, hint=hint), path
    return ConfigError(text), path


def _explain_entry(path: Path, value: Any, kind: Any) -> tuple[ConfigError, Path]:
    """Find the error in a mapping: its first invalid entry."""
    (entry_kind,) = _kinds_at(kind, (*path, _OPEN))
    for key, entry in _at(value, path).items():
        try:
            msgspec.convert(entry, entry_kind)
        except msgspec.ValidationError as error:
            problem, inner = _explain(str(error), entry, entry_kind)
            return problem, (*path, key, *inner)
    raise AssertionError("a mapping was invalid, but none of its entries is")


def _path(text: str) -> Path:
    parts = re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", text)
    return tuple(name or (_OPEN if number == _OPEN else int(number)) for name, number in parts)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _kinds_at(kind: Any, path: Path) -> Iterator[Any]:
    """Yield the possible types at a path in a value of this type."""
    if not path:
        yield kind
        return
    for part in _parts(kind):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            inner = {field.encode_name: field.type for field in msgspec.structs.fields(part)}
            if path[0] in inner:
                yield from _kinds_at(inner[str(path[0])], path[1:])
        elif get_origin(part) in (list, dict):
            yield from _kinds_at(get_args(part)[-1], path[1:])


def _parts(kind: Any) -> Iterator[Any]:
    """Yield the members of a union."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        for part in get_args(kind):
            yield from _parts(part)
    else:
        yield kind
