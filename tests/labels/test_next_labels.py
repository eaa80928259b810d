"""`karat labels pool --settle`: the pairs whose labels settle a comparison, in order, and how many it takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.labels.desk import PoolAtDesk
from karat.labels.files import LabelLog, read_pool
from karat.labels.pool import make_pool

Call = Callable[..., tuple[int, str, str]]
Lists = dict[str, list[str]]
Grades = dict[str, dict[str, int]]


def as_run(lists: Lists) -> list[dict[str, Any]]:
    return [{"query_id": query, "topk": [{"chunk_id": item} for item in items]} for query, items in lists.items()]


def two_runs(rng: np.random.Generator, queries: int = 30, gap: float = 0.25) -> tuple[Lists, Lists, Grades]:
    """Two runs that share half of their hits; the second finds more. Everything has a grade."""
    one, other, grades = dict[str, list[str]](), dict[str, list[str]](), dict[str, dict[str, int]]()
    for i in range(queries):
        items = [f"d{i}-{j}" for j in range(9)]
        chances = [0.5] * 3 + [0.3] * 3 + [0.3 + gap] * 3
        grades[f"q{i}"] = {item: int(rng.random() < p) for item, p in zip(items, chances, strict=True)}
        one[f"q{i}"] = rng.permutation(items[:6]).tolist()
        other[f"q{i}"] = rng.permutation(items[:3] + items[6:]).tolist()
    return one, other, grades


@pytest.fixture(scope="module")
def case() -> tuple[Lists, Lists, Grades, Grades]:
    """The runs, all grades, and those of the first run's hits."""
    one, other, grades = two_runs(np.random.default_rng(0))
    known = {query: {item: grade for item, grade in of.items() if item in one[query]} for query, of in grades.items()}
    return one, other, grades, known


