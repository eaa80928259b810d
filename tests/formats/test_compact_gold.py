"""A gold set takes little memory whatever file it comes from, and is the same however it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tests.scoring.engines.conftest import METRICS, gold_of, hits_table

import karat
from karat.data.gold import Gold
from karat.data.ids import Seen, as_list
from karat.data.packed_ids import PackedIds
from karat.formats import table_file

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


def judgements(queries: int = 40) -> pl.DataFrame:
    rows = [(q, item, grade) for q, items in gold_of(queries, 5).items() for item, grade in items.items()]
    table = pl.DataFrame(rows, ["query_id", "chunk_id", "grade"], orient="row")
    return table.with_columns(language=pl.col("query_id").str.slice(-1), no=pl.row_index())


def said(gold: Gold) -> dict[str, tuple[list[tuple[str, float]], object]]:
    bounds = zip(gold.queries, gold.offsets, gold.offsets[1:], strict=False)
    language = gold.tags["language"]
    return {
        query: (list(zip(as_list(gold.items[a:b]), gold.grades[a:b].tolist(), strict=True)), language[at])
        for at, (query, a, b) in enumerate(bounds)
    }


@pytest.mark.parametrize("rows", [1, 4, 7, 1000])
@pytest.mark.parametrize("scattered", [False, True])
def test_rows_at_a_time_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, scattered: bool
) -> None:
    table = judgements()
    table = table.sample(fraction=1.0, shuffle=True, seed=1) if scattered else table
    table.write_parquet(tmp_path / "gold.parquet")
    monkeypatch.setattr(table_file, "_ROWS", rows)
    gold = karat.read_gold(tmp_path / "gold.parquet")
    assert said(gold) == said(karat.read_gold(table))
    assert set(gold.tags) == {"language"}  # `no` says different things of a query
    assert isinstance(gold.items, np.ndarray)


def test_the_row_of_a_mistake_is_named_in_any_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = judgements().with_columns(grade=pl.when(pl.row_index() == 20).then(None).otherwise("grade"))
    table.write_parquet(tmp_path / "gold.parquet")
    monkeypatch.setattr(table_file, "_ROWS", 8)
    with refused("missing-value", file=tmp_path / "gold.parquet", line=21, field="grade"):
        karat.read_gold(tmp_path / "gold.parquet")


def test_lines_of_qrels_in_any_order(tmp_path: Path) -> None:
    rows = judgements().select("query_id", "chunk_id", "grade").rows()
    text = [f"{query} 0 {item} {grade:g}\n" for query, item, grade in rows]
    (tmp_path / "sorted").write_text("".join(text))
    (tmp_path / "mixed").write_text("".join(text[::2] + text[1::2]))
    run = hits_table(40, 5)
    one, other = (karat.evaluate(run, tmp_path / name, METRICS) for name in ("sorted", "mixed"))
    assert {q: s for m in METRICS for q, s in one.score(m).items()} == {
        q: s for m in METRICS for q, s in other.score(m).items()
    }


def test_scoring_unpacks_nothing(tmp_path: Path) -> None:
    """What would be worked out for every gold item at once would be kept as long as the gold set is."""
    judgements(300).write_parquet(tmp_path / "gold.parquet")
    table = hits_table(301, 10).filter(pl.col("query_id") > "q00000")  # the queries of the gold set, in its order
    table.write_parquet(tmp_path / "run.parquet")
    gold = karat.read_gold(tmp_path / "gold.parquet")
    result = karat.evaluate(tmp_path / "run.parquet", gold, METRICS)
    assert result.summary_rows[0].ceiling is not None
    assert {"ids", "packed", "query_of_item", "index"}.isdisjoint(gold.__dict__)


@given(st.lists(st.lists(NAMES, max_size=5), max_size=6))
def test_packed_ids_are_the_ids(parts: list[list[str]]) -> None:
    packed = PackedIds()
    for part in parts:
        packed.add(part)
    assert as_list(packed.ids) == [name for part in parts for name in part]


def test_one_long_id_does_not_widen_all(tmp_path: Path) -> None:
    packed = PackedIds()
    packed.add(["a"] * 5000)
    assert isinstance(packed.ids, np.ndarray)
    packed.add(["x" * 10_000])
    packed.add(["b"])
    assert isinstance(packed.ids, list)
    assert packed.ids == ["a"] * 5000 + ["x" * 10_000, "b"]


@given(st.lists(st.lists(st.integers(0, 60), max_size=8), max_size=12))
def test_what_was_seen_before(parts: list[list[int]]) -> None:
    seen, before = Seen(), set[int]()
    for part in parts:
        again = len(set(part)) < len(part) or not before.isdisjoint(part)
        assert seen.add([f"q{n}" for n in part]) == again
        before.update(part)
