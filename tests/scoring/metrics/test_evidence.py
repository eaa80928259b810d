"""Metrics of evidence texts and answers: what they count, and what they leave alone."""

from __future__ import annotations

import gc
import weakref
from difflib import SequenceMatcher
from typing import Any

import msgspec
import numpy as np
import pytest
from refusals import refused

import karat
from karat.data.audit import Audit
from karat.errors import ConfigError, InputError
from karat.formats.read import read_gold, read_run
from karat.scoring.judge import judge
from karat.scoring.judged import Rules
from karat.scoring.metrics import evidence as covering
from karat.scoring.metrics.evidence import Covering

FIVE, CARD, CASH = "Refunds take five days.", "Paid to the card that was used.", "Never paid in cash."


def record(query: str, *texts: str | None) -> dict[str, Any]:
    hits = [{"chunk_id": f"c{i}"} | ({} if text is None else {"text": text}) for i, text in enumerate(texts)]
    return {"query_id": query, "topk": hits}


def entry(query: str, *evidence: str, **fields: Any) -> dict[str, Any]:
    return {"query_id": query, "evidence": list(evidence), **fields}


def score(texts: list[str | None], evidence: list[str], metric: str, **options: Any) -> float | None:
    return karat.evaluate([record("q", *texts)], [entry("q", *evidence)], [metric], **options).score(metric)["q"]


# By hand


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("coverage@1", 0.0),
        ("coverage@2", 1 / 3),
        ("coverage@4", 2 / 3),
        ("evidence_recall@4", 2 / 3),
        ("full_coverage@4", 0.0),
        ("full_coverage@5", 1.0),
        ("evidence_hit@1", 0.0),
        ("evidence_hit@2", 1.0),
        ("evidence_precision@4", 3 / 4),
        ("evidence_precision@10", 4 / 10),
        ("evidence_mrr", 1 / 2),
        ("evidence_mrr@1", 0.0),
        ("evidence_map", (1 / 2 + 2 / 4 + 3 / 5) / 3),  # the repeat in the third place gains nothing
        ("evidence_map@4", (1 / 2 + 2 / 4) / 3),
    ],
)
def test_by_hand(metric: str, expected: float) -> None:
    texts = ["Opening hours", f"Note. {FIVE}", FIVE.upper(), CARD, CASH, "The end"]
    assert score([*texts], [FIVE, CARD, CASH], metric) == pytest.approx(expected)


def test_a_chunk_that_covers_everything_is_perfect() -> None:
    both = f"{FIVE} {CARD}"
    assert score([both], [FIVE, CARD], "evidence_map") == 1.0
    assert score(["Opening hours", both], [FIVE, CARD], "evidence_map") == 0.5  # one relevant chunk, in place 2
    assert score([both], [FIVE, CARD], "evidence_precision@1") == 1.0


def test_micro_counts_evidences_and_macro_queries() -> None:
    run = [record("many", FIVE), record("one", CARD)]
    gold = [entry("many", FIVE, CASH, "On Sundays closed", "Open at 9"), entry("one", CARD)]
    means = karat.evaluate(run, gold, ["evidence_recall@3", "coverage@3"]).means
    assert means == {"evidence_recall@3": 2 / 5, "coverage@3": (1 / 4 + 1) / 2}


def test_the_threshold() -> None:
    evidence, chunk = "refunds take five days at most", "refunds take ten days at most."
    ratio = SequenceMatcher(None, evidence, chunk).ratio()
    assert 0.7 < ratio < 0.95
    assert score([chunk], [evidence], "coverage@1") == 1.0
    assert score([chunk], [evidence], "coverage@1", fuzzy_threshold=0.95) == 0.0
    assert score([chunk], [evidence], "coverage(threshold=0.95)@1") == 0.0
    assert score([chunk], [evidence], "coverage(threshold=0.7)@1", fuzzy_threshold=0.95) == 1.0


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, float("nan")])
def test_a_threshold_that_is_none(threshold: float) -> None:
    with refused("bad-setting", ConfigError):
        score([FIVE], [FIVE], "coverage@1", fuzzy_threshold=threshold)
    with refused("bad-metric", ConfigError):
        karat.Metric.parse(f"coverage(threshold={threshold})@1")


# What is not there


