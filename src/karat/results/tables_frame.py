"""Saved tables as columns of a frame with one row per query, for files of very many queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from karat.results.tables_form import SavedGold, SavedTables, SavedView

if TYPE_CHECKING:
    import polars as pl

PREFIX = "tables/"


def columns_of(tables: SavedTables, size: int) -> dict[str, pl.Series]:
    """All that has a value per query, or a list of values per query."""
    import polars as pl

    found: dict[str, pl.Series] = {}
    if tables.k:
        found["k"] = pl.Series(tables.k, dtype=pl.Int64)
    if tables.no_answer:
        found["no_answer"] = _marked(tables.no_answer, size)
    for name, hashes in tables.hashes.items():
        found[f"hash/{name}"] = pl.Series([int(h, 16) for h in hashes], dtype=pl.UInt64)
    for at, gold in enumerate(tables.golds):
        kinds = {"items": pl.String, "grades": pl.Float64, "kinds": pl.Int8}
        found |= {f"gold/{at}/{n}": _lists(getattr(gold, n), gold.counts, kind) for n, kind in kinds.items()}
    for at, view in enumerate(tables.views):
        found |= {f"view/{at}/{name}": column for name, column in _of_view(view, size)}
    return {PREFIX + name: column for name, column in found.items()}


def _of_view(view: SavedView, size: int) -> Iterator[tuple[str, pl.Series]]:
    import polars as pl

    yield "depth", pl.Series(view.depth, dtype=pl.Int64)
    yield "absent", _marked(view.absent, size)
    for name in ("rank", "item"):
        yield name, _lists(getattr(view, name), view.counts, pl.Int64)
    if view.by_document is not None:
        yield "by_document", _marked(view.by_document, size)
    for kind in ("columns", "votes"):
        for name, values in getattr(view, kind).items():
            yield f"{kind}/{name}", pl.Series(values, dtype=pl.Float64)


def _marked(rows: Sequence[int], size: int) -> pl.Series:
    import polars as pl

    marked = [False] * size
    for row in rows:
        marked[row] = True
    return pl.Series(marked, dtype=pl.Boolean)


def _lists(values: Sequence[Any], counts: Sequence[int], kind: Any) -> pl.Series:
    import polars as pl

    bounds = pairwise(accumulate(counts, initial=0))
    return pl.Series([values[start:end] for start, end in bounds], dtype=pl.List(kind))


def outline(tables: SavedTables) -> SavedTables:
    """What is left of saved tables when their columns are in a frame."""
    golds = [msgspec.structs.replace(gold, counts=[], items=[], grades=[], kinds=[]) for gold in tables.golds]
    views = [
        msgspec.structs.replace(
            view,
            depth=[],
            absent=[],
            counts=[],
            rank=[],
            item=[],
            by_document=None if view.by_document is None else [],
            columns={key: [] for key in view.columns},
            votes={key: [] for key in view.votes},
        )
        for view in tables.views
    ]
    return SavedTables(golds=golds, views=views, hashes={key: [] for key in tables.hashes})


def from_frame(outlined: SavedTables, rows: pl.DataFrame) -> SavedTables:
    """The tables again."""

    def column(name: str) -> pl.Series:
        return rows[PREFIX + name]

    def there(name: str) -> bool:
        return PREFIX + name in rows.columns

    def marked(name: str) -> list[int]:
        return column(name).arg_true().to_list() if there(name) else []

    def flat(name: str) -> list[Any]:
        lists = column(name)
        return lists.filter(lists.list.len() > 0).explode().to_list()

    golds: list[SavedGold] = []
    for at, gold in enumerate(outlined.golds):
        counts = column(f"gold/{at}/items").list.len().to_list()
        parts = {name: flat(f"gold/{at}/{name}") for name in ("items", "grades", "kinds")}
        golds.append(msgspec.structs.replace(gold, counts=counts, **parts))
    views: list[SavedView] = []
    for at, view in enumerate(outlined.views):
        one = f"view/{at}/"
        views.append(
            msgspec.structs.replace(
                view,
                depth=column(one + "depth").to_list(),
                absent=marked(one + "absent"),
                counts=column(one + "rank").list.len().to_list(),
                rank=flat(one + "rank"),
                item=flat(one + "item"),
                by_document=None if view.by_document is None else marked(one + "by_document"),
                columns={name: column(f"{one}columns/{name}").to_list() for name in view.columns},
                votes={name: column(f"{one}votes/{name}").to_list() for name in view.votes},
            )
        )
    return SavedTables(
        golds=golds,
        views=views,
        k=column("k").to_list() if there("k") else [],
        no_answer=marked("no_answer"),
        hashes={name: [f"{h:016x}" for h in column(f"hash/{name}").to_list()] for name in outlined.hashes},
    )
