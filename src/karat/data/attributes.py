"""What is known of a query: tags, fields and what follows from them. Segments and clusters go by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.ids import Ints
from karat.errors import ConfigError, UnknownName, shorten

CONVERSATION = "conversation_id"
NOT_GIVEN = "(not given)"
_CONSTRAINTS = ("constraints", "n_constraints", "num_constraints", "constraint_count")
_LENGTHS = ("short (< 8 words)", "8–15 words", "long (> 15 words)")
_BETWEEN = " × "


def segment_labels(gold: Gold, name: str) -> list[str]:
    """The segment of each query by one attribute, or by several: `language×topic` (also written with * or a comma)."""
    parts = _parts(gold, name)
    if not all(parts):
        raise ConfigError(
            f"cannot read the segment {name!r}", code="bad-segment", hint="write it like language, or language×topic"
        )
    columns = [_labels(gold, part) for part in parts]
    return [_BETWEEN.join(row) for row in zip(*columns, strict=True)]


def _parts(gold: Gold, name: str) -> list[str]:
    """The attributes that a segment goes by. A tag may have a comma in its name."""
    whole = name in gold.tags or name in gold.fields
    return [name] if whole else [part.strip() for part in re.split(r"[×*,]", name)]


def segment_title(gold: Gold, name: str) -> str:
    return _BETWEEN.join(_parts(gold, name))


def segment_titles(gold: Gold, names: str | Iterable[str]) -> tuple[str, ...]:
    """What segments were asked for, each once, however it was written."""
    asked = (names,) if isinstance(names, str) else names
    return tuple(dict.fromkeys(segment_title(gold, name) for name in asked))


def label_order(label: str) -> tuple[Any, ...]:
    """Numbers by size, text by the alphabet, what is not given last."""
    return tuple(_part_order(part) for part in label.split(_BETWEEN))


def _part_order(part: str) -> tuple[int, float, str]:
    if part == NOT_GIVEN:
        return (2, 0.0, "")
    number = re.search(r"\d+(?:\.\d+)?", part) if part[:1].isdigit() or part in _LENGTHS else None
    if number is None:
        return (1, 0.0, part)
    return (0, float(number[0]) + (part == _LENGTHS[2]) - (part == _LENGTHS[0]), part)


def cluster_numbers(gold: Gold, name: str) -> Ints:
    """A number for each query, the same for queries that belong together; one without a value stands alone."""
    known: dict[int | str, int] = {}
    keys = (i if value is None else str(value) for i, value in enumerate(attribute(gold, name)))
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def attribute_names(gold: Gold) -> list[str]:
    """Every attribute that segments can go by."""
    fields = [name for name, values in gold.fields.items() if name != "query" and _is_scalar(values)]
    derived = [name for name, labels in _DERIVED.items() if name not in gold.tags and labels(gold) is not None]
    return [*gold.tags, *fields, *derived]


def language_of(gold: Gold, row: int) -> str | None:
    """The language of a query, where the gold set tells it."""
    column = gold.tags.get("language") or gold.fields.get("language")
    return None if column is None or column[row] is None else str(column[row])


def with_no_answer(gold: Gold, rule: str) -> Gold:
    """The gold set with more queries marked as having no answer: those whose attribute has one of the values, as in
    `answerability=UNANSWERABLE` or `type=Null,None`."""
    name, equals, values = (part.strip() for part in rule.partition("="))
    if not name or not equals or not values:
        raise ConfigError(
            f"cannot read {rule!r}", code="bad-setting", expected="a field and its value", hint="such as type=Null"
        )
    wanted = {value.strip() for value in values.split(",")}
    labels = [None if value is None else label_text(value) for value in attribute(gold, name)]
    marked = np.array([label in wanted for label in labels], np.bool_)
    if not marked.any():
        there = sorted({label for label in labels if label is not None}, key=label_order)
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
    """One value a query, None where it is not given."""
    column = gold.tags.get(name) or gold.fields.get(name)
    if column is not None and (name in gold.tags or _is_scalar(column)):
        return column
    labels = _DERIVED[name](gold) if name in _DERIVED else None
    if labels is None and name == "doc_version":
        raise ConfigError(
            "the gold set says nothing of doc_version", code="no-versions", hint="a corpus does: add --corpus"
        )
    if labels is None:
        raise UnknownName("attribute", name, attribute_names(gold), hint=_known(gold))
    return list(labels)


def _labels(gold: Gold, name: str) -> list[str]:
    # A derived attribute wins over a tag of its name where it makes groups of the tag's numbers.
    values = (_DERIVED[name](gold) if name in _DERIVED else None) or attribute(gold, name)
    if not all(type(value) is str or value is None for value in values):
        return [NOT_GIVEN if v is None else label_text(v) for v in values]
    return [NOT_GIVEN if v is None else v for v in values]


def _known(gold: Gold) -> str:
    names = attribute_names(gold)
    return "this gold set has: " + ", ".join(names) if names else "this gold set has no tags"


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
    texts = gold.fields.get("query")
    if texts is None:
        return None
    return [None if t is None else _length(len(str(t).split())) for t in texts]


def _length(words: int) -> str:
    return _LENGTHS[0 if words < 8 else 1 if words <= 15 else 2]


def _constraints(gold: Gold) -> list[str | None] | None:
    found = next((c for name in _CONSTRAINTS if (c := gold.tags.get(name) or gold.fields.get(name))), None)
    if found is None:
        return None
    counts = [len(v) if isinstance(v, list) else v for v in found]
    if not all(c is None or (isinstance(c, (int, float)) and not isinstance(c, bool)) for c in counts):
        return None  # a tag of another meaning
    return [None if c is None else _few_or_many(c) for c in counts]


def _few_or_many(count: float) -> str:
    return "0" if count < 1 else "1–2" if count < 3 else "3–4" if count < 5 else "5+"


def _gold_items(gold: Gold) -> list[str | None] | None:
    if "gold_items" in gold.tags:
        return None
    counts = gold.count_items(gold.grades > 0).tolist()
    return [_few_or_many(c) for c in counts]


_DERIVED: dict[str, Callable[[Gold], list[str | None] | None]] = {
    "query_length": _query_length,
    "constraints": _constraints,
    "gold_items": _gold_items,
}
