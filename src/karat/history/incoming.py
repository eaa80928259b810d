"""Checks imported runs before they are saved: they must be consistent, and pages must be able to show them.

The id of a run is a hash of its numbers. Report sections are not part of it, so imported ones are discarded and built
again from the numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from karat.errors import InputError, KaratError, is_whole, shorten
from karat.history.keep import made_sections, restored
from karat.history.rows import head_of, measures_of
from karat.history.store import refuse_unstorable
from karat.report.blocks import Report, Section
from karat.report.export import page
from karat.results.kept_run import FAILED, SCORE, TAG, VOTE, KeptRun, columns_named
from karat.results.queries.triage import NOTHING_FOUND

if TYPE_CHECKING:
    import polars as pl

LONGEST_NAME = 1_000  # characters of a system, a label, a metric or a tag


def checked_run(run: KeptRun, label: str) -> KeptRun:
    """Returns the run with newly built sections. Raises InputError if it is not what Karat writes."""
    try:
        wrong = next(_problems(run), None)
        if wrong is None:
            return _shown(run)
    except (KaratError, MemoryError):
        raise
    except Exception as error:  # any failure is the fault of the file
        wrong = f"{type(error).__name__}: {shorten(str(error), 120)}"
    hint = "export it again from its history"
    raise InputError(f"invalid run: {wrong}", code="damaged-run", file=label, hint=hint)


def checked_line(text: str | None, field: str, label: str) -> None:
    """Raises InputError unless a name is missing or one line of readable text."""
    if text is not None and not _is_line(text):
        expected = f"one line of at most {LONGEST_NAME:,} characters"
        raise InputError("invalid name", code="bad-name", file=label, field=field, expected=expected, got=text)


def _is_line(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and is_whole(text)


def _shown(run: KeptRun) -> KeptRun:
    """Builds and renders the sections once, to find errors before anyone opens the page."""
    refuse_unstorable(head_of(run, None), measures_of(run.document.result))
    sections = made_sections(restored(run))
    page(Report("", msgspec.json.decode(msgspec.json.encode(sections), type=list[Section])))
    # The rest stays as written: older versions wrote fewer fields, and the id depends on them.
    return KeptRun(msgspec.json.encode({**msgspec.json.decode(run.text), "sections": sections}), run.rows)


def _problems(run: KeptRun) -> Iterator[str]:
    saved, rows = run.document.result, run.rows
    metrics = [row.metric for row in saved.summary]
    names = {"system": saved.system or "-", "run": saved.run, "gold": saved.gold}
    yield from (f"the name of the {field} is not a line of text" for field, text in names.items() if not _is_line(text))
    if not all(map(_is_line, [*metrics, *rows.columns])):
        yield "a name of a metric or a column is not a line of text"
    if len(set(metrics)) < len(metrics):
        yield "a metric is in the summary twice"
    yield from _row_problems(rows, metrics)
    places = Counter((segment.segment, segment.value) for segment in saved.segments)
    if any(count > 1 or not name for (name, _), count in places.items()):
        yield "a segment has no name, or appears twice"
    if not {row.metric for segment in saved.segments for row in segment.summary} <= set(metrics):
        yield "a segment has a metric that the run does not have"
    everything = [*saved.summary, *(row for segment in saved.segments for row in segment.summary)]
    if any(row.n < 0 or row.undefined < 0 for row in everything):
        yield "a number of queries is below 0"
    if not set(saved.missing) <= set(rows["query_id"].to_list()):
        yield "a missing query is not among the queries"


def _row_problems(rows: pl.DataFrame, metrics: Sequence[str]) -> Iterator[str]:
    import polars as pl

    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(("query_id", "query", "case"), pl.String)
    kinds |= {"missing": pl.Boolean, "first_rank": pl.Int64}
    kinds |= {name: pl.Float64 for name in rows.columns if name.startswith((SCORE, VOTE))}
    kinds |= {name: pl.String for name in rows.columns if name.startswith(TAG)}
    kinds |= {name: pl.Float64 for name in rows.columns if name == FAILED}
    other = [name for name, kind in kinds.items() if rows.schema.get(name) != kind]
    if other:
        yield f"the column {shorten(other[0], 60)} has the wrong type"
        return
    if not rows.height:
        yield "there are no queries"
    ids = rows["query_id"]
    if ids.null_count() or ids.n_unique() < rows.height or (ids == "").any():
        yield "a query has no id, or the id of another one"
    if rows["missing"].null_count() or (rows["first_rank"] < 1).any():
        yield "a rank is below 1, or the column missing has no value"
    if FAILED in rows.columns and not rows[FAILED].drop_nulls().is_between(0, NOTHING_FOUND).all():
        yield f"the column {FAILED} has an invalid number"
    if set(columns_named(rows, SCORE)) != set(metrics):
        yield "scores and summary have different metrics"
    for name in (name for name in rows.columns if name.startswith((SCORE, VOTE))):
        column = rows[name]
        if not column.drop_nulls().is_finite().all() or (name.startswith(VOTE) and (column < 0).any()):
            yield f"the column {shorten(name, 60)} has an invalid number"
    votes = set(columns_named(rows, VOTE))
    if not votes <= set(metrics) or any(rows[VOTE + name].null_count() for name in votes):
        yield "votes are missing, or belong to no metric"
