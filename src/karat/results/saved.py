"""The saved form of a result, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from karat import __version__
from karat.data.audit import Entry
from karat.data.saved import SavedOfSystem
from karat.errors import InputError
from karat.errors.redaction import redact_all, redact_known
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Source
from karat.results.diagnosis.bands import Reading
from karat.results.diagnosis.finding import Finding
from karat.results.references import SOURCES, is_reference
from karat.results.summary import SegmentRow, SummaryRow
from karat.results.tables_form import SavedTables
from karat.scoring.doubts import Doubts

if TYPE_CHECKING:
    from karat.results.result import Result

SCHEMA: Literal["karat/result/2"] = "karat/result/2"
SEVERAL: Literal["karat/results/1"] = "karat/results/1"
BOARD = "karat/leaderboard/1"


def origin(result: Result) -> dict[str, Any]:
    """The first fields of every object saved from a result: the version, and what was evaluated."""
    system, gold = result.system, result.gold
    about = {"system": system, "run": result.run, "gold": gold.label, "dataset": gold.dataset}
    return {"karat": __version__, **redact_all(about)}


def scores_by_query(
    queries: list[str], columns: Mapping[str, Sequence[float | None]]
) -> dict[str, dict[str, float | None]]:
    per_query = zip(*columns.values(), strict=True) if columns else (() for _ in queries)
    return {q: dict(zip(columns, row, strict=True)) for q, row in zip(queries, per_query, strict=True)}


class SavedResult(SavedOfSystem, frozen=True, kw_only=True):
    """The saved form of a result. Later versions add keys and never change the meaning of these.

    Karat 0.1 wrote `karat/result/1`, which has no `tables`.
    """

    schema: Literal["karat/result/1", "karat/result/2"] = SCHEMA
    settings: dict[str, Any]
    provenance: dict[str, Any]
    audit: list[Entry]
    summary: list[SummaryRow]
    scores: dict[str, dict[str, float | None]]
    queries: dict[str, str | None]  # text of each query, null if the gold set has none
    statistics: dict[str, Any] = {}  # how the intervals were made
    segments: list[SegmentRow] = []
    attributes: dict[str, list[Any]] = {}  # attributes of the queries, in their order
    votes: dict[str, list[float]] = {}  # weight of each query in a micro average, in their order
    definitions: dict[str, int] = {}  # version of each metric's definition
    missing: list[str] = []  # queries missing from the run, scored as failed
    bands: list[Reading] = []  # poor, acceptable, good or excellent
    findings: list[Finding] = []  # what stands out beyond noise, and what to try
    analyses: dict[str, Any] = {}  # what the run's own data shows beyond the scores, by name
    bm25: dict[str, float | None] = {}  # metric → BM25's score; empty if unknown
    lacking: dict[str, str] = {}  # analyses that could not be made, and the data they need
    wrong_hits_judged: bool | None = None  # the gold marks some items as not relevant; null: unknown
    doubts: Doubts = Doubts()  # why scores may say nothing about the retriever
    tables: SavedTables | None = None  # to measure the result again in other metrics and at other k


class SavedResults(msgspec.Struct, kw_only=True):
    """Several results in one file, one per system of a run."""

    schema: Literal["karat/results/1"] = SEVERAL
    results: list[SavedResult]


def saved_text(saved: SavedResult) -> bytes:
    """The file contents: indented for people, except for the tables, which only programs read."""
    tables = b"" if saved.tables is None else b',\n  "tables": ' + msgspec.json.encode(saved.tables)
    text = msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(saved, tables=None)), indent=2)
    text = redact_known(text.decode()).encode()  # a query id may be a secret
    return text.removesuffix(b',\n  "tables": null\n}') + tables + b"\n}\n"


class _Schema(msgspec.Struct):
    schema: str = ""


class _Board(msgspec.Struct):
    results: list[SavedResult] = []


def _of_board(board: _Board, label: str) -> list[SavedResult]:
    if not board.results:
        raise InputError(
            "this file has a table of systems, but not their results",
            code="not-a-result",
            file=label,
            hint="save it again: karat eval RUN… --gold GOLD -o table.json",
        )
    return board.results


def read_results(path: str | PathLike[str]) -> list[SavedResult]:
    """All results of a file saved with `karat eval … -o out.json`."""
    source = Source(str(path))
    with source.open() as stream:
        text = stream.read()
    try:
        schema = msgspec.json.decode(text, type=_Schema).schema
        if schema == BOARD:
            return _of_board(msgspec.json.decode(text, type=_Board), source.label)
        if schema == SEVERAL:
            return msgspec.json.decode(text, type=SavedResults).results
        return [msgspec.json.decode(text, type=SavedResult)]
    except msgspec.ValidationError as error:
        problem = refusal(error, source.label, None, text)
        problem.hint = f"expected a result saved by Karat ({SCHEMA})"
        raise problem from error
    except DECODE_ERRORS as error:
        raise InputError(f"not a saved result: {error}", code="not-a-result", file=source.label) from error


def read_result(path: str | PathLike[str]) -> SavedResult:
    """The result in a file saved with `karat eval … -o out.json`."""
    results = read_results(path)
    if len(results) > 1:
        systems = ", ".join(r.system or "(unnamed)" for r in results)
        raise InputError(
            "the file has several results",
            code="several-systems",
            file=str(path),
            hint=f"read_results reads all of them: {systems}",
        )
    return results[0]


def read_saved(side: str | PathLike[str]) -> list[SavedResult]:
    """The results of a file or a reference."""
    if isinstance(side, str) and is_reference(side):
        source, _, name = side.partition(":")
        return [SOURCES.require(source)().read(name)]
    return read_results(side)
