"""The results of several systems on one gold set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from karat.data.presented import Presented
from karat.errors import UnknownName
from karat.results.result import Result


class UnknownSystem(UnknownName, KeyError):
    """A system that the run does not have."""


class Results(Presented, Mapping[str, Result]):
    """System → its result, in the order of the run."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = dict(results)

    def __getitem__(self, system: str) -> Result:
        if system not in self._results:
            raise UnknownSystem("system", system, self._results)
        return self._results[system]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)
