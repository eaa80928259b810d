"""Contexts in tokens: recall over a budget, places of the relevant hits, repeated texts."""

from __future__ import annotations

import doctest
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import karat
from karat.errors import KaratError
from karat.results.analyses.context_use import ContextUse
from karat.results.save import restore, saved_form
from karat.scoring.metrics.lists import Novelty

Record = dict[str, Any]
ORDERS = ("rank", "reversed", "sides")
ROOT = Path(__file__).parents[3]


def record(query: str, tokens: list[int | None], texts: list[str] | None = None) -> Record:
    hits: list[Record] = [{"chunk_id": f"{query}{i}"} for i in range(len(tokens))]
    for hit, size, text in zip(hits, tokens, texts or [None] * len(tokens), strict=True):
        hit |= {name: value for name, value in (("tokens", size), ("text", text)) if value is not None}
    return {"query_id": query, "topk": hits}


def found(run: Any, gold: Any, **options: Any) -> ContextUse:
    result = karat.evaluate(run, gold, ["recall@5"], analyses=True, **options)
    assert "context" in result.analyses.found, result.analyses.lacking
    use = restore(saved_form(result)).analyses.found["context"]
    assert use == result.analyses.found["context"]
    assert isinstance(use, ContextUse)
    return use


def reordered(hits: list[int], order: str) -> list[int]:
    """Hits from best to worst, put in an order one by one."""
    if order != "sides":
        return hits if order == "rank" else hits[::-1]
    front, back = [], []
    for at, hit in enumerate(hits):
        (back if at % 2 else front).append(hit)
    return front + back[::-1]


def places(tokens: list[int], relevant: set[int], order: str) -> list[Fraction] | None:
    """Token by token: in which third each token of a relevant hit is. Tokens are cut into thirds."""
    owner = [hit for hit in reordered([*range(len(tokens))], order) for _ in range(3 * tokens[hit])]
    if not owner or not relevant:
        return None
    third = len(owner) // 3
    shares = [Fraction(0)] * 3
    for at, hit in enumerate(owner):
        if hit in relevant:
            shares[at // third] += Fraction(1, 3 * tokens[hit])
    return [share / len(relevant) for share in shares]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.sets(st.integers(0, 6)), st.integers(1, 8))
def test_places_are_those_of_each_token(tokens: list[int], relevant: set[int], k: int) -> None:
    wanted = [f"q{i}" for i in relevant] or ["none"]
    thirds = ("first", "middle", "last")
    names = [f"in_third(third={third},order={order})@{k}" for order in ORDERS for third in thirds]
    result = karat.evaluate([record("q", [*tokens])], {"q": wanted}, [*names, f"tokens@{k}"])
    top = tokens[:k]
    assert result.means[f"tokens@{k}"] == sum(top)
    for order, at in zip(ORDERS, range(0, 9, 3), strict=True):
        expected = places(top, {hit for hit in relevant if hit < len(top)}, order)
        got = [result.values[str(metric)][0] for metric in result.metrics[at : at + 3]]
        assert expected is None or got == pytest.approx([float(share) for share in expected])
        assert expected is not None or all(value != value for value in got)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["a b c d", "a b c e", "x y z", "b c d e f"]), st.integers(0, 9))),
        min_size=1,
        max_size=4,
    )
)
def test_redundant_tokens_by_plain_code(lists: list[list[tuple[str, int]]]) -> None:
    run = [record(f"q{i}", [size for _, size in hits], [text for text, _ in hits]) for i, hits in enumerate(lists)]
    gold = {f"q{i}": ["x"] for i in range(len(lists))}
    scored = karat.evaluate(run, gold, ["redundant_tokens@3"]).score("redundant_tokens@3")
    for i, hits in enumerate(lists):
        seen: set[tuple[str, ...]] = set()
        repeated = total = 0
        for text, size in hits[:3]:
            words = text.split()
            shingles = {tuple(words[j : j + 3]) for j in range(len(words) - 2)}
            repeated += size * (2 * len(shingles & seen) >= len(shingles))
            total += size
            seen |= shingles
        assert scored[f"q{i}"] == (pytest.approx(repeated / total) if total else None)


def test_budgets_beside_depths() -> None:
    run = [record("q", [400, 400, 400]), record("r", [100, 300, 900])]
    use = found(run, {"q": ["q1"], "r": ["r2"]}, k=2)
    assert [(one.budget, one.hits, one.recall.mean) for one in use.budgets] == [
        *((500, 1.5, 0.0), (1000, 2.0, 0.5), (2000, 3.0, 1.0)),
    ]
    assert [(one.k, one.tokens, one.recall.mean) for one in use.depths] == [(1, 250.0, 0.0), (3, 1250.0, 1.0)]
    assert (use.size, use.tokens.mean, use.hits, use.redundant) == ("2", 600.0, 2.0, None)
    assert [one.middle.metric for one in use.places] == ["in_third@2", *(f"in_third(order={o})@2" for o in ORDERS[1:])]
    rank, mirrored = use.places[0], use.places[1]
    assert (rank.first.mean, rank.last.mean) == (mirrored.last.mean, mirrored.first.mean)


