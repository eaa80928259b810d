"""The evidence of a whole run: panel, rules, what is uncovered or lacking; on the demo set and on real texts."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from refusals import refused

import karat
from karat.cli.main import karat_command
from karat.data.corpus import Corpus
from karat.errors import ConfigError
from karat.report.build import evaluation_report
from karat.report.renderers.markdown import render_markdown
from karat.results.analyses.evidence import KEPT, EvidenceFound
from karat.results.save import saved_form
from karat.retrievers.bm25 import BM25

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"
FIVE, CARD, CASH = "Refunds take five days.", "Paid to the card that was used.", "Never paid in cash."


def record(query: str, *texts: str | None) -> dict[str, Any]:
    hits = [{"chunk_id": f"c{i}"} | ({} if text is None else {"text": text}) for i, text in enumerate(texts)]
    return {"query_id": query, "topk": hits}


def found(run: list[Any], gold: list[Any], **options: Any) -> EvidenceFound:
    result = karat.evaluate(run, gold, ["coverage@3"], **options, analyses=True)
    analyses = result.analyses
    assert "evidence" in analyses.found, analyses.lacking
    return analyses.found["evidence"]


def lacking(run: list[Any], gold: list[Any]) -> str:
    return karat.evaluate(run, gold, ["hit@3"], analyses=True).analyses.lacking["evidence"]


RUN = [
    record("q", FIVE, "nothing", f"{CASH} {FIVE}"),
    record("r", "Paid to the card which was used", None),
    record("s"),
]
GOLD = [
    {"query_id": "q", "evidence": [FIVE, CASH], "answer": "five days"},
    {"query_id": "r", "evidence": [CARD, FIVE + " " + CASH]},
    {"query_id": "s", "evidence": [FIVE]},
    {"query_id": "missing", "evidence": [FIVE]},
    {"query_id": "none", "evidence": [FIVE], "no_answer": True},
]


def test_which_chunk_covered_which_evidence_by_which_rule() -> None:
    seen = found(RUN, GOLD)
    listed = [(c.query_id, c.evidence, c.rank, c.chunk_id, c.rule) for c in seen.covers]
    assert listed == [
        ("q", 0, 1, "c0", "exact"),
        ("q", 0, 3, "c2", "contains"),
        ("q", 1, 3, "c2", "contains"),
        ("r", 0, 1, "c0", "fuzzy"),
    ]
    assert [c.ratio for c in seen.covers[:3]] == [None] * 3
    texts = (CARD.lower(), "paid to the card which was used")
    assert seen.covers[3].ratio == SequenceMatcher(None, *texts).ratio()
    assert [(r.rule, r.evidences, r.pairs) for r in seen.rules] == [
        ("exact", 1, 1),
        ("contains", 1, 2),
        ("contained", 0, 0),
        ("fuzzy", 1, 1),
    ]
    assert (seen.queries, seen.evidences, seen.covered, seen.pairs) == (4, 6, 3, 4)
    assert (seen.hits, seen.without_text, seen.longer) == (5, 1, 1)
    assert [(u.query_id, u.evidence, u.longer_than_every_chunk) for u in seen.uncovered_examples] == [
        ("r", 1, True),
        ("s", 0, False),
        ("missing", 0, False),
    ]


def test_the_section_says_how_many() -> None:
    page = render_markdown(evaluation_report(karat.evaluate(RUN, GOLD, ["coverage@3"], analyses=True)))
    for said in ("Evidence texts", "3 of 6 ", "1 of 5."):  # covered; hits without a text
        assert said in page


def test_answers_alone_are_enough() -> None:
    seen = found([record("q", FIVE)], [{"query_id": "q", "gold": ["c0"], "answer": "five days"}])
    assert [(row.metric, row.mean) for row in seen.panel] == [(f"answer_containment@{k}", 1.0) for k in (3, 5, 10)]
    assert (seen.evidences, seen.covers) == (0, [])


def test_what_is_lacking_is_named() -> None:
    assert "`evidence`" in lacking([record("q", FIVE)], [{"query_id": "q", "gold": ["c0"]}])
    for gold in ({"query_id": "q", "evidence": [FIVE]}, {"query_id": "q", "gold": ["c0"], "answer": FIVE}):
        assert "`text`" in lacking([record("q", None)], [gold])


def test_the_list_is_bounded_and_says_how_long_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.results.analyses.evidence.KEPT", 2)
    seen = found(RUN, GOLD)
    assert (len(seen.covers), seen.pairs) == (2, 4)
    assert KEPT == 10_000  # as docs/evidence.md says


def test_saved_and_read_back() -> None:
    result = karat.evaluate(RUN, GOLD, ["coverage@3"], analyses=True)
    saved = msgspec.json.decode(msgspec.json.encode(saved_form(result)))
    assert msgspec.convert(saved["analyses"]["evidence"], EvidenceFound) == result.analyses.found["evidence"]
    assert saved["settings"]["fuzzy_threshold"] == 0.7


def test_another_threshold_is_another_measure() -> None:
    one, other = (karat.evaluate(RUN, GOLD, ["coverage@3"], fuzzy_threshold=t, analyses=True) for t in (0.7, 0.99))
    assert other.analyses.found["evidence"].covered == 2
    with refused("not-comparable", ConfigError) as caught:
        karat.compare(one, other)
    assert "fuzzy_threshold" in caught.value.what


# The command line, on the demo set


def run_command(*args: str) -> str:
    done = CliRunner().invoke(karat_command, [*args], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


ON_DEMO = ["--gold", str(DEMO / "gold.jsonl"), "--corpus", str(DEMO / "corpus.jsonl")]


def test_the_demo_set() -> None:
    """Texts come from the corpus. Every evidence stands in a relevant chunk, and is found there."""
    saved = json.loads(run_command("eval", str(DEMO / "bm25_rerank.jsonl"), *ON_DEMO, "--json"))
    seen = msgspec.convert(saved["analyses"]["evidence"], EvidenceFound)
    panel = {row.metric: row for row in seen.panel}
    assert len(panel) == 8 * 3
    assert all(row.low <= row.mean <= row.high for row in seen.panel if row.low is not None and row.mean is not None)
    for family in ("evidence_recall", "coverage", "full_coverage", "evidence_hit", "answer_containment"):
        means = [panel[f"{family}@{k}"].mean for k in (3, 5, 10)]
        assert means == sorted(means)
    assert (seen.queries, seen.without_text) == (259, 0)  # 287, of which 28 have no answer
    assert seen.covered == sum(rule.evidences for rule in seen.rules)
    assert 0.7 < panel["evidence_recall@10"].mean == seen.covered / seen.evidences < 0.8
    texts = {c["chunk_id"]: c["text"] for c in map(json.loads, (DEMO / "corpus.jsonl").read_text().splitlines())}
    gold = {q["query_id"]: q for q in map(json.loads, (DEMO / "gold.jsonl").read_text().splitlines())}
    assert all(
        gold[c.query_id]["evidence"][c.evidence] in texts[c.chunk_id] for c in seen.covers if c.rule == "contains"
    )


def test_without_texts_it_says_so() -> None:
    page = run_command("eval", str(DEMO / "bm25.jsonl"), *ON_DEMO[:2], "--explain")
    assert "`--corpus`" in page


def test_evidence_in_gates_and_comparisons() -> None:
    bm25, reranked = (str(DEMO / f"{name}.jsonl") for name in ("bm25", "bm25_rerank"))
    gate = run_command("gate", reranked, *ON_DEMO, "--gate", "EvidenceRecall@10 >= 0.5", "--fuzzy-threshold", "0.9")
    assert "evidence_recall@10" in gate
    compared = run_command("compare", bm25, reranked, *ON_DEMO, "-m", "FullCoverageRate@5", "--fuzzy-threshold", "0.8")
    assert "full_coverage@5" in compared


@pytest.mark.parametrize("threshold", ["0", "1.1", "-0.5"])
def test_a_threshold_that_is_none(karat_refuses: Callable[..., ConfigError], threshold: str) -> None:
    error = karat_refuses("eval", str(DEMO / "bm25.jsonl"), *ON_DEMO, "--fuzzy-threshold", threshold)
    assert (error.code, error.field, error.got) == ("bad-setting", "--fuzzy-threshold", float(threshold))


# Real texts, cut on the spot

SIZE = 400


def cut(folder: Path) -> Corpus:
    """Every text in pieces of 400 characters: an evidence may be cut apart."""
    pieces = {
        f"{file.stem}#{at // SIZE}": text[at : at + SIZE]
        for file in sorted(folder.glob("*.md"))
        for text in [file.read_text()]
        for at in range(0, len(text), SIZE)
    }
    return Corpus("pieces", list(pieces), [""] * len(pieces), list(pieces.values()))


def plain_cover(evidence: str, chunk: str, threshold: float) -> bool:
    evidence, chunk = (" ".join(text.lower().split()) for text in (evidence, chunk))
    if not evidence or not chunk:
        return False
    if evidence in chunk or chunk in evidence:
        return True
    return SequenceMatcher(None, evidence, chunk).ratio() >= threshold


@pytest.fixture(scope="module")
def real(shared_data: Path) -> tuple[Corpus, dict[str, dict[str, Any]], dict[str, list[str]]]:
    """Pieces, every fourth question with its evidence, and the ten pieces that BM25 finds for each."""
    corpus = cut(shared_data / "chunking" / "corpora")
    with (shared_data / "chunking" / "questions_df.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))[::4]
    gold = {
        f"q{i}": {"query": row["question"], "evidence": [r["content"] for r in json.loads(row["references"])]}
        for i, row in enumerate(rows)
    }
    bm25 = BM25()
    bm25.index(corpus)
    return corpus, gold, {q: [item for item, _ in bm25.search(entry["query"], 10)] for q, entry in gold.items()}


@pytest.mark.parametrize("threshold", [0.7, 0.5])
def test_real_texts_against_plain_difflib(real: Any, threshold: float) -> None:
    corpus, gold, run = real
    entries = [{"query_id": query, **entry} for query, entry in gold.items()]
    records = [{"query_id": query, "topk": hits} for query, hits in run.items()]
    asked = [f"coverage@{k}" for k in (1, 3, 10)]
    result = karat.evaluate(
        records, entries, [*asked, "evidence_recall@10"], corpus=corpus, fuzzy_threshold=threshold, analyses=True
    )
    expected = {
        query: [
            [plain_cover(evidence, corpus.texts[corpus.index[hit]], threshold) for hit in run[query]]
            for evidence in dict.fromkeys(entry["evidence"])
        ]
        for query, entry in gold.items()
    }
    for k in (1, 3, 10):
        shares = {query: sum(any(row[:k]) for row in rows) / len(rows) for query, rows in expected.items()}
        assert result.score(f"coverage@{k}") == pytest.approx(shares, abs=1e-12)
    rows = [row for of_query in expected.values() for row in of_query]
    assert result.means["evidence_recall@10"] == pytest.approx(sum(map(any, rows)) / len(rows), abs=1e-12)
    assert 0.2 < result.means["evidence_recall@10"] < 0.9
    seen = result.analyses.found["evidence"]
    assert {rule.rule for rule in seen.rules if rule.pairs} >= {"contains", "fuzzy"}
    assert (seen.pairs, seen.without_text) == (sum(sum(row) for row in rows), 0)
