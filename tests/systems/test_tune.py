"""Tuning: fusion and cutoffs by plain code, folds, honest gains, and the files that the command writes."""

from __future__ import annotations

import doctest
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import karat
from karat.errors import KaratError
from karat.files.yaml import read_document
from karat.report.tune import sentence
from karat.retrievers.combined import Hybrid, fused
from karat.retrievers.specs import make_retriever
from karat.scoring.fusion import Ranked
from karat.statistics.nested import Nested, fold_numbers
from karat.systems.settings_to_try import Setting, fusions, rankings, scores_of
from karat.systems.tuning import WIDER, Tuning, tune, tuned

Record = dict[str, Any]
Call = Callable[..., tuple[int, str, str]]


def world(seed: int, queries: int = 24, signal: float = 0.0, lists: int = 2) -> tuple[list[list[Record]], list[Record]]:
    """Runs with ties, short lists and queries that one of them lacks. Each list is good at other relevant items."""
    rng = np.random.default_rng(seed)
    runs: list[list[Record]] = [[] for _ in range(lists)]
    gold = []
    for q in range(queries):
        for at, run in enumerate(runs):
            score = np.round(rng.normal(size=14), 1)
            score[at * 2 : at * 2 + 2] += signal
            order = np.argsort(-score, kind="stable")[: rng.integers(4, 13)]
            hits = [{"chunk_id": f"d{i}", "score": float(score[i]), "tokens": int(20 + 7 * i)} for i in order]
            if q % 11 != at + 3:
                run.append({"query_id": f"q{q}", "system": f"list{at}", "topk": hits})
        gold.append({"query_id": f"q{q}", "gold": {"d0": 2, "d1": 1, "d2": 1}, "conversation_id": f"c{q // 2}"})
    return runs, gold


def listed(run: list[Record], query: str) -> list[tuple[str, float]]:
    """Hits in ranking order: by score, ties by id, descending."""
    hits = next((record["topk"] for record in run if record["query_id"] == query), [])
    scored = sorted(((hit["score"], hit["chunk_id"]) for hit in hits), reverse=True)
    return [(item, score) for score, item in scored]


def by_plain_code(runs: list[list[Record]], query: str, setting: Setting, depth: int) -> list[str]:
    lists = [listed(run, query)[:depth] for run in runs]
    if setting.method == "list":
        kept = [item for item, score in lists[setting.weights.index(1.0)] if score >= (setting.min_score or -1e9)]
        return kept[: setting.top_k]
    scores: dict[str, float] = {}
    for hits, weight in zip(lists, setting.weights, strict=True):
        values = [score for _, score in hits]
        some = [one for one in setting.weights if one]
        factor = float(weight > 0) if len(set(some)) == 1 else len(some) * weight  # to the last bit, as ties matter
        for rank, (item, score) in enumerate(hits, 1):
            if setting.constant is not None:
                part = 1 / (setting.constant + rank)
            else:
                part = (score - min(values)) / (max(values) - min(values)) if max(values) > min(values) else 1.0
            if weight:
                scores[item] = scores.get(item, 0.0) + factor * part
    best = sorted(((score, item) for item, score in scores.items()), reverse=True)
    return [item for _, item in best][: setting.top_k]


@pytest.mark.parametrize("seed", range(6))
def test_every_setting_by_plain_code(seed: int) -> None:
    runs, gold = world(seed, lists=2 + seed % 2)
    depth = (3, 8, 100)[seed % 3]
    _, candidates, _ = tuned(runs, gold, "ndcg@5", prefetch=depth, resamples=100)
    settings = [*fusions(len(runs), scored=True), Setting("list", [1.0, *[0.0] * (len(runs) - 1)], None, 4, 0.3)]
    start = np.append(0, np.cumsum(candidates.size))
    for setting, ranked in rankings(candidates, settings):
        got, expected = [], []
        for query, row in enumerate(candidates.rows.tolist()):
            places = ranked.order[query, : ranked.depth[query]] + start[query]
            got.append([candidates.ids[place] for place in places.tolist()])
            expected.append(by_plain_code(runs, candidates.gold.queries[row], setting, depth))
        assert got == expected, setting


