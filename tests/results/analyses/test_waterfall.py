"""Where relevant items were lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import karat
from karat.data.corpus import Corpus
from karat.report.export import to_json
from karat.report.sections.stages import WORDS
from karat.results.analyses.waterfall import STAGES, Losses

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"


def corpus_of(*ids: str, **fields: list[Any]) -> Corpus:
    return Corpus("corpus", list(ids), [""] * len(ids), [""] * len(ids), fields)


def found(run: Any, gold: Any, **options: Any) -> Losses:
    losses: Losses = karat.evaluate(run, gold, ["recall@5"], **options, analyses=True).analyses.found["waterfall"]
    return losses


def stage_of(line: dict[str, Any], item: str = "r", gold: dict[str, Any] | None = None, **options: Any) -> str | None:
    """Where the item was lost; None: it was found."""
    entry = {"query_id": "q", "gold": [item], **(gold or {})}
    losses = found([{"query_id": "q", **line}, {"query_id": "other", "topk": ["x"]}], [entry], **options)
    assert (losses.rows[0].relevant, losses.rows[0].found + len(losses.items)) == (1, 1)
    return losses.items[0].stage if losses.items else None


LONG = [f"x{i}" for i in range(9)]
WRONG_ROUTE = {"route": "web"}


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ({"topk": ["r"]}, None),
        ({"topk": [*LONG, "r"]}, "cut"),
        ({"topk": LONG}, "not_listed"),
        ({"topk": LONG, "raw": LONG}, "not_retrieved"),
        ({"topk": LONG, "raw": ["r", *LONG]}, "demoted"),
        ({"topk": [*LONG, "r"], "raw": ["r", *LONG]}, "demoted"),
        ({"topk": LONG, "raw": [*LONG, "r"]}, "cut_early"),
        ({"topk": [*LONG, "r"], "raw": [*LONG, "r"]}, "cut"),
        ({"topk": [*LONG, "r"], "raw": LONG}, "cut"),  # what another search brought in is in the list
        ({"topk": LONG[:2], "raw": [*LONG[:3], "r"]}, "cut_early"),  # the list ends before the place that it had
        ({"topk": LONG[:2], "raw": [LONG[0], "r"]}, "demoted"),
        ({"topk": [], "raw": ["r"]}, "cut_early"),
        ({"topk": [], "error": "timeout"}, "not_run"),
        ({"topk": [], "error": "timeout", "raw": ["r"]}, "not_run"),
        ({"topk": LONG, "error": "one shard failed"}, "not_listed"),
        ({"topk": [], "route": "web"}, "not_listed"),  # the gold does not say where it should have gone
    ],
)
def test_the_stage_of_an_item(line: dict[str, Any], stage: str | None) -> None:
    assert stage_of(line) == stage


@pytest.mark.parametrize(
    ("line", "needed", "stage"),
    [
        ({"topk": LONG, "raw": LONG, "route": "web"}, "faq", "misrouted"),
        ({"topk": LONG, "route": ["web"]}, ["web", "faq"], "misrouted"),
        ({"topk": LONG, "route": ["web", "faq"]}, "faq", "not_listed"),
        ({"topk": [*LONG, "r"], "route": "web"}, "faq", "cut"),  # it was found all the same
        ({"topk": LONG, "raw": [*LONG, "r"], "route": "web"}, "faq", "cut_early"),
    ],
)
def test_misrouted_items(line: dict[str, Any], needed: Any, stage: str) -> None:
    assert stage_of(line, gold={"source": needed}) == stage


@pytest.mark.parametrize(("own", "stage"), [("web", "not_listed"), ("faq", "misrouted"), (None, "misrouted")])
def test_the_corpus_knows_the_source_of_an_item_better(own: str | None, stage: str) -> None:
    corpus = corpus_of("r", source=[own])
    gold = {"source": ["web", "faq"]}
    assert stage_of({"topk": LONG, "route": "web"}, gold=gold, corpus=corpus) == stage


@pytest.mark.parametrize(
    ("item", "corpus", "stage"),
    [
        ("d#1", corpus_of("d#1"), "not_listed"),
        ("d#1", corpus_of("d#2"), "not_in_corpus"),
        ("d", corpus_of("d#2"), "not_listed"),  # the gold names a document
        ("d", corpus_of("e#2"), "not_in_corpus"),
        ("d", corpus_of("chunk 7", doc_id=["d"]), "not_listed"),
    ],
)
def test_items_that_the_corpus_lacks(item: str, corpus: Corpus, stage: str) -> None:
    assert stage_of({"topk": ["x#1"]}, item, corpus=corpus) == stage


def test_what_stands_in_a_list_was_in_the_corpus_whatever_the_file_says() -> None:
    assert stage_of({"topk": [*LONG, "r"]}, corpus=corpus_of("other")) == "cut"
    assert stage_of({"topk": LONG, "raw": [*LONG, "r"]}, corpus=corpus_of("other")) == "cut_early"


def test_a_document_that_is_gold_is_found_by_any_chunk() -> None:
    assert stage_of({"topk": [f"x#{i}" for i in range(9)] + ["d#3"], "raw": ["x#1", "d#1"]}, "d") == "demoted"


def scored(*scores: float) -> list[dict[str, Any]]:
    return [{"chunk_id": "r" if i + 1 == len(scores) else f"x{i}", "score": s} for i, s in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "stage"),
    [
        ((0.9, 0.8), None),
        ((0.9, 0.2), "low_score"),
        ((0.9, 0.8, 0.7, 0.6, 0.55, 0.2), "cut"),  # without the threshold it would stand sixth
    ],
)
def test_a_score_threshold(scores: tuple[float, ...], stage: str | None) -> None:
    assert stage_of({"topk": scored(*scores)}, min_score=0.5) == stage
    assert stage_of({"topk": scored(*scores), "raw": [*LONG, "r"]}, min_score=0.5) == stage


@pytest.mark.parametrize(
    ("hits", "stage"),
    [(["x1", "r"], None), (["x1", "x2", "r"], "over_top_k"), ([*LONG, "r"], "cut")],  # it would stand tenth without
)
def test_lists_that_are_cut_before(hits: list[str], stage: str | None) -> None:
    assert stage_of({"topk": hits}, top_k=2) == stage
    assert stage_of({"topk": hits, "raw": [*LONG, "r"]}, top_k=2) == stage


def test_of_two_filters_the_one_that_comes_first_is_named() -> None:
    assert stage_of({"topk": scored(0.9, 0.8, 0.2)}, min_score=0.5, top_k=2) == "over_top_k"
    assert stage_of({"topk": scored(0.9, 0.2)}, min_score=0.5, top_k=2) == "low_score"


def test_a_budget_of_tokens_in_the_place_of_k(shown: Callable[[karat.Result, str], str]) -> None:
    hits = [{"chunk_id": item, "tokens": 400} for item in ["a", "x", "b", "c"]]
    gold = {"q": ["a", "b", "c", "gone"]}
    asked = ["recall(average=micro)@1000tok", "recall@1500tok"]
    result = karat.evaluate([{"query_id": "q", "topk": hits}], gold, asked, analyses=True)
    losses: Losses = result.analyses.found["waterfall"]
    row = losses.rows[0]
    assert (losses.budget, row.found, row.no_room) == (1000, 1, 0)
    assert row.lost == {"not_listed": 1, "over_budget": 2}
    assert row.found / row.relevant == result.means["recall(average=micro)@1000tok"]
    text = shown(result, "waterfall")
    assert "1,000 tokens | 1 | 25.0%" in text
    assert "1,000 tokens | 2 | 50.0%" in text
    with_k = karat.evaluate(
        [{"query_id": "q", "topk": hits}], gold, [*asked, "recall@5"], analyses=True
    ).analyses.found["waterfall"]
    assert (with_k.budget, with_k.rows[0].found) == (None, 3)


def test_a_query_that_the_run_lacks() -> None:
    losses = found({"q": ["r"]}, {"q": ["r"], "gone": ["a", "b"]})
    assert losses.rows[0].lost == {"not_run": 2, "not_listed": 0, "cut": 0}
    assert found({"q": ["r"]}, {"q": ["r"], "gone": ["a", "b"]}, missing="skip").rows[0].relevant == 1


def test_a_query_has_a_cutoff_of_its_own() -> None:
    gold = [{"query_id": "a", "gold": ["x1"], "k": 1}, {"query_id": "b", "gold": ["x1"]}]
    losses = found({"a": LONG, "b": LONG}, gold)
    assert (losses.own_k, losses.rows[0].found, losses.rows[0].lost["cut"]) == (1, 1, 1)
    assert [item.query_id for item in losses.items] == ["a"]


def test_more_relevant_items_than_places() -> None:
    losses = found({"q": LONG}, {"q": LONG[:7]})
    assert (losses.rows[0].no_room, losses.rows[0].lost["cut"]) == (2, 2)


def test_only_stages_that_the_data_can_tell_are_there() -> None:
    assert found({"q": LONG}, {"q": ["r"]}).stages == ["not_listed", "cut"]
    with_raw = [{"query_id": "q", "topk": LONG, "raw": LONG}]
    assert found(with_raw, {"q": ["r"]}).stages == ["not_retrieved", "cut_early", "demoted", "cut"]
    half = [*with_raw, {"query_id": "p", "topk": [*LONG, {"chunk_id": "y", "score": 1.0}]}]
    assert "not_listed" in found(half, {"q": ["r"], "p": ["r"]}, corpus=corpus_of("r"), min_score=0.0).stages


def test_gold_without_items() -> None:
    result = karat.evaluate({"q": ["r"]}, [{"query_id": "q", "evidence": ["text"]}], ["mrr"], analyses=True)
    assert "`gold`" in result.analyses.lacking["waterfall"]


def test_details_are_bounded_and_begin_with_what_lost_most() -> None:
    gold = {"half": ["x0", "gone"], **{f"q{i}": [f"r{j}" for j in range(6)] for i in range(100)}}
    losses = found(dict.fromkeys(gold, LONG), gold)
    assert (len(losses.items), losses.left_out) == (500, 101)
    assert losses.items[0].query_id == "q0"
    assert "half" not in {item.query_id for item in losses.items}


# The sums


ITEMS = [f"d{i}" for i in range(6)]
LISTS = st.lists(st.sampled_from(ITEMS + LONG), unique=True, max_size=9)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    gold, run = [], []
    for i in range(draw(st.integers(1, 5))):
        entry: dict[str, Any] = {"query_id": f"q{i}", "tags": {"group": draw(st.sampled_from("ab"))}}
        entry["gold"] = draw(st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0.0, 1.0, 2.0]), max_size=5))
        entry["k"] = draw(st.sampled_from([None, 1, 3]))
        entry["source"] = draw(st.sampled_from([None, "faq", ["faq", "web"]]))
        gold.append(entry)
        if i and draw(st.booleans()):
            continue
        hits = [{"chunk_id": item, "score": draw(st.sampled_from([0.1, 0.5, 0.9]))} for item in draw(LISTS)]
        line: dict[str, Any] = {"query_id": f"q{i}", "topk": hits, "raw": draw(st.none() | LISTS)}
        line["route"] = draw(st.sampled_from([None, "faq", "web", ["faq", "web"]]))
        line["error"] = draw(st.sampled_from([None, "failed"]))
        run.append(line)
    options: dict[str, Any] = {
        "k": draw(st.integers(1, 6)),
        "min_score": draw(st.sampled_from([None, 0.3])),
        "top_k": draw(st.sampled_from([None, 2, 4])),
        "missing": draw(st.sampled_from(["worst", "skip"])),
        "corpus": draw(st.sampled_from([None, corpus_of("d0", "d1", "d2", source=["faq", None, "web"])])),
        "segments": ["group"],
    }
    return run, gold, options


@settings(max_examples=50)
@given(world=worlds())
@example(world=([{"query_id": "q0", "topk": []}], [{"query_id": "q0", "gold": {}, "tags": {"group": "a"}}], {}))
def test_the_sums_add_up(world: tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]) -> None:
    """Found as recall counts it, and every other relevant item lost exactly once; segments add up to the whole."""
    run, gold, options = world
    result = karat.evaluate(run, gold, ["recall(average=micro)"], **options, analyses=True)
    losses: Losses | None = result.analyses.found.get("waterfall")
    asked = set(result.queries)
    relevant = sum(g > 0 for entry in gold if entry["query_id"] in asked for g in entry["gold"].values())
    if losses is None:
        assert relevant == 0
        return
    everything, *segments = losses.rows
    assert everything.relevant == relevant
    assert everything.found + sum(everything.lost.values()) == relevant
    recall = result.means["recall(average=micro)@k"]
    assert recall is not None
    assert everything.found == pytest.approx(recall * relevant)
    assert everything.no_room <= sum(everything.lost.values())
    assert len(losses.items) == relevant - everything.found
    by_stage = {stage: sum(item.stage == stage for item in losses.items) for stage in losses.stages}
    assert by_stage == everything.lost
    for row in (everything, *segments):
        assert row.found + sum(row.lost.values()) == row.relevant
    if segments:
        assert sum(row.relevant for row in segments) == relevant
        assert sum(row.found for row in segments) == everything.found


# What is shown and saved


def test_every_stage_has_words() -> None:
    assert set(WORDS) == set(STAGES)


def test_the_demo_adds_up_to_what_recall_says() -> None:
    result = karat.evaluate(
        DEMO / "bm25_rerank.jsonl",
        DEMO / "gold.jsonl",
        ["recall(average=micro)@5"],
        corpus=DEMO / "corpus.jsonl",
        segments=["language"],
        analyses=True,
    )
    losses: Losses = result.analyses.found["waterfall"]
    everything = losses.rows[0]
    assert everything.relevant - everything.found == sum(everything.lost.values())
    assert everything.found / everything.relevant == pytest.approx(result.means["recall(average=micro)@5"])
    assert everything.lost["not_in_corpus"] == 0
    assert min(everything.lost[stage] for stage in ("not_retrieved", "cut_early", "demoted", "cut")) > 0
    assert len(losses.rows) == 4


def test_the_report_says_what_cannot_be_told_apart(shown: Callable[[karat.Result, str], str]) -> None:
    text = shown(karat.evaluate({"q": LONG}, {"q": ["r", "x1"]}, segments=["gold_items"]), "waterfall")
    assert " | 2 | 100.0%" in text
    assert " | 1 | 50.0%" in text
    assert "`raw`" in text
    assert "`--corpus`" in text
    assert "\n1–2 | 2 | 1 | 1" in text


def test_saved_and_back(tmp_path: Path) -> None:
    result = karat.evaluate(DEMO / "bm25_rerank.jsonl", DEMO / "gold.jsonl", ["recall@5"], analyses=True)
    file = tmp_path / "result.json"
    file.write_bytes(to_json([result]))
    saved = json.loads(file.read_bytes())["analyses"]["waterfall"]
    assert saved["items"][0].keys() == {"query_id", "item", "grade", "stage", "raw_place", "place"}
    from karat.results.save import restore
    from karat.results.saved import read_result

    assert restore(read_result(file)).analyses.found["waterfall"] == result.analyses.found["waterfall"]
