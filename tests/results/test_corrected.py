"""Precision and RBP corrected by people: simulated judges that err by rank and query, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import karat
from karat.labels.files import Label
from karat.labels.labelled_gold import read_labelling, with_labels
from karat.results.analyses.bounds import BoundsFound, BoundsRow
from karat.scoring.extra_labels import Labelling, Named
from karat.statistics.sampling import Sampling

QUICK = Sampling(resamples=400)
Pairs = dict[Named, float]


class World:
    """Two runs over the same queries. Of what they found the gold knows a part, a judge has labelled all, and it errs
    more often on low ranks, on some queries, and most often on what only the second run found."""

    def __init__(self, rng: np.random.Generator, queries: int, k: int) -> None:
        shape = (queries, 2 * k)  # first the hits of the first run, then those of the second
        rank = np.tile(np.linspace(-0.5, 0.5, k), 2)
        other = np.repeat([0.0, 1.0], k)
        relevant = rng.beta(0.8, 1.2, (queries, 1)) * (1 - 0.6 * rank)
        self.truth = rng.random(shape) < relevant
        shift = rng.normal(0, 1, (queries, 1)) - 0.8 * rank - 1.5 * other
        yes, no = (1 / (1 + np.exp(-base - sign * shift)) for base, sign in ((2.2, 1), (1.4, -1)))
        self.judge = rng.random(shape) < np.where(self.truth, yes, 1 - no)
        self.known = rng.random(shape) < 0.2
        self.k, self.names = k, [[(f"q{q}", f"d{i}") for i in range(2 * k)] for q in range(queries)]
        first = {f"q{q}": [f"d{i}" for i in range(k)] for q in range(queries)}
        self.run: dict[str, list[str]] = first
        self.gold: dict[str, dict[str, int]] = {}
        for q, names in enumerate(self.names):
            hits = zip(names, self.truth[q].tolist(), self.known[q].tolist(), strict=True)
            # One relevant item that no run finds: every query has an answer.
            self.gold[f"q{q}"] = {"missed": 1} | {name[1]: int(true) for name, true, known in hits if known}

    def labels(self, rng: np.random.Generator, count: int, depth: int, start: int = 0) -> Labelling:
        """The judge's of all, and people's of some open hits at random, between `start` and `depth`."""
        asked = np.argwhere(~self.known)
        asked = asked[(asked[:, 1] >= start) & (asked[:, 1] < depth)]
        picked = asked[rng.permutation(len(asked))[:count]].tolist()
        judge: Pairs = {self.names[q][i]: float(self.judge[q, i]) for q, i in np.ndindex(*self.judge.shape)}
        return Labelling(judge=judge, human={self.names[q][i]: float(self.truth[q, i]) for q, i in picked})

    def estimate(self, labelling: Labelling, metric: str) -> tuple[BoundsFound, BoundsRow | None]:
        result = karat.evaluate(self.run, self.gold, [metric], labelling=labelling, sampling=QUICK, analyses=True)
        found: BoundsFound = result.analyses.found["bounds"]
        rows = [row for row in found.rows if (row.metric, row.kind) == (metric, "judge-calibrated estimate")]
        return found, rows[0] if rows else None


def weights(metric: str, k: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.full(k, 1 / k) if metric.startswith("precision") else 0.2 * 0.8 ** np.arange(k)


@pytest.mark.parametrize(("metric", "k"), [("precision@5", 5), ("rbp@5", 5)])
def test_labels_of_the_runs_own_hits_hold_the_truth(metric: str, k: int) -> None:
    """Of these queries, and of all queries like them."""
    true = float((World(np.random.default_rng(9), 20_000, k).truth[:, :k] @ weights(metric, k)).mean())
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(75):
        world = World(rng, 50, k)
        _, row = world.estimate(world.labels(rng, 100, k), metric)
        assert row is not None
        assert row.low is not None
        assert row.high is not None
        here = float((world.truth[:, :k] @ weights(metric, k)).mean())
        inside.append([row.low <= here <= row.high, row.low <= true <= row.high])
    assert (np.mean(inside, axis=0) >= 0.93).all()


def test_labels_of_other_pairs_give_no_number() -> None:
    """300 labels of what only the other run found: how the judge errs there says nothing about these hits."""
    rng = np.random.default_rng(2)
    world = World(rng, 100, 5)
    found, row = world.estimate(world.labels(rng, 300, 10, start=5), "precision@5")
    assert row is None
    (refused,) = [one for one in found.refused if one.metric == "precision@5"]
    assert (refused.code, refused.labelled, refused.needed) == ("few-own-labels", 0, 10)
    assert refused.hits == int((~world.known[:, :5]).sum())


def picked(world: World, chance: np.ndarray[Any, Any], rng: np.random.Generator, count: int) -> Labelling:
    """The judge's labels of all, and people's of some open hits, each with its chance."""
    open_ = np.argwhere(~world.known & (chance > 0))
    weight = chance[open_[:, 0], open_[:, 1]]
    at = rng.choice(len(open_), min(count, len(open_)), replace=False, p=weight / weight.sum())
    judge: Pairs = {world.names[q][i]: float(world.judge[q, i]) for q, i in np.ndindex(*world.judge.shape)}
    return Labelling(judge=judge, human={world.names[q][i]: float(world.truth[q, i]) for q, i in open_[at].tolist()})


def test_labels_that_prefer_the_first_ranks_hold_the_truth() -> None:
    """Labels by influence, or of whoever reads from the top: rank 1 ten times as often as rank 10. Error rates of the
    first ranks, taken for all, are far off where the judge errs by rank."""
    true = float(World(np.random.default_rng(9), 20_000, 10).truth[:, :10].mean())
    rng, inside, refused = np.random.default_rng(11), [], 0
    for _ in range(30):
        world = World(rng, 80, 10)
        chance = np.concatenate([np.tile(1 / np.arange(1.0, 11.0), (80, 1)), np.zeros((80, 10))], axis=1)
        _, row = world.estimate(picked(world, chance, rng, 200), "precision@10")
        if row is None:
            refused += 1
            continue
        assert row.low is not None
        assert row.high is not None
        inside.append(row.low <= true <= row.high)
    assert np.mean(inside) >= 0.93
    assert refused <= 3


@pytest.mark.parametrize("metric", ["precision@5", "rbp@5", "ndcg@5"])
def test_labels_of_another_runs_hits_give_no_number(metric: str) -> None:
    """People labelled all that the other run found. What both found is relevant more often, whatever the judge says."""
    rng = np.random.default_rng(12)
    world = World(rng, 100, 5)
    both = rng.random(world.truth.shape) < np.where(world.truth, 0.7, 0.2)  # of the first run, found by the other, too
    both[:, 5:] = True
    labelling = graded(world, picked(world, both.astype(float), rng, 10_000))
    found, row = world.estimate(labelling, metric)
    assert row is None
    assert {one.code for one in found.refused if one.metric == metric} == {"drawn-elsewhere"}


@pytest.mark.parametrize("metric", ["precision@5", "ndcg@5"])
def test_labels_of_all_pairs_alike_give_a_number(metric: str) -> None:
    rng = np.random.default_rng(13)
    world = World(rng, 100, 5)
    labelling = graded(world, picked(world, np.ones(world.truth.shape), rng, 400))
    _, row = world.estimate(labelling, metric)
    assert row is not None
    assert row.low is not None


def test_ndcg_has_no_number_below_what_people_were_shown() -> None:
    """How the judge errs at ranks 1 to 3 says nothing of ranks 4 to 10."""
    rng = np.random.default_rng(14)
    world = World(rng, 100, 10)
    labelling = graded(world, world.labels(rng, 200, 3))
    found, row = world.estimate(labelling, "ndcg@10")
    assert row is None
    (refused,) = [one for one in found.refused if one.metric == "ndcg@10"]
    assert (refused.code, refused.depth) == ("not-shown", 3)


def graded(world: World, labelling: Labelling) -> Labelling:
    """The same with the judge's labels of the first run's hits in the gold, as nDCG needs them."""
    labels = [
        Label(query_id=query, chunk_id=item, grade=grade, annotator="m", kind="judge")
        for (query, item), grade in labelling.judge.items()
    ]
    with_judge = partial(with_labels, labels=labels, doc_of="#")
    return Labelling(judge=labelling.judge, human=labelling.human, with_judge=with_judge)


def test_borrowed_error_rates_are_given_on_request_and_without_an_interval() -> None:
    rng = np.random.default_rng(2)
    world = World(rng, 100, 5)
    labelling = world.labels(rng, 300, 10, start=5)
    borrowing = Labelling(judge=labelling.judge, human=labelling.human, borrow=True)
    found, row = world.estimate(borrowing, "precision@5")
    assert row is not None
    assert (row.low, row.high, found.refused) == (None, None, [])
    # The share of relevant pairs that people found under each of the judge's answers, by hand.
    share = {}
    for said in (0.0, 1.0):
        of = [grade for pair, grade in labelling.human.items() if labelling.judge[pair] == said]
        share[said] = sum(of) / len(of)
    open_ = ~world.known[:, :5]
    relevant = (world.truth[:, :5] & ~open_).sum() + sum(share[float(said)] for said in world.judge[:, :5][open_])
    assert row.value == pytest.approx(relevant / 500)


def test_hits_below_the_deepest_label_may_be_anything() -> None:
    """People were shown the first five; precision@10 also counts five that nobody was asked about."""
    rng = np.random.default_rng(3)
    world = World(rng, 100, 10)
    labelling = world.labels(rng, 200, 5)
    _, deep = world.estimate(labelling, "precision@10")
    _, shallow = world.estimate(labelling, "precision@5")
    assert deep is not None
    assert shallow is not None
    assert (deep.depth, shallow.depth) == (5, None)
    known = (world.truth & world.known)[:, 5:10].sum() / 1000
    open_ = (~world.known[:, 5:10]).sum() / 1000
    assert deep.low is not None
    assert deep.high is not None
    assert shallow.low is not None
    assert shallow.high is not None
    # Half of the first five, and of the rest what is known, or all that may be relevant.
    assert deep.low == pytest.approx(shallow.low / 2 + known, abs=0.03)
    assert deep.high == pytest.approx(shallow.high / 2 + known + open_, abs=0.03)


def test_what_people_labelled_altogether_needs_no_share() -> None:
    rng = np.random.default_rng(4)
    world = World(rng, 40, 5)
    _, row = world.estimate(world.labels(rng, 10_000, 5), "precision@5")
    assert row is not None
    assert row.value == pytest.approx(world.truth[:, :5].mean())


def test_a_conversation_counts_as_one() -> None:
    """The same hits and labels five times over are no more than once."""
    rng = np.random.default_rng(5)
    world = World(rng, 30, 5)
    labelling = world.labels(rng, 100, 5)
    copies = range(5)

    def again(pairs: Any) -> Pairs:
        return {(f"{query}-{copy}", item): grade for (query, item), grade in pairs.items() for copy in copies}

    run = [{"query_id": f"{q}-{copy}", "topk": hits} for q, hits in world.run.items() for copy in copies]
    gold = [
        {"query_id": f"{q}-{copy}", "gold": grades, "conversation": q}
        for q, grades in world.gold.items()
        for copy in copies
    ]
    labelled = Labelling(judge=again(labelling.judge), human=again(labelling.human))
    result = karat.evaluate(
        run, gold, ["precision@5"], labelling=labelled, sampling=QUICK, analyses=True, cluster="conversation"
    )
    (row,) = [
        row
        for row in result.analyses.found["bounds"].rows
        if (row.metric, row.kind) == ("precision@5", "judge-calibrated estimate")
    ]
    _, single = world.estimate(labelling, "precision@5")
    assert single is not None
    assert (row.value, row.low, row.high) == pytest.approx((single.value, single.low, single.high), abs=0.01)


# --- from files


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def as_rows(pairs: Any, annotator: str, kind: str) -> list[dict[str, Any]]:
    return [
        {"query_id": query, "chunk_id": item, "grade": int(grade), "annotator": annotator, "kind": kind}
        for (query, item), grade in pairs.items()
    ]


@pytest.fixture
def files(tmp_path: Path) -> Callable[[Labelling, World], list[str]]:
    def made(labelling: Labelling, world: World) -> list[str]:
        run, gold = tmp_path / "run.json", tmp_path / "gold.json"
        run.write_text(json.dumps(world.run))
        gold.write_text(json.dumps(world.gold))
        judge = write(tmp_path / "judge.jsonl", as_rows(labelling.judge, "m", "judge"))
        human = write(tmp_path / "human.jsonl", as_rows(labelling.human, "ann", "human"))
        return [str(run), str(gold), judge, human]

    return made


def test_the_command_refuses_and_borrows(
    files: Callable[..., list[str]], karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    rng = np.random.default_rng(6)
    world = World(rng, 60, 5)
    run, gold, judge, human = files(world.labels(rng, 200, 10, start=5), world)
    asked = ["eval", run, "--gold", gold, "--labels", judge, "--calibration", human, "--resamples", "300", "--json"]
    kinds = []
    for more in ([], ["--borrow-error-rates"]):
        code, out, err = karat_command(*asked, *more)
        assert code == 0, err
        bounds = json.loads(out)["analyses"]["bounds"]
        kinds.append({row["kind"] for row in bounds["rows"]})
        # What is estimated by rank as well is not borrowed.
        assert any(row["metric"] == "precision@5" for row in bounds.get("refused", [])) == (not more)
    assert ["judge-calibrated estimate" in kind for kind in kinds] == [False, True]


def test_calibrate_says_which_runs_it_cannot_correct(files: Callable[..., list[str]]) -> None:
    rng = np.random.default_rng(7)
    world = World(rng, 60, 5)
    run, gold, judge, human = files(world.labels(rng, 200, 10, start=5), world)
    metrics = karat.labels.calibrate(judge, human, gold=gold, runs=[run], sampling=QUICK).metrics
    assert [row.metric for row in metrics] == ["precision@5", "rbp"]
    for row in metrics:
        assert row.corrected.value is None
        assert row.refused is not None
        assert row.refused.code == "few-own-labels"


def test_a_saved_calibration_says_what_its_labels_say(files: Callable[..., list[str]], tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    world = World(rng, 60, 5)
    _, _, judge, human = files(world.labels(rng, 200, 5), world)
    saved = tmp_path / "calibration.json"
    saved.write_bytes(msgspec.json.encode(karat.labels.calibrate(judge, human, sampling=QUICK)))
    both = [world.estimate(read_labelling([judge], of), "precision@5")[1] for of in (human, str(saved))]
    assert both[0] == both[1] is not None
