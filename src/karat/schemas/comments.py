"""Descriptions of fields in schemas: the comments next to them in the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

_FIELD = re.compile(r"    (\w+): [^#]*?#\s*(.+)")
_LONE = re.compile(r"    #\s*(.+)")


def describe(parts: dict[str, Any]) -> None:
    """Adds what comments say about fields to the parts of a schema."""
    for name, part in parts.items():
        fields = part.get("properties", {})
        kinds = [kind for kind in _structs() if kind.__name__ == name and {*_encoded(kind)} >= {*fields}]
        for kind in kinds[:1]:
            told = {_encoded_name(kind, field): text for field, text in comments(kind).items()}
            for field, about in fields.items():
                if field in told:
                    about.setdefault("description", told[field])


@cache
def comments(kind: type) -> dict[str, str]:
    """Field → its comment: after it on the same line, or alone on the line before.

    >>> from karat.gates.criteria import Gate
    >>> comments(Gate)["threshold"]
    'the value must reach it'
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("karat."):
            before = ""
            for line in inspect.getsource(base).splitlines():
                alone, field = _LONE.fullmatch(line), _FIELD.fullmatch(line)
                if field is not None:
                    found[field[1]] = field[2]
                elif before and (plain := re.match(r"    (\w+): ", line)) is not None:
                    found.setdefault(plain[1], before)
                before = "" if alone is None else f"{before} {alone[1]}".strip()
    return found


def _encoded(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return kind.__struct_encode_fields__


def _encoded_name(kind: type[msgspec.Struct], field: str) -> str:
    return dict(zip(kind.__struct_fields__, _encoded(kind), strict=True)).get(field, field)


def _structs(kind: type[msgspec.Struct] = msgspec.Struct) -> Iterator[type[msgspec.Struct]]:
    for own in kind.__subclasses__():
        if own.__module__.startswith("karat."):
            yield own
        yield from _structs(own)
