"""In this process, slice after slice: memory does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterator

from karat.data.hits import Run
from karat.scoring.engines.base import Engine
from karat.scoring.one_pass import Golds, Part, PassRequest, read_parts


class Local(Engine):
    """The default."""

    name = "local"

    def parts(self, run: Run, request: PassRequest, golds: Golds) -> Iterator[Part]:
        return read_parts(run, request, golds)
