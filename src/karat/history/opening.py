"""Which history is meant: KARAT_STORE, `store` in karat.yaml, the next folder .karat upward, else a new one here."""

from __future__ import annotations

import os
from pathlib import Path

from karat.history.folder import CATALOGUE, FolderStore
from karat.history.postgres import SCHEMES, PostgresStore
from karat.history.store import Store
from karat.settings import load_config

FOLDER = ".karat"
VARIABLE = "KARAT_STORE"


def open_store(where: str | None = None, *, create: bool = False) -> Store:
    """`where`: a folder or a URL of PostgreSQL. `create`: a folder that is not there is made."""
    place = where or os.environ.get(VARIABLE) or load_config().store
    if place is not None and place.startswith(SCHEMES):
        return PostgresStore(place)
    return FolderStore(Path(place) if place else _nearest(), create=create)


def has_store() -> bool:
    """Whether there is a history to look into, where none was named."""
    named = os.environ.get(VARIABLE) or load_config().store
    if named is not None and named.startswith(SCHEMES):
        return True
    return ((Path(named) if named else _nearest()) / CATALOGUE).is_file()


def _nearest() -> Path:
    here = Path.cwd()
    found = (folder / FOLDER for folder in (here, *here.parents) if (folder / FOLDER / CATALOGUE).is_file())
    return next(found, here / FOLDER)
