"""Saved runs: what is kept of each, where, and how to find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.lazy import public

if TYPE_CHECKING:
    from karat.history.location import open_store as open_store
    from karat.history.location import save_result as save_result
    from karat.history.store import Store as Store

__all__ = ["Store", "open_store", "save_result"]
_WHERE = {
    "Store": "karat.history.store",
    "open_store": "karat.history.location",
    "save_result": "karat.history.location",
}
if not TYPE_CHECKING:  # so that type checkers and editors report unknown names
    __getattr__, __dir__ = public(__name__, _WHERE)
