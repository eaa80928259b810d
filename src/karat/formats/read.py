"""Anything a user has → a Run or a Gold set."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from karat.errors import InputError
from karat.formats.base import Format, Kind, Options, Source
from karat.formats.dicts import gold_from_dict, run_from_dict
from karat.formats.gold_file import GoldReader
from karat.formats.records import decode_entries
from karat.formats.run_log import RunLog
from karat.formats.tabular import FrameRun, as_frame, gold_from_frame
from karat.gold import Dataset, Gold
from karat.hits import Run
from karat.registry import Registry

REGISTRY: Registry[Format] = Registry("format", "karat.formats", Format)


def read_run(run: Any, *, format: str | None = None, system: str | None = None) -> Run:
    """A run from a file (any format, recognised from its content), a dict, records, or a frame."""
    options = Options(system=system)
    if isinstance(run, Run):
        return run
    if isinstance(run, (str, PathLike)):
        source = Source(Path(run))
        return find_format(source, "run", format).read_run(source, options)
    if isinstance(run, Mapping):
        return run_from_dict(run)
    if isinstance(run, list):
        return RunLog("run", run, system)
    frame = as_frame(run)
    if frame is not None:
        return FrameRun(frame, "run", system)
    raise InputError(
        f"cannot read a run from {type(run).__name__}", expected="a path, dict, list of records, frame or Run"
    )


def read_gold(gold: Any, *, format: str | None = None, target: str | None = None, split: str = "test") -> Gold:
    """A gold set from a file (any format, recognised from its content), a dict, entries, or a frame."""
    options = Options(target=target, split=split)
    if isinstance(gold, Gold):
        return gold
    if isinstance(gold, (str, PathLike)):
        source = Source(Path(gold))
        return find_format(source, "gold", format).read_gold(source, options)
    if isinstance(gold, Mapping):
        return gold_from_dict(gold)
    if isinstance(gold, list):
        reader = GoldReader("gold", options)
        for records, lines in decode_entries(enumerate(gold, 1), reader.decoder, "gold"):
            reader.add(records, lines)
        return reader.builder.build(Dataset())
    frame = as_frame(gold)
    if frame is not None:
        return gold_from_frame(frame, "gold", Dataset(), target)
    raise InputError(f"cannot read gold from {type(gold).__name__}", expected="a path, dict, list of entries or frame")


def find_format(source: Source, kind: Kind, name: str | None = None) -> Format:
    """The named format, or the first that recognises the content."""
    source.refuse_nonsense()
    if name is not None:
        found = REGISTRY.require(name)()
        if kind not in found.kinds:
            raise InputError(f"the format {name!r} reads no {kind} files", file=source.label, hint=_known(kind))
        return found
    for candidate in sorted((f() for f in REGISTRY.builtin().values()), key=lambda f: f.order):
        if kind in candidate.kinds and candidate.recognises(source, kind):
            return candidate
    for candidate in (f() for f in REGISTRY.plugins().values()):
        if kind in candidate.kinds and candidate.recognises(source, kind):
            return candidate
    raise InputError(
        f"not recognised as a {kind} file",
        file=source.label,
        expected=_known(kind),
        got=source.first_line.decode("utf-8", "replace") or "a folder",
        hint="name the format with --run-format or --gold-format, or see `karat check --help`",
    )


def _known(kind: Kind) -> str:
    return "one of " + ", ".join(sorted(name for name, f in REGISTRY.everything().items() if kind in f.kinds))
