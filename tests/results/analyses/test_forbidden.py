"""Hits that a query must not get, by ids and by rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import karat
from karat.data.forbidden import check_rules, read_rule
from karat.errors import KaratError
from karat.results.analyses.forbidden import Leaks, upper_bound
from karat.results.save import restore, saved_form

Record = dict[str, Any]
TENANT = "tenant != query.tenant"


def world(n: int, leaks: int) -> tuple[list[Record], list[Record]]:
    """Queries of two tenants; some get a hit of the other one at rank 2."""
    run, gold = [], []
    for i in range(n):
        own, other = ("acme", "beta") if i % 2 else ("beta", "acme")
        hits = [
            {"chunk_id": f"d{i}#1", "score": 2.0, "metadata": {"tenant": own}},
            {"chunk_id": f"e{i}#1", "score": 1.0, "metadata": {"tenant": other if i < leaks else own}},
        ]
        run.append({"query_id": f"q{i}", "topk": hits})
        gold.append({"query_id": f"q{i}", "gold": [f"d{i}#1"], "tenant": own})
    return run, gold


def found(run: Any, gold: Any, **options: Any) -> Leaks:
    result = karat.evaluate(run, gold, ["recall@5"], **options, analyses=True)
    assert "forbidden" in result.analyses.found, result.analyses.lacking
    leaks = restore(saved_form(result)).analyses.found["forbidden"]
    assert leaks == result.analyses.found["forbidden"]
    assert isinstance(leaks, Leaks)
    return leaks


def test_leaks_by_a_rule() -> None:
    leaks = found(*world(40, 10), forbid=[TENANT])
    assert (leaks.leaked, leaks.queries.n, leaks.queries.mean, leaks.hits.mean) == (10, 40, 0.25, 0.125)
    assert (leaks.unchecked, leaks.rules, len(leaks.examples)) == (0, [TENANT], 5)
    assert leaks.examples[0].hits == ["e0#1"]


def test_no_leak_has_the_rule_of_three() -> None:
    leaks = found(*world(300, 0), forbid=[TENANT])
    assert (leaks.leaked, leaks.queries.mean) == (0, 0.0)
    assert leaks.most == pytest.approx(3 / 300, rel=0.01)
    assert leaks.queries.high == pytest.approx(1 - 0.025 ** (1 / 300), abs=1e-6)  # both ends, as every interval


def test_by_ids_a_document_forbids_its_chunks() -> None:
    gold = [{"query_id": "q", "gold": ["a"], "forbidden": ["x", "b#2"]}, {"query_id": "r", "gold": ["a"]}]
    leaks = found({"q": ["a", "x#1", "b#1", "b#2"], "r": ["x#1"]}, gold)
    assert (leaks.queries.n, leaks.queries.undefined, leaks.leaked, leaks.hits.mean) == (1, 1, 1, 0.5)
    assert leaks.examples[0].hits == ["x#1", "b#2"]


def test_ids_are_normalized_too() -> None:
    gold = [{"query_id": "q", "gold": ["A.md"], "forbidden": ["X.md"]}]
    assert found({"q": ["a", "x"]}, gold, normalize_ids=True).leaked == 1


def test_metadata_of_the_corpus(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    lines = [{"id": "a", "text": "one", "tenant": "acme"}, {"id": "b", "text": "two", "metadata": {"tenant": "beta"}}]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    gold = [{"query_id": "q", "gold": ["a"], "tenant": "acme"}]
    leaks = found({"q": ["a", "b"]}, gold, forbid=[TENANT], corpus=corpus)
    assert (leaks.leaked, leaks.examples[0].hits) == (1, ["b"])


def test_what_cannot_be_checked_is_counted() -> None:
    run, gold = world(10, 2)
    del run[5]["topk"][1]["metadata"]
    del gold[7]["tenant"]
    result = karat.evaluate(run, gold, ["recall@5"], forbid=[TENANT], analyses=True)
    assert result.analyses.found["forbidden"].unchecked == 3
    assert result.audited["unchecked_hits"] == 3


@pytest.mark.parametrize("rule", ["tenannt != query.tenant", "tenant > 3", "owner = me"])
def test_a_rule_that_checks_nothing_is_refused(rule: str) -> None:
    """Else a misspelled field would prove that nothing leaks."""
    with pytest.raises(KaratError) as caught:
        karat.gate(*world(10, 2), ["forbidden@10 <= 0"], forbid=[TENANT, rule])
    assert (caught.value.code, caught.value.exit_code, caught.value.field) == ("no-field", 2, rule.split()[0])


def test_a_field_that_no_hit_has_a_value_for() -> None:
    """A rare field: null says that a document has none."""
    run, gold = world(10, 0)
    run[3]["topk"][0]["metadata"]["licence"] = None
    assert found(run, gold, forbid=["licence = nda"]).leaked == 0


def test_own_documents_and_shared_ones() -> None:
    run, gold = world(10, 2)
    for line in run[:1] + run[4:6]:
        line["topk"][1]["metadata"]["tenant"] = "shared"
    assert found(run, gold, forbid=[TENANT]).leaked == 4
    leaks = found(run, gold, forbid=["tenant not in query.tenant, shared"])
    assert (leaks.leaked, leaks.examples[0].query) == (1, "q1")
    assert leaks.rules == ["tenant not in query.tenant, shared"]


def written(folder: Path, name: str) -> Path:
    """The same leak, with the tenant where such files have it."""
    import polars as pl

    hits = [{"chunk_id": "a", "tenant": "acme"}, {"chunk_id": "b", "tenant": "globex"}]
    rows = pl.DataFrame([{"query_id": "q", **hit, "rank": rank} for rank, hit in enumerate(hits, 1)])
    path = folder / name
    if name.endswith(".csv"):
        rows.write_csv(path)
    elif name == "hits.parquet":
        rows.write_parquet(path)
    elif name == "lists.parquet":
        pl.DataFrame({"query_id": ["q"], "topk": [hits]}).write_parquet(path)
    elif name == "objects.parquet":
        rows.select("query_id", "chunk_id", pl.struct("tenant").alias("metadata")).write_parquet(path)
    else:
        steps = {"steps": [{"topk": hits[:1]}, {"topk": hits[1:]}]}
        path.write_text(json.dumps({"query_id": "q", **(steps if name == "steps.jsonl" else {"topk": hits})}) + "\n")
    return path


@pytest.mark.parametrize(
    "name", ["run.jsonl", "steps.jsonl", "run.csv", "hits.parquet", "lists.parquet", "objects.parquet"]
)
def test_every_field_of_a_hit_is_metadata(tmp_path: Path, name: str) -> None:
    gold = [{"query_id": "q", "gold": ["a"], "tenant": "acme"}]
    verdict = karat.gate(written(tmp_path, name), gold, ["forbidden@10 <= 0"], forbid=[TENANT])
    assert (bool(verdict), "forbidden@10 is 100.0%" in str(verdict)) == (False, True)


def test_a_gate_says_what_was_not_checked() -> None:
    run, gold = world(40, 0)
    del run[5]["topk"][1]["metadata"], run[6]["topk"][0]["metadata"]
    verdict = karat.gate(run, gold, ["forbidden@10 <= 0"], forbid=[TENANT])
    assert verdict
    assert "2 hits could not" in str(verdict)


def test_a_leak_is_the_first_thing_to_read() -> None:
    result = karat.evaluate(*world(40, 10), forbid=[TENANT])
    first = result.findings[0]
    assert (first.code, "10 of 40 queries" in first.evidence, "e0#1 for q0" in first.evidence) == ("leaks", True, True)
    assert not [found for found in karat.evaluate(*world(40, 0), forbid=[TENANT]).findings if found.code == "leaks"]


@pytest.mark.parametrize(
    ("rule", "value", "asked", "expected"),
    [
        ("expires < query.to", "2025-01-01", "2025-06-30", True),
        ("expires < query.to", "2026", "2025-06-30", False),
        ("level > 2", 3, None, True),
        ("level >= 2", 2, None, True),
        ("level <= 2", "v1.9", None, True),
        ("level > 2", "high", None, None),
        ("groups not in query.to", ["a", "b"], "c", True),
        ("groups not in query.to", ["a", "b"], "b", False),
        ("groups = a, c", ["b", "c"], None, True),
        ("acl.kind in x", {"kind": "x"}, None, True),
        ("open = true", True, None, True),
    ],
)
def test_operators(rule: str, value: Any, asked: str | None, expected: bool | None) -> None:
    field = read_rule(rule).field.partition(".")[0]
    gold = karat.read_gold([{"query_id": "q", "gold": ["a"], **({} if asked is None else {"to": asked})}])
    checked = check_rules([read_rule(rule)], lambda _: [{field: value}], gold, np.array([0]))
    assert (None if checked.unknown[0] else bool(checked.forbidden[0])) == expected


@pytest.mark.parametrize("rule", ["tenant", "tenant ~ x", "= x", "level < 1, 2", "tenant = a,,b", ""])
def test_bad_rules(rule: str) -> None:
    with pytest.raises(KaratError) as caught:
        karat.evaluate(*world(2, 0), ["recall@5"], forbid=[rule])
    assert caught.value.code == "bad-rule"


def test_bad_gold() -> None:
    for forbidden, code in ((["a"], "contradiction"), ("x", "wrong-type"), ([""], "empty-id"), ([True], "wrong-type")):
        with pytest.raises(KaratError) as caught:
            karat.evaluate({"q": ["a"]}, [{"query_id": "q", "gold": ["a"], "forbidden": forbidden}], ["recall@5"])
        assert caught.value.code == code


@given(st.integers(1, 400), st.integers(0, 400), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_bound_is_exact(n: int, count: int, level: float) -> None:
    """At the bound, so few leaks have exactly the remaining probability."""
    from scipy.stats import binom

    count = min(count, n)
    bound = upper_bound(count, n, level)
    assert bound is not None
    assert bound == 1.0 if count == n else binom.cdf(count, n, bound) == pytest.approx(1 - level, abs=1e-9)
