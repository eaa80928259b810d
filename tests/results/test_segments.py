"""What a result says of all queries and of groups of them: intervals, clusters, segments, in any order."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.data.attributes import NOT_GIVEN, attribute_names
from karat.data.ids import DocRule
from karat.errors import ConfigError
from karat.formats.corpus import read_corpus
from karat.report.export import export
from karat.results.power import plan
from karat.results.result import Result
from karat.results.save import restore, saved_form
from karat.results.summary import SegmentRow, SummaryRow
from karat.scoring.dates import with_versions
from karat.statistics.sampling import Sampling

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
RUN, GOLD = str(DEMO / "bm25.jsonl"), str(DEMO / "gold.jsonl")
QUICK = Sampling(resamples=400)


def entry(name: str, gold: Any = ("a",), query: str | None = None, conversation: str | None = None, **tags: Any) -> Any:
    found = {"query_id": name, "gold": gold if isinstance(gold, dict) else list(gold), "tags": tags}
    if query is not None:
        found["query"] = query
    if conversation is not None:
        found["conversation_id"] = conversation
    return found


def scored(gold: list[Any], right: set[str], metrics: Any = "recall@1", **options: Any) -> Result:
    """A run that finds "a" for some of the queries and nothing else."""
    run = {e["query_id"]: ["a" if e["query_id"] in right else "x"] for e in gold}
    return karat.evaluate(run, gold, metrics, sampling=options.pop("sampling", QUICK), **options)


def of(rows: list[SummaryRow], metric: str) -> SummaryRow:
    return next(row for row in rows if row.metric == metric)


def sizes(rows: list[SegmentRow]) -> dict[str, int]:
    return {row.value: row.queries for row in rows}


@pytest.fixture(scope="module")
def demo() -> Result:
    return karat.evaluate(RUN, GOLD, sampling=QUICK)


# --- the summary


def test_every_mean_stands_between_its_limits(demo: Result) -> None:
    for row in demo.summary_rows:
        assert row.mean is not None
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.mean <= row.high
        assert row.low < row.high
        assert row.n + row.undefined == 287
        assert not row.few


def test_distribution_tells_what_the_mean_hides() -> None:
    gold = [entry(f"q{i}") for i in range(8)]
    spread = of(scored(gold, {"q0", "q1"}).summary_rows, "recall@1").distribution
    assert spread is not None
    assert (spread.q1, spread.median, spread.q3) == (0.0, 0.0, 0.25)
    assert (spread.zeros, spread.ones) == (0.75, 0.25)


@pytest.mark.parametrize(("size", "few"), [(1, True), (19, True), (20, False)])
def test_under_20_queries_are_too_few(size: int, few: bool) -> None:
    row = scored([entry(f"q{i}") for i in range(size)], {"q0"}).summary_rows[0]
    assert (row.n, row.few) == (size, few)


def test_one_query_and_equal_scores_have_honest_limits() -> None:
    one = scored([entry("q")], {"q"}).summary_rows[0]
    assert one.mean == one.high == 1
    assert one.low is not None
    assert 0 < one.low < 0.5
    everything = scored([entry(f"q{i}") for i in range(50)], {f"q{i}" for i in range(50)}).summary_rows[0]
    assert everything.mean == everything.high == 1
    assert everything.low is not None
    assert 0.9 < everything.low < 1


def test_nothing_defined_has_no_mean_and_no_limits() -> None:
    row = scored([entry("q", {"a": 0})], set()).summary_rows[0]
    assert (row.n, row.undefined, row.mean, row.low, row.high, row.distribution) == (0, 1, None, None, None, None)


def test_micro_recall_is_all_found_over_all_relevant() -> None:
    run = {"p": ["a", "b", "c"], "q": ["x", "y", "z"], "r": ["a", "x", "y"]}
    gold = {"p": ["a", "b", "c", "d"], "q": ["a"], "r": ["a", "b"]}
    row, macro = karat.evaluate(run, gold, ["recall(average=micro)@3", "recall@3"]).summary_rows
    assert row.mean == 4 / 7
    assert macro.mean == pytest.approx((3 / 4 + 0 + 1 / 2) / 3)
    assert row.low is not None
    assert row.high is not None
    assert row.low < 4 / 7 < row.high


def test_micro_recall_of_the_demo_set(demo: Result) -> None:
    micro = karat.evaluate(RUN, GOLD, ["recall(average=micro)@5"])
    relevant = {q: sum(g > 0 for g in grades) for q, grades in _grades().items()}
    found = sum(round(share * relevant[q]) for q, share in demo.score("recall@5").items() if share is not None)
    row = micro.summary_rows[0]
    assert row.mean == pytest.approx(found / sum(relevant.values()), abs=1e-12)
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.mean < row.high


def _grades() -> dict[str, list[float]]:
    lines = map(json.loads, Path(GOLD).read_text().splitlines())
    return {line["query_id"]: list(line["gold"].values()) for line in lines}


def test_interval_methods_can_be_chosen() -> None:
    def limits(**how: Any) -> tuple[float | None, float | None]:
        row = karat.evaluate(RUN, GOLD, "recall@5", sampling=Sampling(**how)).summary_rows[0]
        return row.low, row.high

    found = {method: limits(method=method) for method in ("bayes", "percentile", "bca", "strict")}
    assert len(set(found.values())) == 4
    for low, high in found.values():
        assert low == pytest.approx(found["bayes"][0], abs=0.015)
        assert high == pytest.approx(found["bayes"][1], abs=0.015)
    narrow, wide = limits(level=0.5), limits(level=0.99)
    assert wide[0] < found["bayes"][0] < narrow[0] < narrow[1] < found["bayes"][1] < wide[1]


def test_another_seed_moves_the_last_digits_only() -> None:
    a, b = (karat.evaluate(RUN, GOLD, "ndcg@5", sampling=Sampling(seed=s)).summary_rows[0] for s in (0, 1))
    assert a.mean == b.mean
    assert (a.low, a.high) != (b.low, b.high)
    assert a.low == pytest.approx(b.low, abs=0.003)
    assert a.high == pytest.approx(b.high, abs=0.003)


def test_quantiles_of_time_say_nothing_of_too_few_queries() -> None:
    def row(size: int, metric: str) -> SummaryRow:
        log = [{"query_id": f"q{i}", "topk": ["a"], "latency_ms": {"total": float(i)}} for i in range(size)]
        return karat.evaluate(log, {f"q{i}": ["a"] for i in range(size)}, metric, sampling=QUICK).summary_rows[0]

    assert (row(35, "latency_p90").low, row(35, "latency_p90").high) == (None, None)
    assert row(35, "latency_p90").mean == pytest.approx(30.6)
    enough = row(36, "latency_p90")
    assert enough.low is not None
    assert enough.high == 35
    assert row(367, "latency_p99").low is None
    assert row(368, "latency_p99").high == 367


# --- clusters


def conversations(size: int = 40) -> list[Any]:
    return [entry(f"q{i}", conversation=f"c{i // 4}", pair=str(i // 2)) for i in range(size)]


def test_conversations_are_resampled_whole_unless_told_otherwise() -> None:
    gold = conversations()
    right = {f"q{i}" for i in range(20)}  # whole conversations are right or wrong
    together, alone = scored(gold, right), scored(gold, right, cluster="none")
    assert together.cluster == "conversation_id"
    assert alone.cluster is None
    assert together.means == alone.means

    def width(result: Result) -> float:
        row = result.summary_rows[0]
        assert row.low is not None
        assert row.high is not None
        return row.high - row.low

    pairs = scored(gold, right, cluster="pair")
    assert width(together) > 1.6 * width(alone)
    assert width(alone) < width(pairs) < width(together)


def test_a_tag_may_name_the_conversation_as_well() -> None:
    gold = [entry(f"q{i}", conversation_id=f"c{i // 4}") for i in range(40)]
    right = {f"q{i}" for i in range(20)}
    assert scored(gold, right).cluster == "conversation_id"
    assert scored(gold, right).summary_rows == scored(conversations(), right).summary_rows


def test_queries_without_a_conversation_stand_alone() -> None:
    some = [entry(f"q{i}", conversation="c" if i < 2 else None) for i in range(30)]
    assert scored(some, {"q0", "q1"}).summary_rows != scored(some, {"q0", "q1"}, cluster="none").summary_rows
    gold = [entry(f"q{i}", conversation="c" if i == 0 else None) for i in range(30)]
    assert scored(gold, {"q0"}).summary_rows == scored(gold, {"q0"}, cluster="none").summary_rows


def test_an_unknown_cluster_is_refused_with_what_there_is() -> None:
    with refused("unknown-attribute", ConfigError, name="conversatoin_id") as error:
        scored(conversations(), set(), cluster="conversatoin_id")
    assert "conversation_id" in error.value.hint


# --- the order of the queries


def shuffled(file: str, folder: Path) -> str:
    lines = Path(file).read_text().splitlines(keepends=True)
    random.Random(7).shuffle(lines)
    target = folder / Path(file).name
    target.write_text("".join(lines))
    return str(target)


def test_the_order_of_the_queries_changes_no_digit(tmp_path: Path) -> None:
    """Summaries, segments, sweeps, comparisons and plans, byte by byte."""
    candidate = str(DEMO / "bm25_rerank.jsonl")
    wanted = ["recall@5", "ndcg@5", "recall(average=micro)@5", "latency", "latency_p90", "mrr"]

    def everything(run: str, gold: str, other: str) -> list[bytes]:
        by = ("language", "topic×difficulty")
        sides = [karat.evaluate(r, gold, wanted, segments=by, sampling=QUICK) for r in (run, other)]
        compared = karat.compare(*sides, segments="language").pairs
        sweep = sides[0].sweep([1, 5, 10])
        plans = plan(sides[0]).rows, plan(*sides).rows
        return [msgspec.json.encode(v) for v in (sides[0].summary_rows, sides[0].segment_rows, compared, plans)] + [
            msgspec.json.encode(sweep.curves)
        ]

    as_given = everything(RUN, GOLD, candidate)
    assert everything(*(shuffled(f, tmp_path) for f in (RUN, GOLD, candidate))) == as_given


_shares = st.lists(st.tuples(st.sampled_from([0, 1, 2, 3]), st.integers(0, 3)), min_size=1, max_size=12)


@settings(max_examples=20)
@given(_shares, st.randoms(use_true_random=False))
def test_no_order_of_any_queries_changes_a_digit(rows: list[tuple[int, int]], chance: random.Random) -> None:
    gold = [entry(f"q{i}", "abc", conversation=f"c{c}", group=str(c % 2)) for i, (_, c) in enumerate(rows)]
    run = {f"q{i}": [*"abc"[:found], "x"] for i, (found, _) in enumerate(rows)}
    before = karat.evaluate(run, gold, ["recall@3", "ndcg@3"], segments="group", sampling=Sampling(resamples=100))
    chance.shuffle(gold)
    after = karat.evaluate(run, gold, ["recall@3", "ndcg@3"], segments="group", sampling=Sampling(resamples=100))
    assert before.summary_rows == after.summary_rows
    assert before.segment_rows == after.segment_rows


# --- segments


def test_every_tag_makes_segments_that_add_up_to_all_queries(demo: Result) -> None:
    assert {"tier", "language", "topic", "as_of", "query_length", "gold_items"} < set(attribute_names(demo.gold))
    for name in (*demo.gold.tags, "as_of", "conversation_id", "query_length", "gold_items"):
        rows = demo.segment_by(name)
        assert sum(row.queries for row in rows) == 287, name
        assert all(row.segment == name and row.few == (row.queries < 20) for row in rows)
        recall = [of(row.summary, "recall@5") for row in rows]
        total = math.fsum(r.mean * r.n for r in recall if r.mean is not None)
        assert total / sum(r.n for r in recall) == pytest.approx(demo.means["recall@5"], abs=1e-12)
        assert all(r.low <= r.mean <= r.high for r in recall if r.mean is not None)


def test_segments_of_a_result_are_those_of_all_tags_unless_some_were_named(demo: Result) -> None:
    assert set(demo.segments["segment"]) == {"tier", "language", "topic", "difficulty", "answer_type"}
    some = karat.evaluate(RUN, GOLD, ["recall@5"], segments=["language"], sampling=QUICK)
    assert some.segments["value"].to_list() == ["en", "es-AR", "pt-BR"]
    assert some.segments["queries"].to_list() == [125, 80, 82]
    assert some.segments["mean"].to_list() == [row.summary[0].mean for row in some.segment_rows]


def test_a_segment_equals_an_evaluation_of_its_queries_alone(demo: Result) -> None:
    lines = [json.loads(line) for line in Path(GOLD).read_text().splitlines()]
    alone = karat.evaluate(RUN, [e for e in lines if e["tags"]["language"] == "pt-BR"], sampling=QUICK)
    part = demo.segment_by("language")[2]
    assert part.value == "pt-BR"
    assert part.summary == alone.summary_rows


@pytest.mark.parametrize("written", ["language×topic", "language*topic", "language,topic", "language × topic"])
def test_attributes_combine_with_any_sign(demo: Result, written: str) -> None:
    rows = demo.segment_by(written)
    assert {row.segment for row in rows} == {"language × topic"}
    assert rows[0].value == "en × account"
    assert sum(row.queries for row in rows) == 287
    assert rows == demo.segment_by("language×topic")


def test_the_same_segments_asked_for_twice_are_shown_once() -> None:
    gold = [entry(f"q{i}", a=str(i % 2), b="x") for i in range(4)]
    result = scored(gold, set(), segments=["a", "a,b", "a×b", "a"])
    assert [(row.segment, row.value) for row in result.segment_rows] == [
        ("a", "0"),
        ("a", "1"),
        ("a × b", "0 × x"),
        ("a × b", "1 × x"),
    ]


@pytest.mark.parametrize("text", ["", " ", "language×", ",topic", "a××b"])
def test_a_segment_that_cannot_be_read_is_refused(demo: Result, text: str) -> None:
    with refused("bad-segment", ConfigError):
        demo.segment_by(text)


def test_an_unknown_attribute_is_refused_with_the_nearest_and_the_list(demo: Result) -> None:
    with refused("unknown-attribute", ConfigError, name="langage") as error:
        demo.segment_by("langage×topic")
    assert "language" in error.value.hint
    with pytest.raises(ConfigError) as error:
        demo.segment_by("zzz")
    for name in ("language", "topic", "query_length", "gold_items"):
        assert name in str(error.value)
    with refused("unknown-attribute", ConfigError, name="topic"):
        karat.evaluate({"q": ["a"]}, {"q": ["a"]}, "recall@1", segments="topic")


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (0, "short (< 8 words)"),
        (7, "short (< 8 words)"),
        (8, "8–15 words"),
        (15, "8–15 words"),
        (16, "long (> 15 words)"),
    ],
)
def test_query_length_in_words(words: int, label: str) -> None:
    result = scored([entry("q", query="  word " * words)], set())
    assert sizes(result.segment_by("query_length")) == {label: 1}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("退款需要多长时间", "short (< 8 words)"),  # how long does a refund take: four words
        ("如果我在网上购买的商品已经损坏，应该怎样申请退款", "8–15 words"),
        (
            "我上个月在你们的网上商店购买了一台洗衣机，现在它不能正常工作，请问我应该怎样申请免费维修或者退款",
            "long (> 15 words)",
        ),
        ("パスワードをリセットする方法を教えてください", "8–15 words"),
        ("ฉันจะขอเงินคืนได้อย่างไร", "short (< 8 words)"),
        ("환불은 얼마나 걸리나요", "short (< 8 words)"),
        ("how do I open a 文件 in the web app", "8–15 words"),
    ],
)
def test_query_length_without_spaces(text: str, label: str) -> None:
    """Labels by the number of words that a reader of the language counts."""
    assert sizes(scored([entry("q", query=text)], set()).segment_by("query_length")) == {label: 1}


def test_query_lengths_stand_in_their_order() -> None:
    gold = [entry(f"q{n}", query="w " * n) for n in (20, 1, 9)] + [entry("none")]
    found = [row.value for row in scored(gold, set()).segment_by("query_length")]
    assert found == ["short (< 8 words)", "8–15 words", "long (> 15 words)", NOT_GIVEN]


@pytest.mark.parametrize("name", ["constraints", "n_constraints", "num_constraints", "constraint_count"])
@pytest.mark.parametrize("kind", [int, float, str, lambda count: f" {count}.0", lambda count: ["x"] * count])
def test_constraints_are_grouped(name: str, kind: Any) -> None:
    counts = (0, 1, 2, 3, 4, 5, 9)
    gold = [entry(f"q{c}", **{name: kind(c)}) for c in counts] + [entry("none")]
    rows = scored(gold, set()).segment_by("constraints")
    assert [(r.value, r.queries) for r in rows] == [("0", 1), ("1–2", 2), ("3–4", 2), ("5+", 2), (NOT_GIVEN, 1)]


def test_a_tag_of_that_name_with_words_keeps_its_words() -> None:
    gold = [entry("p", constraints="strict"), entry("q", constraints="loose"), entry("r", constraints="loose")]
    assert sizes(scored(gold, set()).segment_by("constraints")) == {"loose": 2, "strict": 1}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("air fryer temperature", "1–2"),
        ("how long to marinate chicken", "1–2"),
        ("vegan lasagna without nuts, under 30 minutes", "3–4"),
        ("receta de pan sin gluten para celíacos, con poca sal", "3–4"),
        ("flights from Oslo to Rome after 9 in May for two, with luggage and without stops", "5+"),
        ("", "0"),
    ],
)
def test_constraints_are_counted_in_the_text_where_no_tag_tells(text: str, label: str) -> None:
    result = scored([entry("q", query=text)], set())
    assert sizes(result.segment_by("constraints")) == {label: 1}
    assert sizes(restore(saved_form(result)).segment_by("constraints")) == {label: 1}


def test_constraints_of_a_table_are_numbers(tmp_path: Path) -> None:
    """A CSV file has nothing but text."""
    (tmp_path / "gold.csv").write_text("query_id,chunk_id,constraints\np,a,3\nq,a,4\nr,a,7\n")
    result = karat.evaluate({q: ["a"] for q in "pqr"}, tmp_path / "gold.csv", "recall@1", sampling=QUICK)
    assert sizes(result.segment_by("constraints")) == {"3–4": 2, "5+": 1}


def test_gold_items_are_the_relevant_ones() -> None:
    gold = [entry("none", {"a": 0}), *(entry(f"q{n}", [f"d{i}" for i in range(n)]) for n in (1, 2, 3, 5))]
    rows = scored(gold, set()).segment_by("gold_items")
    assert [(r.value, r.queries) for r in rows] == [("0", 1), ("1–2", 2), ("3–4", 1), ("5+", 1)]


def test_versions_of_the_gold_documents_come_from_the_corpus(tmp_path: Path) -> None:
    chunks = [("d1#1", "d1", "2024"), ("d1#2", "d1", "2024"), ("d2#1", "d2", "2025"), ("d3#1", "d3", None)]
    lines = [{"chunk_id": c, "doc_id": d, "text": "t", **({"version": v} if v else {})} for c, d, v in chunks]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    gold = karat.read_gold(
        [
            entry("one", ["d1#1", "d1#2"]),
            entry("both", ["d1#1", "d2#1"]),
            entry("irrelevant", {"d1#1": 0, "d2#1": 1}),
            entry("unknown", ["d3#1"]),
            entry("document", ["d2"]),
        ]
    )
    gold = with_versions(gold, read_corpus(str(tmp_path / "corpus.jsonl")), DocRule())
    result = karat.evaluate({q: ["x"] for q in gold.queries}, gold, "recall@1", sampling=QUICK)
    assert sizes(result.segment_by("doc_version")) == {"2024": 1, "2025": 2, "several": 1, NOT_GIVEN: 1}


def test_queries_without_the_tag_are_a_segment_of_their_own() -> None:
    gold = [entry("p", topic="b"), entry("q"), entry("r", topic="a")]
    rows = scored(gold, {"q"}, segments="topic").segment_rows
    assert [(r.value, r.queries, r.few, r.summary[0].mean) for r in rows] == [
        ("a", 1, True, 0.0),
        ("b", 1, True, 0.0),
        (NOT_GIVEN, 1, True, 1.0),
    ]


def test_numbers_go_by_size_and_truths_by_yes_and_no() -> None:
    gold = [entry(f"q{i}", level=i, share=float(i), sure=i > 5) for i in (10, 9, 2)]
    result = scored(gold, set())
    assert [r.value for r in result.segment_by("level")] == ["2", "9", "10"]
    assert [r.value for r in result.segment_by("share")] == ["2", "9", "10"]
    assert sizes(result.segment_by("sure")) == {"no": 1, "yes": 2}
    assert [r.value for r in result.segment_by("sure×level")] == ["no × 2", "yes × 9", "yes × 10"]


def test_a_list_tag_is_several_values() -> None:
    gold = [entry("p", kinds=["a", "b"]), entry("q", kinds=["a"])]
    assert sizes(scored(gold, set()).segment_by("kinds")) == {"a": 2, "b": 1}


def test_skipped_queries_are_in_no_segment() -> None:
    gold = [entry("p", topic="a"), entry("q", topic="b")]
    result = karat.evaluate({"p": ["a"]}, gold, "recall@1", missing="skip", sampling=QUICK)
    assert sizes(result.segment_by("topic")) == {"a": 1}


def test_segments_are_written_as_a_table(tmp_path: Path) -> None:
    import polars as pl

    gold = [entry("p", topic="a"), entry("q")]
    result = scored(gold, {"p"}, segments="topic")
    export([result], f"segments={tmp_path / 'out.csv'}")
    export([result], f"segments={tmp_path / 'out.parquet'}")
    csv = pl.read_csv(tmp_path / "out.csv")
    assert csv.select("segment", "value", "queries", "metric", "mean", "few").rows() == [
        ("topic", "a", 1, "recall@1", 1.0, True),
        ("topic", NOT_GIVEN, 1, "recall@1", 0.0, True),
    ]
    assert pl.read_parquet(tmp_path / "out.parquet").equals(result.segments)


def test_segments_are_saved_when_they_were_asked_for() -> None:
    gold = [entry("p", topic="a"), entry("q")]
    assert saved_form(scored(gold, set())).segments == []
    asked = scored(gold, {"p"}, segments="topic")
    assert saved_form(asked).segments == asked.segment_rows
