"""Anything a user has → a Run or a Gold set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from glob import has_magic
from os import PathLike
from pathlib import Path
from typing import Any

from karat.data.gold import Dataset, Gold
from karat.data.hits import Run
from karat.errors import ConfigError, InputError, meant, shorten
from karat.formats.base import SWAPPED, Format, Kind, Lists, ReadOptions, Source
from karat.formats.dicts import gold_from_dict, run_from_dict
from karat.formats.field_map import FieldMap
from karat.formats.gold_file import GoldReader
from karat.formats.gold_records import TARGET_FIELD
from karat.formats.layout import Layout, read_layout
from karat.formats.mapped import (
    container,
    gold_of_records,
    map_for,
    mapped_gold,
    mapped_kind,
    mapped_list,
    mapped_run,
    suggestion,
)
from karat.formats.records import decode_entries
from karat.formats.run_log import RunLog
from karat.formats.samples import OutputRun, gold_from_samples, is_output, is_sample
from karat.formats.table import columns_hint, columns_of, files_run, is_bare_pairs, matching_files
from karat.formats.table_file import as_frame
from karat.formats.table_gold import gold_from_frame
from karat.formats.table_run import FrameRun
from karat.registry import Registry

REGISTRY: Registry[Format] = Registry("format", "karat.formats", Format)

_TABLES = ("table", "parquet", "table-folder")
_OTHER: dict[Kind, Kind] = {"run": "gold", "gold": "run"}
_TAKE_ALL = ("gold", "dict")  # formats that recognise nearly anything
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
    rewritten (`topk_original`). `columns`: what its fields or columns are for, where their names do not tell: a
    mapping such as `{"query_id": "request.id", "topk": "results"}`, the same as text, or a YAML file that holds one.
    """
    if isinstance(run, Run):
        return run
    fields, columns = _fields_or_columns(run, columns)
    options = ReadOptions(system=system, hits=hits, layout=None if columns is None else read_layout(columns))
    if fields is not None and (mapped := _mapped_run(run, fields, options, format)) is not None:
        return mapped
    if isinstance(run, (str, PathLike)):
        files = matching_files(run)
        if files is not None:
            return files_run(str(run), files, options)
        source = Source(Path(run), is_run=True)
        if format is None and columns is not None:  # under names of its own a table cannot be told by them
            format = "table-folder" if source.is_folder else "parquet" if source.is_parquet else "table"
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
        return (OutputRun if is_output(next(iter(run), None)) else RunLog)("run", run, system, hits)
    frame = as_frame(run)
    if frame is not None:
        return FrameRun(frame, "run", system, layout=options.layout)
    what, expected = f"cannot read a run from {type(run).__name__}", "a path, dict, list of records, frame or Run"
    raise InputError(what, code="unreadable-object", expected=expected)


def _fields_or_columns(run: Any, columns: Any) -> tuple[FieldMap | None, Any]:
    """A map of fields; or the columns of a table, which are read some rows at a time."""
    if columns is None or isinstance(columns, FieldMap):
        return columns, None
    if isinstance(columns, (Layout, PathLike)) or (isinstance(columns, str) and "=" not in columns):
        return None, columns
    is_path = isinstance(run, (str, PathLike)) and not has_magic(str(run))
    is_list = isinstance(run, list)
    if is_list or (is_path and container(Source(Path(run))) in ("lines", "document")):
        return FieldMap.of(columns, strict=True), None
    if isinstance(columns, Mapping) and not any("." in str(path) for path in columns.values()):
        return None, columns
    return FieldMap.of(columns, strict=True), None


def _mapped_run(run: Any, fields: FieldMap, options: ReadOptions, format: str | None) -> Run | None:
    """The run through the map; None where it has none of its fields."""
    if isinstance(run, (str, PathLike)):
        if format is not None or matching_files(run) is not None:
            return None
        source = Source(Path(run), is_run=True)
        source.refuse_nonsense()
        found = map_for(fields, "run", source)
        return None if found is None else mapped_run(source, found, options)
    if isinstance(run, Mapping):
        return None
    frame = as_frame(run)
    records: list[Any] = run if isinstance(run, list) else [] if frame is None else frame.to_dicts()
    found = fields.fitting("run", records[:100])
    if fields.strict:
        fields.refuse_unused()
    return None if found is None else mapped_list(records, found, options, "run")


def read_gold(
    gold: Any, *, format: str | None = None, target: str | None = None, split: str = "test", columns: Any = None
) -> Gold:
    """A gold set from a file (any format, recognised from its content), a dict, entries, or a frame.

    `columns`: what its fields are for, as in `read_run`.
    """
    options = ReadOptions(target=target, split=split)
    if isinstance(gold, Gold):
        return gold
    fields = FieldMap.of(columns, strict=True)
    if fields is not None and (mapped := _mapped_gold(gold, fields, options, format)) is not None:
        return mapped
    if isinstance(gold, (str, PathLike)):
        source = Source(Path(gold))
        found = find_format(source, "gold", format)
        if target is not None and not found.takes_target:
            raise ConfigError(
                f"the format {found.name!r} has no target field", code="no-such-option", file=source.label, got=target
            )
        return _gold_from(source, found, options)
    samples = gold.get("samples") if isinstance(gold, Mapping) else gold
    if isinstance(samples, list) and is_sample(next(iter(samples), None)):
        return gold_from_samples(samples)
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
    what, expected = f"cannot read gold from {type(gold).__name__}", "a path, dict, list of entries or frame"
    raise InputError(what, code="unreadable-object", expected=expected)


