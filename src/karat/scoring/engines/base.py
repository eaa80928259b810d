"""What an engine is: where the slices of a run are judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from karat.data.hits import Run
from karat.formats.read import read_run
from karat.scoring.one_pass import Golds, Part, PassRequest


class Engine(ABC):
    """Where slices are judged."""

    name: ClassVar[str]

    def read_run(self, run: Any, **options: Any) -> Run:
        """Anything a user has → a run that this engine can read. Options are those of `karat.read_run`."""
        return read_run(run, **options)

    @abstractmethod
    def parts(self, run: Run, request: PassRequest, golds: Golds) -> Iterator[Part]:
        """What is kept of every slice of a run. Raises Ungrouped where the hits of a query are not together."""
