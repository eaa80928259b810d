"""The retriever apart from the reranker."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.cli.main import karat_command
from karat.results.analyses.reranker import Reranked, best_places
from karat.results.evaluate import evaluate_all
from karat.scoring.judged import Rules, judge_places
from karat.scoring.metrics.grammar import parse_metric

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"
GOLD = DEMO / "gold.jsonl"
Shown = Callable[[karat.Result, str], str]


def found(result: karat.Result) -> Reranked:
    reranked: Reranked = result.analyses.found["reranker"]
    return reranked


def log(**lists: dict[str, list[str]]) -> list[dict[str, Any]]:
    """`log(topk={"q": ["a"]}, raw={"q": ["b"]})` as records."""
    return [
        {"query_id": query, **{name: of[query] for name, of in lists.items() if query in of}} for query in lists["topk"]
    ]


def test_what_was_possible_and_what_was_won() -> None:
    """Three relevant items at 1, 4 and 6 of the raw list; reranking brings the second to place 2."""
    raw = ["r1", "x", "y", "r2", "z", "r3"]
    run = log(topk={"q": ["r1", "r2", "x"]}, raw={"q": raw})
    gain = found(karat.evaluate(run, {"q": ["r1", "r2", "r3"]}, ["recall@3"], k=3, analyses=True)).gain
    assert gain is not None
    ideal = 1 + 1 / np.log2(3) + 1 / 2
    assert (gain.metric, gain.best) == ("ndcg@3", 1.0)
    assert gain.possible == pytest.approx(1 - 1 / ideal)
    assert gain.captured is not None
    assert gain.captured.mean == pytest.approx((1 / np.log2(3)) / (ideal - 1))


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("seed", range(6))
def test_the_possible_gain_is_that_of_the_best_permutation_of_the_candidates(seed: int, depth: int) -> None:
    rng = random.Random(seed)
    raw = rng.sample("abcdef", 6)
    gold = {"q": {item: rng.randint(0, 2) for item in rng.sample("abcdefg", 4)} | {raw[3]: 2}}
    orders = {str(i): [*head, *raw[depth:]] for i, head in enumerate(permutations(raw[:depth]))}
    scores = karat.evaluate(orders, dict.fromkeys(orders, gold["q"]), ["ndcg@3"]).score("ndcg@3")
    best = max(score or 0.0 for score in scores.values())
    plain = karat.evaluate({"q": raw}, gold, ["ndcg@3"]).means["ndcg@3"] or 0.0
    run = log(topk={"q": raw[:3]}, raw={"q": raw})
    for lines, options in (
        (run, {"rerank_depth": depth}),
        ([{**line, "rerank_depth": depth} for line in run], {}),
        ([{**line, "retriever": {"name": "rerank", "top_n": depth}} for line in run], {}),
        ([{**line, "rerank_depth": 6} for line in run], {"rerank_depth": depth}),
    ):
        gain = found(karat.evaluate(lines, gold, k=3, **options)).gain
        assert gain is not None
        assert (gain.rerank_depth, gain.best, gain.possible) == (
            depth,
            pytest.approx(best),
            pytest.approx(best - plain, abs=1e-12),
        )


@pytest.mark.parametrize(
    ("place", "final", "depth"), [(40, False, 50), (60, False, 50), (60, True, 60), (50, True, 50)]
)
def test_fifty_candidates_unless_one_came_from_further_down(place: int, final: bool, depth: int) -> None:
    raw = [f"x{i}" for i in range(1, 101)]
    run = log(topk={"q": [f"x{place}", "x1"] if final else ["x1", "x2"]}, raw={"q": raw})
    gain = found(karat.evaluate(run, {"q": [f"x{place}"]})).gain
    assert gain is not None
    assert (gain.rerank_depth, gain.best) == (depth, 1.0 if place <= depth else 0.0)


def test_a_depth_that_differs_between_queries_is_not_silently_fifty() -> None:
    raw = [f"x{i}" for i in range(1, 61)]
    run = log(topk={query: ["x2", "x1"] for query in "pq"}, raw=dict.fromkeys("pq", raw))
    lines = [{**line, "rerank_depth": 20 + 10 * i} for i, line in enumerate(run)]
    gold = {"p": ["x2"], "q": ["x2"]}
    assert found(karat.evaluate(lines, gold)).logged_depths == 2
    assert found(karat.evaluate(lines, gold, rerank_depth=20)).logged_depths == 0
    assert found(karat.evaluate([{**line, "rerank_depth": 20} for line in run], gold)).logged_depths == 0


def test_the_depth_can_be_given_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(json.dumps({"query_id": "q", "topk": ["x"], "raw": ["x", "y", "r"]}) + "\n")
    (tmp_path / "gold.jsonl").write_text(json.dumps({"query_id": "q", "gold": ["r"]}) + "\n")
    files = [str(tmp_path / "run.jsonl"), "--gold", str(tmp_path / "gold.jsonl"), "--json"]
    for depth, best in (("2", 0.5), ("3", 1.0)):
        done = CliRunner().invoke(karat_command, ["eval", *files, "--rerank-depth", depth])
        assert json.loads(done.stdout)["analyses"]["reranker"]["gain"]["best"] == best


def test_what_the_raw_list_lacks_no_order_wins() -> None:
    run = log(topk={"q": ["x", "r1"]}, raw={"q": ["x", "r1"]})
    gain = found(karat.evaluate(run, {"q": {"r1": 1, "gone": 2}})).gain
    assert gain is not None
    assert gain.best == pytest.approx(1 / (3 + 1 / np.log2(3)))


def test_losing_where_nothing_could_be_won_counts() -> None:
    """One query gains all that it can, the other stood perfectly and loses as much: together nothing was captured."""
    run = log(topk={"a": ["r", "x"], "b": ["x", "r"]}, raw={"a": ["x", "r"], "b": ["r", "x"]})
    gain = found(karat.evaluate(run, {"a": ["r"], "b": ["r"]})).gain
    assert gain is not None
    assert gain.captured is not None
    assert gain.captured.mean == pytest.approx(0.0)


def test_nothing_to_win(shown: Shown) -> None:
    run = log(topk={"q": ["x", "r"]}, raw={"q": ["r", "x"]})
    result = karat.evaluate(run, {"q": ["r"]})
    gain = found(result).gain
    assert gain is not None
    assert (gain.possible, gain.captured) == (0.0, None)
    assert "captured" not in shown(result, "reranker")


@settings(max_examples=30)
@given(data=st.data())
def test_the_best_order_is_that_of_a_sorted_list(data: st.DataObject) -> None:
    """Sorting each list by grade and scoring it says the same as the places alone do."""
    items = [f"d{i}" for i in range(8)]
    grades = st.dictionaries(st.sampled_from(items), st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=1)
    gold = {f"q{i}": data.draw(grades) for i in range(data.draw(st.integers(1, 4)))}
    lists = {query: data.draw(st.permutations(items))[: data.draw(st.integers(1, 8))] for query in gold}
    ordered = {query: sorted(hits, key=lambda item: -gold[query].get(item, 0.0)) for query, hits in lists.items()}
    result = karat.evaluate(lists, gold, ["ndcg@3"])
    judged = judge_places(result.gold, result.rows, best_places(result.gold, result.places), Rules())
    expected = karat.evaluate(ordered, gold, ["ndcg@3"]).values["ndcg@3"]
    np.testing.assert_allclose(parse_metric("ndcg@3").score(judged), expected)


def test_no_reranker_is_said_in_one_line(shown: Shown) -> None:
    result = karat.evaluate(DEMO / "bm25.jsonl", GOLD)
    assert not found(result).reordered
    assert "difference" not in shown(result, "reranker")
    assert found(karat.evaluate(DEMO / "bm25_rerank.jsonl", GOLD)).reordered


@pytest.mark.parametrize(
    ("topk", "reordered"),
    [
        (["a", "r"], False),
        (["a"], False),
        (["a", "r", "b"], False),
        (["r", "a"], True),
        (["a", "b"], True),  # r stood second and is gone, though there is room
    ],
)
def test_a_cut_is_no_new_order(topk: list[str], reordered: bool) -> None:
    run = log(topk={"q": topk}, raw={"q": ["a", "r", "b"]})
    assert found(karat.evaluate(run, {"q": {"r": 1, "b": 0}})).reordered is reordered


def test_lists_of_which_nothing_is_judged_say_nothing_about_order() -> None:
    assert found(karat.evaluate(log(topk={"q": ["a"]}, raw={"q": ["a"]}), {"q": ["r"]})).reordered


def test_short_raw_lists_do_not_claim_a_depth() -> None:
    run = log(topk={"q": ["a"]}, raw={"q": ["a", "b", "r"]})
    assert [row.metric for row in found(karat.evaluate(run, {"q": ["r"]})).raw] == ["recall@3", "mrr@3"]
    deep = [f"d{i}" for i in range(70)]
    rows = found(karat.evaluate(log(topk={"q": ["a"]}, raw={"q": deep}), {"q": ["d60"]})).raw
    assert [(row.metric, row.mean) for row in rows] == [("recall@50", 0.0), ("recall@70", 1.0), ("mrr@50", 0.0)]


def test_queries_without_a_raw_list_are_left_out_and_counted(shown: Shown) -> None:
    run = log(topk={"a": ["r"], "b": ["r"], "c": ["r"]}, raw={"a": ["x", "r"]})
    result = karat.evaluate(run, {key: ["r"] for key in "abcd"})
    reranked = found(result)
    assert (reranked.queries, reranked.without_raw) == (1, 2)  # d is in no list at all
    assert reranked.raw[0].mean == 1.0
    assert {d.n for d in reranked.differences} == {1}
    assert "2 queries " in shown(result, "reranker")


def test_raw_lists_of_queries_that_the_gold_lacks_are_none() -> None:
    run = [{"query_id": "a", "topk": ["r"]}, {"query_id": "unknown", "topk": ["r"], "raw": ["r"]}]
    assert karat.evaluate(run, {"a": ["r"]}).analyses.lacking["reranker"]


def test_a_threshold_is_for_final_scores() -> None:
    """Raw scores are on a scale of their own: a threshold of 5 would leave nothing of them."""
    run = [
        {
            "query_id": "q",
            "topk": [{"chunk_id": "r", "score": 9.0}, {"chunk_id": "x", "score": 1.0}],
            "raw": [{"chunk_id": "x", "score": 0.9}, {"chunk_id": "r", "score": 0.8}],
        }
    ]
    reranked = found(karat.evaluate(run, {"q": ["r"]}, min_score=5.0))
    assert reranked.raw_depth == 2
    assert reranked.differences[0].baseline == pytest.approx(1 / np.log2(3))


# Raw lists in another run


def test_raw_lists_of_another_run(tmp_path: Path) -> None:
    """The log without its raw lists, and these in a file of their own: the same numbers."""
    whole = karat.evaluate(DEMO / "bm25_rerank.jsonl", GOLD, ["recall@5"], analyses=True)
    lines = [json.loads(line) for line in (DEMO / "bm25_rerank.jsonl").read_text().splitlines()]
    final = [{k: v for k, v in line.items() if k != "raw"} for line in lines]
    trec = tmp_path / "raw.trec"
    trec.write_text(
        "".join(f"{x['query_id']} Q0 {h['chunk_id']} {h['rank']} {h['score']} bm25\n" for x in lines for h in x["raw"])
    )
    with_raw = karat.evaluate(final, GOLD, ["recall@5"], raw=trec, analyses=True)
    assert found(with_raw) == found(whole)
    assert with_raw.analyses.found["waterfall"] == whole.analyses.found["waterfall"]


def test_raw_lists_serve_the_system_of_their_name_or_all() -> None:
    finals = [{"query_id": "q", "system": name, "topk": ["r"]} for name in ("one", "two")]
    gold = {"q": ["r"]}
    for_all = evaluate_all(finals, gold, raw=[{"query_id": "q", "system": "bm25", "topk": ["x", "r"]}])
    assert [found(result).raw_depth for result in for_all.values()] == [2, 2]
    own = [{"query_id": "q", "system": name, "topk": ["x"] * n + ["r"]} for name, n in (("one", 0), ("two", 1))]
    by_name = evaluate_all(finals, gold, raw=own)
    assert [found(result).raw_depth for result in by_name.values()] == [1, 2]
    strangers = [{"query_id": "q", "system": name, "topk": ["r"]} for name in ("three", "four")]
    with refused("several-systems"):
        evaluate_all(finals, gold, raw=strangers)


def test_another_run_without_any_common_query_is_an_error() -> None:
    with refused("no-overlap"):
        karat.evaluate({"q": ["r"]}, {"q": ["r"]}, raw={"other": ["r"]})


def run_eval(*arguments: str | Path) -> Any:
    return CliRunner().invoke(karat_command, ["eval", *map(str, arguments)])


def test_the_command_takes_lists_of_other_runs(tmp_path: Path) -> None:
    raw, original, faq, final, gold = (tmp_path / name for name in ("raw", "original", "faq", "final", "gold"))
    raw.write_text('{"q": ["x", "r"]}')
    original.write_text('{"q": ["x", "y", "r"]}')
    faq.write_text('{"q": ["r"]}')
    final.write_text('{"query_id": "q", "topk": ["r"], "route": "web"}')
    gold.write_text('{"query_id": "q", "gold": ["r"], "source": "faq"}')
    others = ("--raw", raw, "--original", original, "--route", f"faq={faq}")
    done = run_eval(final, "-g", gold, *others, "--json")
    assert done.exit_code == 0, done.output
    analyses = json.loads(done.stdout)["analyses"]
    assert analyses["reranker"]["raw_depth"] == 2
    assert analyses["rewriter"]["differences"][0]["baseline"] == 0.5
    assert analyses["router"]["regret"]["against"] == ["faq"]
    overwriting = run_eval(final, "-g", gold, *others, "-o", f"summary={faq}").exception
    assert isinstance(overwriting, karat.KaratError)
    assert overwriting.code == "would-overwrite"


@pytest.mark.parametrize("given", ["faq", "faq=", "=run.jsonl"])
def test_a_route_without_name_or_run(given: str) -> None:
    done = run_eval("run", "-g", "gold", "--route", given)
    assert done.exit_code == 2
    assert "NAME=RUN" in done.output


def test_the_page_about_components_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DEMO.parents[1] / "docs" / "components.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    (tmp_path / "run.jsonl").write_bytes((DEMO / "bm25_rerank.jsonl").read_bytes())
    (tmp_path / "gold.jsonl").write_bytes(GOLD.read_bytes())
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"karat": karat}
    exec(block, names)
    assert names["tested"].queries == 50
