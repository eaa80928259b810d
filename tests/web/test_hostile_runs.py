"""Runs that somebody made up are refused on the way in, or every page shows them; and they show nothing but numbers."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from karat.history.folder import FolderStore
from karat.history.hits import stored_parts
from karat.history.keep import keep_need, keep_result
from karat.results.evaluate import evaluate
from karat.results.kept_run import FAILED, KeptRun, RunDocument
from karat.web.access import Access

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
ZIP = {"X-Karat": "1", "Content-Type": "application/zip"}
DAY = "2025-06-01T08:00:00.000000Z"
FIRST = 2  # q_000103, which the pages below show
FORGED = "FORGED<script>alert(1)</script>"
Parts = tuple[dict[str, Any], pl.DataFrame]
Change = Callable[[dict[str, Any], pl.DataFrame], Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> KeptRun:
    """Of every fifth query, with rough intervals: nothing here depends on how many there are."""
    folder = tmp_path_factory.mktemp("honest")
    for name in ("bm25.jsonl", "gold.jsonl"):
        (folder / name).write_text("".join((DEMO / name).read_text().splitlines(keepends=True)[FIRST::5]))
    sides = folder / "bm25.jsonl", folder / "gold.jsonl"
    return keep_result(evaluate(*sides, resamples=500, analyses=True, consumers=[keep_need]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, honest: KeptRun, serving: Any) -> Iterator[Any]:
    with FolderStore(tmp_path_factory.mktemp("hostile") / ".karat") as store:
        store.save(honest, branch="main", tags=["honest"], saved_at=DAY)
        with serving(store, Access()) as made:
            yield made


def packed(run: KeptRun, run_id: str | None = None, hits: bytes | None = None, **said: Any) -> bytes:
    """As `karat history export` packs a run, with ids and checksums that fit. `hits`: those of every query."""
    content, name = run.to_parquet(), run_id or run.id
    entry = {"id": name, "sha256": hashlib.sha256(content).hexdigest(), "saved_at": DAY, **said}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(f"{name}.parquet", content)
        if hits is not None:
            entry["hits"] = hashlib.sha256(hits).hexdigest()
            file.writestr(f"{name}.hits", hits)
        file.writestr("history.json", json.dumps({"schema": "karat/history/1", "karat": "0.1", "runs": [entry]}))
    return buffer.getvalue()


def changed(run: KeptRun, change: Change) -> KeptRun:
    document = json.loads(run.text)
    rows = change(document, run.rows)
    return KeptRun(json.dumps(document).encode(), rows if isinstance(rows, pl.DataFrame) else run.rows)


def result(**fields: Any) -> Change:
    return lambda document, rows: document["result"].update(fields)


def summary(**fields: Any) -> Change:
    return lambda document, rows: document["result"]["summary"][0].update(fields)


def column(name: str, *values: Any, dtype: Any = None) -> Change:
    """The first values of a column replaced."""

    def change(document: dict[str, Any], rows: pl.DataFrame) -> pl.DataFrame:
        old = rows[name].to_list()
        new = pl.Series(name, [*values, *old[len(values) :]], dtype=dtype or rows[name].dtype, strict=False)
        return rows.with_columns(new)

    return change


def cast(name: str, kind: Any) -> Change:
    return lambda document, rows: rows.with_columns(pl.Series(name, [None] * rows.height, dtype=kind))


SCORE = "score/recall@5"
HOSTILE: dict[str, Change] = {
    "the same query twice": lambda document, rows: pl.concat([rows, rows[:1]]),
    "a query without an id": column("query_id", None),
    "an empty id": column("query_id", ""),
    "ids that are numbers": cast("query_id", pl.Int64),
    "scores that are texts": cast(SCORE, pl.String),
    "a score that is not a number": column(SCORE, float("nan")),
    "an endless score": column(SCORE, float("inf")),
    "a tag that is no JSON": column("tag/language", "{", dtype=pl.String),
    "a tag that is a list": column("tag/language", '[{"a": 1}]', dtype=pl.String),
    "a case that is no JSON": column("case", "{", dtype=pl.String),
    "a case of another shape": column("case", "[1]", dtype=pl.String),
    "ranks below one": column("first_rank", -5),
    "missing that is a text": cast("missing", pl.String),
    "a metric that is none": lambda document, rows: (
        document["result"]["summary"][0].update(metric="no such thing"),
        rows.rename({SCORE: "score/no such thing"}),
    )[1],
    "a summary twice": lambda document, rows: document["result"]["summary"].append(document["result"]["summary"][0]),
    "a mean of another scale": summary(mean=1e308, low=-1e308, high=1e308),
    "an interval the wrong way around": summary(low=2.0, high=-1.0),
    "a negative number of queries": summary(n=-3, undefined=-4),
    "a mean that is missing": summary(mean=None, low=None, high=None),
    "settings of another kind": result(settings={"missing": "never", "k": -1}),
    "statistics of another kind": result(statistics={"level": 7, "resamples": -1, "cluster": 3}),
    "a seed that is a text": result(statistics={"seed": "x"}),
    "a dataset without a name": result(dataset={"version": None, "as_of_range": [], "hash": "", "name": None}),
    "provenance of any shape": result(provenance={"chunker": [[[]]], "index_version": {"a": {"b": [1]}}, "k_raw": "x"}),
    "nested very deeply": lambda document, rows: document["result"].update(
        provenance={"a": json.loads("[" * 400 + "]" * 400)}
    ),
    "a name with zeros": result(system="a\0b"),
    "no name": result(system=""),
    "a very long name": result(system="x" * 100_000),
    "a long label": result(run="y" * 1_000_000),
    "a label of several lines": result(run="a\n\x1b[2Jb", gold="a\r\n::error::b"),
    "segments of nothing": result(segments=[{"segment": "", "value": "", "queries": 1, "few": False, "summary": []}]),
    "segments twice": lambda document, rows: document["result"].update(segments=document["result"]["segments"] * 2),
    "segments of another metric": lambda document, rows: [
        segment["summary"][0].update(metric="mrr") for segment in document["result"]["segments"][:1]
    ],
    "definitions of other metrics": result(definitions={"x": -1}),
    "bands of other metrics": result(bands=[{"metric": "x", "band": "good"}]),
    "analyses of another kind": result(analyses={"latency": 3, "no such": {}}, lacking={"latency": "x"}),
    "cases of queries that are not there": lambda document, rows: document.update(cases=["nobody"] * 3),
    "a triage of another kind": lambda document, rows: document.update(triage={"cases": "x"}),
    "a sweep of another kind": lambda document, rows: document.update(sweep={"points": [None]}),
    "tables of another kind": lambda document, rows: rows.with_columns(
        *(pl.lit(None).alias(name) for name in rows.columns if name.startswith("tables/") and "rank" in name)
    ),
    "tables without columns": lambda document, rows: rows.drop([n for n in rows.columns if n.startswith("tables/")]),
    "votes below zero": lambda document, rows: rows.with_columns(pl.lit(-1.0).alias("vote/recall@5")),
    "columns of no use": lambda document, rows: rows.with_columns(pl.lit(1).alias("score/" + "x" * 5000)),
    "failures that are texts": cast(FAILED, pl.String),
    "a failure that is not a number": column(FAILED, float("nan")),
    "a failure beyond all": column(FAILED, 7.0),
    "missing queries that are unknown": result(missing=["nobody"]),
    "findings of another shape": result(findings=[{"x": 1}]),
}


def pages(run_id: str, other: str) -> list[str]:
    one = f"/runs/{run_id}"
    return [
        "/runs",
        "/trend",
        "/trend?metric=recall@5&branch=",
        one,
        f"{one}/queries?order=worst&metric=recall@5",
        f"{one}/queries?text=a",
        f"{one}/triage",
        f"/compare?run={run_id}&run={other}",
        f"/compare?run={other}&run={run_id}&all=1",
        "/query?id=q_0001",
        f"/query?query_id=q_000103&run={run_id}&run={other}",
        f"/api/v1/hits?query_id=q_000103&run={run_id}&run={other}",
        "/pins",
        "/api/v1/runs",
        "/api/v1/choices",
        "/api/v1/trend?metric=recall@5",
        *(
            f"/api/v1{one}{part}"
            for part in ("", "/document", "/result", "/queries", "/cases", "/segments", "/judgements")
        ),
        f"/api/v1/side-by-side?run={run_id}&run={other}&metric=recall@5",
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_run_is_refused_or_every_page_shows_it(site: Any, honest: KeptRun, name: str) -> None:
    run = changed(honest, HOSTILE[name])
    hits = msgspec.msgpack.encode(list(stored_parts(honest)))
    answer = site.ask("POST", "/api/v1/runs", packed(run, hits=hits), ZIP)
    assert answer.status in (200, 400), answer.content[:300]
    if answer.status == 400:
        return
    (taken,) = answer.json
    try:
        for page in pages(taken["id"], honest.id):
            shown = site.ask("GET", page)
            assert shown.status == 200, (page, shown.status, shown.content[:500])
    finally:
        assert site.write("DELETE", f"/runs/{taken['id']}").status == 200


def test_an_honest_run_is_taken_as_it_is(site: Any, honest: KeptRun, tmp_path: Path) -> None:
    with FolderStore(tmp_path / "new") as store:
        from karat.history.archive import import_runs

        (saved,) = import_runs(store, packed(honest), "x")
        assert saved.id == honest.id
        there = store.kept(saved.id)
        assert there.saved() == honest.saved()
        assert json.loads(there.text)["sections"] == json.loads(honest.text)["sections"]


# What is shown is what the id was made from


@pytest.mark.parametrize("same_id", [True, False])
def test_sections_that_somebody_wrote_are_not_shown(site: Any, honest: KeptRun, same_id: bool) -> None:
    """They are no part of the id, so they are made anew from what is."""

    def forge(document: dict[str, Any], rows: pl.DataFrame) -> None:
        if not same_id:
            document["result"]["provenance"]["number"] = 1
        texts = [{"type": "text", "text": FORGED, "kind": "plain"}]
        line = {"place": FORGED, "id": FORGED, "text": FORGED}
        lists = [{"type": "listing", "title": FORGED, "lines": [line]}]
        document["sections"] = [{"name": "forged", "title": FORGED, "blocks": texts + lists}, *document["sections"]]

    run = changed(honest, forge)
    assert (run.id == honest.id) is same_id
    if same_id:  # the run is not there yet
        assert site.write("DELETE", f"/runs/{honest.id}").status == 200
    answer = site.ask("POST", "/api/v1/runs", packed(run), ZIP)
    assert answer.status == 200, answer.content
    for page in pages(run.id, run.id):
        assert b"FORGED" not in site.ask("GET", page).content, page


@pytest.mark.parametrize(
    "said",
    [
        {
            "judgements": [
                {"outcome": "pass", "judged_at": DAY, "document": '{"schema": "karat/gates/1", "outcome": "fail"}'}
            ]
        },
        {"judgements": [{"outcome": "pass", "judged_at": DAY, "document": "[]"}]},
        {"branch": "a\x1b[2J\n::error::b"},
        {"branch": "x" * 10_000},
        {"branch": ""},
    ],
)
def test_what_is_said_beside_a_run_is_checked(site: Any, honest: KeptRun, said: dict[str, Any]) -> None:
    run = changed(honest, lambda document, rows: document["result"]["provenance"].update(beside=1))
    assert site.ask("POST", "/api/v1/runs", packed(run, **said), ZIP).status == 400


def test_every_text_of_a_listing_is_escaped() -> None:
    from karat.report.blocks import Line, Listing, Report, Section
    from karat.report.renderers.html import render_html

    hostile = "<img src=x onerror=alert(1)>"
    line = Line(hostile, hostile, facts={hostile: hostile}, text=hostile)
    shown = render_html(Report(hostile, [Section(hostile, hostile, [Listing(hostile, [line], hostile)], hostile)]))
    assert b"<img" not in shown


def test_the_document_that_is_kept_is_a_whole_one(honest: KeptRun) -> None:
    """The changes above are made to what a run really has."""
    assert isinstance(honest.document, RunDocument)
    assert honest.document.sections
    assert {SCORE, "tag/language", "case"} <= set(honest.rows.columns)
