"""In this process, slice after slice: memory does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterator

from karat.data.hits import Run
from karat.scoring.engines.base import Engine, Scored, Task, score_slices


class Local(Engine):
    """The default."""

    name = "local"

    def scores(self, run: Run, task: Task) -> Iterator[Scored]:
        return score_slices(run, task)
