"""The results of several systems on one gold set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from karat.data.presented import Presented
from karat.errors import UnknownName
from karat.results.result import Result


class UnknownSystem(UnknownName, KeyError):
    """A system that the run does not have."""


class Results(Presented, Mapping[str, Result]):
    """System → its result, in the order of the run."""

    def __init__(self, results: Mapping[str, Result] | Sequence[Result]) -> None:
        """By name; a sequence of results is named by systems and files."""
        named = results if isinstance(results, Mapping) else zip(names_of(results), results, strict=True)
        self._results = dict(named)

    def __getitem__(self, system: str) -> Result:
        if system not in self._results:
            raise UnknownSystem("system", system, self._results)
        return self._results[system]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def names_of(sides: Sequence[Result]) -> list[str]:
    """Unique names of the runs: the system, plus the file if two systems have the same name."""
    systems = [side.system or side.run for side in sides]
    names = [s if systems.count(s) == 1 else f"{s} ({side.run})" for s, side in zip(systems, sides, strict=True)]
    return [n if names.count(n) == 1 else f"{n} #{i}" for i, n in enumerate(names, 1)]
