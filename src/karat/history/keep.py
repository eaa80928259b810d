"""Converts results to kept runs, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.errors import ConfigError
from karat.errors.redaction import redact_all
from karat.gates.verdict_form import Verdicts
from karat.history.queries import columns_of
from karat.history.rows import Judgement
from karat.history.store import Store
from karat.report.blocks import Section
from karat.report.build import full_sections
from karat.report.histogram import distributed, with_distribution
from karat.report.sweep import sweep_blocks
from karat.results.analyses.base import Lacking, Setup
from karat.results.kept_hits import kept_hits
from karat.results.kept_run import SCORE, TAG, VOTE, KeptRun, RunDocument, decoded, keep
from karat.results.pipeline import panel_need
from karat.results.queries.triage import Case, Triage, triage, triage_need
from karat.results.result import Result
from karat.results.save import from_columns, restore, saved_form
from karat.results.sweep import Sweep
from karat.scoring.top_lists import TOP
from karat.scoring.views import Need

_S = TypeVar("_S", bound=msgspec.Struct)
_APART = ("over_k", "triage")  # sections made from separately kept data
_BEFORE_OVER_K = ("glance", "findings", "panel", "bands", "bounds")  # order on a page
WORST = 100  # failed queries kept with their hits


def keep_result(result: Result, *, worst: int = WORST) -> KeptRun:
    """Keeps a result with everything that needs the run itself: segments, curves over k, failed queries, and the hits
    of every query.

    `worst`: how many failed queries are part of the file of the run."""
    saved = saved_form(result)
    told = {row.segment for row in saved.segments}
    more = [row for tag in result.telling_tags() for row in result.segment_by(tag) if row.segment not in told]
    saved = msgspec.structs.replace(saved, segments=[*saved.segments, *more])
    sections = made_sections(result)
    if result.lists is None:
        return keep(saved, sections=sections)
    return keep(
        saved,
        first_ranks=_first_ranks(result),
        triage=_plain(triage(result, worst)),
        sweep=_sweep(result),
        sections=sections,
        hits=kept_hits(result),
    )


def made_sections(result: Result) -> list[Any]:
    """The report of a run with histograms, without sections made from separately kept data."""
    return [_plain(section) for section in _sections(result, without=_APART)]


def _sections(result: Result, without: Sequence[str]) -> list[Section]:
    shown = distributed(result.metrics)
    return with_distribution(full_sections(result, without=without), shown, result.values)


def keep_need(setup: Setup) -> Need:
    """What `keep_result` needs."""
    return Need.union([triage_need(setup), panel_need(setup), Need(hashes=True, tops=TOP, every=True)])


def judgement(verdicts: Verdicts) -> Judgement:
    return Judgement(outcome=verdicts.outcome, document=msgspec.json.encode(redact_all(verdicts)).decode())


def restored(run: KeptRun) -> Result:
    """Returns the result with the kept numbers, which are not computed again."""
    document = run.document
    cases = None if document.triage is None else {**document.triage, "cases": run.cases()}
    result = restore(run.saved())
    assert result.known is not None
    known = replace(
        result.known,
        sweep=_typed(document.sweep, Sweep),
        triage=_typed(cases, Triage),
        bands=document.result.bands,
    )
    told = {("row", result.view, row.metric, result.sampling, result.cluster): row for row in document.result.summary}
    return replace(result, known=known, memo=told)


def scored(store: Store, run_id: str, metrics: Sequence[str]) -> Result:
    """The scores of a run in some metrics, for comparisons; fast for any number of queries and metrics."""
    rows = columns_of(store, run_id, metrics)
    queries = rows["query_id"].to_list()
    saved = msgspec.structs.replace(
        store.document(run_id).result,
        queries=dict(zip(queries, rows["query"].to_list(), strict=True)),
        attributes={n.removeprefix(TAG): decoded(rows[n].to_list()) for n in rows.columns if n.startswith(TAG)},
        votes={n.removeprefix(VOTE): rows[n].to_list() for n in rows.columns if n.startswith(VOTE)},
        tables=None,  # only the scores are compared
    )
    return from_columns(saved, queries, {name: rows[SCORE + name].cast(float).to_numpy() for name in metrics})


def triage_of(document: RunDocument, cases: Sequence[Any]) -> Triage | None:
    """The triage of a run with some of its cases."""
    return _typed({**(document.triage or {}), "cases": list(cases)}, Triage)


def shown_case(case: Any) -> Case | None:
    """A case as kept; None if there is none, or another version made it."""
    return _typed(case, Case)


def kept_sections(store: Store, run_id: str) -> list[Section]:
    """The kept report of a run without its failed queries; built again for runs of older versions."""
    document = store.document(run_id)
    read = [_typed(section, Section) for section in document.sections]
    sections = [section for section in read if section is not None]
    if not sections or len(sections) < len(read):
        return _sections(restored(store.kept(run_id)), without=("triage",))
    sweep = _typed(document.sweep, Sweep)
    if sweep is not None:
        scores = [i for i, section in enumerate(sections, 1) if section.name in _BEFORE_OVER_K]
        sections.insert(max(scores, default=0), Section("over_k", "Over k", sweep_blocks(sweep)))
    return sections


def _first_ranks(result: Result) -> list[int | None]:
    """The rank of the first relevant item of each query."""
    gold = result.gold
    found = np.flatnonzero((gold.grades > 0) & (result.places > 0))
    first = np.full(len(gold.queries), np.iinfo(np.int64).max)
    np.minimum.at(first, gold.query_of_item[found], result.places[found])
    return [None if rank == np.iinfo(np.int64).max else rank for rank in first[result.rows].tolist()]


def _sweep(result: Result) -> Any:
    try:
        return _plain(result.sweep())
    except (ConfigError, Lacking):
        return None


def _typed(value: Any, kind: type[_S]) -> _S | None:
    """Converts from JSON, whose keys are texts; None if there is nothing, or it has another format."""
    try:
        return None if value is None else msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError:
        return None  # from another version; the scores do not depend on it


def _plain(value: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