@pytest.mark.parametrize(("constant", "weight"), [(60, 0.5), (5, 0.5), (20, 0.7), (120, 0.1)])
def test_fusion_is_that_of_hybrid_to_the_last_bit(constant: float, weight: float) -> None:
    runs, gold = world(7)
    _, candidates, _ = tuned(runs, gold, "ndcg@5", resamples=100)
    score = scores_of(candidates, Setting("rrf", [weight, round(1 - weight, 1)], constant))
    order = Ranked.by(candidates, score)
    start = np.append(0, np.cumsum(candidates.size))
    hybrid = Hybrid(make_retriever("random"), make_retriever("random"), constant=constant, weight=weight)
    assert (hybrid.constant, hybrid.weight) == (constant, weight)
    for query, row in enumerate(candidates.rows.tolist()):
        lists = [[{"chunk_id": item} for item, _ in listed(run, candidates.gold.queries[row])] for run in runs]
        expected = fused(lists, constant, (2 * weight, 2 * round(1 - weight, 9)))
        places = order.order[query, : order.depth[query]].tolist()
        assert [(candidates.ids[start[query] + p], score[query, p]) for p in places] == [
            (hit["chunk_id"], hit["score"]) for hit in expected
        ]


@pytest.mark.parametrize("metric", ["ndcg@5", "mrr", "recall@100tok", "precision@3", "f1@5", "recall(level=doc)@5"])
def test_scores_are_those_of_the_written_run(metric: str, karat_command: Call, tmp_path: Path) -> None:
    """What a setting is said to score is what `karat.evaluate` says about its run."""
    runs, gold = world(3, signal=1.0)
    paths = write(tmp_path, runs, gold)
    code, out, err = karat_command(
        *("eval", "tune", *paths, "--gold", "gold.jsonl", "-m", metric, "--resamples", "200"),
        *("-o", "tuned.jsonl", "-o", "tuned.yaml", "--json"),
    )
    assert code == 0, err
    found = msgspec.json.decode(out, type=Tuning)
    if "tok" not in metric:  # the written run has no tokens
        again = karat.evaluate("tuned.jsonl", "gold.jsonl", [metric])
        assert again.means[metric] == pytest.approx(found.recommended.mean)
    single = karat.evaluate(paths[0], "gold.jsonl", [metric])
    alone = next(one for one in found.against if one.told == "list0")
    assert alone.gain.baseline == pytest.approx(single.means[metric])


def write(folder: Path, runs: list[list[Record]], gold: list[Record]) -> list[str]:
    for name, records in [*((f"run{at}.jsonl", run) for at, run in enumerate(runs)), ("gold.jsonl", gold)]:
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return [f"run{at}.jsonl" for at in range(len(runs))]


