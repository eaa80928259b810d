"""Files of other evaluation tools: ragas, deepeval, LangSmith, MLflow and promptfoo."""

from __future__ import annotations

import io
import re
from itertools import islice
from typing import Any, ClassVar

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.kinds.table import table_header

# A file without any of these names is none of these. Patterns are compiled when used: every start loads this file.
_TELLTALE = (b"input", b"contexts", b"vars", b"xpect", b"test", b"results", b"request")
_SHOWN = 20  # records to look at
_DEEP = 6
_OF_RAGAS = {"retrieved_contexts", "retrieved_context_ids", "reference_contexts", "reference_context_ids"}
_OF_RAGAS_GOLD = {"reference_contexts", "reference_context_ids", "reference"}
_OLD_GOLD = {"ground_truth", "ground_truths"}
_OF_DEEPEVAL_RUN = {"retrieval_context", "retrievalContext"}
_OF_DEEPEVAL = {*_OF_DEEPEVAL_RUN, "source_file", "additional_metadata", "expected_tools", "expectedTools"}
_OF_MLFLOW = {"expectations", "expected_retrieved_context"}
_ASSERTED = rb"^[ \t]*(?:-[ \t]+)?[\"']?(?:vars|tests)[\"']?[ \t]*:"
_OF_PROMPTFOO = rb"^[ \t]*(?:-[ \t]+)?[\"']?(?:vars|prompts|providers)[\"']?[ \t]*:"


def _may_be(source: Source) -> bool:
    """Looked for once: every format here needs to know."""
    if "may_be_tool" not in vars(source):
        vars(source)["may_be_tool"] = not source.is_folder and any(name in source.head for name in _TELLTALE)
    return bool(vars(source)["may_be_tool"])


class ToolFormat(Format):
    """Records of one tool; a subclass recognises them."""

    kinds: ClassVar[frozenset[Kind]] = frozenset({"run", "gold"})

    def recognises(self, source: Source, kind: Kind) -> bool:
        return (source.is_parquet or _may_be(source)) and self.fits(opening(source), kind)

    def fits(self, said: dict[str, Any], kind: Kind) -> bool:
        """Whether records with these fields are of this tool, and a run or a gold set."""
        raise NotImplementedError

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.tools import tool_run

        return tool_run(source, self.name, options)

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.tools import tool_gold

        return tool_gold(source, self.name, options)


class RagasFormat(ToolFormat):
    """Samples of ragas (JSONL, JSON, CSV, Parquet): `user_input`, `retrieved_contexts`, `reference_contexts` …"""

    name = "ragas"
    order = 12

    def fits(self, said: dict[str, Any], kind: Kind) -> bool:
        names = said.keys()
        if "user_input" in names:
            own = {"retrieved_contexts", "retrieved_context_ids"} if kind == "run" else _OF_RAGAS_GOLD
            return bool(own & names)
        old = "question" in names and "contexts" in names and bool({*_OLD_GOLD, "answer"} & names)
        return old and (kind == "run" or bool(_OLD_GOLD & names))


class DeepevalFormat(ToolFormat):
    """Goldens and test cases of deepeval (JSON, JSONL, CSV): `input`, `retrieval_context`, `context` …"""

    name = "deepeval"
    order = 13

    def fits(self, said: dict[str, Any], kind: Kind) -> bool:
        names = said.keys()
        if "input" not in names or not (_OF_DEEPEVAL & names or isinstance(said.get("context"), list)):
            return False
        return kind == "gold" or any(said.get(name) is not None for name in _OF_DEEPEVAL_RUN)


class MlflowFormat(ToolFormat):
    """Records of MLflow evaluation datasets (JSON, JSONL, Parquet): `inputs`, `expectations`, `outputs`."""

    name = "mlflow"
    order = 14

    def fits(self, said: dict[str, Any], kind: Kind) -> bool:
        asked = {"inputs", "request"} & said.keys()
        if not asked or "run_type" in said or not (_OF_MLFLOW & said.keys() or "dataset_record_id" in said):
            return False
        if kind == "gold":
            return any(said.get(name) is not None for name in (*_OF_MLFLOW, "expected_response"))
        return any(said.get(name) is not None for name in ("outputs", "retrieved_context"))


