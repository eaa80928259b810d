"""Which history is meant (KARAT_STORE, `store` in karat.yaml, the next folder .karat upward, else a new one here), and
which of its runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

from karat.errors import ConfigError, InputError
from karat.history.folder import CATALOGUE, FolderStore
from karat.history.postgres import PostgresStore, is_postgres
from karat.history.store import Store
from karat.results.saved import is_reference
from karat.settings import trusted_store

FOLDER = ".karat"
VARIABLE = "KARAT_STORE"


def open_store(where: str | None = None, *, create: bool = False) -> Store:
    """`where`: a folder or a URL of PostgreSQL. `create`: a folder that is not there is made."""
    place = _place(where)
    return PostgresStore(place) if isinstance(place, str) else FolderStore(place, create=create)


def named(text: str | None) -> str | None:
    """What an option calls a result: a path, - for standard input, a reference, or the bare name of a pin where no file
    has it."""
    if text is None or text == "-" or is_reference(text) or Path(text).exists():
        return text
    pins, place = [], _place(None)
    if isinstance(place, str) or (place / CATALOGUE).is_file():
        with open_store() as store:
            pins = [pin.name for pin in store.pins()]
    if text in pins:
        return f"history:{text}"
    if Path(text).suffix or Path(text).name != text:  # looks like a file, and is refused as one
        return text
    pinned = f"pins are: {', '.join(pins)}" if pins else "there is none yet"
    hint = f"{pinned}; `karat history pin RUN --baseline {text}` pins a saved run"
    raise InputError("neither a file nor a pin of the history", code="no-such-file", file=text, hint=hint)


def _place(where: str | None) -> str | Path:
    """A URL of PostgreSQL, or a folder."""
    place = where or os.environ.get(VARIABLE) or trusted_store()
    if place:
        return place if is_postgres(place) else _folder(place)
    here = Path.cwd()
    found = (folder / FOLDER for folder in (here, *here.parents) if (folder / FOLDER / CATALOGUE).is_file())
    return next(found, here / FOLDER)


def _folder(place: str) -> Path:
    """No folder is called like an address, or like the words by which libpq finds a database: its password would be in
    the name."""
    scheme = re.match(r"\s*([A-Za-z][\w+.-]+):/", place)  # one slash too: a path that was made shorter
    if scheme or "://" in place or re.search(r"(?:^|\s)(?:host|hostaddr|dbname|password|service)\s*=", place):
        raise ConfigError(
            "no history is kept at this address",
            code="bad-store",
            expected="a folder, or postgresql://user@host/database",
            got=f"{scheme[1]}://…" if scheme else None,
            hint="--store, KARAT_STORE or `store` in karat.yaml names it",
        )
    return Path(place)