def test_undefined_and_failed() -> None:
    """Failed is 0: nothing returned, or not in the run. Undefined: nothing to find, or nothing known of the hits."""
    run = [
        record("found", FIVE),
        record("empty text", ""),
        record("no hit"),
        record("no text", None, None),
        record("some text", None, FIVE),
        record("no answer", FIVE),
        record("no evidence", FIVE),
    ]
    queries = ("found", "empty text", "no hit", "no text", "some text", "missing")
    gold = [*(entry(query, FIVE) for query in queries), entry("no answer", FIVE, no_answer=True)]
    gold.append({"query_id": "no evidence", "gold": ["c0"]})
    expected = {
        "found": 1.0,
        "empty text": 0.0,
        "no hit": 0.0,
        "no text": None,
        "some text": 1.0,
        "missing": 0.0,
        "no answer": None,
        "no evidence": None,
    }
    families = ("evidence_recall", "coverage", "full_coverage", "evidence_hit")
    result = karat.evaluate(run, gold, [f"{family}@2" for family in families])
    for family in families:
        assert result.score(f"{family}@2") == expected
    assert karat.evaluate(run, gold, ["coverage@1"]).score("coverage@1")["some text"] is None


@pytest.mark.parametrize(
    ("texts", "gold", "reason"),
    [
        ([FIVE], [{"query_id": "q", "gold": ["c0"]}], "evidence"),
        ([None], [entry("q", FIVE)], "text"),
    ],
)
def test_the_audit_says_what_is_lacking(texts: list[str | None], gold: list[Any], reason: str) -> None:
    audit = karat.evaluate([record("q", *texts)], gold, ["evidence_hit@3"]).audit
    (lacking,) = [entry for entry in audit if entry.code == "no_data"]
    assert reason in lacking.examples[0].removeprefix("evidence_hit@3: ")


# What the gold set says


def test_evidence_once_and_never_empty() -> None:
    gold = read_gold(
        [entry("q", FIVE, " refunds take\nFIVE days. ", "", " \n", CARD), entry("r", ""), entry("s", CASH)]
    )
    assert gold.fields["evidence"] == [[FIVE, CARD], None, [CASH]]
    assert (gold.audit["duplicate_evidence"], gold.audit["empty_evidence"]) == (1, 3)
    result = karat.evaluate([record("q", FIVE), record("r", FIVE), record("s", FIVE)], gold, ["coverage@1"])
    assert result.score("coverage@1") == {"q": 0.5, "r": None, "s": 0.0}
    assert result.audit["empty_evidence"] == 3


def test_a_single_text_is_a_list_of_one() -> None:
    gold = [{"query_id": "q", "evidence": FIVE}]
    assert karat.evaluate([record("q", FIVE)], gold, ["coverage@1"]).means == {"coverage@1": 1.0}


@pytest.mark.parametrize("evidence", [5, [5], {"text": FIVE}, [[FIVE]], [None], ["half \ud800"]])
def test_evidence_of_another_type_is_refused(evidence: Any) -> None:
    with pytest.raises(InputError, match="evidence"):
        read_gold([{"query_id": "q", "gold": ["a"], "evidence": evidence}])


@pytest.mark.parametrize(
    ("field", "value"), [("evidence", [1]), ("evidence", True), ("answer", 90), ("answer_span", 9.5)]
)
def test_metadata_of_another_type_is_refused(tmp_path: Any, field: str, value: Any) -> None:
    """Formats that keep any field as it is hand in anything."""
    file = tmp_path / "samples.json"
    sample = {"id": "q", "input": {"question": "?"}, "expected_output": ["a"], "metadata": {field: value}}
    file.write_bytes(msgspec.json.encode({"samples": [sample]}))
    with pytest.raises(InputError, match=field):
        read_gold(file)


def test_answers_in_the_metadata_of_samples(tmp_path: Any) -> None:
    file = tmp_path / "samples.json"
    metadata = {"answer": "five days", "evidence": FIVE}
    file.write_bytes(msgspec.json.encode({"samples": [{"id": "q", "expected_output": ["c0"], "metadata": metadata}]}))
    means = karat.evaluate([record("q", FIVE)], file, ["answer-containment-at-k", "coverage@1"]).means
    assert means == {"answer_containment@k": 1.0, "coverage@1": 1.0}