class LangsmithFormat(ToolFormat):
    """Examples of a LangSmith dataset (JSONL, JSON, CSV): `inputs`, `outputs`; with `reference`, an experiment."""

    name = "langsmith"
    order = 15

    def fits(self, said: dict[str, Any], kind: Kind) -> bool:
        heads = {re.split(r"[._]", name, maxsplit=1)[0] for name in said}
        if not {"inputs", "outputs"} <= heads or {"run_type", "trace_id", "spans", "expectations"} & said.keys():
            return False
        return kind == "gold" or "reference" in heads or "example_id" in said


class PromptfooFormat(ToolFormat):
    """Tests of promptfoo (YAML, JSON, JSONL, CSV), and its results (JSON, JSONL)."""

    name = "promptfoo"
    order = 16

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.is_parquet or not _may_be(source):
            return False
        if not source.looks_like_json and re.search(_ASSERTED, source.head, re.M):
            return kind == "gold" and re.search(_OF_PROMPTFOO, source.head, re.M) is not None
        return self.fits(opening(source), kind)

    def fits(self, said: dict[str, Any], kind: Kind) -> bool:
        results = said.get("results")
        results = results.get("results") if isinstance(results, dict) else results
        listed = results if isinstance(results, list) else said.get("tests")
        first = next((one for one in listed if isinstance(one, dict)), {}) if isinstance(listed, list) else said
        is_result = "response" in first and bool({"vars", "testCase"} & first.keys())
        if kind == "run":
            return is_result
        return is_result or isinstance(first.get("vars"), dict) or any(name.startswith("__expected") for name in said)


def opening(source: Source) -> dict[str, Any]:
    """The fields of the first records, as far as the head of a file has them, each with its first value that is not
    null. Of Parquet the columns, without values; of a JSON document that is an object, its own fields."""
    if "opening" not in vars(source):
        said: dict[str, Any] = {}
        for record in _records(source):
            said |= {name: value for name, value in record.items() if said.get(name) is None}
        vars(source)["opening"] = said
    found: dict[str, Any] = vars(source)["opening"]
    return found


def _records(source: Source) -> list[dict[str, Any]]:
    if source.is_parquet:
        return [dict.fromkeys(table_header(source) or (), "")]
    if not source.looks_like_json:
        return first_rows(source)
    from karat.formats.records import decodable, is_json_lines

    if is_json_lines(source):
        return [*islice(decodable(source.head.splitlines()), _SHOWN)] or [source.first_object or {}]
    text = source.head.decode("utf-8", "replace")
    value = _partial(text, len(text) - len(text.lstrip()), _DEEP)[0]
    if isinstance(value, dict):
        cases = next((value[name] for name in ("testCases", "test_cases") if isinstance(value.get(name), list)), ())
        value = [case for case in cases if isinstance(case, dict)] or [value]
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def first_rows(source: Source) -> list[dict[str, Any]]:
    """The first rows of a text table. Empty cells are None."""
    import csv

    header = table_header(source) or []
    text = source.head.decode("utf-8", "replace").lstrip()
    separator = max("\t,;", key=text.partition("\n")[0].count)
    try:
        rows = list(islice(csv.reader(io.StringIO(text), delimiter=separator), 1, _SHOWN))
    except csv.Error:
        rows = []
    return [{name: value or None for name, value in zip(header, row, strict=False)} for row in rows or [header]]


def _partial(text: str, at: int, deep: int) -> tuple[Any, int | None]:
    """A JSON value that may be cut off: what is there of it, and where it ends (None: it is cut off)."""
    from json import JSONDecoder

    try:
        return JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        pass
    if not deep or text[at : at + 1] not in ("{", "["):
        return None, None
    values: list[Any] = []
    end: int | None = at + 1
    while end is not None and len(values) < 2 * _SHOWN:
        found = re.compile(r"[\s,:]*").match(text, end)
        at_next = end if found is None else found.end()
        if text[at_next : at_next + 1] in ("", "}", "]"):
            break
        value, end = _partial(text, at_next, deep - 1)
        values.append(value)
    if text[at] == "[":
        return values, None
    names = (name if isinstance(name, str) else "" for name in values[::2])
    return dict(zip(names, [*values[1::2], None], strict=False)), None
