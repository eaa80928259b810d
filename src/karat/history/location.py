"""Finds the history (KARAT_STORE, `store` in karat.yaml, the nearest parent folder with .karat, or a new one here), and
its runs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from karat.errors import ConfigError, InputError
from karat.history.problems import CATALOGUE
from karat.results.references import is_reference
from karat.settings import trusted_store

if TYPE_CHECKING:  # loaded where they are used: most commands only ask whether a run is a file
    from karat.history.store import Store
    from karat.results.result import Result

FOLDER = ".karat"
VARIABLE = "KARAT_STORE"
DESK = "desk"


def open_store(where: str | None = None, *, create: bool = False) -> Store:
    """Opens a history. `where`: a folder or a PostgreSQL URL. `create`: creates a missing folder."""
    place = _place(where)
    if isinstance(place, str):
        from karat.history.postgres import PostgresStore

        return PostgresStore(place)
    from karat.history.folder import FolderStore

    return FolderStore(place, create=create)


def desk_of(where: str | None = None) -> Path | None:
    """The folder for pools, labels and queries beside a history in a folder; None for PostgreSQL."""
    place = _place(where)
    return None if isinstance(place, str) else place / DESK


def save_result(
    result: Result,
    where: str | None = None,
    *,
    tags: Sequence[str] = (),
    branch: str | None = None,
    author: str | None = None,
) -> str:
    """Saves a result in a history, as `karat eval --save` does; returns the id of the run."""
    from karat.history.keep import keep_result

    with open_store(where, create=True) as store:
        return store.save(keep_result(result), branch=branch, author=author, tags=tags).id


def named(text: str | None) -> str | None:
    """Resolves the name of a result: a path, - for standard input, a reference, or a pin if there is no such file."""
    if text is None or text == "-" or is_reference(text) or Path(text).exists():
        return text
    pins, place = [], _place(None)
    if isinstance(place, str) or (place / CATALOGUE).is_file():
        with open_store() as store:
            pins = [pin.name for pin in store.pins()]
    if text in pins:
        return f"history:{text}"
    if Path(text).suffix or Path(text).name != text:  # looks like a file, and fails as one
        return text
    pinned = f"pins: {', '.join(pins)}" if pins else "there are no pins yet"
    hint = f"{pinned}; to pin a saved run: `karat history pin RUN {text}`"
    raise InputError("not a file and not a pin of the history", code="no-such-file", file=text, hint=hint)


def _place(where: str | None) -> str | Path:
    """A PostgreSQL URL, or a folder."""
    place = where or os.environ.get(VARIABLE) or trusted_store()
    if place:
        from karat.history.postgres import is_postgres

        return place if is_postgres(place) else _folder(place)
    here = Path.cwd()
    found = (folder / FOLDER for folder in (here, *here.parents) if (folder / FOLDER / CATALOGUE).is_file())
    return next(found, here / FOLDER)


def _folder(place: str) -> Path:
    """Refuses folder names that look like a URL or like libpq settings: they may contain a password."""
    scheme = re.match(r"\s*([A-Za-z][\w+.-]+):/", place)  # one slash too: a path that was made shorter
    if scheme or "://" in place or re.search(r"(?:^|\s)(?:host|hostaddr|dbname|password|service)\s*=", place):
        raise ConfigError(
            "invalid address of a history",
            code="bad-store",
            expected="a folder, or postgresql://user@host/database",
            got=f"{scheme[1]}://…" if scheme else None,
            hint="it is set with --store, KARAT_STORE or `store` in karat.yaml",
        )
    return Path(place)