@pytest.fixture
def karat_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    from karat.cli.main import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["karat", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def test_neither_the_order_of_lines_nor_numbers_of_conversations_matter() -> None:
    runs, gold = world(5, signal=0.5)
    first = tune(runs, gold, "ndcg@5", resamples=200)
    again = tune([run[::-1] for run in runs], gold[::-1], "ndcg@5", resamples=200)
    assert again == msgspec.structs.replace(first, dataset=again.dataset, counted=again.counted)


def test_folds_keep_conversations_together() -> None:
    names = [f"q{i}" for i in range(40)]
    clusters = np.arange(40) // 4
    folds = fold_numbers(names, 5, clusters, "outer")
    assert all(len(set(folds[clusters == one].tolist())) == 1 for one in range(10))
    assert np.bincount(folds).tolist() == [8] * 5
    assert fold_numbers(names, 5, 100 - clusters, "outer").tolist() == folds.tolist()


def test_a_fold_is_measured_by_a_setting_that_did_not_see_it() -> None:
    """In each fold, one setting is perfect there and bad elsewhere: whoever looks would take it."""
    outer = np.arange(50) % 5
    values = np.stack([np.full(50, 0.5), *(np.where(outer == fold, 1.0, 0.3) for fold in range(5))])
    nested = Nested(values, outer, np.arange(50) // 10)
    chosen, scores = nested.held_out(np.arange(6))
    assert chosen.tolist() == [0] * 5
    assert scores.tolist() == [0.5] * 50


def test_noise_has_no_gain_on_queries_that_did_not_choose() -> None:
    """60 settings that are equally good: the best in sample is better every time, the held-out gain is about 0."""
    rng, held_out, in_sample = np.random.default_rng(0), [], []
    for _ in range(40):
        values = rng.normal(size=(60, 100))
        nested = Nested(values, *(fold_numbers([f"q{i}" for i in range(100)], 5, None, salt) for salt in "ab"))
        gain = nested.held_out(np.arange(60))[1] - values[0]
        held_out.append(gain.mean() / (gain.std() / 10))
        best = values[nested.choose(np.arange(60), np.ones(100, np.bool_))] - values[0]
        in_sample.append(best.mean() / (best.std() / 10))
    assert np.mean(np.abs(held_out) < 1.98 * WIDER) >= 0.93
    assert np.mean(np.abs(in_sample) < 1.98) < 0.8
    assert abs(np.mean(held_out)) < 0.4


def test_a_true_gain_is_found_and_noise_is_not() -> None:
    better = tune(*world(1, queries=120, signal=2.5), "recall@5", resamples=500)
    assert (better.worth_it, better.gain.reading, better.recommended) == (True, "better", better.best)
    noise = tune(*world(2, queries=60), "recall@5", resamples=500)
    assert (noise.worth_it, noise.recommended) == (False, noise.simple)
    assert (noise.in_sample.delta or 0) >= 0
    assert sentence(noise).startswith("Tuning is not worth")


def test_the_spec_is_a_retriever_if_that_can_do_it(karat_command: Call, tmp_path: Path) -> None:
    runs, gold = world(1, queries=120, signal=2.5)
    for run, name in zip(runs, ("bm25", "random"), strict=True):
        for record in run:
            record["system"] = name
            record["topk"] = [hit["chunk_id"] for hit in record["topk"]]  # without scores, only ranks can be fused
    paths = write(tmp_path, runs, gold)
    code, _, err = karat_command("eval", "tune", *paths, "-g", "gold.jsonl", "-m", "recall@5", "-o", "tuned.yaml")
    assert (code, "wrote tuned.yaml" in err) == (0, True)
    made = make_retriever("tuned.yaml")
    assert isinstance(made, Hybrid)
    assert (made.first.name, made.second.name, made.prefetch) == ("bm25", "random", 100)
    found = tune(paths, "gold.jsonl", "recall@5").recommended.setting
    assert (made.constant, made.weight) == (found.constant, found.weights[0])


def test_cutoffs_within_a_budget(karat_command: Call, tmp_path: Path) -> None:
    runs, gold = world(4, queries=60, signal=2.0)
    paths = write(tmp_path, runs[:1], gold)
    found = tune(paths[0], "gold.jsonl", "recall@10", budget=250, resamples=200)
    assert (found.what, found.budget) == ("cut", 250)
    assert all(one.tokens is not None and one.tokens <= 250 for one in (found.best, found.simple, *found.settings))
    setting = found.best.setting
    options = {name: getattr(setting, name) for name in ("top_k", "min_score") if getattr(setting, name) is not None}
    again = karat.evaluate(paths[0], "gold.jsonl", ["recall@10", "tokens@50"], **options)
    assert again.means["recall@10"] == pytest.approx(found.best.mean)
    code, out, err = karat_command("eval", "tune", *paths, "-g", "gold.jsonl", "--budget", "250", "-o", "t.yaml")
    assert (code, "tokens" in out) == (0, True), err
    spec = read_document(tmp_path / "t.yaml").value
    assert spec["tuned"]["method"] == "list"
    fusion = tune([runs[0], runs[1]], gold, "recall@10", budget=250, resamples=200)
    assert fusion.best.setting.top_k is not None


def test_a_run_is_fused_with_its_raw_lists() -> None:
    runs, gold = world(6, signal=1.0)
    raw = {record["query_id"]: record["topk"] for record in runs[1]}
    run = [{**record, "raw": raw.get(record["query_id"], [])} for record in runs[0]]
    found = tune(run, gold, "ndcg@5", what="fusion", resamples=200)
    assert found.lists == ["list0", "list0 raw"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"metric": "latency_p50"}, "unsuitable-metric"),
        ({"metric": "novelty@5"}, "unsuitable-metric"),
        ({"metric": "in_third@5"}, "unsuitable-metric"),
        ({"prefetch": 0}, "bad-setting"),
        ({"what": "cut"}, "several-systems"),
        ({"runs": "one", "what": "fusion"}, "one-list"),
        ({"queries": 8}, "too-few-queries"),
        ({"runs": "seven"}, "too-many-lists"),
        ({"bare": True, "budget": 100}, "no-tokens"),
    ],
)
def test_refused(change: Record, code: str) -> None:
    runs, gold = world(1, queries=change.pop("queries", 24))
    named = change.pop("runs", None)
    given: Any = runs[0] if named == "one" else runs if named is None else [*runs, *runs, *runs, runs[0]]
    if change.pop("bare", False):
        given = [[{**one, "topk": [hit["chunk_id"] for hit in one["topk"]]} for one in run] for run in runs]
    with pytest.raises(KaratError) as caught:
        tune(given, gold, change.pop("metric", "ndcg@5"), **change)
    assert caught.value.code == code


def test_the_example_of_the_docs() -> None:
    done = doctest.testfile(str(Path(__file__).parents[2] / "docs" / "tuning.md"), module_relative=False)
    assert (done.failed, done.attempted > 5) == (0, True)
