"""Tests and results of promptfoo."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from karat.errors import InputError
from karat.formats.base import Source
from karat.formats.mapped import Numbered
from karat.formats.tool_parts import (
    RELEVANT_IDS,
    RETRIEVED,
    RETRIEVED_IDS,
    Parts,
    cell,
    first_of,
    hits_of,
    kept_in,
    listed_in,
    query_in,
    relevant_of,
    tags_in,
    text_of,
)

_TEMPLATE = re.compile(r"\{\{-?\s*(\w+)\s*-?\}\}")
_BY_ASSERTION = 1  # why a result failed: by an assertion, and not by an error of the provider


def promptfoo_records(value: Mapping[str, Any], source: Source) -> Any:
    """The results of a file, or its tests, each with what `defaultTest` says."""
    results = value.get("results")
    results = results.get("results") if isinstance(results, dict) else results
    if results is not None:
        return with_systems(results)
    tests, default = named_tests(value.get("tests"), source), value.get("defaultTest")
    if not isinstance(tests, list) or not isinstance(default, dict):
        return tests
    return [_with_default(test, default) if isinstance(test, dict) else test for test in tests]


def _with_default(test: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    merged = {
        name: {**default[name], **(test.get(name) or {})}
        for name in ("vars", "metadata")
        if isinstance(default.get(name), dict) and isinstance(test.get(name) or {}, dict)
    }
    asserted = [*(listed_in(test.get("assert")) or ()), *(listed_in(default.get("assert")) or ())]
    return {**test, **merged, "assert": asserted}


def each_test_once(records: Numbered) -> Numbered:
    """Results of promptfoo repeat a test for every provider and prompt."""
    seen: set[bytes | None] = set()
    for line, record in records:
        test = record.get("testCase")
        key = None if test is None else msgspec.json.encode(test)
        if key is None or key not in seen:
            yield line, record
        seen.add(key)


def named_tests(tests: Any, source: Source) -> Any:
    names = [tests] if isinstance(tests, str) else tests if isinstance(tests, list) else []
    name = next((one for one in names if isinstance(one, str)), None)
    if name is not None:
        what, hint = "the tests are in another file", f"give that file: {name.removeprefix('file://')}"
        raise InputError(what, code="tests-elsewhere", file=source.label, field="tests", got=name, hint=hint)
    return tests


def with_systems(results: Any) -> Any:
    """Results of promptfoo with the name of their system: the provider, and the prompt where there are several."""
    rows = [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []
    prompts: dict[str, set[str]] = {}
    for row in rows:
        prompts.setdefault(_provider(row) or "", set()).add(_prompt(row))
    for row in rows:
        provider = _provider(row) or ""
        several = len(prompts[provider]) > 1
        row["system"] = f"{provider} · {_prompt(row)}" if several else provider or None
    return results


def _provider(row: Mapping[str, Any]) -> str | None:
    found = row.get("provider")
    name = first_of(("label", "id"), found) if isinstance(found, dict) else found
    return None if name is None else str(name)


def _prompt(row: Mapping[str, Any]) -> str:
    return str(first_of(("label", "raw"), row.get("prompt")) or "")


def promptfoo(record: Mapping[str, Any]) -> Parts:
    test = record.get("testCase") if isinstance(record.get("testCase"), dict) else record
    assert isinstance(test, Mapping)
    rows = {name: value for name, value in record.items() if isinstance(name, str)}
    if "vars" not in rows and "testCase" not in rows:  # a row of a table
        test = _test_of_row(rows)
    variables = first_of(("vars",), record, test) or {}
    metadata, response = test.get("metadata"), record.get("response")
    output = cell(first_of(("output",), response))
    places = (output, first_of(("metadata",), response), record.get("metadata"), variables)
    retrieved = output if isinstance(output, list) else first_of(RETRIEVED, *places)
    asserted = _asserted(test.get("assert"), variables)
    failed = record.get("failureReason") != _BY_ASSERTION and (response is None or retrieved is None)
    return {
        **relevant_of(first_of(RELEVANT_IDS, metadata, variables), asserted.get("evidence")),
        **kept_in(metadata, variables),
        "query": query_in(variables),
        "hits": hits_of(first_of(RETRIEVED_IDS, *places), retrieved) if response is not None else None,
        "answer": text_of(first_of(("answer", "expected_answer"), metadata, variables)) or asserted.get("answer"),
        "system": record.get("system") or _provider(record),
        "latency_ms": record.get("latencyMs"),
        "error": text_of(record.get("error")) if failed else None,
        "tags": {**tags_in(metadata), **(kept_in(metadata).get("tags") or {})},
    }


_FOUND = re.compile(r"(?:context-)?i?contains(?:-all|-any)?")
_ANSWERED = ("context-recall", "factuality", "equals", "similar", "answer-relevance")


def _asserted(tests: Any, variables: Any) -> Parts:
    """The texts that a promptfoo test looks for: in what was retrieved, and as the answer."""
    evidence: list[str] = []
    answer: str | None = None
    for kind, value in _assertions(tests):
        texts = [text for one in listed_in(value) or [] if (text := _filled(one, variables)) is not None]
        if _FOUND.fullmatch(kind):
            evidence += texts
        elif kind in _ANSWERED and answer is None:
            answer = texts[0] if texts else None
    return {"evidence": list(dict.fromkeys(evidence)) or None, "answer": answer}


def _assertions(tests: Any) -> Iterator[tuple[str, Any]]:
    """Type and value of each, also of those in a set."""
    for one in tests if isinstance(tests, list) else []:
        kind = one.get("type") if isinstance(one, dict) else None
        if kind == "assert-set":
            yield from _assertions(one.get("assert"))
        elif isinstance(kind, str):
            yield kind, one.get("value")


def _filled(text: Any, variables: Any) -> str | None:
    """A text with the variables of its test; None where it needs more than these: a filter, a file, code."""
    if not isinstance(text, str) or not text or text.startswith(("file://", "package:")):
        return None
    known = variables if isinstance(variables, Mapping) else {}
    filled = _TEMPLATE.sub(lambda found: str(known.get(found[1], found[0])), text)
    return None if re.search(r"\{\{|\{%", filled) else filled


def _test_of_row(row: Mapping[str, Any]) -> Parts:
    """A row of a CSV file of tests: variables, and columns that begin with two underscores."""
    variables, metadata, asserted = Parts(), Parts(), list[Parts]()
    for name, value in row.items():
        if name.startswith("__expected") and isinstance(value, str):
            kind, _, text = value.partition(":")
            kind = re.sub(r"\(.*\)$", "", kind.strip())
            if not re.fullmatch(r"[a-z][a-z-]+", kind) or not text:
                asserted.append({"type": "equals", "value": value.strip()})
            else:
                several = kind.endswith(("-all", "-any"))
                texts = next(csv.reader([text], skipinitialspace=True), []) if several else text.strip()
                asserted.append({"type": kind, "value": texts})
        elif name.startswith("__metadata:"):
            key = name.removeprefix("__metadata:")
            metadata[key.removesuffix("[]")] = re.split(r"(?<!\\),\s*", value) if key.endswith("[]") else value
        elif not name.startswith("__"):
            variables[name] = value
    return {"vars": variables, "metadata": metadata, "assert": asserted}
