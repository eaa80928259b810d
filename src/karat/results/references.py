"""Recognises saved results: files, and references such as `history:main`. Every evaluation asks whether its run is one,
so their form (`saved.py`) is only loaded where one is read."""

from __future__ import annotations

import os
import re
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from karat.data.presented import above
from karat.registry import Registry

if TYPE_CHECKING:
    from karat.results.saved import SavedResult

_SAYS_SO = rb'\s*\{\s*"schema"\s*:\s*"karat/(results?|leaderboard)/'


def is_saved_result(path: str | PathLike[str]) -> bool:
    """Whether a file's schema says that it has one or more saved results."""
    if not os.fspath(path).endswith(".json") or not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return re.match(_SAYS_SO, stream.read(200)) is not None


class SavedSource:
    """A place other than a file that keeps results: `history:main` is `main` in the source `history`."""

    name: ClassVar[str]  # the part before the colon

    def read(self, reference: str) -> SavedResult:
        """The result with this name."""
        raise NotImplementedError


SOURCES: Registry[SavedSource] = Registry(
    "source of saved results", "karat.history.sources", SavedSource, "karat.saved_results"
)


def is_saved(side: Any) -> bool:
    """Whether a side of a comparison is a saved result, which needs neither run nor gold set."""
    if isinstance(side, (str, PathLike)):
        return is_reference(side) or is_saved_result(side)
    return isinstance(side, above("karat.results.saved", "SavedResult"))


def is_reference(side: Any) -> bool:
    """Whether this names a result kept somewhere other than in a file."""
    return isinstance(side, str) and ":" in side and SOURCES.get(side.partition(":")[0]) is not None
