"""Names that lead to a saved result: a file, or `history:` with a pin, a tag, an id, or `latest`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from karat.errors import InputError
from karat.saved_result import SavedResult, is_saved_result, read_results

PREFIX = "history:"


def is_saved(side: Any) -> bool:
    """Whether a side of a comparison needs neither run nor gold set."""
    if isinstance(side, SavedResult) or is_reference(side):
        return True
    return isinstance(side, (str, PathLike)) and is_saved_result(Path(side))


def is_reference(side: Any) -> bool:
    return isinstance(side, str) and side.startswith(PREFIX)


def read_saved(side: str | PathLike[str]) -> list[SavedResult]:
    """The results that a file or a reference leads to."""
    if isinstance(side, str) and is_reference(side):
        return [read_reference(side)]
    return read_results(side)


def read_reference(reference: str) -> SavedResult:
    from karat.history.opening import open_store
    from karat.history.store import short

    with open_store() as store:
        run_id = store.find(reference.removeprefix(PREFIX))
        saved = store.kept(run_id).saved()
    return msgspec.structs.replace(saved, run=f"{PREFIX}{short(run_id)}")


def named(text: str | None) -> str | None:
    """What an option says: a path, a reference, or the bare name of a pin where no file has it."""
    from karat.history.opening import has_store, open_store

    if text is None or is_reference(text) or Path(text).exists():
        return text
    pins = []
    if has_store():
        with open_store() as store:
            pins = [pin.name for pin in store.pins()]
    if text in pins:
        return f"{PREFIX}{text}"
    if Path(text).suffix or Path(text).name != text:  # looks like a file, and is refused as one
        return text
    pinned = f"pins are: {', '.join(pins)}" if pins else "there is none yet"
    hint = f"{pinned}; `karat history pin RUN {text}` pins a saved run"
    raise InputError("neither a file nor a pin of the history", file=text, hint=hint)
