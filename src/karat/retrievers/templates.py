"""Builds requests from templates; reads hits and usage from responses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from karat.data.question import Question
from karat.errors import shorten
from karat.retrievers.base import Unusable

_VALUE = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")
_PART = re.compile(r"[^.\[\]]+")
_EACH = "[*]"
Used: TypeAlias = list[dict[str, Any]]  # entries of `usage` in a run log

# Paths of the token counts: OpenAI and vLLM, Jina and Voyage, Cohere.
_PROMPT = ("usage.prompt_tokens", "usage.total_tokens", "meta.tokens.input_tokens", "meta.billed_units.input_tokens")
_COMPLETION = ("usage.completion_tokens", "meta.tokens.output_tokens")
_CALLS = ("meta.billed_units.search_units",)  # the units that Cohere bills

_MOST = 2**53  # largest number in a run log


def values_of(question: Question, k: int) -> dict[str, Any]:
    """Return the values for a template."""
    return {"language": None, **question.facts, "query": question.text, "query_id": question.id, "k": k}


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill a template with values; a template that is only one value keeps its type.

    >>> fill({"q": "{query}", "size": "{k}", "note": "top {k}"}, {"query": "a", "k": 5})
    {'q': 'a', 'size': 5, 'note': 'top 5'}
    """
    if isinstance(template, dict):
        return {name: fill(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [fill(value, values) for value in template]
    if not isinstance(template, str):
        return template
    whole = _VALUE.fullmatch(template)
    if whole:
        return _named(whole[1], values)
    return _VALUE.sub(lambda found: _text(_named(found[1], values)), template)


def fill_url(template: str, values: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> str:
    """Fill an address and its query string; parameters without a value are left out.

    >>> fill_url("http://x/{k}?a=1", {"k": 5, "query": "a b", "no": None}, {"q": "{query}", "n": "{no}", "all": True})
    'http://x/5?a=1&q=a+b&all=true'
    """
    url = _VALUE.sub(lambda found: quote(_text(_named(found[1], values)), safe=""), template)
    given = {name: value for name, value in fill(dict(params or {}), values).items() if value is not None}
    written = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
    return f"{url}{'&' if '?' in url else '?'}{urlencode(written, doseq=True)}" if written else url


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _named(name: str, values: Mapping[str, Any]) -> Any:
    if name not in values:
        raise Unusable(f"the request needs {{{name}}}, which this query does not have", expected=", ".join(values))
    return values[name]


def value_at(found: Any, path: str) -> Any:
    """Return the value at a path such as `hits.hits` or `results[0].items`; None if there is none.

    A name may have dots itself, such as `@search.score`.

    >>> value_at({"a": [{"b": 1}]}, "a[0].b"), value_at({"a": [{"b": 1}]}, "a.0.b"), value_at({"a": 1}, "x.y")
    (1, 1, None)
    >>> value_at({"@search.score": 2}, "@search.score")
    2
    """
    if isinstance(found, dict) and path in found:
        return found[path]
    for part in _PART.findall(path):
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal():
            found = found[int(part)] if int(part) < len(found) else None
        else:
            return None
    return found


def stored_paths(inside: str, id: str | None, text: str | None) -> dict[str, str]:
    """Return the paths of id and text in a hit, if they are fields of the stored document."""
    return {name: f"{inside}.{path}" for name, path in (("chunk_id", id), ("text", text)) if path}


def hit_at(hit: Any, paths: Mapping[str, str]) -> dict[str, Any]:
    """Read the fields of a hit, each from its path.

    >>> hit_at({"_id": "a", "_source": {"body": "…"}}, {"chunk_id": "_id", "text": "_source.body"})
    {'chunk_id': 'a', 'text': '…'}
    """
    found = {name: value_at(hit, path) for name, path in paths.items()}
    if "chunk_id" in paths and found["chunk_id"] is None:
        where = paths["chunk_id"]
        raise Unusable(f"a hit has nothing at {where!r}", got=hit, hint="set `id` to the path of the id in a hit")
    return with_score(found)


def with_score(hit: dict[str, Any]) -> dict[str, Any]:
    """Replace `distance` by a score, which is larger for better hits.

    >>> with_score({"chunk_id": "a", "distance": 0.25}), with_score({"chunk_id": "a", "distance": 0})
    ({'chunk_id': 'a', 'score': -0.25}, {'chunk_id': 'a', 'score': 0.0})
    """
    distance = hit.pop("distance", None)
    if distance is not None:
        hit["score"] = 0.0 - distance if type(distance) in (int, float) else distance
    return hit


def hits_in_columns(found: Any, columns: Mapping[str, str], where: str) -> list[dict[str, Any]]:
    """Read hits from a response with one list per field, each at its path. `[*]` means: of each entry.

    >>> answer = {"ids": [["a", "b"]], "metadatas": [[{"page": 7}, {"page": 9}]]}
    >>> hits_in_columns(answer, {"chunk_id": "ids[0]", "source": "metadatas[0][*].page"}, "")
    [{'chunk_id': 'a', 'source': 7}, {'chunk_id': 'b', 'source': 9}]
    """
    lists: dict[str, list[Any]] = {}
    for name, path in columns.items():
        head, each, rest = path.partition(_EACH)
        column = value_at(found, head)
        if not isinstance(column, list):
            hint = "set `columns` to paths of lists, and let the request ask for them"
            raise Unusable(f"{where}: no list at {head!r}", got=shorten(found, 120), hint=hint)
        lists[name] = [value_at(entry, rest) for entry in column] if each else column
    sizes = {columns[name]: len(column) for name, column in lists.items()}
    if len(set(sizes.values())) > 1:
        raise Unusable(f"{where}: the columns have different lengths", got=sizes)
    return [with_score(dict(zip(lists, row, strict=True))) for row in zip(*lists.values(), strict=True)]


def refuse_reported(found: Any, paths: Iterable[str], where: str) -> None:
    """Raise Unusable if the response reports an error or a partial answer at one of the paths."""
    for path in paths:
        problem = value_at(found, path)
        if problem:
            shown = problem if isinstance(problem, (dict, list)) else found
            raise Unusable(f"{where}: the server reports a problem at {path!r}", got=shorten(shown, 200))


def list_at(found: Any, path: str, where: str) -> list[Any]:
    """Return the list at a path. One that ends with `?` may be absent, as in responses without hits.

    >>> list_at({"root": {"id": "top"}}, "root.children?", "")
    []
    """
    required = path.removesuffix("?")
    hits = value_at(found, required)
    if hits is None and required != path and value_at(found, required.rpartition(".")[0]) is not None:
        return []
    if not isinstance(hits, list):
        place = f"at {path!r}" if path else "in the response"
        hint = "set `hits` to the path of the list"
        raise Unusable(f"{where}: no list of hits {place}", got=shorten(found, 120), hint=hint)
    return hits


def used_by(stage: str, model: str, content: Any) -> dict[str, Any]:
    """Return the usage of one call; what the response does not contain is left out.

    >>> used_by("embed", "small", {"data": [], "usage": {"prompt_tokens": 21, "total_tokens": 21}})
    {'stage': 'embed', 'model': 'small', 'prompt_tokens': 21, 'calls': 1}
    """
    told = {"prompt_tokens": _told(content, _PROMPT), "completion_tokens": _told(content, _COMPLETION)}
    counted = {name: count for name, count in told.items() if count is not None}
    return {"stage": stage, "model": model, **counted, "calls": _told(content, _CALLS) or 1}


def _told(content: Any, paths: Iterable[str]) -> int | None:
    found = (value_at(content, path) for path in paths)
    # Some write whole numbers as 21.0; numbers that are too large are left out.
    return next((int(n) for n in found if type(n) in (int, float) and 0 <= n <= _MOST and n % 1 == 0), None)


def as_field(used: Used) -> dict[str, Any]:
    """Return the field `usage` of the run log; empty if no model was called."""
    return {"usage": used} if used else {}
