"""Reads any supported input as a Run or a Gold set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.data.presented import above
from karat.errors import ConfigError, InputError, meant, shorten
from karat.formats.base import SWAPPED, Format, Kind, Lists, ReadOptions, Source
from karat.formats.kinds.table import columns_hint, columns_of, files_run, is_bare_pairs, is_bare_run, matching_files
from karat.formats.kinds.traces import is_traces
from karat.formats.layout import read_layout
from karat.registry import Registry

if TYPE_CHECKING:
    from karat.formats.field_map import FieldMap

RUN_AS_GOLD = "run:"
REGISTRY: Registry[Format] = Registry("format", "karat.formats.kinds", Format, "karat.formats")

_TRACES = "traces"
_TABLES = ("table", "parquet", "table-folder")
_OTHER: dict[Kind, Kind] = {"run": "gold", "gold": "run"}
_TAKE_ALL = ("gold", "dict")  # formats that recognise nearly anything
_ARTICLE: dict[Kind, str] = {"run": "a run", "gold": "a gold set"}
_NEEDED: dict[Kind, str] = {"run": "topk", "gold": "gold"}
_RESULT = re.compile(rb'\s*\{\s*"schema"\s*:\s*"karat/')
_IN_POOLS, _NOT_IN_POOLS = {"inclusion_probability", "origin"}, {"grade", "score", "rank", "topk", "gold"}
# A log of a RAG system may hold an `answer` too.
_GOLD = rb'(?m)^[\s{-]*(?:[^\n]*[{,]\s*)?"?(gold|evidence|answer_span|no_answer)"?\s*:'


def read_run(
    run: Any,
    *,
    format: str | None = None,
    system: str | None = None,
    hits: Lists = "topk",
    columns: Any = None,
    query_from: Literal["retriever", "root"] = "retriever",
) -> Run:
    """Read a run from a file (any format, recognised from its content), a dict, records, or a frame.

    `hits`: which lists of a run log: the final ones (`topk`), those before reranking (`raw`), or those of the query
    before rewriting (`topk_original`). `columns`: a field map for fields or columns with other names: a
    mapping such as `{"query_id": "request.id", "topk": "results"}`, the same as text, or a YAML file that holds one.
    `query_from`: of traces, the span with the question.
    """
    if isinstance(run, Run):
        return run
    options = ReadOptions(system=system, hits=hits, query_from=query_from)
    if isinstance(run, (str, PathLike)) and matching_files(run) is None:
        source = Source(Path(run), is_run=True)
        if format == _TRACES or (format is None and is_traces(source)):
            source.refuse_nonsense()
            return REGISTRY.require(_TRACES)().read_run(source, msgspec.structs.replace(options, fields=columns))
    if columns is not None:
        from karat.formats.by_map import fields_or_columns, run_by_map

        fields, columns = fields_or_columns(run, columns)
        if columns is not None:
            options = msgspec.structs.replace(options, layout=read_layout(columns))
        if fields is not None and (mapped := run_by_map(run, fields, options, format)) is not None:
            return mapped
    if isinstance(run, (str, PathLike)):
        files = matching_files(run)
        if files is not None:
            return files_run(str(run), files, options)
        source = Source(Path(run), is_run=True)
        if format is None and columns is not None:  # a table with custom names cannot be recognised by them
            format = "table-folder" if source.is_folder else "parquet" if source.is_parquet else "table"
        found = find_format(source, "run", format)
        if columns is not None and found.name not in _TABLES:
            raise ConfigError(
                f"the format {found.name!r} has no columns to name", code="no-such-option", file=source.label
            )
        if hits != "topk" and found.name != "run-log":
            raise ConfigError(f"the format {found.name!r} has no {hits} lists", code="no-such-lists", file=source.label)
        return found.read_run(source, options)
    from karat.formats.in_memory import run_in_memory

    return run_in_memory(run, options)


class SharedGold(str):
    """The path of a gold set that is used for several runs: it is read once."""

    read: tuple[ReadOptions, str | None, Gold] | None = None


def read_gold(
    gold: Any,
    *,
    format: str | None = None,
    target: str | None = None,
    split: str = "test",
    columns: Any = None,
    depth: int | None = None,
    rules: Any = None,
) -> Gold:
    """Read a gold set from a file (any format, recognised from its content), a dict, entries, or a frame.

    `gold` may also be a run (from `read_run`, or the text `run:FILE`): its first `depth` hits (default: 10) of each
    query are relevant. `columns`: a field map, as in `read_run`. `rules`: how the hits of such a run are ordered.
    """
    options = ReadOptions(target=target, split=split)
    if isinstance(gold, Gold):
        return gold
    if isinstance(gold, Run) or is_run_as_gold(gold):
        run = named_run(gold if isinstance(gold, Run) else gold.removeprefix(RUN_AS_GOLD), format, columns)
        made: Gold = above("karat.scoring.run_as_gold", "run_as_gold")(run, depth, rules)
        return made
    if depth is not None:
        hint = f"to use a run as gold, write {RUN_AS_GOLD}{gold if isinstance(gold, str) else 'FILE'}"
        raise ConfigError("the depth applies to a run as gold, and this is a gold set", code="no-depth", hint=hint)
    if isinstance(gold, SharedGold) and columns is None:
        if gold.read is None or gold.read[:2] != (options, format):
            gold.read = options, format, read_gold(str(gold), format=format, target=target, split=split)
        return gold.read[2]
    if columns is not None:
        from karat.formats.by_map import gold_by_map
        from karat.formats.field_map import FieldMap

        fields = FieldMap.of(columns, strict=True)
        with _about_grades():
            mapped = None if fields is None else gold_by_map(gold, fields, options, format)
        if mapped is not None:
            return mapped
    if isinstance(gold, (str, PathLike)):
        source = Source(Path(gold))
        found = find_format(source, "gold", format)
        if target is not None and not found.takes_target:
            raise ConfigError(
                f"the format {found.name!r} has no target field", code="no-such-option", file=source.label, got=target
            )
        with _about_grades():
            return _gold_from(source, found, options)
    from karat.formats.in_memory import gold_in_memory

    return gold_in_memory(gold, options)


_GRADE = r"(?:.*\.)?grade|gold\[[^\]]*\]"
_NUMBER = r"(?i)\s*[-+]?(?:[\d.,]+(?:e[-+]?\d+)?|nan|inf(?:inity)?)\s*"


@contextmanager
def _about_grades() -> Iterator[None]:
    """Say how to write grades, if a gold set has words."""
    try:
        yield
    except InputError as error:
        said = error.got.strip("'\"") if isinstance(error.got, str) else ""
        if not error.hint and said and re.fullmatch(_GRADE, error.field or "") and not re.fullmatch(_NUMBER, said):
            error.hint = (
                "grades are numbers: 0 is not relevant, and more is better. Replace each word by a number, such as "
                f"{shorten(said, 20)!r} by 2; or leave out the grades: then everything that is listed is relevant"
            )
        raise


def is_run_as_gold(gold: Any) -> bool:
    """Whether a text names a run whose first hits are relevant: `run:exact.jsonl`."""
    return isinstance(gold, str) and gold.startswith(RUN_AS_GOLD)


def named_run(run: Any, format: str | None = None, columns: Any = None) -> Run:
    """Read a run; `FILE#SYSTEM` names one system of a file."""
    system = None
    if isinstance(run, str) and "#" in run and not Path(run).exists():
        run, _, system = run.rpartition("#")
    return read_run(run, format=format, system=system, columns=columns)


def _gold_from(source: Source, format: Format, options: ReadOptions) -> Gold:
    """Read a file with an error again, if that gives the line of an entry."""
    try:
        return format.read_gold(source, options)
    except InputError as error:
        if error.line is not None or source.is_folder or not source.looks_like_json:
            raise
        source.wants_lines = True
        format.read_gold(source, options)
        raise


def find_format(source: Source, kind: Kind, name: str | None = None) -> Format:
    """The named format, or the first that recognises the content."""
    source.refuse_nonsense()
    if name is not None:
        found = REGISTRY.require(name)()
        if kind not in found.kinds:
            raise InputError(
                f"the format {name!r} does not read {kind} files",
                code="wrong-format",
                file=source.label,
                hint=_known(kind),
            )
        return found
    _refuse_other_files(source)
    recognised = _recognise(source, kind)
    if recognised is None or recognised.name in _TAKE_ALL:
        _refuse_swapped(source, kind)
    if recognised is None:
        raise _unrecognised(source, kind)
    return recognised


def find_kind(source: Source, fields: FieldMap | None = None) -> tuple[Kind, str, bool]:
    """What a file is, in which format, and whether that is certain. Rows of queries and items without
    grade, rank or score may be either: they are read as gold."""
    source.refuse_nonsense()
    if fields is not None:
        from karat.formats.mapped import mapped_kind

        if (mapped := mapped_kind(source, fields)) is not None:
            return mapped[0], "mapped", mapped[1]
    _refuse_other_files(source)
    for kind in _OTHER:
        found = _recognise(source, kind)
        if found is None or (found.name in _TAKE_ALL and _is_swapped(source, kind)):
            continue
        if not (kind == "run" and found.name in _TABLES and is_bare_pairs(source)):
            return kind, found.name, found.name not in _TABLES or kind == "run" or not is_bare_run(source)
    raise _unrecognised(source, *_OTHER)


def _recognise(source: Source, kind: Kind) -> Format | None:
    def first(formats: Iterable[type[Format]]) -> Format | None:
        each = (found() for found in formats if kind in found.kinds)
        return next((found for found in each if found.recognises(source, kind)), None)

    builtin = sorted(REGISTRY.builtin().values(), key=lambda found: found.order)
    return first(builtin) or first(REGISTRY.plugins().values())


def _refuse_other_files(source: Source) -> None:
    """Reject saved results, labels and pools: with a query and a chunk per line they look like a single-target set."""
    if _RESULT.match(source.head):
        what = "this is a saved Karat result, not a run or a gold set"
        hint = "use the run it was made from, or read results with `karat compare` or `read_result`"
        raise InputError(what, code="saved-result", file=source.label, hint=hint)
    first = set(source.first_object or ())
    if {"grade", "annotator"} <= first:
        from shlex import quote

        what = "this is a labels file, not a run or a gold set"
        hint = f"add the labels to a gold set: `karat labels merge {quote(source.label)} --gold GOLD -o NEW_GOLD`"
        raise InputError(what, code="labels-file", file=source.label, hint=hint)
    if "query_id" in first and _IN_POOLS & first and {"chunk_id", "doc_id"} & first and not _NOT_IN_POOLS & first:
        from shlex import quote

        what = "this is a pool of pairs to label, not a run or a gold set"
        hint = f"label the pairs with `karat labels label {quote(source.label)}` or `karat labels judge`"
        raise InputError(what, code="pool-file", file=source.label, hint=hint)


def _says_gold(source: Source) -> bool:
    """Whether records name what should be found; to the gold reader any file with a `query_id` might be gold."""
    from karat.formats.gold_records import TARGET_FIELD

    return bool(re.search(_GOLD, source.head)) or any(map(TARGET_FIELD.fullmatch, source.first_object or {}))


def _is_swapped(source: Source, kind: Kind) -> Format | None:
    """The format of a file that is certainly of the other kind."""
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
    what = f"this looks like {_ARTICLE[_OTHER[kind]]} ({other.name}), not {_ARTICLE[kind]}"
    got = source.first_line.decode("utf-8", "replace") or None
    raise InputError(what, code="swapped", file=source.label, got=got, hint=SWAPPED)


def _unrecognised(source: Source, *kinds: Kind) -> InputError:
    from karat.formats.corpus import is_corpus
    from karat.formats.mapped import suggestion

    if is_corpus(source):
        what, hint = f"this looks like a corpus, not a {' or '.join(kinds)} file", "pass it with --corpus"
        return InputError(what, code="unrecognised", file=source.label, got=columns_of(source) or None, hint=hint)
    options = " or ".join(f"--{kind}-format" for kind in kinds)
    named = f"name the format with {options}" if len(kinds) == 1 else "docs/formats.md shows examples of each"
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
    from shlex import quote

    first = source.first_object
    if "run" in kinds and ("retrieved" in first if first is not None else source.first_line.startswith(b'["')):
        return 'each output needs the id of its sample: {"id": "q-1", "retrieved": ["doc-7", "doc-3"]}'
    if first is None:
        return None
    needed = [_NEEDED[kind] for kind in kinds]
    near = meant(needed, first)
    has = shorten(", ".join(first), 60) or "no field"
    said = f"every line needs query_id and {' or '.join(needed)}; the first has: {has}"
    return near or f"{said}. Map other names with --map: `karat check {quote(source.label)}` lists all fields"


def _known(*kinds: Kind) -> str:
    fitting = (name for name, f in REGISTRY.everything().items() if not f.kinds.isdisjoint(kinds))
    return "one of " + ", ".join(sorted(fitting))
