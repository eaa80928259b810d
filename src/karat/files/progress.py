"""Progress on standard error for work that takes over two seconds; only in a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_AFTER = 2.0


@contextmanager
def working(what: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_spin, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _spin(what: str, done: threading.Event) -> None:
    if done.wait(_AFTER):
        return
    from rich.console import Console
    from rich.markup import escape

    started = time.monotonic() - _AFTER
    with Console(stderr=True).status("") as status:
        while not done.wait(0.2):
            status.update(f"{escape(what)} … {time.monotonic() - started:.0f} s")


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar with rate and time left; call what it yields after each item."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task, started, done = bar.add_task(what, total=total, rate=""), time.monotonic(), 0

        def tick() -> None:
            nonlocal done
            done += 1
            bar.update(task, advance=1, rate=f"{done / max(time.monotonic() - started, 1e-9):,.0f}/s")

        yield tick
