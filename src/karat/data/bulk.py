"""The base of plain data that holds arrays."""

from __future__ import annotations

import msgspec


class Bulk(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Data that is compared by identity and shown by its class name, since it may hold millions of values.

    A struct, not a dataclass: Python writes and compiles six methods for each dataclass, at every start of a command.
    """

    def __repr__(self) -> str:
        return object.__repr__(self)
