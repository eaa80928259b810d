"""The daily clean-up of a server: retention, and runs that were deleted long ago."""

from __future__ import annotations

import logging
import threading

from karat.errors import KaratError
from karat.history.retention import clean_daily
from karat.history.store import Store

_FIRST, _EVERY = 60.0, 3600.0  # seconds until the first look, and between two


class Daily:
    """A thread that looks every hour whether a day has passed. Several servers of one history clean it once."""

    def __init__(self, store: Store, first: float = _FIRST, every: float = _EVERY) -> None:
        self._store, self._first, self._every = store, first, every
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work, name="karat-daily", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        wait = self._first
        while not self._ends.wait(wait):
            wait = self._every
            try:
                clean_daily(self._store)
            except KaratError as error:  # such as a history without write permission
                logging.getLogger("karat.web").warning("the history was not cleaned up: %s", error)
            except Exception:
                logging.getLogger("karat.web").exception("the history was not cleaned up")
