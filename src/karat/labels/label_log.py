"""A labels file that grows label by label: what was given is on the disk, whatever happens next."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import msgspec

from karat.errors import ConfigError, InputError
from karat.labels.labels_file import HIGHEST, Label, Labels, read_labels
from karat.line_file import LineFile, NotContinued


class LabelLog:
    """Opens or continues a labels file. Half a last line, left by a crash, is cut; `labels` is what was there."""

    def __init__(self, path: str | PathLike[str], *, highest: float = HIGHEST) -> None:
        self._file = LineFile(Path(path))
        try:
            lines = self._file.lines()
            self.labels: Labels = read_labels(path, highest=highest, may_be_empty=True)
        except NotContinued:
            self._file.close()
            hint = "-o names another file"
            raise ConfigError("this is no labels file, and is left alone", file=str(path), hint=hint) from None
        except InputError:
            self._file.close()
            raise
        self.lines = [msgspec.json.decode(line, type=Label) for line in lines if line.strip()]  # also those replaced

    def add(self, label: Label) -> None:
        """When this returns, the label is on the disk."""
        self._file.append(msgspec.json.encode(label) + b"\n")
        self.lines.append(label)

    def drop_last(self) -> Label:
        """Take the last label of the file back."""
        self._file.drop_last()
        return self.lines.pop()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> LabelLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
