"""Entity linking: precision, recall and F1, by query and by link, NIL apart."""

from __future__ import annotations

import random
from typing import Any

import pytest

import karat
from karat.errors import InputError

NAMES = ("entity_precision", "entity_recall", "entity_f1")
NIL = tuple(f"{name}(of=nil)" for name in NAMES)
MICRO = tuple(f"{name}(average=micro)" for name in NAMES)


def evaluate(*pairs: tuple[Any, Any], metrics: tuple[str, ...] = NAMES) -> karat.Result:
    """Pairs of (gold, run) entities, one a query."""
    run = [{"query_id": f"q{i}", "topk": ["a"], "entities": said} for i, (_, said) in enumerate(pairs)]
    gold = [{"query_id": f"q{i}", "gold": ["a"], "entities": wanted} for i, (wanted, _) in enumerate(pairs)]
    return karat.evaluate(run, gold, list(metrics))


def scores(wanted: Any, said: Any, metrics: tuple[str, ...] = NAMES) -> list[float | None]:
    result = evaluate((wanted, said), metrics=metrics)
    return [result.score(name)["q0"] for name in metrics]


@pytest.mark.parametrize(
    ("wanted", "said", "expected"),
    [
        (["a", "b"], ["a", "c", "d", "e"], [0.25, 0.5, 1 / 3]),
        (["a"], ["a"], [1.0, 1.0, 1.0]),
        (["a"], ["b"], [0.0, 0.0, 0.0]),
        (["a", "a"], ["a", "a", "b"], [0.5, 1.0, 2 / 3]),  # repeats count once
        ([1], ["1"], [1.0, 1.0, 1.0]),
        (["a"], [], [None, 0.0, 0.0]),  # linked nothing: recall fails, precision has nothing to divide by
        ([], ["a"], [0.0, None, 0.0]),
        ([], [], [None, None, None]),
        (None, ["a"], [None, None, None]),  # not labelled
        (["a"], None, [None, None, None]),  # not logged
    ],
)
def test_of_one_query(wanted: Any, said: Any, expected: list[float | None]) -> None:
    assert scores(wanted, said) == [value if value is None else pytest.approx(value) for value in expected]


def test_micro_counts_links_and_macro_queries() -> None:
    pairs = [(["a"], ["a"]), (["a", "b", "c"], ["a", "x", "y", "z"]), ([], []), (["q"], ["q", "r"])]
    result = evaluate(*pairs, metrics=(*NAMES, *MICRO))
    right, said, wanted = 3, 7, 5
    assert result.means["entity_precision"] == pytest.approx((1 + 1 / 4 + 1 / 2) / 3)
    assert result.means["entity_precision(average=micro)"] == pytest.approx(right / said)
    assert result.means["entity_recall(average=micro)"] == pytest.approx(right / wanted)
    assert result.means["entity_f1(average=micro)"] == pytest.approx(2 * right / (said + wanted))


# --- where a link stands


def at(start: int, end: int, entity: Any = "a", **more: Any) -> dict[str, Any]:
    return {"id": entity, "start": start, "end": end, **more}


def test_places_count_where_both_sides_say_them() -> None:
    assert scores([at(0, 4), at(9, 12)], [at(0, 4), at(9, 13)]) == [0.5, 0.5, 0.5]
    assert scores([at(0, 4), at(9, 12)], [at(0, 4), at(0, 4), at(9, 12)]) == [1.0, 1.0, 1.0]
    assert scores([at(0, 4), at(9, 12)], ["a"]) == [1.0, 1.0, 1.0]  # one side says no places: the entity alone counts
    assert scores([at(0, 4, mention="Visa")], [{"id": "a", "mention": "  VISA "}]) == [1.0, 1.0, 1.0]
    assert scores([at(0, 4, mention="Visa")], [{"id": "a", "mention": "Visum"}]) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("nil", ["NIL", "nil", "null", None, {"id": None}, {"id": "NIL"}])
def test_nil_is_kept_apart_however_it_is_spelt(nil: Any) -> None:
    assert scores(["a", nil], ["a"]) == [1.0, 1.0, 1.0]
    assert scores(["a", nil], ["a"], NIL) == [None, 0.0, 0.0]
    assert scores(["a", nil], ["b", nil], NIL) == [1.0, 1.0, 1.0]
    assert scores(["a"], ["a", nil], NIL) == [0.0, None, 0.0]
    assert scores(["a"], ["a"], NIL) == [None, None, None]


