"""Anything a user has → a Run or a Gold set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from karat.data.gold import Dataset, Gold
from karat.data.hits import Run
from karat.errors import ConfigError, InputError, meant, shorten
from karat.formats.base import SWAPPED, Format, Kind, Lists, ReadOptions, Source
from karat.formats.dicts import gold_from_dict, run_from_dict
from karat.formats.gold_file import GoldReader
from karat.formats.gold_records import TARGET_FIELD
from karat.formats.layout import read_layout
from karat.formats.records import decode_entries
from karat.formats.run_log import RunLog
from karat.formats.table import columns_hint, columns_of
from karat.formats.table_file import as_frame
from karat.formats.table_folder import files_run, matching_files
from karat.formats.table_gold import gold_from_frame
from karat.formats.table_run import FrameRun
from karat.registry import Registry

REGISTRY: Registry[Format] = Registry("format", "karat.formats", Format)

_TABLES = ("table", "parquet", "table-folder")
_OTHER: dict[Kind, Kind] = {"run": "gold", "gold": "run"}
_ARTICLE: dict[Kind, str] = {"run": "a run", "gold": "a gold set"}
_NEEDED: dict[Kind, str] = {"run": "topk", "gold": "gold"}
_RESULT = re.compile(rb'\s*\{\s*"schema"\s*:\s*"karat/')
# A log of a RAG system may hold an `answer` too.
_GOLD = re.compile(rb'^[\s{-]*(?:[^\n]*[{,]\s*)?"?(gold|evidence|answer_span|no_answer)"?\s*:', re.M)


def read_run(
    run: Any, *, format: str | None = None, system: str | None = None, hits: Lists = "topk", columns: Any = None
) -> Run:
    """A run from a file (any format, recognised from its content), a dict, records, or a frame.

    `hits`: of a run log the final lists (`topk`), those before reranking (`raw`), or those of the query before it was
    rewritten (`topk_original`). `columns`: of a table, what its columns are for, where their names do not tell (a
    mapping such as `{"query_id": "request_id"}`, or a YAML file that holds one).
    """
    options = ReadOptions(system=system, hits=hits, layout=None if columns is None else read_layout(columns))
    if isinstance(run, Run):
        return run
    if isinstance(run, (str, PathLike)):
        files = matching_files(run)
        if files is not None:
            return files_run(str(run), files, options)
        source = Source(Path(run), is_run=True)
        format = _table_format(source) if format is None and columns is not None else format
        found = find_format(source, "run", format)
        if columns is not None and found.name not in _TABLES:
            raise ConfigError(
                f"the format {found.name!r} has no columns to name", code="no-such-option", file=source.label
            )
        if hits != "topk" and found.name != "run-log":
            raise ConfigError(f"the format {found.name!r} has no {hits} lists", code="no-such-lists", file=source.label)
        return found.read_run(source, options)
    if isinstance(run, Mapping):
        return run_from_dict(run)
    if isinstance(run, list):
        return RunLog("run", run, system, hits)
    frame = as_frame(run)
    if frame is not None:
        return FrameRun(frame, "run", system, layout=options.layout)
    raise InputError(
        f"cannot read a run from {type(run).__name__}",
        code="unreadable-object",
        expected="a path, dict, list of records, frame or Run",
    )


def _table_format(source: Source) -> str:
    """Under names of its own a table cannot be told by them."""
    return _TABLES[2] if source.is_folder else _TABLES[1] if source.head[:4] == b"PAR1" else _TABLES[0]


def read_gold(gold: Any, *, format: str | None = None, target: str | None = None, split: str = "test") -> Gold:
    """A gold set from a file (any format, recognised from its content), a dict, entries, or a frame."""
    options = ReadOptions(target=target, split=split)
    if isinstance(gold, Gold):
        return gold
    if isinstance(gold, (str, PathLike)):
        source = Source(Path(gold))
        found = find_format(source, "gold", format)
        if target is not None and not found.takes_target:
            raise ConfigError(
                f"the format {found.name!r} has no target field", code="no-such-option", file=source.label, got=target
            )
        return found.read_gold(source, options)
    if isinstance(gold, Mapping):
        return gold_from_dict(gold)
    if isinstance(gold, list):
        reader = GoldReader("gold", options)
        for records, lines in decode_entries(enumerate(gold, 1), reader.decoder, "gold"):
            reader.add(records, lines)
        return reader.build(Dataset())
    frame = as_frame(gold)
    if frame is not None:
        return gold_from_frame(frame, "gold", Dataset(), target)
    raise InputError(
        f"cannot read gold from {type(gold).__name__}",
        code="unreadable-object",
        expected="a path, dict, list of entries or frame",
    )


def find_format(source: Source, kind: Kind, name: str | None = None) -> Format:
    """The named format, or the first that recognises the content."""
    source.refuse_nonsense()
    if name is not None:
        found = REGISTRY.require(name)()
        if kind not in found.kinds:
            raise InputError(
                f"the format {name!r} reads no {kind} files", code="wrong-format", file=source.label, hint=_known(kind)
            )
        return found
    _refuse_result(source)
    _refuse_labels(source)
    recognised = _recognise(source, kind)
    if recognised is None or recognised.name in ("gold", "dict"):  # these two take nearly anything
        swapped = _swapped(source, kind)
        if swapped is not None:
            raise swapped
    if recognised is None:
        raise _unrecognised(source, kind)
    return recognised


def find_kind(source: Source) -> tuple[Kind, Format]:
    """What a file is, and in which format, where nobody says."""
    source.refuse_nonsense()
    _refuse_result(source)
    _refuse_labels(source)
    for kind in _OTHER:
        found = _recognise(source, kind)
        if found is not None:
            return kind, found
    raise _unrecognised(source, *_OTHER)


def _recognise(source: Source, kind: Kind) -> Format | None:
    for candidate in sorted((f() for f in REGISTRY.builtin().values()), key=lambda f: f.order):
        if kind in candidate.kinds and candidate.recognises(source, kind):
            return candidate
    for candidate in (f() for f in REGISTRY.plugins().values()):
        if kind in candidate.kinds and candidate.recognises(source, kind):
            return candidate
    return None


def _refuse_result(source: Source) -> None:
    if _RESULT.match(source.head):
        hint = "give the run that it was made from; `karat compare` and `karat.read_result` take results"
        raise InputError(
            "this is a result that Karat saved, no run and no gold set",
            code="saved-result",
            file=source.label,
            hint=hint,
        )


def _refuse_labels(source: Source) -> None:
    """A labels file has a query and a chunk in every line, and would pass for a single-target set: grade 0 and all."""
    if {"grade", "annotator"} <= set(source.first_object or ()):
        hint = "give the gold set, or a file of bare queries, with --gold, and the labels with --labels"
        raise InputError(
            "this is a labels file, no run and no gold set", code="labels-file", file=source.label, hint=hint
        )


def _says_gold(source: Source) -> bool:
    """Whether records say what should be found; for the reader of gold any file with a `query_id` might be gold."""
    return bool(_GOLD.search(source.head)) or any(map(TARGET_FIELD.fullmatch, source.first_object or {}))


def _swapped(source: Source, kind: Kind) -> InputError | None:
    """The error for a file that is surely of the other kind."""
    other = _recognise(source, _OTHER[kind])
    if other is None or other.name == "dict":
        return None
    if other.name == "gold" and not _says_gold(source):
        return None
    if other.name == "run-log" and "gold" in (source.first_object or {}):
        return None
    return InputError(
        f"this looks like {_ARTICLE[_OTHER[kind]]} ({other.name}), not like {_ARTICLE[kind]}",
        code="swapped",
        file=source.label,
        got=source.first_line.decode("utf-8", "replace") or None,
        hint=SWAPPED,
    )


def _unrecognised(source: Source, *kinds: Kind) -> InputError:
    options = " or ".join(f"--{kind}-format" for kind in kinds)
    named = f"name the format with {options}" if len(kinds) == 1 else "docs/formats.md shows what each looks like"
    return InputError(
        f"not recognised as a {' or '.join(kinds)} file",
        code="unrecognised",
        file=source.label,
        expected=_known(*kinds),
        got=columns_of(source) or source.first_line.decode("utf-8", "replace") or "a folder",
        hint=_fields_hint(source, *kinds) or columns_hint(source, *kinds) or named,
    )


def _fields_hint(source: Source, *kinds: Kind) -> str | None:
    """What a line of JSON lacks."""
    if source.first_object is None:
        return None
    needed = [_NEEDED[kind] for kind in kinds]
    near = meant(needed, source.first_object)
    has = shorten(", ".join(source.first_object), 60)
    return near or f"every line needs query_id and {' or '.join(needed)}; the first has: {has}"


def _known(*kinds: Kind) -> str:
    fitting = (name for name, f in REGISTRY.everything().items() if not f.kinds.isdisjoint(kinds))
    return "one of " + ", ".join(sorted(fitting))
