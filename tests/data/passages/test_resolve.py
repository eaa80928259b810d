"""Gold given as passages, scored against the chunks of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.errors import InputError
from karat.results.evaluate import evaluate_all
from karat.scoring.metrics.against_run import AgainstRun
from karat.scoring.metrics.base import Relevance
from karat.scoring.views import RAW, View

# Three sentences of 50 characters each.
SENTENCES = [
    f"{words:<49}." for words in ("Refunds take five days", "Cards ship in two weeks", "Fees are due in March")
]
TEXT = "".join(SENTENCES)


def corpus(
    *lengths: int, doc: str = "d", offsets: bool = True, texts: bool = True, documents: bool = False, mark: str = "#"
) -> Corpus:
    """The text cut into chunks of these lengths."""
    ids, said, starts, ends = [], [], [], []
    for at, length in enumerate(lengths):
        start = sum(lengths[:at])
        ids.append(f"{doc}{mark}{at + 1}")
        said.append(TEXT[start : start + length] if texts else "")
        starts.append(start)
        ends.append(start + length)
    fields: dict[str, list[Any]] = {"doc_id": [doc] * len(ids)}
    if offsets:
        fields |= {"start": starts, "end": ends}
    if documents:
        ids, said = [*ids, doc], [*said, TEXT]
        fields = {name: [*column, None] for name, column in fields.items()}
    return Corpus("corpus.jsonl", ids, [""] * len(ids), said, fields)


def gold(*items: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"query_id": "q", "gold": [{"doc_id": "d", **item} for item in items]}]


def place(start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, **more}


def quote(text: str, **more: Any) -> dict[str, Any]:
    return {"quote": text, **more}


def evaluate(ids: list[str], items: list[dict[str, Any]], metrics: list[str], **options: Any) -> karat.Result:
    return karat.evaluate([{"query_id": "q", "topk": ids}], items, metrics, **options)


def audited(result: karat.Result) -> dict[str, int]:
    return {entry.code: entry.count for entry in result.audit}


def example(result: karat.Result, code: str) -> str:
    return next(entry.examples[0] for entry in result.audit if entry.code == code)


PLACE, QUOTE = place(50, 100), quote("cards  SHIP in two weeks")
OFFSETS, TEXTS = {"texts": False}, {"offsets": False}
DOCUMENTS = {"offsets": False, "documents": True}


@pytest.mark.parametrize(
    ("item", "known"),
    [(PLACE, {}), (PLACE, OFFSETS), (PLACE, DOCUMENTS), (QUOTE, {}), (QUOTE, TEXTS), (QUOTE, DOCUMENTS)],
)
def test_a_passage_is_found_in_every_chunking(item: dict[str, Any], known: dict[str, bool]) -> None:
    """The second sentence: in the second of three chunks, in the first of two, in the only one."""
    for lengths, expected in (((50, 50, 50), "d#2"), ((110, 40), "d#1"), ((150,), "d#1")):
        ids = ["d#1", "d#2", "d#3"][: len(lengths)]
        result = evaluate(ids, gold(item), ["mrr"], corpus=corpus(*lengths, **known))
        assert result.means["mrr"] == 1 / (ids.index(expected) + 1), lengths
        assert audited(result) == {"passages_found": 1}


def test_without_texts_and_offsets_the_document_counts() -> None:
    result = evaluate(["d#7", "e#1"], gold(quote("cards ship"), quote("fees are due")), ["recall@5", "precision@2"])
    assert result.means == {"recall@5": 1.0, "precision@2": 0.5}
    assert audited(result) == {"passages_by_document": 2, "doc_level_gold": 1}
    offsets = evaluate(["d#1"], gold(place(0, 50)), ["recall@5"], corpus=corpus(50, 50, 50, offsets=False))
    assert audited(offsets) == {"passages_by_document": 1, "doc_level_gold": 1}
    quotes = evaluate(["d#1"], gold(quote("cards ship")), ["recall@5"], corpus=corpus(50, 50, 50, texts=False))
    assert audited(quotes) == {"passages_by_document": 1, "doc_level_gold": 1}


def test_by_document_the_best_grade_of_a_document_counts() -> None:
    items = gold(quote("cards ship", grade=1), quote("fees are due", grade=3), quote("refunds", grade=0))
    result = evaluate(["d#7"], items, ["recall(rel=3)@5", "wrecall@5"])
    assert result.means == {"recall(rel=3)@5": 1.0, "wrecall@5": 1.0}


def test_any_chunk_that_holds_it_finds_it_and_in_precision_each_counts() -> None:
    """A passage that is cut in two halves."""
    items = gold(place(25, 75))
    chunks = corpus(50, 50, 50)
    both = evaluate(
        ["d#2", "d#3", "d#1"], items, ["recall@1", "recall@3", "precision@3", "map", "ndcg@3"], corpus=chunks
    )
    assert both.means == {
        "recall@1": 1.0,
        "recall@3": 1.0,
        "precision@3": pytest.approx(2 / 3),
        "map": 1.0,
        "ndcg@3": 1.0,
    }
    assert example(both, "passages_found") == "q: d#1, d#2"
    assert both.ceilings["precision@3"][0] != both.ceilings["precision@3"][0]  # as of documents, there is none


def test_a_chunk_that_holds_several_passages_finds_them_all() -> None:
    items = gold(place(0, 20, grade=2), place(25, 45, grade=1), place(100, 150, grade=1))
    metrics = [
        "recall@1",
        "precision@2",
        "map",
        "ndcg(gain=linear)@1",
        "judged@2",
        "rbp(p=0.5)",
        "recall(rel=2)@1",
        "wrecall@1",
    ]
    result = evaluate(["d#1", "d#2", "d#3"], items, metrics, corpus=corpus(50, 50, 50))
    assert result.means == {
        "recall@1": pytest.approx(2 / 3),
        "precision@2": 0.5,
        "map": pytest.approx((1 + 1 + 2 / 3) / 3),  # both at rank 1, where every hit is right; two of three at rank 3
        "ndcg(gain=linear)@1": 1.0,
        "judged@2": 0.5,
        "rbp(p=0.5)": 0.5 + 0.125,
        "recall(rel=2)@1": 1.0,
        "wrecall@1": 0.75,
    }
    assert str(result.ceilings["recall@1"][0]) == "nan"  # one by one, only a third would fit


def test_passages_beside_ids() -> None:
    """An id means a chunk, whatever its passages; all find their own."""
    items = [{"query_id": "q", "gold": [{"chunk_id": "d#2"}, {"doc_id": "d", "start": 50, "end": 90}, {"doc_id": "e"}]}]
    run = [{"query_id": "q", "topk": ["d#2", "e#1"]}]
    result = karat.evaluate(run, items, ["recall@1", "recall@2", "precision@2"], corpus=corpus(50, 50, 50))
    assert result.means == {"recall@1": pytest.approx(2 / 3), "recall@2": 1.0, "precision@2": 1.0}


def test_a_lost_passage_stays_in_the_gold(tmp_path: Path) -> None:
    items = gold(place(0, 50), quote("nobody wrote this"), place(400, 500))
    items[0]["gold"].append({"doc_id": "unknown", "quote": "cards ship"})
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps({"query_id": "other", "gold": ["x"]}) + "\n" + json.dumps(items[0]) + "\n")
    run = [{"query_id": "q", "topk": ["d#1", "d#2"]}]
    result = karat.evaluate(run, path, ["recall@5"], corpus=corpus(50, 50, 50))
    assert result.score("recall@5")["q"] == 0.25
    assert audited(result)["passages_lost"] == 3
    shown = next(e.examples for e in result.audit if e.code == "passages_lost")
    assert all(place.startswith("gold.jsonl:2 q: ") for place in shown)
    for named, said in zip(
        (("'d'", "nobody wrote this"), ("'d'", "400–500", "150"), ("'unknown'",)), shown, strict=True
    ):
        assert all(part in said for part in named)
    assert "passages_beyond" not in audited(result)  # nothing of it lies inside


@pytest.mark.parametrize(
    ("item", "recall", "precision", "hit", "area"),
    [
        (place(400, 500), 0.0, 0.0, 0.0, 0.0),  # held by no chunk of the three
        (place(50, 100), 2 / 3, 1 / 3, 2 / 3, 1 / 2),  # by one
        (place(25, 75), 1.0, 2 / 3, 1.0, 5 / 6),  # by two
    ],
)
def test_chance_finds_a_passage_by_any_chunk_that_holds_it(
    item: dict[str, Any], recall: float, precision: float, hit: float, area: float
) -> None:
    metrics = ["recall@2", "precision@2", "hit@2", "auc_recall@2"]
    floors = {
        row.metric: row.floor for row in evaluate(["x"], gold(item), metrics, corpus=corpus(50, 50, 50)).summary_rows
    }
    expected = {"recall@2": recall, "precision@2": precision, "hit@2": hit, "auc_recall@2": area}
    assert floors == pytest.approx(expected)


def test_a_corpus_that_has_none_of_the_documents() -> None:
    result = evaluate(["e#1"], gold(quote("cards ship")), ["recall@5"], corpus=corpus(50, 50, 50, doc="e"))
    assert (result.means, audited(result)["passages_lost"]) == ({"recall@5": 0.0}, 1)
    assert example(result, "passages_lost").startswith("gold:1 q: ")


def test_what_reaches_beyond_the_document_is_told_and_the_rest_decides() -> None:
    result = evaluate(["d#3"], gold(place(120, 10_000)), ["recall@1", "span_recall@1"], corpus=corpus(50, 50, 50))
    assert result.means == {"recall@1": 1.0, "span_recall@1": 1.0}
    assert re.findall(r"\d+", example(result, "passages_beyond")) == ["1", "10000", "150"]  # line, end, of how many


def test_a_quote_wins_over_offsets_that_no_longer_fit() -> None:
    """The document has grown at its beginning."""
    item = {**place(0, 24), **quote("Cards ship in two weeks")}
    result = evaluate(["d#2"], gold(item), ["recall@1"], corpus=corpus(50, 50, 50))
    assert (result.means["recall@1"], audited(result)["passages_moved"]) == (1.0, 1)
    still = evaluate(
        ["d#2"], gold({**place(50, 73), **quote("Cards ship in two weeks")}), ["recall@1"], corpus=corpus(50, 50, 50)
    )
    assert audited(still) == {"passages_found": 1}


def test_a_repeated_quote_counts_wherever_it_stands_and_is_told() -> None:
    twice = Corpus("two", ["d#1", "d#2"], ["", ""], [TEXT, TEXT], {"start": [0, 150], "end": [150, 300]})
    result = evaluate(["d#2"], gold(quote("cards ship in two weeks")), ["recall@1", "span_recall@1"], corpus=twice)
    assert result.means == {"recall@1": 1.0, "span_recall@1": 1.0}
    assert audited(result)["passages_repeated"] == 1
    meant = evaluate(["d#2"], gold(place(50, 73)), ["recall@1", "span_recall@1"], corpus=twice)
    assert meant.means == {"recall@1": 0.0, "span_recall@1": 0.0}


def test_texts_of_the_hits_do_where_there_is_no_corpus() -> None:
    """Only what was returned is known, and the audit says so; each system has its own chunks."""
    run = [
        {
            "query_id": "q",
            "system": system,
            "topk": [{"chunk_id": f"d#{i}", "text": text} for i, text in enumerate(texts)],
        }
        for system, texts in (("fine", SENTENCES), ("coarse", [TEXT, "other"]), ("blind", ["other", SENTENCES[0]]))
    ]
    results = evaluate_all(run, gold(quote("cards ship in two weeks")), ["mrr"])
    assert {name: result.means["mrr"] for name, result in results.items()} == {"fine": 0.5, "coarse": 1.0, "blind": 0.0}
    assert audited(results["fine"]) == {"passages_found": 1, "passages_in_hits": 1}
    assert audited(results["blind"]) == {"passages_lost": 1, "passages_in_hits": 1}
    other = karat.evaluate(
        [{"query_id": "q", "topk": [{"chunk_id": "e#1", "text": "x"}]}], gold(quote("cards")), ["mrr"]
    )
    assert audited(other)["passages_by_document"] == 1


def test_a_corpus_of_documents_tells_where_hits_stand() -> None:
    documents = Corpus("documents", ["d", "e"], ["", ""], [TEXT, "Another text."])
    hits = [{"chunk_id": "e#1", "text": "another"}, {"chunk_id": "d#x", "text": TEXT[50:120]}]
    result = evaluate(hits, gold(place(50, 100)), ["mrr", "span_recall@2", "span_precision@2"], corpus=documents)  # type: ignore[arg-type]
    assert result.means == {"mrr": 0.5, "span_recall@2": 1.0, "span_precision@2": pytest.approx(50 / (70 + 7))}


def test_documents_that_ids_do_not_tell_come_from_the_corpus() -> None:
    """Chunk ids without a mark: the corpus says which document they belong to."""
    chunks = corpus(50, 50, 50, mark="-")
    metrics = ["recall@1", "recall(level=doc)@1", "distinct_docs@3"]
    result = evaluate(["d-1", "d-2", "d-3"], gold(place(50, 100)), metrics, corpus=chunks)
    assert result.means == {"recall@1": 0.0, "recall(level=doc)@1": 1.0, "distinct_docs@3": 1.0}
    named = [{"query_id": "q", "gold": [{"chunk_id": "d-2"}]}]
    result = evaluate(["d-1", "d-2", "d-3"], named, metrics, corpus=chunks)
    assert result.means == {"recall@1": 0.0, "recall(level=doc)@1": 1.0, "distinct_docs@3": 1.0}


def test_other_lists_of_the_log_are_resolved_anew() -> None:
    hit = {"chunk_id": "d#2", "text": SENTENCES[1]}
    run = [{"query_id": "q", "topk": [{"chunk_id": "d#1", "text": SENTENCES[0]}], "raw": [hit]}]
    result = karat.evaluate(run, gold(quote("cards ship in two weeks")), ["recall@1"], analyses=True)
    assert result.means == {"recall@1": 0.0}
    assert result.measure(["recall@1"], View(lists=RAW)).means == {"recall@1": 1.0}


def test_whatever_form_the_run_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists, dicts of scores, a file that is read as columns, slices of one query: the same chunks are found."""
    chunks, order = corpus(50, 50, 50), ["d#3", "d#2", "d#1"]
    items = [{**gold(place(at * 10, at * 10 + 40), place(90, 140))[0], "query_id": f"q{at}"} for at in range(10)]
    metrics = ["mrr", "recall@2", "precision@2", "span_iou@2"]
    lists = {f"q{at}": order for at in range(10)}
    expected = karat.evaluate(lists, items, metrics, corpus=chunks)
    assert set(expected.score("recall@2").values()) == {0.5, 1.0}
    path = tmp_path / "run.jsonl"
    records = [
        {"query_id": q, "topk": [{"chunk_id": hit, "score": 3.0 - i} for i, hit in enumerate(hits)]}
        for q, hits in lists.items()
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    scores = {q: {hit: 3.0 - i for i, hit in enumerate(hits)} for q, hits in lists.items()}
    for run in (scores, path, records):
        assert karat.evaluate(run, items, metrics, corpus=chunks).scores.equals(expected.scores)
    monkeypatch.setattr("karat.formats.dicts._SLICE_HITS", 1)
    assert karat.evaluate(scores, items, metrics, corpus=chunks).scores.equals(expected.scores)


# Beside a chunk's id


def test_beside_a_chunk_id_a_passage_is_only_a_note() -> None:
    items = [{"query_id": "q", "gold": [{"chunk_id": "d#1", "quote": "cards ship", "start": 50, "end": 60}]}]
    result = evaluate(["d#2"], items, ["recall@1"], corpus=corpus(50, 50, 50))
    assert result.means == {"recall@1": 0.0}
    assert karat.read_gold(items).passages == [(None, "cards ship", 50, 60)]


def test_offsets_need_a_document_to_be_counted_in() -> None:
    items = [{"query_id": "q", "gold": [{"chunk_id": "d#1", "start": 50, "end": 60}]}]
    result = evaluate(["d#2"], items, ["recall@1"], corpus=corpus(50, 50, 50))
    assert example(result, "offsets_unused") == "q"
    with_document = [{"query_id": "q", "gold": [{"chunk_id": "d#1", "doc_id": "d", "start": 50, "end": 100}]}]
    result = evaluate(["d#2"], with_document, ["recall@1", "span_recall@1"], corpus=corpus(50, 50, 50))
    assert result.means == {"recall@1": 0.0, "span_recall@1": 1.0}  # the id names the chunk, the offsets the text


# What is refused


@pytest.mark.parametrize(
    ("item", "field", "code"),
    [
        (place(9, 9), "gold[0].end", "bad-value"),
        (place(9, 3), "gold[0].end", "bad-value"),
        (place(-1, 3), "gold[0].start", "bad-value"),
        ({"start": 3}, "gold[0].end", "missing-field"),
        ({"end": 3}, "gold[0].start", "missing-field"),
        ({"start": "three", "end": 5}, "gold[0].start", "wrong-type"),
        ({"start": 1.5, "end": 5}, "gold[0].start", "wrong-type"),
        ({"start": 1, "end": 10**20}, "gold[0].end", "bad-value"),
        (quote(""), "gold[0].quote", "empty-quote"),
        (quote(" \n"), "gold[0].quote", "empty-quote"),
        (quote(7), "gold[0].quote", "wrong-type"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_passage(tmp_path: Path, item: dict[str, Any], field: str, code: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps({"query_id": "a", "gold": ["x"]}) + "\n" + json.dumps(gold(item)[0]) + "\n")
    with refused(code, InputError, file=path, line=2, field=field):
        karat.read_gold(path)


def test_a_passage_of_nothing() -> None:
    with refused("missing-field", InputError, field="gold[0].chunk_id"):
        karat.read_gold([{"query_id": "q", "gold": [{"quote": "cards"}]}])
    blank = [
        {"query_id": "q", "gold": [{"chunk_id": "a", "quote": ""}, {"doc_id": "d", "quote": "", "start": 0, "end": 9}]}
    ]
    assert karat.read_gold(blank).passages == [(None, None, None, None), ("d", None, 0, 9)]


@pytest.mark.parametrize("odd", [-5, "00:01:20", 1.5, True, 10**30, 60])
def test_offsets_of_a_corpus_that_are_none(odd: Any) -> None:
    """Taken as not given, and told: the field may mean something else there. The text decides."""
    chunks = corpus(50, 50, 50)
    chunks.fields["start"][0] = odd
    result = evaluate(["d#2"], gold(quote("cards ship in two weeks")), ["recall@1"], corpus=chunks)
    assert result.means == {"recall@1": 1.0}
    assert audited(result)["odd_offsets"] == 1
    assert example(result, "odd_offsets") == f"d#1: {odd!r}, 50"


def test_passages_of_one_document_are_different_items() -> None:
    items = gold(place(0, 10), place(0, 10), place(20, 30, grade=2), quote("cards"), quote("cards"))
    read = karat.read_gold(items)
    assert (len(read.ids), read.audit["duplicate_gold"]) == (3, 2)
    assert [p and p[1:] for p in read.passages] == [(None, 0, 10), (None, 20, 30), ("cards", None, None)]
    with refused("contradiction", InputError):
        karat.read_gold(gold(place(0, 10), place(0, 10, grade=2)))
    negative = karat.read_gold(gold(place(0, 10, grade=-1), place(20, 30)))
    assert [p and p.start for p in negative.passages] == [20]


def test_passages_that_begin_in_the_middle_of_a_large_file(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [{"query_id": f"q{i}", "gold": [{"chunk_id": "x"}]} for i in range(3000)]
    entries[2500:] = [{"query_id": f"q{i}", "gold": [{"doc_id": "d", **place(i, i + 9)}]} for i in range(2500, 3000)]
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    read = karat.read_gold(path)
    assert len(read.passages) == 3000
    assert {at: p.start for at, p in enumerate(read.passages) if p is not None} == {i: i for i in range(2500, 3000)}


# Every metric, whatever the passages


METRICS = [kind() for kind in karat.Metric.all().values() if not issubclass(kind, AgainstRun)]
STRETCH = st.tuples(st.integers(0, 140), st.integers(1, 80)).map(lambda s: place(s[0], min(s[0] + s[1], 150)))


@settings(max_examples=60)
@given(
    cuts=st.lists(st.integers(5, 60), min_size=1, max_size=6),
    items=st.lists(st.tuples(STRETCH, st.sampled_from([0, 1, 2])), min_size=1, max_size=5),
    order=st.permutations(range(8)),
)
def test_metrics_stay_in_their_range(
    cuts: list[int], items: list[tuple[dict[str, Any], int]], order: list[int]
) -> None:
    chunks = corpus(*cuts)
    ids = [chunks.ids[i] if i < len(chunks) else f"e#{i}" for i in order]
    different = {tuple(item.values()): {**item, "grade": grade} for item, grade in items}
    result = karat.evaluate([{"query_id": "q", "topk": ids}], gold(*different.values()), METRICS, corpus=chunks, k=3)
    for metric in result.metrics:
        value, ceiling = result.values[str(metric)][0], result.ceilings[str(metric)][0]
        low, high = metric.range
        assert value != value or low - 1e-12 <= value <= high + 1e-12, metric
        if isinstance(metric, Relevance) and metric.direction == "higher" and value == value and ceiling == ceiling:
            assert value <= ceiling + 1e-12, metric


# Passages of a table


def test_a_table_of_passages(tmp_path: Path) -> None:
    rows = ["query_id,doc_id,quote,start,end,topic", "q,d,cards ship,,,x", "q,d,,100,150,x", "p,d,,,,y"]
    (tmp_path / "gold.csv").write_text("\n".join(rows) + "\n")
    run = [{"query_id": "q", "topk": ["d#3", "d#2"]}, {"query_id": "p", "topk": ["d#1"]}]
    for gold in (tmp_path / "gold.csv", pl.read_csv(tmp_path / "gold.csv")):
        read = karat.read_gold(gold)
        assert read.passages == [("d", "cards ship", None, None), ("d", None, 100, 150), None]
        assert read.tags == {"topic": ["x", "y"]}
        result = karat.evaluate(run, read, ["recall@1", "recall@2"], corpus=corpus(50, 50, 50))
        assert result.score("recall@1") == {"q": 0.5, "p": 1.0}
        assert audited(result) == {"passages_found": 2, "doc_level_gold": 1}


@pytest.mark.parametrize(
    ("row", "code", "field", "got"),
    [
        ("q,d,,5,", "missing-value", "end", None),
        ("q,d,,,5", "missing-value", "start", None),
        ("q,d,,5,5", "bad-value", "end", 5),
        ("q,d,,-1,5", "bad-value", "start", "-1"),
        ("q,d,,1.5,5", "bad-value", "start", "1.5"),
        ("q,d,,x,5", "bad-value", "start", "x"),
    ],
)
def test_what_is_no_passage_of_a_table(tmp_path: Path, row: str, code: str, field: str, got: Any) -> None:
    path = tmp_path / "gold.csv"
    path.write_text(f"query_id,doc_id,quote,start,end\np,d,words,,\n{row}\n")
    with refused(code, InputError, file=path, line=3, field=field, got=got):
        karat.read_gold(path)


def test_without_a_document_such_columns_are_tags() -> None:
    frame = pl.DataFrame({"query_id": ["q"], "chunk_id": ["a"], "start": ["Monday"], "quote": ["x"]})
    read = karat.read_gold(frame)
    assert (read.passages, read.tags) == ([], {"start": ["Monday"], "quote": ["x"]})
