"""Many jobs for one model at once, ended early where none of them can succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from karat.errors import KaratError
from karat.llm.base import Halt, NoReply
from karat.net.workers import Workers

J = TypeVar("J")
R = TypeVar("R")
_IN_A_ROW = 20
Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]  # such as `progress.counting`


def each(jobs: Sequence[J], work: Callable[[J], R], workers: int) -> Iterator[tuple[J, R | NoReply]]:
    """Every job with its result, or with why there is none, as they come.

    The first is done alone: a wrong key, address or model shows once, and not in all of them.
    """
    if not jobs:
        return
    first = _tried(work)(jobs[0])
    if isinstance(first, NoReply) and first.lost:
        raise Halt(first.what, hint="is the address right, and the server there?")
    yield jobs[0], _unless_halted(first)
    in_a_row = 0
    for job, result in Workers(_tried(work), workers).each(jobs[1:]):
        assert result is not None  # there is no time limit: the model has its own
        in_a_row = in_a_row + 1 if isinstance(result, NoReply) else 0
        if in_a_row == _IN_A_ROW and isinstance(result, NoReply):
            what = f"{_IN_A_ROW} requests in a row failed, the last with: {result.what}"
            raise Halt(what, hint="the same command goes on from here")
        yield job, _unless_halted(result)


def _tried(work: Callable[[J], R]) -> Callable[[J], R | NoReply | KaratError]:
    def tried(job: J) -> R | NoReply | KaratError:
        try:
            return work(job)
        except KaratError as error:
            return error
        except Exception as error:  # of Karat itself: shown as what it is, and not in a thread that nobody watches
            return _Broken(error)

    return tried


class _Broken(KaratError):
    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _unless_halted(result: R | NoReply | KaratError) -> R | NoReply:
    if isinstance(result, _Broken):
        raise result.error
    if isinstance(result, KaratError) and not isinstance(result, NoReply):
        raise result
    return result
