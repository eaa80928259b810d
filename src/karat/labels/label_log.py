"""A labels file that grows label by label: what was given is on the disk, whatever happens next."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import msgspec

from karat.errors import ConfigError, InputError
from karat.files.append_log import LineFile, NotContinued
from karat.labels.base import Key
from karat.labels.labels_file import HIGHEST, Label, Labels, read_labels


class LabelLog:
    """Opens or continues a labels file. Half a last line, left by a crash, is cut; `labels` is what was there."""

    def __init__(self, path: str | PathLike[str], *, highest: float = HIGHEST) -> None:
        self.path = Path(path)
        self._file = LineFile(self.path)
        self._given: dict[str, dict[Key, float | None]] = {}
        try:
            lines = self._file.lines()
            self.labels: Labels = read_labels(path, highest=highest, may_be_empty=True)
            self.lines = [msgspec.json.decode(line, type=Label) for line in lines if line.strip()]  # replaced ones, too
        except (NotContinued, msgspec.MsgspecError):  # or labels that are no lines: a list, a compressed file
            self._file.close()
            hint = "-o names another file"
            raise ConfigError(
                "this is no labels file, and is left alone", code="not-a-labels-file", file=str(path), hint=hint
            ) from None
        except InputError:
            self._file.close()
            raise

    def given(self, annotator: str) -> dict[Key, float | None]:
        """What an annotator gave, the latest last; a grade counts more than having been skipped. It is kept up to date,
        so that one label more does not cost reading all of them."""
        found = self._given.get(annotator)
        if found is None:
            found = {}
            for label in self.lines:
                if label.annotator == annotator:
                    _note(found, label)
            if found:  # whoever only looks on leaves nothing behind
                self._given[annotator] = found
        return found

    def add(self, label: Label) -> None:
        """When this returns, the label is on the disk."""
        self._file.append(msgspec.json.encode(label) + b"\n")
        self.lines.append(label)
        if label.annotator in self._given:
            _note(self._given[label.annotator], label)

    def drop(self, at: int) -> Label:
        """Take one of `lines` back."""
        self._file.drop(at)
        label = self.lines.pop(at)
        self._given.pop(label.annotator, None)
        return label

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> LabelLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _note(given: dict[Key, float | None], label: Label) -> None:
    before = given.pop(label.key, None)  # so that the latest stands last
    given[label.key] = before if label.grade is None else label.grade
