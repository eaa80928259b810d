"""Labels into a file that may hold labels of others: nothing that somebody else said is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from karat.errors import ConfigError
from karat.files.atomic_write import check_writable, write_whole
from karat.labels.labels_file import Label


def check_labels(path: Path) -> None:
    """Refuse a file that holds something else, before anything is paid for."""
    check_writable(path)
    _lines(path)


def write_beside(path: Path, labels: Sequence[Label], annotator: str) -> int:
    """Lines of others, and of other pairs, stay as they are and come first. How many that were."""
    replaced = {label.key for label in labels}
    kept = [line for line, there in _lines(path) if there.annotator != annotator or there.key not in replaced]
    write_whole(path, b"".join(line + b"\n" for line in (*kept, *map(msgspec.json.encode, labels))))
    return len(kept)


def _lines(path: Path) -> list[tuple[bytes, Label]]:
    """What stands in the file already."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            if line.strip():
                found.append((line, msgspec.json.decode(line, type=Label)))
        except (msgspec.MsgspecError, UnicodeError) as error:
            hint = "labels are added to what is there: name another file with -o"
            raise ConfigError(
                f"this is no labels file: {error}", code="not-a-labels-file", file=str(path), line=number, hint=hint
            ) from None
    return found