def test_mentions_without_an_entity_are_told_apart_by_their_place() -> None:
    assert scores([at(0, 4, None), at(9, 12, None)], [at(0, 4, None), at(5, 8, None)], NIL) == [0.5, 0.5, 0.5]
    assert scores([None, None, None], [None, None], NIL) == [1.0, pytest.approx(2 / 3), 0.8]  # or else counted


# --- what every metric promises, for these


def test_order_slices_and_renaming_change_nothing() -> None:
    rng = random.Random(3)
    names = ["a", "b", "c", None]
    pairs = [(rng.choices(names, k=rng.randint(0, 4)), rng.choices(names, k=rng.randint(0, 4))) for _ in range(30)]
    every = (*NAMES, *NIL, *MICRO)
    whole = evaluate(*pairs, metrics=every)
    shuffled = [(rng.sample(w, len(w)), rng.sample(s, len(s))) for w, s in pairs]
    renamed = [tuple([n and f"É{n}" for n in side] for side in pair) for pair in pairs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karat.formats.run_log._SLICE_HITS", 1)
        patch.setattr("karat.formats.records._BATCH_RECORDS", 1)
        sliced = evaluate(*pairs, metrics=every)
    for other in (evaluate(*shuffled, metrics=every), evaluate(*renamed, metrics=every), sliced):
        assert other.scores.equals(whole.scores)
        assert other.summary_rows == whole.summary_rows


def test_a_query_that_the_run_lacks_linked_nothing() -> None:
    gold = [{"query_id": q, "gold": ["x"], "entities": ["a"]} for q in ("q", "r")]
    run = [{"query_id": "q", "topk": ["x"], "entities": ["a"]}]
    result = karat.evaluate(run, gold, list(NAMES))
    assert [result.score(name)["r"] for name in NAMES] == [None, 0.0, 0.0]
    assert karat.evaluate(run, gold, ["entity_recall"], missing="skip").means == {"entity_recall": 1.0}


def test_a_metric_without_any_number_says_what_is_lacking() -> None:
    def reason(wanted: Any, said: Any) -> str:
        return next(e.examples[0] for e in evaluate((wanted, said)).audit if e.code == "no_data")

    reasons = [reason(None, ["a"]), reason(["a"], None)]  # the gold set has none; the run has none
    assert all(said.startswith("entity_precision: ") for said in reasons)
    assert reasons[0] != reasons[1]


def test_micro_differences_are_those_of_the_means() -> None:
    """Each run divides by links of its own."""
    rng = random.Random(5)
    wanted = [rng.sample("abcdefgh", 3) for _ in range(60)]
    before = evaluate(*((w, [*w[:1], *"xyz"[: rng.randint(0, 3)]]) for w in wanted), metrics=MICRO)
    after = evaluate(*((w, [*w[:2], *"xyz"[: rng.randint(0, 1)]]) for w in wanted), metrics=MICRO)
    for difference in karat.compare(before, after).pairs[0].differences:
        old, new = before.means[difference.metric], after.means[difference.metric]
        assert old is not None
        assert new is not None
        assert difference.delta == pytest.approx(new - old)
        assert difference.low is not None
        assert difference.high is not None
        assert 0 < difference.low < new - old < difference.high < 1
    found = karat.gate(after, baseline=before, criteria=["entity_precision(average=micro) drop <= 1pp"])
    assert found.outcome == "pass"
    assert "got better" in found.verdicts[0].reason


@pytest.mark.parametrize(
    ("entities", "field"),
    [
        ("visa", "entities"),
        ([1.5], "entities[0]"),
        ([["a"]], "entities[0]"),
        ([{"entity": "a"}], "entities[0].id"),
        ([{"id": ["a"]}], "entities[0].id"),
        ([{"id": "a", "start": -1, "end": 3}], "entities[0].start"),
        ([{"id": "a", "mention": 5}], "entities[0].mention"),
    ],
)
def test_entities_that_are_none(entities: Any, field: str) -> None:
    for pair in ((["a"], entities), (entities, ["a"])):
        with pytest.raises(InputError) as refused:
            evaluate(pair)
        assert refused.value.field == field
