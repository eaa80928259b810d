"""Sends results and verdicts to other services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.lazy import public

if TYPE_CHECKING:
    from karat.sinks.base import Parcel as Parcel
    from karat.sinks.base import Receipt as Receipt
    from karat.sinks.base import Sink as Sink
    from karat.sinks.base import send as send

__all__ = ["Parcel", "Receipt", "Sink", "send"]
_WHERE = dict.fromkeys(__all__, "karat.sinks.base")
if not TYPE_CHECKING:  # so that type checkers and editors report unknown names
    __getattr__, __dir__ = public(__name__, _WHERE)
