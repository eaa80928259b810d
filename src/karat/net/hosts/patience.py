"""When to try again, and when to give up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from karat.net.hosts.client import HostError, Unavailable

T = TypeVar("T")
_LONGEST = 5  # doublings: half a minute between two tries is enough


@dataclass(frozen=True)
class Patience:
    """Repeats work while the host is unavailable, for `limit` seconds in all; clock and chance can be given."""

    limit: float = 90.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def during(self, work: Callable[[], T]) -> T:
        started = self.clock()
        for attempt in count():
            try:
                return work()
            except Unavailable as error:
                wait = self._wait(error.wait, attempt)
                if self.clock() - started + wait > self.limit:
                    raise self._spent(error, attempt + 1) from None
            self.sleep(wait)
        raise AssertionError  # count() never ends

    def _wait(self, asked: float | None, attempt: int) -> float:
        """Never earlier than asked; spread, so that the jobs of one pipeline do not come back all at once."""
        if asked is not None:
            return asked + self.chance()
        return float(2 ** min(attempt, _LONGEST)) * (0.5 + self.chance())

    def _spent(self, error: Unavailable, tries: int) -> HostError:
        asked = "" if error.wait is None else f" asks to wait {error.wait:.0f} s,"
        times = "once" if tries == 1 else f"{tries} times"
        return HostError(
            f"{error.what};{asked} tried {times} within the {self.limit:g} s that were given",
            code="unavailable",
            hint="run it again later, or give more time: --patience SECONDS",
        )
