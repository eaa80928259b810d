"""What an option of the command line may call a result: a path, a reference, or the bare name of a pin."""

from __future__ import annotations

from pathlib import Path

from karat.errors import InputError
from karat.results.saved import is_reference

PREFIX = "history:"


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
    raise InputError("neither a file nor a pin of the history", code="no-such-file", file=text, hint=hint)
