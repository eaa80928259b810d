"""Freshness, and the rule that removes newer hits."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.data.hits import Hits
from karat.data.versions import Version, is_said
from karat.errors import InputError
from karat.scoring.dates import newer

Record = dict[str, Any]


def hits(*versions: Any) -> list[Record]:
    """Hits a, b, c … of these versions."""
    return [{"chunk_id": "abcdefgh"[i], "doc_version": v} for i, v in enumerate(versions)]


def query(as_of: Any, *gold: str, name: str = "q") -> Record:
    return {"query_id": name, "gold": list(gold) or ["a"], "as_of": as_of}


def evaluate(topk: list[Record], entry: Record, *metrics: str, **options: Any) -> karat.Result:
    return karat.evaluate([{"query_id": entry["query_id"], "topk": topk}], [entry], metrics, **options)


def audit(result: karat.Result) -> dict[str, int]:
    return {entry.code: entry.count for entry in result.audit}


@pytest.mark.parametrize(
    ("versions", "as_of", "k", "expected"),
    [
        (["2025-01-01", "2025-07-01"], "2025-06-01", 5, 0.5),
        (["2025-01-01", "2025-07-01"], "2025-06-01", 1, 1.0),
        (["2025-06-01"], "2025-06-01", 5, 1.0),
        (["2025-07-01", "2025-08-01"], "2025-06-01", 5, 0.0),
        (["2025-01-01", None, "2025-07-01", ""], "2025-06-01", 5, 0.5),  # hits without a version are left out
        ([None, None], "2025-06-01", 5, None),
        (["2025-01-01"], None, 5, None),
        ([], "2025-06-01", 5, None),
        (["v3", "v5"], "v4", 5, 0.5),
    ],
)
def test_share_of_hits_that_are_not_newer(versions: list[Any], as_of: Any, k: int, expected: float | None) -> None:
    assert evaluate(hits(*versions), query(as_of), f"freshness@{k}").means == {f"freshness@{k}": expected}


def test_a_query_that_the_run_lacks_has_no_freshness() -> None:
    run = [{"query_id": "q", "topk": hits("2025-01-01")}]
    result = karat.evaluate(run, [query("2025-06-01"), query("2025-06-01", name="r")], ["freshness@5"])
    assert result.score("freshness@5") == {"q": 1.0, "r": None}


AS_OF = st.sampled_from([None, "", "2025-06-01", "2025-06", "2025", 2025, "v3", 3, "1.4.2", "  "])
SAID = AS_OF | st.sampled_from([3.0, True, "draft", "2025-06-02"])


@given(st.lists(st.tuples(AS_OF, st.lists(SAID, max_size=6)), min_size=1))
def test_every_version_is_compared_with_the_as_of_of_its_query(lists: list[tuple[Any, list[Any]]]) -> None:
    gold = karat.read_gold([query(as_of, name=f"q{at}") for at, (as_of, _) in enumerate(lists)])
    versions = [version for _, listed in lists for version in listed]
    offsets = np.cumsum([0, *(len(listed) for _, listed in lists)])
    found = Hits("", gold.queries, offsets, [f"c{i}" for i in range(len(versions))], columns={"doc_version": versions})
    expected = []
    for as_of, listed in zip(gold.as_of, (listed for _, listed in lists), strict=True):
        read = [Version.read(version) if is_said(version) else None for version in listed]
        verdicts = [None if as_of is None or version is None else version.newer_than(as_of) for version in read]
        expected += [math.nan if verdict is None else float(verdict) for verdict in verdicts]
    late = newer(found, gold, np.arange(len(lists)), np.arange(len(versions)))
    assert np.array_equal(late, np.array(expected), equal_nan=True)


def test_what_is_lacking_is_said() -> None:
    for topk, entry, reason in (
        (hits("2025-01-01"), query(None), "as_of"),
        (hits(None), query("2025-06-01"), "doc_version"),
    ):
        (said,) = [e for e in evaluate(topk, entry, "freshness@5").audit if e.code == "no_data"]
        assert reason in said.examples[0]


def test_newer_hits_make_room() -> None:
    """The gold item moves up from the third place to the first; what has no version stays."""
    topk, entry = hits("2025-07-01", "2025-08-01", "2025-01-01", None), query("2025-06-01", "c")
    plain, clean = (evaluate(topk, entry, "mrr", "freshness@5", no_future=flag) for flag in (False, True))
    assert plain.means == {"mrr": pytest.approx(1 / 3), "freshness@5": pytest.approx(1 / 3)}
    assert clean.means == {"mrr": 1.0, "freshness@5": 1.0}
    assert audit(plain) == {}
    assert audit(clean) == {"future_hits": 2, "undated_hits": 1}


def test_newer_gold_is_removed_with_its_hit_and_still_asked_for() -> None:
    topk, entry = hits("2025-07-01", "2025-01-01"), query("2025-06-01", "a", "b")
    result = evaluate(topk, entry, "recall@5", no_future=True)
    assert result.means == {"recall@5": 0.5}
    assert audit(result) == {"future_hits": 1, "future_gold": 1}
    assert next(e for e in result.audit if e.code == "future_gold").examples == ("q: a",)


def test_newer_gold_is_found_by_document() -> None:
    topk = [{"chunk_id": "d#1", "doc_version": 5}, {"chunk_id": "d#2", "doc_version": 5}]
    result = evaluate(topk, query(4, "d"), "recall@5", no_future=True)
    assert (result.means, audit(result)) == ({"recall@5": 0.0}, {"future_hits": 2, "future_gold": 1})


def test_ranks_and_repeats_are_settled_as_always() -> None:
    topk = [
        {"chunk_id": "new", "rank": 1, "doc_version": 9},
        {"chunk_id": "a", "rank": 2, "doc_version": 1},
        {"chunk_id": "a", "rank": 3, "doc_version": 1},
    ]
    result = evaluate(topk, query(4, "a"), "mrr", no_future=True)
    assert result.means == {"mrr": 1.0}
    assert audit(result) == {"duplicate_hits": 1, "future_hits": 1}
    assert result.depths.tolist() == [1]


def test_the_corpus_lends_versions(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id":"a","version":"2025-07-01"}\n{"id":"b","version":"2025-01-01"}\n')
    result = evaluate(hits(None, None), query("2025-06-01", "b"), "mrr", "freshness@5", corpus=corpus, no_future=True)
    assert (result.means, audit(result)) == ({"mrr": 1.0, "freshness@5": 1.0}, {"future_hits": 1})


def test_tables_have_dates() -> None:
    frame = pl.DataFrame({"query_id": ["q", "q"], "chunk_id": ["a", "b"], "rank": [1, 2]})
    run = frame.with_columns(pl.Series("doc_version", ["2025-07-01", "2025-01-01"]).str.to_date())
    assert karat.evaluate(run, [query("2025-06-01")], ["freshness@5"]).means == {"freshness@5": 0.5}


def test_a_comparison_shows_the_lists_without_newer_hits() -> None:
    gold = [query("2025-06-01", "b")]
    sides = [
        karat.evaluate([{"query_id": "q", "topk": hits(*versions)}], gold, ["mrr"], no_future=True)
        for versions in (("2025-07-01", "2025-01-01"), ("2025-01-01", "2025-01-01"))
    ]
    (change,) = karat.compare(*sides).pairs[0].changes
    assert [hit.id for hit in change.came_in] == ["a"]


# What is refused


def write(path: Path, *entries: Record) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_an_as_of_that_is_no_date(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", query("2025-01-01"), query("2025-13-01", name="r"))
    with refused("bad-value", InputError, file=gold, line=2, field="as_of", query="r", got="2025-13-01"):
        karat.read_gold(gold)


def test_an_as_of_of_a_table_that_is_no_date() -> None:
    gold = pl.DataFrame({"query_id": ["q"], "chunk_id": ["a"], "grade": [1], "as_of": ["summer"]})
    with refused("bad-value", InputError, field="as_of", query="q", got="summer"):
        karat.evaluate({"q": ["a"]}, gold, ["freshness@5"])


def test_a_version_that_is_none(tmp_path: Path) -> None:
    run = write(
        tmp_path / "run.jsonl",
        {"query_id": "p", "topk": hits("2025-01-01")},
        {"query_id": "q", "topk": hits("2025-01-01", "newest")},
    )
    assert re.match(r"line 2, q: b .*newest.*2025-06-01", left_out(run))


def test_a_version_of_the_corpus_that_is_none(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.jsonl", {"id": "a", "version": ["2025"]}, {"id": "b", "version": "2025"})
    assert re.match(r"line 1, q: a .*\['2025'\].*2025-06-01", left_out({"q": ["b", "a"]}, corpus=corpus))


def test_versions_that_cannot_be_compared(tmp_path: Path) -> None:
    run = write(tmp_path / "run.jsonl", {"query_id": "q", "topk": hits("2025-01-01", "v3")})
    assert re.match(r"line 1, q: b .*v3.*2025-06-01", left_out(run))


def left_out(run: Any, **options: Any) -> str:
    """What the audit says of the one hit that counts as one without a version; the others are as they are."""
    for no_future in (False, True):
        result = karat.evaluate(run, [query("2025-06-01")], ["freshness@5"], no_future=no_future, **options)
        assert result.means["freshness@5"] == 1.0
        assert (result.audit["odd_versions"], result.audit["undated_hits"], result.audit["future_hits"]) == (1, 0, 0)
    return next(entry.examples[0] for entry in result.audit if entry.code == "odd_versions")


def test_no_future_needs_times_on_both_sides() -> None:
    with refused("no-times", InputError, field="as_of") as caught:
        karat.evaluate({"q": ["a"]}, [query(None)], ["freshness@5"], no_future=True)
    assert caught.value.hint
    run, gold = [{"query_id": "q", "topk": hits(None)}], [query("2025-06-01")]
    with refused("no-versions", InputError, field="doc_version") as caught:
        karat.evaluate(run, gold, ["freshness@5"], no_future=True)
    assert "--corpus" in caught.value.hint


def test_odd_versions_do_not_matter_to_those_who_do_not_ask() -> None:
    """A score that looks at no version is scored whatever they say; the analysis says why it is not made."""
    run = [{"query_id": "q", "topk": hits("newest")}]
    result = karat.evaluate(run, [query("2025-06-01")], ["recall@5"], analyses=True)
    assert result.means == {"recall@5": 1.0}
    assert "got newest" in result.analyses.lacking["freshness"]
