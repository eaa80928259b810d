"""Attributes of queries: tags, fields and values derived from them. Segments and clusters use them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import count, product
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.ids import Ints
from karat.data.variants import VARIANT_OF
from karat.errors import ConfigError, UnknownName, shorten

CONVERSATION = "conversation_id"
NOT_GIVEN = "(not given)"
_CONSTRAINTS = ("constraints", "n_constraints", "num_constraints", "constraint_count")
_LENGTHS = ("short (< 8 words)", "8–15 words", "long (> 15 words)")
_BETWEEN, _OR = " × ", " or "
_LISTS = ("negatives", "forbidden", "hops", "entities")
_NUMBER = r"\d+(?:\.\d+)?"


class Members(NamedTuple):
    """Which query belongs to which segment, in the order of queries. A query with a list of values belongs to each."""

    rows: Ints
    labels: list[str]


def segment_members(gold: Gold, name: str) -> Members:
    """Segments by one attribute, or by several: `language×topic` (also written with * or a comma)."""
    parts = _parts(gold, name)
    if not all(parts):
        raise ConfigError(
            f"cannot read the segment {name!r}", code="bad-segment", hint="for example language, or language×topic"
        )
    columns = [_values(gold, part) for part in parts]
    types = [set(map(type, column)) for column in columns]
    if not any(list in of for of in types):
        single = [
            column if of == {str} else list(map(_label, column)) for column, of in zip(columns, types, strict=True)
        ]
        labels = single[0] if len(single) == 1 else [_BETWEEN.join(row) for row in zip(*single, strict=True)]
        return Members(np.arange(len(labels)), labels)
    each = [[_each_label(value) for value in column] for column in columns]
    combined = [[_BETWEEN.join(labels) for labels in product(*row)] for row in zip(*each, strict=True)]
    rows = np.repeat(np.arange(len(combined)), np.fromiter(map(len, combined), np.int64, len(combined)))
    return Members(rows, [label for labels in combined for label in labels])


def segment_groups(gold: Gold, name: str, rows: Ints) -> list[tuple[str, Ints]]:
    """The segments in their order, each with the places of its queries among `rows`."""
    members, labels = segment_members(gold, name)
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    number = np.fromiter(map(numbers.__getitem__, labels), np.int64, len(labels))
    place = members
    if len(rows) < len(gold.queries):
        place = np.full(len(gold.queries), -1)
        place[rows] = np.arange(len(rows))
        place = place[members]
        number, place = number[place >= 0], place[place >= 0]
    # Places are in order already. Small numbers are sorted as such much faster.
    order = np.argsort(number.astype(np.uint16) if len(numbers) <= 2**16 else number, kind="stable")
    places = np.split(place[order], np.cumsum(np.bincount(number, minlength=len(numbers)))[:-1])
    return [(label, places[at]) for label in sorted(numbers, key=label_order) if len(places[at := numbers[label]])]


def _parts(gold: Gold, name: str) -> list[str]:
    """The attributes that define a segment. A tag may have a comma in its name."""
    whole = name in gold.tags or name in gold.fields
    return [name] if whole else [part.strip() for part in re.split(r"[×*,]", name)]


def segment_title(gold: Gold, name: str) -> str:
    return _BETWEEN.join(_parts(gold, name))


def segment_titles(gold: Gold, names: str | Iterable[str]) -> tuple[str, ...]:
    """The requested segments, each once, however they were written."""
    asked = (names,) if isinstance(names, str) else names
    return tuple(dict.fromkeys(segment_title(gold, name) for name in asked))


def label_order(label: str) -> tuple[Any, ...]:
    """Sorts numbers by size, text alphabetically, and missing values last."""
    return tuple(_part_order(part) for part in label.split(_BETWEEN))


def _part_order(part: str) -> tuple[int, float, str]:
    if part == NOT_GIVEN:
        return (2, 0.0, "")
    number = re.search(r"\d+(?:\.\d+)?", part) if part[:1].isdigit() or part in _LENGTHS else None
    if number is None:
        return (1, 0.0, part)
    return (0, float(number[0]) + (part == _LENGTHS[2]) - (part == _LENGTHS[0]), part)


def cluster_numbers(gold: Gold, name: str) -> Ints:
    """A number for each query, the same for queries that belong together; a query without a value is alone.

    With `conversation_id or variant_of`, queries that share either belong together, also by way of others."""
    if len(_alternatives(gold, name)) > 1:
        return linked_numbers(cluster_keys(gold, name))
    known: dict[int | str, int] = {}
    keys = (i if value is None else str(value) for i, value in enumerate(attribute(gold, name)))
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def cluster_keys(gold: Gold, name: str) -> list[list[Hashable]]:
    """For each query, what it shares with the queries that it belongs to; always includes its own id."""
    columns = [(part, attribute(gold, part)) for part in _alternatives(gold, name)]
    return [
        [query, *((part, str(column[row])) for part, column in columns if column[row] is not None)]
        for row, query in enumerate(gold.queries)
    ]


def linked_numbers(keys: Iterable[list[Hashable]]) -> Ints:
    """A number for each list of keys, the same for lists that share a key, also by way of other lists.

    >>> linked_numbers([["a", 1], ["b"], ["c", 2], ["d", 1, 2]]).tolist()
    [0, 1, 0, 0]
    """
    owner: dict[Hashable, int] = {}
    above: list[int] = []

    def first(at: int) -> int:
        while above[at] != at:
            above[at] = above[above[at]]
            at = above[at]
        return at

    for at, shared in enumerate(keys):
        above.append(at)
        for key in shared:
            one, other = sorted((first(owner.setdefault(key, at)), first(at)))
            above[other] = one
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(first(at), len(numbers)) for at in range(len(above))], np.int64)


def usual_clusters(gold: Gold) -> str | None:
    """What makes queries belong together if nothing else is requested: conversations and groups of variants."""
    return _OR.join(name for name in (CONVERSATION, VARIANT_OF) if name in (*gold.fields, *gold.tags)) or None


def _alternatives(gold: Gold, name: str) -> list[str]:
    return [name] if name in gold.tags or name in gold.fields else name.split(_OR)


def attribute_names(gold: Gold, *, from_text: bool = True) -> list[str]:
    """Every attribute that segments can use; on request without those that only the query text gives."""
    fields = [name for name, values in gold.fields.items() if name != "query" and _is_scalar(values)]
    derived = [name for name, labels in _DERIVED.items() if name not in gold.tags and labels(gold) is not None]
    told = [*gold.tags, *fields, *derived]
    by_text = from_text and "query" in gold.fields and "constraints" not in told
    return [*told, *by_text * ("constraints",)]


def language_of(gold: Gold, row: int) -> str | None:
    """The language of each query, where the gold set has it."""
    column = gold.tags.get("language") or gold.fields.get("language")
    return None if column is None or column[row] is None else str(column[row])


def with_no_answer(gold: Gold, rule: str) -> Gold:
    """The gold set with more queries marked as having no answer: those whose attribute has one of the values, as in
    `answerability=UNANSWERABLE` or `type=Null,None`."""
    name, equals, values = (part.strip() for part in rule.partition("="))
    if not name or not equals or not values:
        raise ConfigError(
            f"cannot read {rule!r}", code="bad-setting", expected="a field and a value", hint="such as type=Null"
        )
    wanted = {value.strip() for value in values.split(",")}
    labels = [[] if value is None else _each_label(value) for value in attribute(gold, name)]
    marked = np.array([not wanted.isdisjoint(of) for of in labels], np.bool_)
    if not marked.any():
        there = sorted({label for of in labels for label in of}, key=label_order)
        raise ConfigError(
            f"no query has {rule}", code="no-queries", hint=f"{name} is {', '.join(shorten(v, 40) for v in there[:10])}"
        )
    relevant = gold.count_items(gold.grades > 0) > 0
    if (marked & relevant).any():
        query = gold.queries[int(np.flatnonzero(marked & relevant)[0])]
        raise ConfigError(
            f"{rule} and relevant gold contradict each other", code="contradiction", file=gold.label, query=query
        )
    audit = Audit.of(gold.audit)
    new = np.flatnonzero(marked & (gold.no_answer == 0)).tolist()
    audit.count("no_answer_queries", len(new), (gold.queries[i] for i in new))
    return replace(gold, no_answer=(marked | (gold.no_answer > 0)).astype(np.int64), audit=audit)


def attribute(gold: Gold, name: str) -> list[Any]:
    """One value per query, None where it is not given."""
    column = gold.tags.get(name) or gold.fields.get(name)
    if column is not None and (name in gold.tags or all(map(is_label, column))):
        return column
    labels = _derived(gold, name)
    if labels is None and name == "doc_version":
        raise ConfigError(
            "the gold set has no doc_version", code="no-versions", hint="add --corpus if the corpus has it"
        )
    if labels is None and name == "query_length":
        hint = "log `query` with each line, or add a gold set that has it"
        raise ConfigError("query_length needs the texts of the queries", code="no-texts", hint=hint)
    if labels is None:
        names = attribute_names(gold)
        if name in gold.mixed:
            raise ConfigError(
                f"the column {shorten(name, 40)!r} has several values for one query, so it is not a tag",
                code="several-values",
                file=gold.label,
                got=gold.mixed[name],
                hint="use the same value in every row of a query",
            )
        hint = "this gold set has: " + ", ".join(names) if names else "this gold set has no tags"
        raise UnknownName("attribute", name, names, hint=hint)
    return list(labels)


def _values(gold: Gold, name: str) -> list[Any]:
    # A derived attribute wins over a tag with its name where it groups the tag's numbers.
    return _derived(gold, name) or attribute(gold, name)


def _label(value: Any) -> str:
    return value if type(value) is str else NOT_GIVEN if value is None else label_text(value)


def _each_label(value: Any) -> list[str]:
    """The labels of one query, each once."""
    return list(dict.fromkeys(map(_label, value if isinstance(value, list) else [value]))) or [NOT_GIVEN]


def is_label(value: Any) -> bool:
    """Whether a value can name segments: a text, a number, a truth value, or a list of them."""
    values = value if isinstance(value, list) else [value]
    return all(v is None or isinstance(v, (str, int, float)) for v in values)


def is_tag(name: str, value: Any) -> bool:
    """Whether a value of a query's metadata is a tag. A list of ids to avoid, or of entities, is not."""
    return is_label(value) and value != [] and not (isinstance(value, list) and name in _LISTS)


