"""Which hits a query must not get: ids in its gold entry (`forbidden`), and rules about the metadata of hits.

A rule compares a field of a hit's metadata with a value, or with a field of the query: `tenant != query.tenant`,
`expires < query.as_of`, `licence = internal, nda`, or with several of them: `tenant != query.tenant, shared`. A hit for
which a rule holds is forbidden. If a field has several values, `=` holds if one of them is equal, and `!=` if none is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np

from karat.data.attributes import attribute
from karat.data.gold import FORBIDDEN, Gold
from karat.data.hits import METADATA
from karat.data.ids import Bools, Ids, Ints, as_list, hashes, keys, take_list
from karat.errors import ConfigError

_RULE = r"(?s)\s*([\w.\-]+)\s*(!=|<=|>=|=|<|>|\bnot\s+in\b|\bin\b)\s*(.+?)\s*"
_QUERY = r"query\.([\w.\-]+)"
_COLUMNS = ("source", "doc_version")
_ABSENT = object()  # the hit has no such field
_WORDS = {"in": "=", "not in": "!="}
_EXAMPLE = "such as tenant != query.tenant, expires < query.as_of, or licence = internal"


class ForbidRule(NamedTuple):
    """A hit is forbidden if its `field` compares so with the values; `query.NAME` is a field of the query."""

    field: str
    operator: str
    values: tuple[str, ...]

    @property
    def column(self) -> str:
        """The column of hits that it reads: their own fields have one, all others are in the metadata."""
        return self.field if self.field in _COLUMNS else METADATA

    def __str__(self) -> str:
        return f"{self.field} {self.operator} {', '.join(self.values)}"

    def wanted(self, gold: Gold) -> list[tuple[str, ...] | None]:
        """What the field is compared with, for each query; None if the query lacks a field."""
        named = [
            attribute(gold, part[1]) if (part := re.fullmatch(_QUERY, value)) else [value] * len(gold.queries)
            for value in self.values
        ]
        texts = (list(map(_texts, row)) for row in zip(*named, strict=True))
        return [None if None in row else tuple(text for one in row for text in one or ()) for row in texts]


class CheckedHits(msgspec.Struct, frozen=True):
    """Which of some hits are forbidden, and which could not be checked by some rule."""

    forbidden: Bools
    unknown: Bools
    used: frozenset[ForbidRule]  # rules that could check a hit, or whose field some hit has without a value


def read_rules(texts: Iterable[str]) -> tuple[ForbidRule, ...]:
    return tuple(map(read_rule, texts))


def read_rule(text: str) -> ForbidRule:
    """
    >>> print(read_rule("tenant != query.tenant"), read_rule("licence in internal, nda"), sep="; ")
    tenant != query.tenant; licence = internal, nda
    """
    found = re.fullmatch(_RULE, text)
    if found is None:
        raise ConfigError(
            f"cannot read the rule {text!r}",
            code="bad-rule",
            expected="a field, =, !=, <, >, <= or >=, and a value",
            hint=_EXAMPLE,
        )
    field, operator, value = found.groups()
    operator = _WORDS.get(" ".join(operator.split()), operator)
    values = tuple(part.strip() for part in value.split(","))
    if not all(values) or (operator not in ("=", "!=") and len(values) > 1):
        raise ConfigError(f"cannot read the rule {text!r}", code="bad-rule", expected="one value", hint=_EXAMPLE)
    return ForbidRule(field, operator, values)


def check_rules(
    rules: Sequence[ForbidRule], columns: Callable[[str], Sequence[Any]], gold: Gold, query: Ints
) -> CheckedHits:
    """Checks hits by rules. `columns`: a column of the hits; `query`: the row of each hit's query in the gold set."""
    forbidden, unknown = np.zeros(len(query), np.bool_), np.zeros(len(query), np.bool_)
    used = set[ForbidRule]()
    for rule in rules:
        said = columns(rule.column)
        said = [_value(one, rule.field) for one in said] if rule.column == METADATA else said
        values, of_hit = _numbered(map(_texts, said))
        wanted, rows = _numbered(rule.wanted(gold))
        of_query = rows[query]
        # Many hits have the same values: each pair is compared once.
        pairs, which = np.unique(of_hit * len(wanted) + of_query, return_inverse=True)
        holds = _HOLDS[rule.operator]
        verdicts = [holds(values[pair // len(wanted)], wanted[pair % len(wanted)]) for pair in pairs.tolist()]
        forbidden |= np.array([verdict is True for verdict in verdicts], np.bool_)[which]
        unknown |= np.array([verdict is None for verdict in verdicts], np.bool_)[which]
        null = rule.column == METADATA and None in said
        if null or any(verdict is not None for verdict in verdicts):
            used.add(rule)
    return CheckedHits(forbidden, unknown & ~forbidden, frozenset(used))


def named_forbidden(gold: Gold, query: Ints, ids: Ids, docs: Callable[[Ints], Ids]) -> Bools:
    """Hits whose id, or the id of their document, the gold entry of their query forbids.

    `query`: row of each hit's query in the gold set; `docs`: the documents of some of the hits."""
    found = np.zeros(len(query), np.bool_)
    column = gold.fields.get(FORBIDDEN)
    if column is None:
        return found
    named, owners = _listed(gold, column)
    rows = np.flatnonzero(np.isin(query, owners))
    if not len(rows):
        return found
    wanted = keys(hashes(named), owners)
    for items in (take_list(ids, rows), as_list(docs(rows))):
        near = np.flatnonzero(np.isin(keys(hashes(items), query[rows]), wanted))
        hit = [items[at] in column[row] for at, row in zip(near.tolist(), query[rows[near]].tolist(), strict=True)]
        found[rows[near[np.array(hit, np.bool_)]]] = True
    return found


def _listed(gold: Gold, column: list[Any]) -> tuple[list[str], Ints]:
    cache: dict[str, tuple[list[str], Ints]] = gold.__dict__.setdefault("_forbidden", {})
    if FORBIDDEN not in cache:
        pairs = [(item, row) for row, items in enumerate(column) for item in items or ()]
        cache[FORBIDDEN] = [item for item, _ in pairs], np.array([row for _, row in pairs], np.int64)
    return cache[FORBIDDEN]


def fields_of(metadata: Iterable[Any]) -> frozenset[str]:
    """Names of fields that hits have."""
    opened = (_opened(one) for one in metadata)
    return frozenset(name for one in opened if isinstance(one, dict) for name in one)


def _opened(metadata: Any) -> Any:
    """The object, where a table has it as text."""
    if isinstance(metadata, str) and metadata.startswith("{"):
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(metadata)
    return metadata


def _value(metadata: Any, field: str) -> Any:
    """A field of a hit, which may be in an inner object; `_ABSENT` where the hit has no such field."""
    metadata = _opened(metadata)
    if isinstance(metadata, dict) and field in metadata:
        return metadata[field]
    for name in field.split("."):
        metadata = metadata.get(name, _ABSENT) if isinstance(metadata, dict) else _ABSENT
    return metadata


def _texts(value: Any) -> tuple[str, ...] | None:
    """
    >>> _texts(["a", 7]), _texts(True), _texts(2.0), _texts(None), _texts({})
    (('a', '7'), ('true',), ('2',), None, None)
    """
    if isinstance(value, (list, tuple, set)):
        return tuple(text for one in value for text in _texts(one) or ())
    if value is None or value is _ABSENT or isinstance(value, dict):
        return None
    if isinstance(value, bool):
        return ("true" if value else "false",)
    return (f"{value:g}" if isinstance(value, float) else str(value).strip(),)


def _numbered(values: Iterable[tuple[str, ...] | None]) -> tuple[list[tuple[str, ...] | None], Ints]:
    """The distinct values, and the number of each."""
    known: dict[tuple[str, ...] | None, int] = {}
    numbers = np.array([known.setdefault(value, len(known)) for value in values], np.int64)
    return list(known), numbers


_Values = tuple[str, ...] | None


def _equal(own: _Values, wanted: _Values) -> bool | None:
    return None if own is None or wanted is None else not set(own).isdisjoint(wanted)


def _apart(own: _Values, wanted: _Values) -> bool | None:
    return None if own is None or wanted is None else set(own).isdisjoint(wanted)


def _newer(own: _Values, wanted: _Values) -> bool | None:
    from karat.data.versions import Version

    if not own or not wanted or len(own) > 1 or len(wanted) > 1:
        return None
    first, second = Version.read(own[0]), Version.read(wanted[0])
    return None if first is None or second is None else first.newer_than(second)


def _turned(own: _Values, wanted: _Values) -> bool | None:
    return _newer(wanted, own)


def _not(holds: Callable[[_Values, _Values], bool | None]) -> Callable[[_Values, _Values], bool | None]:
    def opposite(own: _Values, wanted: _Values) -> bool | None:
        verdict = holds(own, wanted)
        return None if verdict is None else not verdict

    return opposite


_HOLDS = {"=": _equal, "!=": _apart, ">": _newer, "<": _turned, "<=": _not(_newer), ">=": _not(_turned)}