# Names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("EvidenceRecall@10", "evidence_recall@10"),
        ("EvidenceRecall@K", "evidence_recall@k"),
        ("PerQueryCoverage@3", "coverage@3"),
        ("FullCoverageRate@3", "full_coverage@3"),
        ("HitRate@10", "hit@10"),
        ("hitrate@10", "hit@10"),
        ("hit_rate@10", "hit@10"),
        ("answer-containment-at-k", "answer_containment@k"),
        ("answer-containment@5", "answer_containment@5"),
        ("coverage(threshold=0.8)@5", "coverage(threshold=0.8)@5"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert str(karat.Metric.parse(name)) == expected


# Answers


def contained(texts: list[str | None], **fields: Any) -> float | None:
    gold = [{"query_id": "q", "gold": ["c0"], **fields}]
    return karat.evaluate([record("q", *texts)], gold, ["answer_containment@2"]).score("answer_containment@2")["q"]


def test_answer_containment() -> None:
    assert contained(["x", "within 90\nDAYS of"], answer_span="90 days") == 1.0
    assert contained(["x", "y", "within 90 days of"], answer_span="90 days") == 0.0  # past the cutoff
    assert contained(["90"], answer_span="90 days") == 0.0  # a part of it is no answer
    assert contained(["within 90 days"], answer_span="two weeks", answer="90 days") == 0.0  # the span decides
    assert contained(["within 90 days"], answer="90 Days") == 1.0
    assert contained(["within 90 days"], answer_span=" ", answer="90 Days") == 1.0
    assert contained(["within 90 days"]) is None
    assert contained([None], answer="90 days") is None
    assert contained([], answer="90 days") == 0.0
    gold = [{"query_id": "q", "no_answer": True, "answer": "there is none"}, {"query_id": "missing", "answer": "90"}]
    scores = karat.evaluate([record("q", "there is none")], gold, ["answer_containment@2"]).score(
        "answer_containment@2"
    )
    assert scores == {"q": None, "missing": 0.0}


# Once for all metrics


def test_every_pair_is_looked_at_once_and_no_deeper_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    real = covering.cover

    def counted(evidence: str, chunk: str, threshold: float) -> Any:
        asked.append((evidence, chunk))
        return real(evidence, chunk, threshold)

    monkeypatch.setattr(covering, "cover", counted)
    run = [record("q", *(f"chunk {i}" for i in range(9)))]
    karat.evaluate(run, [entry("q", FIVE, CARD)], ["evidence_recall@3", "coverage@5", "evidence_hit@2", "coverage@4"])
    assert len(asked) == len(set(asked)) == 2 * 5
    asked.clear()
    karat.evaluate(run, [entry("q", FIVE)], ["evidence_precision@2", "evidence_map"])
    assert len(asked) == len(set(asked)) == 9


def test_all_of_the_list_is_in_order_where_all_of_it_is_looked_at() -> None:
    """Hits of equal score stand by id, descending; a metric without a cutoff needs every place of that order."""
    hits = [{"chunk_id": f"c{i}", "score": 1.0, "text": FIVE if i == 0 else "nothing"} for i in range(20)]
    result = karat.evaluate([{"query_id": "q", "topk": hits}], [entry("q", FIVE)], ["evidence_mrr", "evidence_map"])
    assert result.means == {"evidence_mrr": 1 / 20, "evidence_map": 1 / 20}


def test_what_is_remembered_of_a_slice_goes_with_it() -> None:
    """A run is read with the garbage collector off: a circle would keep every slice in memory."""
    (hits,) = read_run([record("q", FIVE)]).slices(frozenset({"text"}), Audit())
    judged = judge(hits, read_gold([entry("q", FIVE, answer="five")]), Rules(), Audit(), 1)
    for name in ("coverage@1", "answer_containment@1"):
        assert karat.Metric.parse(name).score(judged).tolist() == [1.0]
    kept = weakref.ref(judged)
    gc.disable()
    try:
        del judged
        assert kept() is None
    finally:
        gc.enable()


def test_what_was_seen() -> None:
    run, gold = (
        read_run([record("q", FIVE.upper(), None, CARD[:-4], f"{CASH} {FIVE}")]),
        read_gold([entry("q", CASH, CARD, FIVE)]),
    )
    (hits,) = run.slices(frozenset({"text"}), Audit())
    found = Covering.of(judge(hits, gold, Rules(), Audit(), 10))
    found.within(np.array([10]))
    (seen,) = found.looked()
    listed = [(c.evidence, c.rank, c.chunk_id, c.rule) for c in seen.covered]
    assert listed == [
        (2, 1, "c0", "exact"),
        (1, 3, "c2", "contained"),
        (0, 4, "c3", "contains"),
        (2, 4, "c3", "contains"),
    ]
    assert (seen.hits, seen.without_text, seen.too_long, seen.longest) == (4, 1, 0, len(CASH) + len(FIVE) + 1)


def test_texts_too_long_to_compare_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.matching.cover.LIMIT", 100)
    result = karat.evaluate(
        [record("q", FIVE[::-1], FIVE)], [entry("q", FIVE)], ["coverage@1", "coverage@2"], analyses=True
    )
    assert result.means == {"coverage@1": 0.0, "coverage@2": 1.0}  # containment is looked at in any case
    assert result.analyses.found["evidence"].too_long == 1
