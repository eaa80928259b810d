"""What is kept of a run: one document, and one row a query; both in one Parquet file."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from karat.errors import InputError
from karat.results.saved import SavedResult
from karat.results.tables_form import SavedTables
from karat.results.tables_frame import PREFIX, columns_of, from_frame, outline

if TYPE_CHECKING:
    import polars as pl

SCHEMA: Literal["karat/run/1"] = "karat/run/1"
SCORE, VOTE, TAG = "score/", "vote/", "tag/"
DOCUMENT = "document"  # the column that holds the document, in its first row
_PLACES = ("karat", "run", "gold")  # where files lay and who looked: not what was found
# Of the gold, which the hash of the dataset tells from any other; and what it takes to measure the same run again.
_FIRST = "karat/result/1"
_TOLD_BY_THE_REST = ("wrong_hits_judged", "tables")
_COLUMNS = ("query_id", "query", "missing", "first_rank", "case")
_GROUP = 20_000  # rows that are read together; a page of queries costs one such group


class RunDocument(msgspec.Struct, kw_only=True):
    """Everything but what is said query by query: that stands in the rows."""

    schema: Literal["karat/run/1"] = SCHEMA
    result: SavedResult  # without scores, queries, attributes and votes
    triage: dict[str, Any] | None = None  # as `karat triage` saves it, without the cases
    cases: list[str] = []  # queries that have one, worst first
    sweep: dict[str, Any] | None = None  # as `karat sweep` saves it
    sections: list[Any] = []  # of the report's page, but triage and sweep; quick for any number of queries


@dataclass(frozen=True)
class KeptRun:
    """A run as it is kept. Rows: query_id, query, missing, first_rank, case, score/…, vote/…, tag/…

    `text`: the document as it is written. The id goes by it and not by the struct, which later versions add fields to:
    a run of an older Karat must stay the run that it is.
    """

    text: bytes
    rows: pl.DataFrame

    @classmethod
    def of(cls, document: RunDocument, rows: pl.DataFrame) -> KeptRun:
        return cls(msgspec.json.encode(document), rows)

    @cached_property
    def document(self) -> RunDocument:
        return read_document(self.text, "a kept run")

    @cached_property
    def id(self) -> str:
        """By content: the same scores of the same system by the same code are one run, wherever its files lay."""
        found = hashlib.sha256(msgspec.json.encode(_content(self.text), order="deterministic"))
        for name in sorted(name for name in self.rows.columns if not name.startswith(PREFIX)):
            found.update(name.encode())
            found.update(msgspec.json.encode(self.rows[name].to_list()))
        return found.hexdigest()

    def to_parquet(self) -> bytes:
        import polars as pl

        column = pl.Series(DOCUMENT, [self.text.decode(), *[None] * (self.rows.height - 1)], dtype=pl.String)
        buffer = io.BytesIO()
        self.rows.with_columns(column).write_parquet(buffer, compression="zstd", row_group_size=_GROUP)
        return buffer.getvalue()

    def saved(self) -> SavedResult:
        """The saved form of the result, whole."""
        scores = {name: self.rows[SCORE + name].to_list() for name in columns_named(self.rows, SCORE)}
        ids = self.rows["query_id"].to_list()
        per_query = zip(*scores.values(), strict=True) if scores else (() for _ in ids)
        decode = msgspec.json.Decoder().decode
        return msgspec.structs.replace(
            self.document.result,
            scores={q: dict(zip(scores, row, strict=True)) for q, row in zip(ids, per_query, strict=True)},
            queries=dict(zip(ids, self.rows["query"].to_list(), strict=True)),
            attributes={
                name: [None if text is None else decode(text) for text in self.rows[TAG + name].to_list()]
                for name in columns_named(self.rows, TAG)
            },
            votes={name: self.rows[VOTE + name].to_list() for name in columns_named(self.rows, VOTE)},
            tables=self.tables,
        )

    @property
    def tables(self) -> SavedTables | None:
        """What it takes to measure the run again; a run that Karat 0.1 kept has none."""
        outlined = self.document.result.tables
        return None if outlined is None else from_frame(outlined, self.rows)

    def cases(self) -> list[Any]:
        """Of the triage, worst first."""
        found = self.rows.filter(self.rows["case"].is_not_null())
        texts = dict(zip(found["query_id"].to_list(), found["case"].to_list(), strict=True))
        return [msgspec.json.decode(texts[query]) for query in self.document.cases if query in texts]


def keep(
    saved: SavedResult,
    *,
    first_ranks: list[int | None] | None = None,
    triage: dict[str, Any] | None = None,
    sweep: dict[str, Any] | None = None,
    sections: Sequence[Any] = (),
) -> KeptRun:
    """`first_ranks`: where the first relevant hit of each query stands; the rest in its saved form."""
    import polars as pl

    cases = {} if triage is None else {case["query_id"]: case for case in triage["cases"]}
    missing = set(saved.missing)
    texts = [_json(cases.get(query)) for query in saved.scores]
    columns = {
        "query_id": pl.Series(list(saved.scores), dtype=pl.String),
        "query": pl.Series(list(saved.queries.values()), dtype=pl.String),
        "missing": pl.Series([q in missing for q in saved.scores], dtype=pl.Boolean),
        "first_rank": pl.Series(first_ranks or [None] * len(saved.scores), dtype=pl.Int64),
        "case": pl.Series(texts, dtype=pl.String),
        **{SCORE + name: pl.Series(column, dtype=pl.Float64) for name, column in _scores(saved)},
        **{VOTE + name: pl.Series(votes, dtype=pl.Float64) for name, votes in saved.votes.items()},
        **{
            TAG + name: pl.Series(list(map(_json, values)), dtype=pl.String)
            for name, values in saved.attributes.items()
        },
    }
    outlined = None
    if saved.tables is not None:
        columns |= columns_of(saved.tables, len(saved.scores))
        outlined = outline(saved.tables)
    document = RunDocument(
        result=msgspec.structs.replace(saved, scores={}, queries={}, attributes={}, votes={}, tables=outlined),
        triage=None if triage is None else {**triage, "cases": []},
        cases=list(cases),
        sweep=sweep,
        sections=list(sections),
    )
    return KeptRun.of(document, pl.DataFrame(columns))


def read_kept(source: bytes | Path, label: str) -> KeptRun:
    """A run from its Parquet file; anything but a whole one is refused."""
    import polars as pl

    try:
        rows = pl.read_parquet(io.BytesIO(source) if isinstance(source, bytes) else source)
        text = rows[DOCUMENT][0]
    except (pl.exceptions.PolarsError, IndexError, OSError) as error:
        raise InputError(
            "not a run that Karat has kept", code="damaged-run", file=label, hint="the file is cut off or damaged"
        ) from error
    document = read_document(text, label)
    measured = (SCORE + row.metric for row in document.result.summary)
    if not {*_COLUMNS, *measured} <= set(rows.columns):
        raise InputError("the parts of a kept run do not fit together", code="damaged-run", file=label)
    return KeptRun(text.encode(), rows.drop(DOCUMENT))


def read_document(text: str | bytes | None, label: str) -> RunDocument:
    try:
        return msgspec.json.decode(text or b"", type=RunDocument)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InputError(f"not a run that Karat has kept: {error}", code="damaged-run", file=label) from error


def _content(text: bytes) -> dict[str, Any]:
    """The document without what may differ although the run is the same."""
    plain: dict[str, Any] = msgspec.json.decode(text)
    plain.pop("sections", None)  # the same once more, in words
    plain["result"]["schema"] = _FIRST  # the same run is the same in later forms of the file
    for part in ("result", "triage", "sweep"):
        if plain.get(part) is not None:
            left_out = (*_PLACES, *_TOLD_BY_THE_REST)
            plain[part] = {name: value for name, value in plain[part].items() if name not in left_out}
    return plain


def _scores(saved: SavedResult) -> Iterator[tuple[str, list[float | None]]]:
    names = next(iter(saved.scores.values()), {})
    return ((name, [scores[name] for scores in saved.scores.values()]) for name in names)


def columns_named(rows: pl.DataFrame, prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in rows.columns if name.startswith(prefix)]


def decoded(texts: list[str | None]) -> list[Any]:
    """Values of a tag, of which there are few different ones."""
    known = {text: None if text is None else msgspec.json.decode(text) for text in set(texts)}
    return [known[text] for text in texts]


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value, order="deterministic").decode()
