"""Your own code as a retriever: `module:callable`."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError
from karat.net.timeouts import settled
from karat.registry import load_callable, made_by, title_of
from karat.retrievers.base import REGISTRY, Found, Retriever, as_found

_METHODS = ("retrieve", "search")
_K = ("k", "top_k", "limit", "n", "size")
_FRAMEWORKS = {"langchain_core": "langchain", "llama_index": "llama_index", "haystack": "haystack"}


class Function(Retriever):
    """Calls a function `query → hits`, or an object with `retrieve`; sync or async.

    It may also accept `k` (or `top_k`, `limit`, `n`, `size`), and by name `query_id`, `language`, `as_of`, `tags`, …:
    the other fields of a query in the gold set. A class or a function without arguments is called once to make the
    retriever. An object with `index` gets the corpus. The retriever may also be one of LangChain, LlamaIndex or
    Haystack.
    """

    name = "function"
    searches_corpus = False

    def __init__(self, target: Any) -> None:
        self.target = target
        found = load_callable(target)
        self._code = code_hash(found)
        made = _made(found)
        self._framework = _of_framework(made)
        self._call = None if self._framework else _callable(made, self.title)
        self._index = getattr(made, "index", None) if not inspect.isfunction(made) else None

    @property
    def title(self) -> str:
        return title_of(self.target)

    def index(self, corpus: Corpus) -> None:
        if self._framework:
            self._framework.index(corpus)
        elif callable(self._index):
            self._index(corpus)

    def answer(self, question: Question, k: int) -> Found:
        if self._framework:
            return self._framework.answer(question, k)
        assert self._call is not None
        return as_found(settled(self._call(question, k), question.timeout))

    def settings(self) -> dict[str, Any]:
        inner = self._framework.settings() if self._framework else {}
        return {"name": self.name, **inner, "target": self.title, **({"code": self._code} if self._code else {})}


def _made(found: Any) -> Any:
    """Return the retriever; a class or a function without arguments is called to make it."""
    if isinstance(found, type) or (inspect.isroutine(found) and not _parameters(found)):
        return made_by(found, "give a function without arguments that makes the retriever")
    return found


def _of_framework(made: Any) -> Retriever | None:
    if isinstance(made, Retriever):
        return made
    roots = [kind.__module__.partition(".")[0] for kind in type(made).__mro__]
    name = next((_FRAMEWORKS[root] for root in roots if root in _FRAMEWORKS), None)
    return None if name is None else REGISTRY.require(name)(made)  # type: ignore[call-arg]


def _callable(made: Any, title: str) -> Callable[[Question, int], Any]:
    """The function of a retriever, called with the arguments that it accepts."""
    method = next((getattr(made, name) for name in _METHODS if callable(getattr(made, name, None))), None)
    function = method or (made if callable(made) else None)
    if function is None:
        expected = "a function query → hits, or an object with `retrieve`"
        raise ConfigError(f"{title} is not a retriever", code="bad-callable", expected=expected)
    known = _parameters(function)
    named = {p.name for p in known[1:]}
    cutoff = next((name for name in _K if name in named), None)
    # A required second argument that is not a field of a query is k, whatever its name.
    must = [p.name for p in known[1:2] if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    needed = must[0] if must else None

    def call(question: Question, k: int) -> Any:
        told = {"query_id": question.id, "language": None, **question.facts, "tags": question.facts}
        given = {name: value for name, value in told.items() if name in named}
        wanted = cutoff or (needed if needed not in told else None)
        return function(question.text, **given | ({} if wanted is None else {wanted: k}))

    return call


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        return [inspect.Parameter("query", inspect.Parameter.POSITIONAL_ONLY)]


def code_hash(found: Any) -> str | None:
    """Return the hash of the code's file, so that a run is not continued with changed code."""
    try:
        file = inspect.getsourcefile(found if hasattr(found, "__code__") or isinstance(found, type) else type(found))
        return None if file is None else "sha256:" + hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    except (TypeError, OSError):
        return None