def test_estimates_are_counted_and_missing_sizes_named() -> None:
    text = "refunds take five days"
    run = [record("q", [10, None], [text, text]), record("r", [None, 5])]
    result = karat.evaluate(run, {"q": ["q0"], "r": ["r1"]}, ["recall@5"], context="1000 TOK", analyses=True)
    use = result.analyses.found["context"]
    assert (use.size, use.tokens.n, use.tokens.mean, use.redundant.mean) == ("1000tok", 1, 16.0, 6 / 16)
    assert {code: result.audited[code] for code in ("estimated_tokens", "unsized_queries")} == {
        "estimated_tokens": 1,
        "unsized_queries": 1,
    }


def test_without_data_it_is_not_there_unless_asked_for() -> None:
    result = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, analyses=True)
    assert "context" not in result.analyses.found | result.analyses.lacking
    asked = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, context="5", analyses=True)
    assert "`tokens`" in asked.analyses.lacking["context"]
    logged = karat.evaluate([record("q", [None], ["some text"])], {"q": ["q0"]}, analyses=True)
    assert "context" not in logged.analyses.found | logged.analyses.lacking


def test_texts_of_a_log_with_tokens_are_compared_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    run, gold = [record("q", [5, 5], ["one two three", "one two three"])], {"q": ["q0"]}
    monkeypatch.setattr(Novelty, "_shingles", lambda *_: pytest.fail("texts were compared"))
    assert found(run, gold).redundant is None


@pytest.mark.parametrize("size", ["0", "tok", "-5", "2.5", "many", "1e3", "9" * 20, "٣"])
def test_bad_sizes(size: str) -> None:
    with pytest.raises(KaratError) as caught:
        karat.evaluate({"q": ["a"]}, {"q": ["a"]}, context=size)
    assert caught.value.code == "bad-context"


@pytest.mark.parametrize("tokens", [-1, 2.5, "many", True])
def test_bad_tokens(tokens: Any) -> None:
    with pytest.raises(KaratError) as caught:
        karat.evaluate([record("q", [tokens])], {"q": ["q0"]}, ["tokens@5"])
    assert caught.value.code in ("bad-value", "wrong-type", "out-of-range")


def test_workers_and_files_give_the_same(tmp_path: Path) -> None:
    run, gold = tmp_path / "run.jsonl", tmp_path / "gold.jsonl"
    records = [record(f"q{i}", [10 + i % 7 * j for j in range(8)]) for i in range(60)]
    run.write_text("".join(json.dumps(one) + "\n" for one in records))
    gold.write_text("".join(json.dumps({"query_id": f"q{i}", "gold": [f"q{i}{i % 9}"]}) + "\n" for i in range(60)))
    here = karat.evaluate(run, gold).analyses.found["context"]
    assert karat.evaluate(run, gold, engine="processes").analyses.found["context"] == here
    assert here.tokens.n == 60


def test_the_example_of_the_docs() -> None:
    done = doctest.testfile(str(ROOT / "docs" / "context.md"), module_relative=False)
    assert (done.failed, done.attempted > 4) == (0, True)


LOGS: dict[str, list[list[int | None]]] = {
    "all sized": [[900, 800], [10], [0, 5, 7]],
    "some estimated": [[900, None], [10], [None, 5, 7]],
    "none sized": [[None, None], [None], [None]],
    "no hits": [[3], []],
}


@pytest.mark.parametrize("sizes", LOGS.values(), ids=LOGS)
@pytest.mark.parametrize("asked", [["tokens@2", "recall@300tok"], ["tokens@2", "redundant_tokens@3"]])
def test_a_file_without_texts_read_gives_the_same(sizes: Any, asked: list[str], tmp_path: Path) -> None:
    """Texts are left out only where every hit has tokens, and no metric compares texts."""
    run = [record(f"q{i}", own, ["the same words here"] * len(own)) for i, own in enumerate(sizes)]
    gold = {line["query_id"]: ["q00", f"{line['query_id']}1"] for line in run}
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in run))
    on_file, in_memory = (karat.evaluate(one, gold, asked) for one in (str(path), run))
    for name in asked:
        np.testing.assert_array_equal(on_file.values[name], in_memory.values[name])
    assert on_file.audit["estimated_tokens"] == in_memory.audit["estimated_tokens"] == str(sizes).count("None")


def test_tokens_that_are_no_count_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for tokens in (-5, 3.5, "many"):
        path.write_text(json.dumps({"query_id": "q", "topk": [{"chunk_id": "a", "tokens": tokens}]}) + "\n")
        with pytest.raises(KaratError) as refused:
            karat.evaluate(str(path), {"q": ["a"]}, ["tokens@1"])
        assert refused.value.line == 1
