"""A second look at single queries says what the pass said of them and reads only them, whatever the format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from flat_hits import by_query, places
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karat import KaratError, read_gold, read_run
from karat.data.audit import Audit
from karat.data.hits import Hits, NoLists, Run, Ungrouped
from karat.formats import records, run_log
from karat.formats import trec as trec_module
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
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


LINES = [(f"q{q}", f"d{(q * 7 + r) % 11}#p{r}", r, 1 / (r + q)) for q in range(1, 9) for r in range(1, 2 + q % 5)]
SCATTERED = LINES[::2] + LINES[1::2]


def trec(lines: list[tuple[Any, ...]], between: str = " ", end: str = "\n") -> bytes:
    return "".join(between.join([q, "Q0", i, str(r), repr(s), "tag"]) + end for q, i, r, s in lines).encode()


def table(lines: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    columns = [list(column) for column in zip(*lines, strict=True)]
    texts = [f"text of {i}" for i in columns[1]]
    return dict(zip(("query_id", "chunk_id", "rank", "score", "text"), [*columns, texts], strict=True))


def csv(lines: list[tuple[Any, ...]]) -> bytes:
    return pl.DataFrame(table(lines)).write_csv().encode()


def scores(lines: list[tuple[Any, ...]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for query, item, _, score in lines:
        found.setdefault(query, {})[item] = score
    return found


def outputs(lines: list[tuple[Any, ...]]) -> bytes:
    lists = {query: [{"id": i, "score": s} for i, s in found.items()] for query, found in scores(lines).items()}
    entries = [{"id": q, "system": "s", "actualOutput": json.dumps(hits), "raw": hits[:1]} for q, hits in lists.items()]
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


def nested(lines: list[tuple[Any, ...]]) -> pl.DataFrame:
    lists = [
        {"query_id": q, "topk": [{"chunk_id": i, "score": s} for i, s in f.items()]} for q, f in scores(lines).items()
    ]
    return pl.DataFrame(lists)


FILES = {
    "TREC": trec(LINES),
    "TREC, CRLF": trec(LINES, end="\r\n"),
    "TREC, mixed white space": trec(LINES, between=" \t") + b"\n \n",
    "TREC, BOM": b"\xef\xbb\xbf" + trec(LINES),
    "TREC, scattered": trec(SCATTERED),
    "CSV": csv(LINES),
    "CSV, scattered": csv(SCATTERED),
    "dict": json.dumps(scores(LINES)).encode(),
    "dict of lists": json.dumps({q: list(found) for q, found in scores(LINES).items()}).encode(),
    "samples": outputs(LINES),
}
IN_MEMORY = {
    "dict": scores(LINES),
    "dict with numbers": {int(q[1:]): found for q, found in scores(LINES).items()},
    "dict of lists": {q: list(found) for q, found in scores(LINES).items()},
    "records": [{"query_id": q, "topk": list(found), "raw": ["r"]} for q, found in scores(LINES).items()],
    "frame": pl.DataFrame(table(LINES)),
    "frame, scattered": pl.DataFrame(table(SCATTERED)),
    "frame of two systems": pl.DataFrame({**table(LINES), "system": [str(len(line[1]) % 2) for line in LINES]}),
    "frame with numbers": pl.DataFrame({"query_id": [1.0, 2.0, 2.5], "chunk_id": [1.0, 2.0, 3.5], "score": [1, 2, 3]}),
    "frame of lists": nested(LINES),
}


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.write_bytes(FILES[request.param])
    return path


def check_looks(run: Run, columns: frozenset[str] = NOTHING) -> None:
    assert run.can_look
    found = list(run.slices(columns, Audit()))
    said = by_query(found)
    names = list(dict.fromkeys(query for _, query in said))
    for queries in (set(names[:1]), set(names[-1:]), set(names[1::3]), set(names)):
        assert looked_at(run, found, queries, columns) == of_queries(said, queries)
    for system in {system for system, _ in said}:
        without = by_query(run.look(system, names[:2], None, columns))
        assert without == {key: hits for key, hits in of_queries(said, set(names[:2])).items() if key[0] == system}
        assert list(run.look(system, [], np.zeros(0, np.int64), columns)) == []
    assert list(run.look("another", names[:1], None, columns)) == []


def test_every_file_can_be_looked_at_again(file: Path) -> None:
    check_looks(read_run(file), frozenset({"text"}))


@pytest.mark.parametrize("run", IN_MEMORY.values(), ids=IN_MEMORY)
def test_everything_in_memory_can_be_looked_at_again(run: Any) -> None:
    check_looks(read_run(run), frozenset({"text"}))


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("TREC")])
def test_trec_files_in_blocks(name: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trec_module, "_SMALL", 0)
    monkeypatch.setattr(trec_module, "_BLOCK", 100)
    path = tmp_path / "run"
    path.write_bytes(FILES[name])
    run = read_run(path)
    try:
        check_looks(run)
    except Ungrouped:
        assert "scattered" in name
        check_looks(run.grouped())


def test_parts_of_a_file_know_their_place_in_it(tmp_path: Path) -> None:
    lines = [json.dumps({"query_id": q, "topk": list(found)}) + "\n" for q, found in scores(LINES).items()]
    for content in (b"\xef\xbb\xbf" + "".join(lines).encode(), trec(LINES)):
        path = tmp_path / "run"
        path.write_bytes(content)
        whole = read_run(path)
        parts = whole.parts(100)
        assert parts is not None
        assert len(parts) > 2
        found = [hits for part in parts for hits in part.slices(NOTHING, Audit())]
        assert looked_at(whole, found, {"q2", "q7"}, NOTHING) == of_queries(by_query(found), {"q2", "q7"})


@pytest.mark.parametrize("changed", ["reversed", "shortened", "other words"])
@pytest.mark.parametrize("name", ["TREC", "samples"])
def test_a_file_that_changed_is_not_mistaken(name: str, changed: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(FILES[name])
    run = read_run(path)
    (found,) = run.slices(NOTHING, Audit())
    assert found.places is not None
    lines = FILES[name].splitlines(keepends=True)
    query = f"{found.queries[-1]} ".encode()
    path.write_bytes({"reversed": b"".join(lines[::-1]), "shortened": lines[0], "other words": query * 500}[changed])
    with pytest.raises(KaratError):
        list(run.look(found.system, found.queries[-1:], found.places[-1:], NOTHING))


def test_samples_have_other_lists_too(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(outputs(LINES))
    run = read_run(path)
    (found,) = run.slices(NOTHING, Audit(), OTHERS)
    assert by_query([found.others["raw"]]) == by_query(run.lists("raw").slices(NOTHING, Audit()))
    assert list(found.others) == ["raw"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_parsed_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(FILES[name])
    PARSED.reset()
    for _ in read_run(path).slices(NOTHING, Audit(), OTHERS):
        pass
    assert 0.9 < PARSED.bytes / path.stat().st_size <= 1.0


def test_a_long_line_of_json_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({f"q{q}": {f"d{i}": 1 / (1 + i) for i in range(50)} for q in range(200)}))
    sizes: list[int] = []
    decode = msgspec.json.decode

    def counted(text: Any, **options: Any) -> Any:
        sizes.append(len(memoryview(text)))
        return decode(text, **options)

    monkeypatch.setattr(msgspec.json, "decode", counted)
    PARSED.reset()
    run = read_run(path)
    assert len(by_query(run.slices(NOTHING, Audit()))) == 200
    assert sum(sizes) < 1.8 * path.stat().st_size  # with the head, by which it is recognised
    assert PARSED.bytes == path.stat().st_size


def test_gold_is_not_counted_as_a_run(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text('{"query_id": "q", "gold": ["a"]}\n')
    PARSED.reset()
    read_gold(path)
    assert PARSED.bytes == 0


@pytest.mark.parametrize("lists", [False, True])
def test_parquet_is_counted_by_its_rows(lists: bool, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    (nested(LINES) if lists else pl.DataFrame(table(LINES))).write_parquet(path)
    run = read_run(path)
    PARSED.reset()
    assert not run.can_look
    found = list(run.slices(NOTHING, Audit(), OTHERS))
    assert all(hits.places is None and hits.others == {} for hits in found)
    assert PARSED.bytes == pytest.approx(path.stat().st_size, rel=0.01)
    assert by_query(run.look("", ["q2"], None, NOTHING)) == of_queries(by_query(found), {"q2"})


@pytest.mark.parametrize("name", ["TREC", "samples"])
def test_compressed_files_cannot_be_looked_at_by_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.gz"
    path.write_bytes(gzip.compress(FILES[name]))
    run = read_run(path)
    assert not run.can_look
    PARSED.reset()
    found = list(run.slices(NOTHING, Audit()))
    assert PARSED.bytes == len(FILES[name])
    assert all(hits.places is None for hits in found)
    assert by_query(run.look(found[0].system, ["q2"], None, NOTHING)) == of_queries(by_query(found), {"q2"})