def label_text(value: Any) -> str:
    """A value as the name of its segment."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return " + ".join(map(str, value)) if isinstance(value, list) else str(value)


def _is_scalar(values: list[Any]) -> bool:
    return all(v is None or isinstance(v, (str, int, float)) for v in values)


def _query_length(gold: Gold) -> list[str | None] | None:
    from karat.data.query_text import count_words

    texts = gold.fields.get("query")
    if texts is None:
        return None
    words = [None if text is None else count_words(str(text)) for text in texts]
    return [None if n is None else _LENGTHS[0 if n < 8 else 1 if n <= 15 else 2] for n in words]


def _constraints(gold: Gold) -> list[str | None] | None:
    """Groups by a tag that holds a number or a list."""
    found = next((c for name in _CONSTRAINTS if (c := gold.tags.get(name) or gold.fields.get(name))), None)
    if found is None:
        return None
    counts = [_count(value) for value in found]
    if any(c is None and value is not None for c, value in zip(counts, found, strict=True)):
        return None  # a tag with another meaning
    return [None if c is None else _few_or_many(c) for c in counts]


def _count(value: Any) -> float | None:
    """A number, also as text (as in tables); for a list, its length."""
    if isinstance(value, str):
        return float(value) if re.fullmatch(_NUMBER, value.strip()) else None
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _constraints_by_text(gold: Gold) -> list[str | None] | None:
    """Groups by the text of the queries, where no tag has the value."""
    from karat.data.query_text import count_constraints

    texts = gold.fields.get("query")
    if texts is None or any(name in gold.tags or name in gold.fields for name in _CONSTRAINTS):
        return None
    return [None if text is None else _few_or_many(count_constraints(str(text))) for text in texts]


def _few_or_many(count: float) -> str:
    return "0" if count < 1 else "1–2" if count < 3 else "3–4" if count < 5 else "5+"


def _gold_items(gold: Gold) -> list[str | None] | None:
    if "gold_items" in gold.tags:
        return None
    return [_few_or_many(count) for count in gold.count_items(gold.grades > 0).tolist()]


_DERIVED: dict[str, Callable[[Gold], list[str | None] | None]] = {
    "query_length": _query_length,
    "constraints": _constraints,
    "gold_items": _gold_items,
}


def _derived(gold: Gold, name: str) -> list[str | None] | None:
    if name == "constraints":
        return _constraints(gold) or _constraints_by_text(gold)
    return _DERIVED[name](gold) if name in _DERIVED else None
