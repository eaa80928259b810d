"""Writes gold sets in formats of other tools, and samples with what was retrieved and what should have been."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from karat.errors import ConfigError, InputError
from karat.formats.run_writer import plain, ranked

Entry = dict[str, Any]  # of a gold file
_IDS = ("chunk_id", "id", "doc_id")
# What a gold set may hold that a format may not, by the name that users see.
_OF_ENTRY = {
    "query": "query texts",
    "evidence": "evidence texts",
    "answer": "answers",
    "negatives": "hard negatives",
    "no_answer": "queries without an answer",
    "k": "cutoffs",
    "tags": "tags",
    "query_id": "",
    "gold": "",
}
_GRADED = {"grades", "query ids", "queries without gold"}
GOLD_HOLDS: dict[str, frozenset[str]] = {
    "trec-qrels": frozenset({"grades", "query ids"}),
    "ragas": frozenset({"query ids", "query texts", "evidence texts", "answers", "queries without gold"}),
    "rank-eval": frozenset({*_GRADED, "query texts"}),
    "quepid": frozenset({"grades", "fractions of grades", "query texts", "queries without gold"}),
}
_NOT_IN_BEIR = {"fractions of grades", "passages", "kinds of ids"}
_NOT_IN_PARQUET = {"queries without gold", "kinds of ids"}


def holds(format: str, feature: str) -> bool:
    """Whether a format can hold this part of a gold set."""
    if format == "beir":
        return feature not in _NOT_IN_BEIR
    if format == "parquet":
        return feature not in _NOT_IN_PARQUET and not feature.startswith("the field entities")
    return format not in GOLD_HOLDS or feature in GOLD_HOLDS[format]


def said_in_gold(entry: Mapping[str, Any]) -> set[str]:
    """What an entry holds, by the names that users see."""
    found = {_OF_ENTRY.get(name, f"the field {name}") for name, value in entry.items() if value is not None} - {""}
    items = entry["gold"]
    grades = [item.get("grade", 1) for item in items]
    found |= {"grades"} if any(grade != 1 for grade in grades) else set()
    found |= {"fractions of grades"} if any(grade != int(grade) for grade in grades) else set()
    found |= {"passages"} if any({"quote", "start"} & item.keys() for item in items) else set()
    odd = any("#" in str(item["doc_id"]) for item in items if not {"chunk_id", "id"} & item.keys())
    found |= {"kinds of ids"} if odd else set()
    found |= {"query ids"} if entry.get("query", entry["query_id"]) != entry["query_id"] else set()
    return found if items or entry.get("no_answer") else found | {"queries without gold"}


def item_id(item: Mapping[str, Any]) -> str:
    return str(next(item[name] for name in _IDS if name in item))


def _whole(grade: float) -> int:
    return round(grade)


def _line(record: Any) -> bytes:
    return msgspec.json.encode(record) + b"\n"


def gold_lines_of(entries: Iterable[Entry], header: Mapping[str, Any]) -> Iterator[bytes]:
    if header:
        yield _line({"dataset": header})
    yield from map(_line, entries)


def qrels_lines(entries: Iterable[Entry]) -> Iterator[bytes]:
    for entry in entries:
        query = plain(entry["query_id"], "query id")
        for item in entry["gold"]:
            yield f"{query} 0 {plain(item_id(item), 'id')} {_whole(item.get('grade', 1))}\n".encode()


def write_beir(folder: Path, entries: Iterable[Entry], header: Mapping[str, Any]) -> None:
    (folder / "qrels").mkdir()
    with (folder / "queries.jsonl").open("wb") as queries, (folder / "qrels" / "test.tsv").open("wb") as qrels:
        qrels.write(b"query-id\tcorpus-id\tscore\n")
        for entry in entries:
            others = {name: value for name, value in entry.items() if name not in ("query_id", "query", "gold", "tags")}
            tags = entry.get("tags")
            metadata = {**others, **(tags if isinstance(tags, dict) else {})}
            queries.write(_line({"_id": entry["query_id"], "text": entry.get("query", ""), "metadata": metadata}))
            negatives = set(entry.get("negatives") or ())
            for item in entry["gold"]:
                if item_id(item) not in negatives:
                    row = (_cell(entry["query_id"]), _cell(item_id(item)), str(_whole(item.get("grade", 1))))
                    qrels.write("\t".join(row).encode() + b"\n")
    if header:
        (folder / "dataset.yaml").write_bytes(_line(header))  # JSON is YAML


def _cell(text: str) -> str:
    if any(sign in text for sign in "\t\r\n"):
        hint = "choose another format, such as --to gold"
        raise InputError("an id with a tab or line break cannot be written", code="unwritable-id", got=text, hint=hint)
    return text


def quepid_lines(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Rows of query, document and rating. A query without ratings is a row of its own, as in Quepid's exports."""
    yield b"query,docid,rating\n"
    seen: set[str] = set()
    for entry in entries:
        text = (entry.get("query") or entry["query_id"]).strip()
        if text in seen:
            what, hint = "two queries have the same text, which is their id in Quepid", "remove one of them"
            raise InputError(what, code="duplicate-query", query=text, hint=hint)
        seen.add(text)
        safe = f" {text}" if text[:1] in ("-", "=", "+", "@") else text  # or a spreadsheet would run it
        rows = [(safe, item_id(item), f"{item.get('grade', 1):g}") for item in entry["gold"]]
        yield _csv(rows or [(safe, "", "")])


