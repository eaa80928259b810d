"""Convert results to their saved form and back."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.attributes import attribute, attribute_names
from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.ids import Floats
from karat.errors import InputError
from karat.errors.redaction import redact_all, redact_texts
from karat.options.option import options_in, values_of
from karat.results.analyses.base import Setup, restore_analyses
from karat.results.context import Precomputed
from karat.results.kept_run import SCORE, KeptRun, columns_named, fitting, read_kept
from karat.results.result import Result
from karat.results.results import Results
from karat.results.saved import SavedResult, origin, read_saved, scores_by_query
from karat.results.summary import nullable
from karat.results.tables_form import SavedTables, restored_tables, saved_tables
from karat.scoring.collect import RunData
from karat.scoring.judged import Rules
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.top_lists import TOP
from karat.scoring.views import Need, View
from karat.statistics.sampling import Sampling

_S = TypeVar("_S", Rules, Sampling)


def save_need(setup: Setup) -> Need:
    """What `saved_form` needs: scores by document too, so a saved result can be measured at both levels."""
    return Need(views={setup.own.but(level="doc"): []}, hashes=True, tops=TOP)


def saved_form(result: Result) -> SavedResult:
    """The saved form of a result."""
    names = attribute_names(result.gold, from_text=False)  # the texts are kept
    rows, attributes = result.rows.tolist(), {name: attribute(result.gold, name) for name in names}
    return SavedResult(
        **origin(result),
        settings=redact_all(values_of(result.rules)),
        provenance=redact_all(result.provenance),
        audit=redact_all(list(result.audited)),
        summary=result.summary_rows,
        bm25=result.bm25,
        scores=scores_by_query(result.queries, {name: nullable(values) for name, values in result.values.items()}),
        queries=dict(zip(result.queries, redact_texts([result.gold.text(i) for i in rows]), strict=True)),
        statistics=result.sampling.saved(result.cluster),
        segments=redact_all(result.segment_rows) if result.segmented_by else [],
        attributes={name: [column[i] for i in rows] for name, column in attributes.items()},
        votes={name: votes.tolist() for name, votes in result.votes.items()},
        definitions=result.definitions,
        missing=sorted(result.missing),
        bands=result.bands,
        findings=redact_all(result.findings),
        analyses=redact_all(result.analyses.found),
        lacking=redact_all(result.analyses.lacking),
        wrong_hits_judged=result.wrong_hits_judged,
        doubts=result.doubts,
        tables=saved_tables(result.data, result.gold, result.rows) if result.data.tables else None,
    )


def restore(saved: SavedResult) -> Result:
    """A result from its saved form, which can be summarised, segmented and compared again."""
    _refuse_torn(saved)
    names = [row.metric for row in saved.summary]
    values = {name: np.array([scores[name] for scores in saved.scores.values()], np.float64) for name in names}
    return from_columns(saved, list(saved.scores), values)


def from_columns(saved: SavedResult, queries: list[str], values: dict[str, Floats]) -> Result:
    """The same, with the scores of all or some metrics passed separately: one column per metric."""
    size = len(queries)
    gold = Gold(
        queries=queries,
        offsets=np.zeros(size + 1, np.int64),
        items=[],
        grades=np.zeros(0),
        kinds=np.zeros(0, np.int8),
        k=np.zeros(size, np.int64),
        no_answer=np.zeros(size, np.int64),
        fields={"query": list(saved.queries.values())},
        tags=saved.attributes,
        dataset=saved.dataset,
        label=saved.gold,
        made_of="run" if "gold_depth" in saved.provenance else "labels",
    )
    rules = _settings(saved.settings, Rules)
    missing = frozenset(saved.missing)
    data = RunData(saved.system, {}, {}, {}, missing=missing)
    if saved.tables is not None:
        gold = _with_answers(gold, saved.tables)
        data = restored_tables(saved.tables, saved.system, gold, missing)
        gold = data.tables[View.own(rules)].gold if View.own(rules) in data.tables else gold
    return Result(
        system=saved.system,
        run=saved.run,
        gold=gold,
        rules=rules,
        data=data,
        view=View.own(rules),
        rows=np.arange(size),
        metrics=[parse_metric(name) for name in values],
        values=values,
        votes={name: np.array(votes) for name, votes in saved.votes.items()},
        audit=Audit.of(saved.audit),
        provenance=saved.provenance,
        sampling=_settings(saved.statistics, Sampling),
        cluster=saved.statistics.get("cluster"),
        segmented_by=tuple(dict.fromkeys(row.segment for row in saved.segments)),
        doubts=saved.doubts,
        known=Precomputed(
            analyses=restore_analyses(saved.analyses, saved.lacking),
            findings=saved.findings,
            summary={row.metric: row for row in saved.summary},
            bm25=saved.bm25,
            definitions=saved.definitions,
            wrong_hits_judged=saved.wrong_hits_judged,
            says_score_width="score_width" in saved.settings,
        ),
    )


def _with_answers(gold: Gold, tables: SavedTables) -> Gold:
    """Add what is known about the queries other than their items."""
    size = len(gold.queries)
    no_answer = np.zeros(size, np.int64)
    no_answer[[row for row in tables.no_answer if row < size]] = 1
    own = np.array(tables.k if len(tables.k) else [0] * size, np.int64)
    return replace(gold, k=own if len(own) == size else gold.k, no_answer=no_answer)


def load(path: str | PathLike[str]) -> Result | Results:
    """Load a saved result. It can do everything a fresh one can, except what needs the hits themselves.

    A file with several systems, or the table of several runs, gives `Results` by system.
    """
    with fitting(str(path)):
        if str(path).endswith(".parquet"):
            return from_kept(read_kept(Path(path), str(path)))
        results = [restore(saved) for saved in read_saved(path)]
    return results[0] if len(results) == 1 else Results(results)


def from_kept(run: KeptRun) -> Result:
    """A result from its Parquet form, without a Python object per score."""
    rows = run.rows
    values = {name: rows[SCORE + name].cast(float).to_numpy() for name in columns_named(rows, SCORE)}
    return from_columns(run.without_scores(arrays=True), rows["query_id"].to_list(), values)


def _refuse_torn(saved: SavedResult) -> None:
    """Raise if the parts of a saved result do not fit together: anyone can edit the file."""
    size, names = len(saved.scores), {row.metric for row in saved.summary}
    columns = (saved.queries, *saved.attributes.values(), *saved.votes.values())
    fits = all(len(column) == size for column in columns) and isinstance(saved.statistics.get("cluster"), str | None)
    if not size or not fits or not all(names <= scores.keys() for scores in saved.scores.values()):
        raise InputError(
            f"the parts of the saved result of {saved.run} do not fit together",
            code="damaged-result",
            hint="save it again: karat eval … -o result.json",
        )


def _settings(saved: dict[str, Any], kind: type[_S]) -> _S:
    try:
        known = {name: each.type for name, each in options_in(kind).items() if name in saved}
        return kind(**{name: msgspec.convert(saved[name], type) for name, type in known.items()})
    except msgspec.ValidationError as error:
        raise InputError(f"the saved result has an invalid setting: {error}", code="damaged-result") from error