def test_the_queue_on_the_command_line(
    karat_command: Call, case: tuple[Lists, Lists, Grades, Grades], tmp_path: Path
) -> None:
    one, other, _, known = case
    for name, lines in (("old", as_run(one)), ("new", as_run(other))):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    gold = tmp_path / "gold.jsonl"
    gold.write_text("".join(json.dumps({"query_id": q, "gold": grades}) + "\n" for q, grades in known.items()))
    files = (str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl"), "--gold", str(gold))
    pool = str(tmp_path / "pool.jsonl")
    code, out, _ = karat_command("labels", "pool", *files, "--settle", "-m", "precision@6", "-o", pool)
    assert (code, "precision@6" in out) == (0, True)
    entries = read_pool(pool)
    assert [entry.place for entry in entries] == list(range(1, len(entries) + 1))
    assert len(entries) == 90
    assert {entry.inclusion_probability for entry in entries} == {None}
    ten = karat_command(
        "labels", "pool", *files, "--settle", "--budget", "10", "-m", "precision@6", "-o", pool, "--json"
    )
    found = json.loads(ten[1])
    assert (found["pairs"], found["settling"]["open"]) == (10, 90)
    assert [entry.key for entry in read_pool(pool)] == [entry.key for entry in entries[:10]]


def test_annotators_at_a_desk_get_the_queue_in_its_order(case: tuple[Lists, Lists, Grades, Grades]) -> None:
    one, other, _, known = case
    pool = make_pool([as_run(one), as_run(other)], known, k=6, settle=True)
    keys = [entry.key for entry in pool]
    no_labels = partial(LabelLog, "labels.jsonl")  # never opened
    at_desk = PoolAtDesk("pool", pool.entries, no_labels)
    assert list(at_desk.order("ann")) == list(at_desk.order("ben")) == keys
    plain = PoolAtDesk("plain", make_pool([as_run(one), as_run(other)], known, k=6).entries, no_labels)
    assert list(plain.order("ann")) != list(plain.order("ben"))


def test_linear_metrics_have_the_expected_difference(case: tuple[Lists, Lists, Grades, Grades]) -> None:
    """For precision, the expected difference follows from the shares alone."""
    one, other, _, known = case
    found = make_pool([as_run(one), as_run(other)], known, k=6, metric="precision@6", settle=True).summary.settling
    assert found is not None
    gold_only = karat.compare(as_run(one), as_run(other), known, ["precision@6"])["precision@6"].delta
    assert found.delta == pytest.approx(gold_only)
    relevant = [grade for grades in known.values() for grade in grades.values()]
    share = sum(relevant) / len(relevant)
    assert found.expected == pytest.approx(found.delta + 0.5 * share, abs=0.05)
    assert found.low < 0 < found.high
    assert not found.decided


def labels_needed(order: str, runs: tuple[Lists, Lists], grades: Grades, known: Grades, metric: str) -> int:
    known = {query: dict(of) for query, of in known.items()}
    rng, given = np.random.default_rng(0), 0
    while True:
        try:
            pool = make_pool([as_run(run) for run in runs], known, k=6, metric=metric, settle=True)
        except karat.KaratError:
            return given
        assert pool.summary.settling is not None
        if pool.summary.settling.decided:
            assert pool.summary.settling.expected > 0
            return given
        entries = pool.entries if order == "settle" else [pool.entries[i] for i in rng.permutation(len(pool))]
        for entry in entries[:15]:
            known[str(entry.query_id)][str(entry.chunk_id)] = grades[str(entry.query_id)][str(entry.chunk_id)]
            given += 1


def test_labels_settle_it_and_the_outlook_says_so(case: tuple[Lists, Lists, Grades, Grades]) -> None:
    one, other, grades, known = case
    before = make_pool([as_run(one), as_run(other)], known, k=6, metric="precision@6", settle=True).summary.settling
    assert before is not None
    assert before.chance > 0.2
    assert before.few is not None
    assert before.many is not None
    needed = labels_needed("settle", (one, other), grades, known, "precision@6")
    assert before.few - 15 <= needed <= before.many + 15


def test_sums_of_single_effects_do_not_run_away() -> None:
    """One relevant item in the gold: each further label alone would change nDCG by a lot, all together cannot."""
    one, other, _ = two_runs(np.random.default_rng(1))
    known = {query: {items[0]: 1, items[1]: 0} for query, items in one.items()}
    found = make_pool([as_run(one), as_run(other)], known, k=6, metric="ndcg@6", settle=True).summary.settling
    assert found is not None
    assert abs(found.expected) < 0.5


def test_decided_comparisons_need_no_label() -> None:
    runs = {f"q{i}": [f"a{i}", f"b{i}", f"c{i}"] for i in range(30)}
    bad = {f"q{i}": [f"x{i}", f"y{i}", f"z{i}"] for i in range(30)}
    known = {f"q{i}": {f"a{i}": 1, f"b{i}": 1, f"x{i}": 0, f"y{i}": 0} for i in range(30)}
    found = make_pool([as_run(bad), as_run(runs)], known, k=3, metric="precision@3", settle=True).summary.settling
    assert found is not None
    assert (found.decided, found.chance, found.labels) == (True, 1, 0)


def test_gold_that_only_names_what_is_relevant(case: tuple[Lists, Lists, Grades, Grades]) -> None:
    """Then a share of judged hits would be 100 %: the share of all hits is used."""
    one, other, grades, _ = case
    only = {query: [item for item, grade in of.items() if grade and item in one[query]] for query, of in grades.items()}
    gold = [{"query_id": query, "gold": items or [f"other-{query}"]} for query, items in only.items()]
    found = make_pool([as_run(one), as_run(other)], gold, k=6, metric="precision@6", settle=True).summary.settling
    assert found is not None
    assert abs(found.expected - found.delta) < 0.2


def test_what_it_refuses(case: tuple[Lists, Lists, Grades, Grades]) -> None:
    one, other, _, known = case
    with refused("several-systems"):
        make_pool([as_run(one)], known, settle=True)
    with refused("contradiction"):
        make_pool([as_run(one), as_run(other)], known, settle=True, sample=5)
    with refused("unsuitable-metric"):
        make_pool([as_run(one), as_run(other)], known, settle=True, metric="latency_p50")
    with refused("nothing-to-label"):
        make_pool([as_run(one), as_run(one)], known, k=6, settle=True)
