"""One set of labels over five long texts that were cut in two ways, searched by BM25, and compared."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import karat
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.ids import DocRule
from karat.data.passages.documents import normalise
from karat.data.passages.resolve import resolve
from karat.retrievers.bm25 import BM25

METRICS = ["recall@5", "recall(level=doc)@5", "ndcg@5", "span_recall@5", "span_precision@5", "span_iou@5"]


class Trial(NamedTuple):
    texts: dict[str, str]
    questions: list[str]
    references: list[list[dict[str, Any]]]  # of each question: doc, start, end, quote

    def gold(self, *fields: str) -> Gold:
        return karat.read_gold(
            [
                {"query_id": f"q{at}", "query": question, "gold": [{f: item[f] for f in fields} for item in items]}
                for at, (question, items) in enumerate(zip(self.questions, self.references, strict=True))
            ]
        )

    def cut(self, length: int, step: int, *, offsets: bool = True) -> Corpus:
        corpus = Corpus(f"every {step}", [], [], [], {"start": [], "end": []} if offsets else {})
        for doc, text in self.texts.items():
            for number, start in enumerate(range(0, len(text), step)):
                corpus.ids.append(f"{doc}#{number}")
                corpus.titles.append("")
                corpus.texts.append(text[start : start + length])
                for name, offset in zip(corpus.fields, (start, min(start + length, len(text))), strict=False):
                    corpus.fields[name].append(offset)
        return corpus

    def run(self, corpus: Corpus) -> list[dict[str, Any]]:
        retriever = BM25()
        retriever.index(corpus)
        return [
            {
                "query_id": f"q{at}",
                "system": corpus.label,
                "topk": [{"chunk_id": item, "score": score} for item, score in retriever.search(question, 10)],
            }
            for at, question in enumerate(self.questions)
        ]


@pytest.fixture(scope="module")
def trial(shared_data: Path) -> Trial:
    folder = shared_data / "chunking"
    texts = {path.stem: path.read_bytes().decode() for path in sorted((folder / "corpora").glob("*.md"))}
    with (folder / "questions_df.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    references = [
        [
            {"doc_id": row["corpus_id"], "start": r["start_index"], "end": r["end_index"], "quote": r["content"]}
            for r in json.loads(row["references"])
        ]
        for row in rows
    ]
    return Trial(texts, [row["question"] for row in rows], references)


def chunks_of(gold: Gold, corpus: Corpus) -> list[frozenset[str]]:
    """Of each item."""
    found: list[set[str]] = [set() for _ in gold.ids]
    resolved = resolve(gold, karat.read_run({"q0": ["a"]}), corpus, DocRule())("")
    assert resolved.located is not None
    for at, chunk in enumerate(resolved.located.chunks):
        for item in resolved.located.items[slice(*resolved.located.firsts[at : at + 2])]:
            found[item].add(chunk)
    return list(map(frozenset, found))


@pytest.mark.parametrize(("length", "step"), [(200, 200), (800, 400)])
def test_a_quote_finds_the_chunks_that_offsets_find(trial: Trial, length: int, step: int) -> None:
    """Of 790 passages 97 stand word for word in several places of their text: there a quote means each of them."""
    offsets, quotes = trial.gold("doc_id", "start", "end"), trial.gold("doc_id", "quote")
    assert len(offsets.ids) == len(quotes.ids) == 790
    normal = {doc: normalise(text) for doc, text in trial.texts.items()}
    items = [(p.doc or "", normalise(p.quote or "")) for p in quotes.passages if p is not None]
    once = [at for at, (doc, quote) in enumerate(items) if normal[doc].count(quote) == 1]
    assert len(once) == 693
    expected = chunks_of(offsets, trial.cut(length, step))
    assert all(expected)
    for corpus in (trial.cut(length, step), trial.cut(length, step, offsets=False)):
        found = chunks_of(quotes, corpus)
        same = sum(found[at] == expected[at] for at in once) / len(once)
        among = sum(wanted <= chunks for wanted, chunks in zip(expected, found, strict=True)) / len(found)
        assert same >= 0.99  # the rest: a passage whose half stands elsewhere too, or is cut in its very middle
        assert among >= 0.99
        if "start" in corpus.fields:
            assert (same, among) == (1.0, 1.0)


def test_two_chunkings_are_compared_on_the_same_labels(trial: Trial) -> None:
    gold = trial.gold("doc_id", "start", "end")
    small, large = trial.cut(200, 200), trial.cut(800, 400)
    sides = [karat.evaluate(trial.run(corpus), gold, METRICS, corpus=corpus) for corpus in (small, large)]
    (pair,) = karat.compare(*sides).pairs
    assert pair.queries == 472
    assert not pair.notes
    change = {d.metric: d for d in pair.differences}
    assert all(d.n == 472 for d in change.values())
    # Large chunks find more of what is asked for, and four times as much beside it; the documents are found anyhow.
    assert change["recall@5"].low > 0.2
    assert change["span_recall@5"].low > 0.2
    assert change["span_precision@5"].high < -0.03
    assert change["span_iou@5"].high < 0
    assert abs(change["recall(level=doc)@5"].delta) < 0.02
    for side in sides:
        means = side.means
        assert side.audit["passages_found"] == 790
        assert means["recall(level=doc)@5"] > 0.99 > means["recall@5"] > means["span_iou@5"]


def test_chunk_labels_do_not_survive_and_label_health_says_so(trial: Trial) -> None:
    """Labels made on small chunks, scored on large ones: the same ids are there, and mean other texts."""
    small, large = trial.cut(200, 200), trial.cut(800, 800)
    run, texts = trial.run(large), dict(zip(small.ids, small.texts, strict=True))
    quotes = trial.gold("doc_id", "quote")
    labels: list[dict[str, Any]] = [{"query_id": query, "gold": []} for query in quotes.queries]
    for query, chunks in zip(quotes.query_of_item.tolist(), chunks_of(quotes, small), strict=True):
        labels[query]["gold"] += [{"chunk_id": chunk, "quote": texts[chunk]} for chunk in sorted(chunks)]
    stale = karat.evaluate(run, labels, METRICS, corpus=large, analyses=True)
    fresh = karat.evaluate(run, quotes, METRICS, corpus=large, analyses=True)
    assert stale.means["recall@5"] < 0.1 < 0.8 < fresh.means["recall@5"]
    health = stale.analyses.found["label_health"]
    assert health.rechunked
    assert health.chunks.moved + health.changed > 0.95 * health.chunks.count
    assert "labels_gone" in [finding.code for finding in stale.findings]
    assert not fresh.analyses.found["label_health"].rechunked
