"""Runs of any size for benchmarks/scale.py: Parquet, TREC or JSONL, the same bytes every time.

    python benchmarks/scale_data.py FOLDER HITS DEPTH [parquet|trec|jsonl|nested]

A run of HITS hits, DEPTH a query, and its gold (five judged a query, three of them among the hits) as Parquet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

SEED = 20_261_116
DOCUMENTS = 5_000_000
BLOCK = 1_000_000  # hits, and so the size of a row group


def main() -> None:
    folder, hits, depth, *kind = sys.argv[1:]
    print(*make(folder, int(hits), int(depth), kind[0] if kind else "parquet"))


def make(folder: str, hits: int, depth: int, kind: str = "parquet") -> tuple[str, str]:
    """Paths of run and gold; what is there already is not made again."""
    os.makedirs(folder, exist_ok=True)
    run, gold = (os.path.join(folder, f"{hits}x{depth}.{end}") for end in (kind, "gold.parquet"))
    if not os.path.exists(gold):
        pl.concat([_gold(block, depth) for block in _blocks(hits, depth)]).write_parquet(gold + ".part")
        os.replace(gold + ".part", gold)
    if not os.path.exists(run):
        _WRITERS[kind](run + ".part", map(_named, _blocks(hits, depth)))
        os.replace(run + ".part", run)
    return run, gold


def _blocks(hits: int, depth: int) -> Iterator[pl.DataFrame]:
    """Whole queries, with numbers for names; a document stands once in a list, scores fall."""
    step = max(1, BLOCK // depth)
    for start in range(0, hits // depth, step):
        queries = np.arange(start, min(start + step, hits // depth))
        random = np.random.default_rng([SEED, start])
        first = random.integers(0, DOCUMENTS, len(queries))
        stride = random.integers(1, DOCUMENTS // depth, len(queries))
        place = np.arange(depth)
        documents = (first[:, None] + stride[:, None] * place) % DOCUMENTS
        score = 30 - 20 * np.log1p(place) / np.log1p(depth) + random.random(len(queries))[:, None] / 100
        yield pl.DataFrame(
            {
                "query_id": np.repeat(queries, depth),
                "chunk_id": documents.ravel(),
                "rank": np.tile((place + 1).astype(np.int32), len(queries)),
                "score": score.ravel().round(6),
            }
        )


def _named(block: pl.DataFrame) -> pl.DataFrame:
    return block.with_columns(
        pl.format("q{}", pl.col("query_id").cast(pl.String).str.zfill(8)).alias("query_id"),
        pl.format("doc_{}", pl.col("chunk_id").cast(pl.String).str.zfill(7)).alias("chunk_id"),
    )


def _gold(block: pl.DataFrame, depth: int) -> pl.DataFrame:
    """Three judged among the hits, most of them near the top, and two that no list has."""
    query, rank = pl.col("query_id"), pl.col("rank")
    at = {2: 1 + query * 7 % 11, 1: 12 + query * 31 % 29, 0: 1 + query * 13 % depth}
    grade = pl.coalesce(pl.when(rank == place).then(pl.lit(grade)) for grade, place in at.items())
    found = _named(block.with_columns(grade=grade).filter(pl.col("grade").is_not_null()))
    found = found.select("query_id", "chunk_id", pl.col("grade").cast(pl.Int64))
    queries = found.select(query.unique(maintain_order=True))
    others = pl.concat(
        [queries.with_columns(pl.format(f"lost_{n}_{{}}", "query_id").alias("chunk_id"), grade=1) for n in (1, 2)]
    )
    return pl.concat([found, others.select(found.columns).cast(found.schema)]).sort("query_id", maintain_order=True)


def _write_parquet(path: str, blocks: Iterator[pl.DataFrame]) -> None:
    import pyarrow.parquet as pq

    writer = None
    for block in blocks:
        table = block.to_arrow()
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=BLOCK)
    if writer is not None:
        writer.close()


def _write_nested(path: str, blocks: Iterator[pl.DataFrame]) -> None:
    hit = pl.struct("chunk_id", "rank", "score").alias("topk")
    _write_parquet(path, (block.group_by("query_id", maintain_order=True).agg(hit) for block in blocks))


def _write_trec(path: str, blocks: Iterator[pl.DataFrame]) -> None:
    with open(path, "wb") as file:
        for block in blocks:
            columns = ("query_id", pl.lit("Q0"), "chunk_id", "rank", "score", pl.lit("sys").alias("tag"))
            block.select(*columns).write_csv(file, include_header=False, separator=" ")


def _write_jsonl(path: str, blocks: Iterator[pl.DataFrame]) -> None:
    with open(path, "wb") as file:
        for block in blocks:
            hit = pl.struct("rank", "chunk_id", "score").alias("topk")
            lines = block.group_by("query_id", maintain_order=True).agg(hit)
            lines.with_columns(system=pl.lit("sys")).select("query_id", "system", "topk").write_ndjson(file)


_WRITERS: dict[str, Callable[[str, Iterator[pl.DataFrame]], None]] = {
    "parquet": _write_parquet,
    "nested": _write_nested,
    "trec": _write_trec,
    "jsonl": _write_jsonl,
}

if __name__ == "__main__":
    main()
