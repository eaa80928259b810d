"""A reranker of the user's: found by name, called, and what it gives back read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from karat.errors import ConfigError
from karat.registry import load_callable

Hit: TypeAlias = dict[str, Any]  # chunk_id, rank, doc_id and, where they are known, score and text
_GIVES = "the ids in their new order, (id, score) pairs, or one score for each hit"


@dataclass(frozen=True)
class Reranker:
    """Puts hits in a new order."""

    name: str
    call: Callable[[str, list[Hit]], Any]

    def rerank(self, query_id: str, text: str, hits: list[Hit], at_least: int) -> list[Hit]:
        """So many hits must come back, if there are as many; what a reranker cuts off below is its affair."""
        try:
            given = self.call(text, [dict(hit) for hit in hits])
        except Exception as error:
            raise self._error(f"failed: {type(error).__name__}: {error}", query_id) from error
        by_id = {hit["chunk_id"]: hit for hit in hits}
        order = self._order(given, list(by_id), query_id)
        unknown = next((item for item in order if item not in by_id), None)
        if unknown is not None:
            raise self._error("gave an id that it did not get", query_id, got=unknown)
        if len(set(order)) < len(order):
            twice = next(item for item in order if order.count(item) > 1)
            raise self._error("gave an id twice", query_id, got=twice)
        if len(order) < min(at_least, len(hits)):
            expected = f"{min(at_least, len(hits))} or more of {len(hits)} hits"
            raise self._error("gave too few hits", query_id, expected=expected, got=len(order))
        return [by_id[item] for item in order]

    def _order(self, given: Any, ids: list[str], query_id: str) -> list[str]:
        if isinstance(given, Mapping):
            given = sorted(given.items(), key=lambda pair: -self._number(pair[1], query_id))
        try:
            values = list(given.tolist() if hasattr(given, "tolist") else given)
        except TypeError:
            raise self._error("gave something else", query_id, expected=_GIVES, got=given) from None
        if values and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            return self._by_score(values, ids, query_id)
        return [self._id(value, query_id) for value in values]

    def _by_score(self, scores: list[float], ids: list[str], query_id: str) -> list[str]:
        if len(scores) != len(ids):
            raise self._error("gave too few or too many scores", query_id, expected=f"{len(ids)}", got=len(scores))
        if len(scores) > 1 and all(isinstance(s, int) for s in scores) and sorted(scores) == [*range(len(scores))]:
            raise self._error(
                "gave numbers that may be places or scores",
                query_id,
                got=scores,
                hint="give ids in their new order, or scores as decimals",
            )
        order = sorted(range(len(ids)), key=lambda i: -self._number(scores[i], query_id))
        return [ids[i] for i in order]

    def _number(self, score: Any, query_id: str) -> float:
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
            raise self._error("gave a score that is none", query_id, expected="a finite number", got=score)
        return float(score)

    def _id(self, value: Any, query_id: str) -> str:
        if isinstance(value, Mapping):
            value = value.get("chunk_id", value.get("id"))
        elif isinstance(value, (tuple, list)) and value:
            value = value[0]
        if not isinstance(value, str):
            raise self._error("gave something else", query_id, expected=_GIVES, got=value)
        return value

    def _error(self, what: str, query_id: str, **more: Any) -> ConfigError:
        return ConfigError(f"the reranker {self.name} {what}", code="bad-answer", query=query_id, **more)


def find_reranker(given: str | Callable[..., Any]) -> Reranker:
    """A callable as it is, or by the name `module:callable`."""
    name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
    found = load_callable(given)
    if not callable(found):
        raise ConfigError(
            f"the reranker {name} cannot be called", code="bad-callable", expected="a function", got=found
        )
    return Reranker(name, found)
