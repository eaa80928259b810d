"""What the numbers were made from."""

from __future__ import annotations

from typing import Any

import msgspec

from karat.data.prices import Prices
from karat.report.blocks import Block, Column, Table
from karat.report.sections.base import ReportSection
from karat.results.numbers import counted
from karat.results.result import Result


class Artifacts(ReportSection):
    """Data, settings and provenance."""

    name = "artifacts"
    title = "Made from"
    order = 90

    def blocks(self, result: Result) -> list[Block]:
        dataset, drawn = result.gold.dataset, result.sampling
        facts: dict[str, Any] = {
            "run": result.run,
            "system": result.system,
            "gold": result.gold.label,
            "dataset": " ".join(x for x in (dataset.name, dataset.version) if x),
            "dataset hash": dataset.hash,
            "as of": " to ".join(dataset.as_of_range or []),
            "prices": None if result.rules.prices is None else _prices(result.rules.prices),
            "intervals": f"{drawn.method}, {drawn.resamples:,} resamples, seed {drawn.seed}",
            # RAG_TOP_K and the like are names of settings, and stay as they are.
            **{n if n.isupper() else n.replace("_", " "): value for n, value in result.provenance.items()},
        }
        return [_table(facts)]

    def full_blocks(self, result: Result) -> list[Block]:
        [table] = self.blocks(result)
        assert isinstance(table, Table)
        rules = result.rules
        settings: dict[str, Any] = {
            "intervals are over": f"groups with the same {result.cluster}" if result.cluster else "queries",
            "k where a metric names none": rules.k,
            "queries that the run lacks": {"worst": "scored as failed", "skip": "left out"}[rules.missing],
            "hits cut under the score": rules.min_score,
            "document of a chunk": f"what stands before {rules.doc_of!r}",
            "items in the corpus": result.corpus_size,
            "versions of the metrics": ", ".join(f"{name} v{version}" for name, version in result.definitions.items()),
        }
        return [msgspec.structs.replace(table, rows=[*table.rows, *_table(settings).rows])]


def _table(facts: dict[str, Any]) -> Table:
    rows = [[name, _plain(value)] for name, value in facts.items() if value not in (None, "", {})]
    return Table([Column("what"), Column("value")], rows, layout="facts")


def _prices(prices: Prices) -> str:
    return f"{prices.currency}, {counted(len(prices.models), 'model')}, {prices.hash}"


def _plain(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"values", "first"}:
        return f"{value['values']} different values, the first: {_plain(value['first'])}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    return str(value)