def _gold_from(source: Source, format: Format, options: ReadOptions) -> Gold:
    """A file with a mistake is read again where that tells the line of an entry."""
    try:
        return format.read_gold(source, options)
    except InputError as error:
        if error.line is not None or source.is_folder or not source.looks_like_json:
            raise
        source.wants_lines = True
        format.read_gold(source, options)
        raise


def _mapped_gold(gold: Any, fields: FieldMap, options: ReadOptions, format: str | None) -> Gold | None:
    if isinstance(gold, (str, PathLike)):
        if format is not None:
            return None
        source = Source(Path(gold))
        source.refuse_nonsense()
        found = map_for(fields, "gold", source)
        return None if found is None else mapped_gold(source, found, options)
    if isinstance(gold, Mapping):
        return None
    frame = as_frame(gold)
    records: list[Any] = gold if isinstance(gold, list) else [] if frame is None else frame.to_dicts()
    found = fields.fitting("gold", records[:100])
    if fields.strict:
        fields.refuse_unused()
    return None if found is None else gold_of_records(enumerate(records, 1), found, options, "gold", Dataset())


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
    _refuse_other_files(source)
    recognised = _recognise(source, kind)
    if recognised is None or recognised.name in _TAKE_ALL:
        _refuse_swapped(source, kind)
    if recognised is None:
        raise _unrecognised(source, kind)
    return recognised


def find_kind(source: Source, fields: FieldMap | None = None) -> tuple[Kind, str]:
    """What a file is, and in which format, where nobody says."""
    source.refuse_nonsense()
    if fields is not None and (mapped := mapped_kind(source, fields)) is not None:
        return mapped, "mapped"
    _refuse_other_files(source)
    for kind in _OTHER:
        found = _recognise(source, kind)
        if found is None or (found.name in _TAKE_ALL and _is_swapped(source, kind)):
            continue
        if not (kind == "run" and found.name in _TABLES and is_bare_pairs(source)):
            return kind, found.name
    raise _unrecognised(source, *_OTHER)


def _recognise(source: Source, kind: Kind) -> Format | None:
    def first(formats: Iterable[type[Format]]) -> Format | None:
        each = (found() for found in formats if kind in found.kinds)
        return next((found for found in each if found.recognises(source, kind)), None)

    builtin = sorted(REGISTRY.builtin().values(), key=lambda found: found.order)
    return first(builtin) or first(REGISTRY.plugins().values())


def _refuse_other_files(source: Source) -> None:
    """Saved results, and labels: with a query and a chunk in every line they would pass for a single-target set."""
    if _RESULT.match(source.head):
        what = "this is a result that Karat saved, no run and no gold set"
        hint = "give the run that it was made from; `karat compare` and `karat.read_result` take results"
        raise InputError(what, code="saved-result", file=source.label, hint=hint)
    if {"grade", "annotator"} <= set(source.first_object or ()):
        what = "this is a labels file, no run and no gold set"
        hint = "give the gold set, or a file of bare queries, with --gold, and the labels with --labels"
        raise InputError(what, code="labels-file", file=source.label, hint=hint)


def _says_gold(source: Source) -> bool:
    """Whether records say what should be found; for the reader of gold any file with a `query_id` might be gold."""
    return bool(_GOLD.search(source.head)) or any(map(TARGET_FIELD.fullmatch, source.first_object or {}))


def _is_swapped(source: Source, kind: Kind) -> Format | None:
    """The format of a file that is surely of the other kind."""
    other = _recognise(source, _OTHER[kind])
    if (
        other is None
        or other.name == "dict"
        or (other.name == "gold" and not _says_gold(source))
        or (other.name == "run-log" and "gold" in (source.first_object or {}))
    ):
        return None
    return other


def _refuse_swapped(source: Source, kind: Kind) -> None:
    other = _is_swapped(source, kind)
    if other is None:
        return
    what = f"this looks like {_ARTICLE[_OTHER[kind]]} ({other.name}), not like {_ARTICLE[kind]}"
    got = source.first_line.decode("utf-8", "replace") or None
    raise InputError(what, code="swapped", file=source.label, got=got, hint=SWAPPED)


def _unrecognised(source: Source, *kinds: Kind) -> InputError:
    options = " or ".join(f"--{kind}-format" for kind in kinds)
    named = f"name the format with {options}" if len(kinds) == 1 else "docs/formats.md shows what each looks like"
    return InputError(
        f"not recognised as a {' or '.join(kinds)} file",
        code="unrecognised",
        file=source.label,
        line=1 if source.first_object is not None else None,
        expected=_known(*kinds),
        got=columns_of(source) or source.first_line.decode("utf-8", "replace") or "a folder",
        hint=suggestion(source, *kinds) or _fields_hint(source, *kinds) or columns_hint(source, *kinds) or named,
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
