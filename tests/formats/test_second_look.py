"""A second look at single queries says what the pass said of them and reads only them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flat_hits import by_query, places
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karat import read_run
from karat.data.audit import Audit
from karat.data.hits import Hits, NoLists, Run
from karat.formats import records, run_log
from karat.formats.base import PARSED

NOTHING = frozenset[str]()
OTHERS = frozenset({"raw", "topk_original"})
ALL = frozenset({"text", "doc_version", "source", "tokens", "latency"})

TEXTS = st.text(st.sampled_from('ab"\\é日\n\t/'), min_size=1, max_size=6)
ALIKE = st.builds(lambda i, s: {"rank": 1, "chunk_id": i, "score": s}, st.sampled_from("abcdef"), st.integers(0, 9))
ODD = st.fixed_dictionaries(
    {"chunk_id": TEXTS | st.integers(0, 9)},
    optional={
        "score": st.floats(-1, 1) | st.none(),
        "rank": st.integers(1, 9) | st.none(),
        "doc_id": TEXTS,
        "text": TEXTS,
        "doc_version": st.integers(0, 3),
        "odd": st.lists(st.integers(0, 3), max_size=2),
    },
)
LISTS = st.lists(ALIKE, max_size=3) | st.lists(ALIKE | ODD | TEXTS, max_size=3)
FIELDS = {
    "system": st.sampled_from("ab"),
    "query": TEXTS,
    "latency_ms": st.just({"retrieve": 1.5}),
    "unknown": TEXTS | st.integers() | st.just({"deep": [1]}),
    "raw": LISTS | st.none(),
    "topk_original": LISTS | st.none(),
    "late": st.booleans(),
}


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A run log: mostly lines of one shape, with whatever a file may hold besides."""
    usual = draw(st.sets(st.sampled_from(list(FIELDS)))) if draw(st.booleans()) else set()
    plain = draw(st.booleans())
    lines = []
    for number in range(draw(st.integers(1, 12))):
        names = sorted(usual if draw(st.integers(0, 4)) else draw(st.sets(st.sampled_from(list(FIELDS)))))
        entry = {"query_id": f"q{number}{'' if plain else draw(TEXTS)}", "topk": draw(LISTS)}
        entry |= {name: draw(FIELDS[name]) for name in names}
        ascii_only = draw(st.booleans())
        line = json.dumps(entry, ensure_ascii=ascii_only, separators=draw(st.sampled_from([(",", ":"), (", ", ": ")])))
        lines.append(line + draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n \t\n"])))
    text = "".join(lines)
    text = text.rstrip() if draw(st.booleans()) else text
    return b"\xef\xbb\xbf" * draw(st.booleans()) + text.encode()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_BATCH_BYTES", 300)
    monkeypatch.setattr(run_log, "_SLICE_HITS", 5)


def looked_at(run: Run, found: list[Hits], queries: set[str], columns: frozenset[str]) -> dict[Any, Any]:
    """What a second look says of some queries of each system."""
    known = places(found)
    answers: dict[Any, Any] = {}
    for system in {system for system, _ in known}:
        names = [q for s, q in known if s == system and q in queries]
        at = np.array([known[system, q] for q in names], np.int64)
        answers |= by_query(run.look(system, names, at, columns))
    return answers


def of_queries(found: dict[Any, Any], queries: set[str]) -> dict[Any, Any]:
    return {key: value for key, value in found.items() if key[1] in queries}


def other_lists(run: Run, name: str, columns: frozenset[str]) -> dict[Any, Any]:
    try:
        return by_query(run.lists(name).slices(columns, Audit()))
    except NoLists:
        return {}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("columns", [NOTHING, ALL], ids=["bare", "all"])
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=logs(), data=st.data())
def test_a_run_log_is_read_once_and_looked_at_again(
    text: bytes, data: st.DataObject, columns: frozenset[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(text)
    run = read_run(path, format="run-log")
    PARSED.reset()
    found = list(run.slices(columns, Audit(), OTHERS))
    assert PARSED.bytes == len(text.removeprefix(b"\xef\xbb\xbf"))
    said = by_query(found)

    alone = read_run(path, format="run-log")
    assert said == by_query(alone.slices(columns, Audit()))
    others = {name: [hits.others[name] for hits in found if name in hits.others] for name in OTHERS}
    for name in OTHERS:
        assert by_query(others[name]) == other_lists(alone, name, columns)

    for (_, query), place in places(found).items():
        assert json.loads(text[place:].splitlines()[0])["query_id"] == query

    queries = data.draw(st.sets(st.sampled_from([query for _, query in said])))
    PARSED.reset()
    assert run.can_look
    assert looked_at(run, found, queries, columns) == of_queries(said, queries)
    lines = text.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    assert PARSED.bytes == sum(len(line) for line in lines if line.strip() and json.loads(line)["query_id"] in queries)
    for name in OTHERS:
        if not others[name]:
            with pytest.raises(NoLists):
                run.lists(name)
            continue
        assert looked_at(run.lists(name), others[name], queries, columns) == of_queries(by_query(others[name]), queries)
