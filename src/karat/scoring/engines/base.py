"""The base class of engines, which judge the slices of a run, and the local engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from karat.data.hits import Run
from karat.formats.read import read_run
from karat.scoring.one_pass import Golds, Part, PassRequest, read_parts


class Engine(ABC):
    """Judges the slices of a run."""

    name: ClassVar[str]

    def read_run(self, run: Any, **options: Any) -> Run:
        """Any supported input as a run that this engine can read. Options are those of `karat.read_run`."""
        return read_run(run, **options)

    def reading_ahead(self, run: Run) -> AbstractContextManager[None]:
        """Inside, the run may be read before its parts are asked for."""
        return nullcontext()

    @abstractmethod
    def parts(self, run: Run, request: PassRequest, golds: Golds) -> Iterator[Part]:
        """What is kept of every slice of a run. Raises Ungrouped where the hits of a query are not together."""


class Local(Engine):
    """Works in this process, slice by slice: memory does not grow with the run."""

    name = "local"

    def reading_ahead(self, run: Run) -> AbstractContextManager[None]:
        return run.reading_ahead()

    def parts(self, run: Run, request: PassRequest, golds: Golds) -> Iterator[Part]:
        return read_parts(run, request, golds)