def _csv(rows: Iterable[Iterable[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def rank_eval_body(entries: Iterable[Entry], index: str | None) -> bytes:
    """A request of `_rank_eval`. It searches all fields for the text of the query; edit the query as you need."""
    if not index:
        what, hint = "each rating names an index", "name it with --index NAME"
        raise ConfigError(what, code="missing-option", field="index", hint=hint)
    requests = [
        {
            "id": entry["query_id"],
            "request": {"query": {"multi_match": {"query": entry.get("query") or entry["query_id"]}}},
            "ratings": [
                {"_index": index, "_id": item_id(item), "rating": _whole(item.get("grade", 1))}
                for item in entry["gold"]
            ],
        }
        for entry in entries
    ]
    body = {"requests": requests, "metric": {"dcg": {"k": 10, "normalize": True}}}
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def promptfoo_tests(entries: Iterable[Entry], as_yaml: bool) -> bytes:
    """Tests of what was retrieved: they look for the evidence, or for one of the ids."""
    tests = []
    for entry in entries:
        relevant = [item_id(item) for item in entry["gold"] if item.get("grade", 1) > 0]
        asserted = []
        if entry.get("evidence"):
            asserted.append({"type": "contains-all", "value": entry["evidence"]})
        elif relevant:
            asserted.append({"type": "contains-any", "value": relevant})
        if entry.get("answer"):
            asserted.append({"type": "context-recall", "value": entry["answer"]})
        variables = {"query": entry.get("query", entry["query_id"])}
        tests.append({"vars": variables, "assert": asserted, "metadata": {"karat": entry}})
    if not as_yaml:
        return msgspec.json.format(msgspec.json.encode(tests), indent=2) + b"\n"
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(tests, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120).encode()


def gold_frame(entries: Iterable[Entry]) -> Any:
    """One row per judgement, as a polars frame."""
    import polars as pl

    rows: list[Entry] = []
    kinds: set[str] = set()
    for entry in entries:
        others = {name: value for name, value in entry.items() if name not in ("gold", "tags")}
        of_query = {**others, **(entry.get("tags") or {})}
        negatives = set(entry.get("negatives") or ())
        judged = [item for item in entry["gold"] if item_id(item) not in negatives]
        kinds |= {next(name for name in _IDS if name in item) for item in judged}
        rows += [{**of_query, **item, "item": item_id(item), "grade": float(item.get("grade", 1))} for item in judged]
        rows += [{**of_query, "item": None, "grade": None}] if not judged and entry.get("no_answer") else []
    item = kinds.pop() if len(kinds) == 1 else "id"
    names = dict.fromkeys(name for row in rows for name in row if name not in (*_IDS, "item"))
    columns = {"query_id": [row["query_id"] for row in rows], item: [row["item"] for row in rows]}
    columns |= {name: [row.get(name) for row in rows] for name in names if name not in columns}
    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()})


def ragas_sample(record: Mapping[str, Any] | None, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    """One sample: what was retrieved, and what should have been."""
    said = entry or record or {}
    question = _question(record, entry)
    sample: dict[str, Any] = {"user_input": question, **_id_beside(question, said)}
    if record is not None:
        hits = ranked(record)[0]
        sample["retrieved_context_ids"] = [hit["chunk_id"] for hit in hits]
        if all("text" in hit for hit in hits):
            sample["retrieved_contexts"] = [hit["text"] for hit in hits]
    if entry is not None:
        ids = [item_id(item) for item in entry["gold"] if item.get("grade", 1) > 0]
        sample |= {"reference_context_ids": ids} if ids or not entry.get("evidence") else {}
        sample |= {"reference_contexts": entry["evidence"]} if entry.get("evidence") else {}
        sample |= {"reference": entry["answer"]} if entry.get("answer") else {}
    return sample


def deepeval_case(record: Mapping[str, Any] | None, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    """One golden or test case. What deepeval has no field for is in `additional_metadata`."""
    said = entry or record or {}
    question = _question(record, entry)
    metadata: dict[str, Any] = _id_beside(question, said)
    case: dict[str, Any] = {"input": question}
    if entry is not None:
        case |= {"expected_output": entry.get("answer"), "context": entry.get("evidence")}
        metadata["karat"] = dict(entry)
    if record is not None:
        hits = ranked(record)[0]
        without = next((hit["chunk_id"] for hit in hits if "text" not in hit), None)
        if without is not None:
            raise InputError(
                "deepeval needs the texts of hits",
                code="missing-text",
                query=record["query_id"],
                got=without,
                hint="give them with --corpus FILE, or write --to ragas, which also takes ids",
            )
        case["retrieval_context"] = [hit["text"] for hit in hits]
        metadata["retrieved_context_ids"] = [hit["chunk_id"] for hit in hits]
    return {**case, "additional_metadata": metadata}


def _id_beside(question: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """The id of a query, unless it is the question: then a gold set is matched by text."""
    return {} if said["query_id"] == question else {"query_id": said["query_id"]}


def _question(record: Mapping[str, Any] | None, entry: Mapping[str, Any] | None) -> str:
    texts = (said.get("query") for said in (entry, record) if said is not None)
    said = entry or record or {}
    return str(next((text for text in texts if text), said.get("query_id")))
