"""Gold and hits of every query: what was retrieved can be read back, by query, from both kinds of history."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from karat.errors import InputError
from karat.history.archive import Manifest, import_runs, pack
from karat.history.folder import FolderStore
from karat.history.hits import QueryRecord, StoredPart
from karat.history.keep import keep_need, keep_result
from karat.history.queries import case_of, cases_of, failed_count, query_over_time
from karat.history.records import moved_between, query_sides, record_of
from karat.history.store import Store
from karat.results import evaluation
from karat.results.evaluate import evaluate_all
from karat.results.kept_run import FAILED, KeptRun, keep
from karat.results.save import saved_form

GOLD = [
    {"query_id": "q1", "query": "Who pays the refund?", "gold": {"a": 2, "b": 1}},
    {"query_id": "q2", "query": "When is the sale?", "gold": ["c"]},
    {"query_id": "q3", "query": "Where is the shop?", "gold": ["z"]},
]
CORPUS = [{"id": name, "text": f"The text of {name} about a refund. " * 3} for name in "abcdxz"]


def run_log(**lists: str) -> list[dict[str, Any]]:
    return [
        {
            "query_id": query,
            "topk": [{"id": one, "score": 9.5 - at, "text": f"{one} says it"} for at, one in enumerate(ids)],
        }
        for query, ids in lists.items()
    ]


def kept(log: list[dict[str, Any]], **options: Any) -> KeptRun:
    [result] = evaluate_all(log, GOLD, consumers=[keep_need], **options).values()
    return keep_result(result)


@pytest.fixture(scope="module")
def first() -> KeptRun:
    return kept(run_log(q1="abx", q2="cd", q3="xd"))


@pytest.fixture(scope="module")
def second() -> KeptRun:
    return kept(run_log(q1="bad", q2="c", q3="z"))


def recorded(store: Store, run_id: str, query: str) -> QueryRecord:
    found = record_of(store, run_id, query).record
    assert found is not None
    return found


def test_every_query_is_kept_with_marks_scores_and_texts(store: Store, second: KeptRun) -> None:
    one = recorded(store, store.save(second).id, "q1")
    assert one.query == "Who pays the refund?"
    assert [(hit.rank, hit.id, hit.mark, hit.grade, hit.score) for hit in one.hits] == [
        (1, "b", "hit", 1.0, 9.5),
        (2, "a", "hit", 2.0, 8.5),
        (3, "d", "unjudged", None, 7.5),
    ]
    assert [hit.text for hit in one.hits] == ["b says it", "a says it", "d says it"]
    assert [(item.id, item.grade, item.rank, item.text) for item in one.gold] == [
        ("a", 2.0, 2, "a says it"),
        ("b", 1.0, 1, "b says it"),
    ]
    assert (one.first_rank, one.kind, one.gold_items, one.bm25) == (1, "loss", 2, None)
    assert one.scores["recall@10"] == 1.0
    assert recorded(store, second.id, "q2").kind == "nothing lost"


def test_queries_and_runs_without_hits(store: Store, first: KeptRun, made_run: Callable[..., KeptRun]) -> None:
    new, old = store.save(first).id, store.save(made_run(0)).id
    assert (record_of(store, new, "nobody").kept, record_of(store, new, "nobody").record) == (True, None)
    assert record_of(store, old, "q1").kept is False


def test_the_id_of_a_run_does_not_depend_on_its_hits(first: KeptRun) -> None:
    without = KeptRun(first.text, first.rows.drop("tables/failed"))
    assert (without.id, without.hits) == (first.id, None)


def test_a_run_of_an_earlier_version_gets_its_hits_when_it_is_saved_again(store: Store, first: KeptRun) -> None:
    old = KeptRun(first.text, first.rows.drop("tables/failed"))
    store.save(old)
    before = store.run_version(first.id)
    assert store.save(first).new is False
    assert recorded(store, first.id, "q3").hits[0].id == "x"
    assert store.run_version(first.id) != before
    assert failed_count(store, store.row(first.id)) == len(cases_of(store, first.id)) == 1


def test_word_search_of_every_query_with_a_corpus(store: Store, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_bytes(msgspec.json.Encoder().encode_lines(CORPUS))
    log = [{"query_id": query, "topk": [{"id": one} for one in ids]} for query, ids in (("q1", "ab"), ("q3", "x"))]
    run = kept(log, corpus=corpus)
    one = recorded(store, store.save(run).id, "q1")
    assert one.bm25 is not None
    assert {hit.id for hit in one.bm25} <= set("abcdxz")
    assert one.bm25[0].text in {line["text"] for line in CORPUS}
    assert one.hits[0].text == CORPUS[0]["text"]
    [gold] = recorded(store, run.id, "q3").gold
    assert (gold.rank, gold.text) == (None, CORPUS[-1]["text"])


def test_large_runs_keep_ids_and_scores_without_texts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "KEEP_LISTS", 1)
    monkeypatch.setattr("karat.results.kept_hits.KEEP_LISTS", 1)
    run = kept(run_log(q1="abx", q2="cd", q3="xd"))
    one = recorded(store, store.save(run).id, "q1")
    assert [(hit.id, hit.score, hit.text) for hit in one.hits] == [("a", 9.5, None), ("b", 8.5, None), ("x", 7.5, None)]
    [worst, *_] = cases_of(store, run.id)
    assert worst["hits"][0]["passage"]["text"] == "x says it"  # the worst are read again with their texts


def test_what_moved_entered_and_left(store: Store, first: KeptRun, second: KeptRun) -> None:
    before, after = store.save(first).id, store.save(second).id
    found = query_sides(store, [before, after], "q1")
    assert [(one.id, one.before, one.after) for one in found.moved] == [
        ("b", 2, 1),
        ("a", 1, 2),
        ("d", None, 3),
        ("x", 3, None),
    ]
    assert moved_between(recorded(store, before, "q1"), recorded(store, before, "q1")) == []
    assert query_sides(store, [before], "q1").moved == []


def test_all_failed_queries_worst_first(store: Store, first: KeptRun) -> None:
    [result] = evaluate_all(run_log(q1="ba", q2="dc", q3="x"), GOLD, consumers=[keep_need]).values()
    run = keep_result(result, worst=1)
    row = store.row(store.save(run).id)
    assert (row.head.cases, failed_count(store, row)) == (1, 3)
    assert [case["query_id"] for case in cases_of(store, run.id)] == ["q3", "q2", "q1"]
    assert [case["query_id"] for case in cases_of(store, run.id, offset=1, limit=1)] == ["q2"]
    case = case_of(store, run.id, "q2")
    assert case is not None
    assert (case["kind"], case["hits"][1]["mark"], case["lost"]) == ("loss", "hit", {})


def test_whether_a_query_failed_in_each_run(
    store: Store, first: KeptRun, second: KeptRun, made_run: Callable[..., KeptRun]
) -> None:
    for number, run in enumerate((first, second)):
        store.save(run, saved_at=f"2025-01-0{number + 1}T00:00:00.000000Z")
    found = {query: [point.failed for point in query_over_time(store, query).points] for query in ("q1", "q2", "q3")}
    assert found == {"q1": [True, False], "q2": [False, False], "q3": [False, True]}
    store.save(made_run(0, queries=8, metric="ndcg@10"), saved_at="2025-01-03T00:00:00.000000Z")
    old = {query: query_over_time(store, query).points[0] for query in ("q0", "q3", "q6")}
    assert {query: point.failed for query, point in old.items()} == {"q0": False, "q3": True, "q6": True}
    assert {query: point.has_case for query, point in old.items()} == {"q0": False, "q3": False, "q6": True}


def test_a_text_is_kept_once_and_removed_with_its_last_run(store: Store, first: KeptRun, second: KeptRun) -> None:
    def texts() -> int:
        return int(store._rows("SELECT count(*) FROM texts")[0][0])

    store.save(first)
    assert texts() == 5  # a b x c d
    store.save(second)
    assert texts() == 6  # and z
    assert store.remove_texts() == 0
    store.delete(first.id)
    assert store.remove_texts() == 0, "it can be restored"
    store.purge(days=0)
    assert (store.remove_texts(), texts()) == (1, 5)
    assert recorded(store, second.id, "q1").hits[0].text == "b says it"
    store.delete(second.id)
    store.purge(days=0)
    assert (store.remove_texts(), texts()) == (5, 0)
    assert store._rows("SELECT count(*) FROM hits")[0][0] == 0


def test_another_text_of_the_same_id_is_another_text(store: Store) -> None:
    runs = [kept([{"query_id": "q2", "topk": [{"id": "c", "text": text}]}]) for text in ("old", "new and longer")]
    ids = [store.save(run, tags=[str(at)]).id for at, run in enumerate(runs)]
    if ids[0] == ids[1]:  # the texts of cases are part of the id, but this query did not fail
        assert recorded(store, ids[0], "q2").hits[0].text == "old"
    else:
        assert [recorded(store, run_id, "q2").hits[0].text for run_id in ids] == ["old", "new and longer"]


def test_texts_are_cut_and_have_no_secrets(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_TOKEN", "hunter2hunter2")
    log = [{"query_id": "q1", "topk": [{"id": "a", "text": "with hunter2hunter2 " + "long " * 1000}]}]
    [hit] = recorded(store, store.save(kept(log)).id, "q1").hits
    assert hit.text is not None
    assert len(hit.text) == 2000
    assert hit.text.startswith("with *** long")


def test_exported_runs_carry_hits_and_texts(store: Store, first: KeptRun, second: KeptRun, tmp_path: Path) -> None:
    ids = [store.save(run).id for run in (first, second)]
    content = pack(store, ids)
    with FolderStore(tmp_path / "other") as other:
        assert [saved.new for saved in import_runs(other, content, "archive")] == [True, True]
        for query in ("q1", "q2", "q3"):
            assert [recorded(other, i, query) for i in ids] == [recorded(store, i, query) for i in ids]
        assert pack(other, ids) is not None


def rewritten(content: bytes, change: Callable[[list[StoredPart]], list[StoredPart]], texts: Any = None) -> bytes:
    """An archive with other parts of hits, and checksums that fit."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    manifest = msgspec.json.decode(members["history.json"], type=Manifest)
    runs = []
    for run in manifest.runs:
        parts = change(msgspec.msgpack.decode(members[f"{run.id}.hits"], type=list[StoredPart]))
        members[f"{run.id}.hits"] = msgspec.msgpack.encode(parts)
        checksum = hashlib.sha256(members[f"{run.id}.hits"]).hexdigest()
        runs.append(msgspec.structs.replace(run, hits=checksum))
    members["history.json"] = msgspec.json.encode(msgspec.structs.replace(manifest, runs=runs))
    if texts is not None:
        members["texts.bin"] = msgspec.msgpack.encode(texts)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, member in members.items():
            file.writestr(name, member)
    return buffer.getvalue()


def edited(change: Callable[[list[Any]], None]) -> Callable[[list[StoredPart]], list[StoredPart]]:
    """Changes the unpacked content of the first part."""

    def apply(parts: list[StoredPart]) -> list[StoredPart]:
        plain = msgspec.msgpack.decode(zlib.decompress(parts[0].content))
        change(plain)
        return [StoredPart(zlib.compress(msgspec.msgpack.encode(plain)), parts[0].keys), *parts[1:]]

    return apply


def put(*path: int, value: Any) -> Callable[[list[Any]], None]:
    def change(plain: list[Any]) -> None:
        for at in path[:-1]:
            plain = plain[at]
        plain[path[-1]] = value

    return change


def test_damaged_hits_are_found_and_reported(store: Store, first: KeptRun, karat_command: Any, place: str) -> None:
    store.save(first)
    check = ("history", "check", "--store", place)
    assert karat_command(*check)[0] == 0
    store._write(lambda connection: connection.execute("UPDATE hits SET content = ?", (b"x",)))
    with pytest.raises(InputError) as caught:
        record_of(store, first.id, "q1")
    assert caught.value.code == "damaged-run"
    code, out, _ = karat_command(*check)
    assert (code, first.id[:10] in out) == (2, True)


HITS, COUNTS, SIZES, FIRST, TEXTS = 9, 0, 1, 3, 5
HOSTILE: dict[str, Callable[[list[StoredPart]], list[StoredPart]]] = {
    "not compressed": lambda parts: [StoredPart(b"hello", b"")],
    "cut off": lambda parts: [StoredPart(parts[0].content[:-9], parts[0].keys)],
    "a bomb": lambda parts: [StoredPart(zlib.compress(bytes(64 << 20)), b"")],
    "keys of another length": lambda parts: [StoredPart(parts[0].content, parts[0].keys + b"x")],
    "fewer keys than texts": lambda parts: [StoredPart(parts[0].content, b"")],
    "no parts": lambda parts: [],
    "parts twice": lambda parts: [*parts, *parts],
    "another structure": lambda parts: [StoredPart(zlib.compress(msgspec.msgpack.encode({"a": 1})), b"")],
    "other queries": edited(put(0, value=["q1", "q2", "q4"])),
    "a query twice": edited(put(0, value=["q1", "q2", "q2"])),
    "too few texts of queries": edited(put(1, value=["q1"])),
    "counts of another length": edited(put(HITS, COUNTS, value=b"\1\0\0\0")),
    "counts beyond all ids": edited(put(HITS, COUNTS, value=b"\xff" * 12)),
    "sizes beyond all ids": edited(lambda plain: put(HITS, SIZES, value=b"\xff" * len(plain[HITS][SIZES]))(plain)),
    "scores of another length": edited(put(HITS, FIRST, value=b"\0" * 8)),
    "half a number": edited(put(HITS, FIRST, value=b"\0" * 7)),
    "infinite scores": edited(
        lambda plain: put(HITS, FIRST, value=b"\0\0\0\0\0\0\xf0\x7f" * (len(plain[HITS][FIRST]) // 8))(plain)
    ),
    "numbers of texts that are not there": edited(
        lambda plain: put(HITS, TEXTS, value=b"\xff\0\0\0" * (len(plain[HITS][TEXTS]) // 4))(plain)
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_archives_with_wrong_hits_are_refused(first: KeptRun, kind: str, tmp_path: Path) -> None:
    with FolderStore(tmp_path / "a") as store, FolderStore(tmp_path / "b") as other:
        content = rewritten(pack(store, [store.save(first).id]), HOSTILE[kind])
        with pytest.raises(InputError):
            import_runs(other, content, "archive")
        assert other.count() == 0


def test_archives_with_changed_hits_are_refused(first: KeptRun, tmp_path: Path) -> None:
    with FolderStore(tmp_path / "a") as store, FolderStore(tmp_path / "b") as other:
        content = pack(store, [store.save(first).id])
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members = {name: file.read(name) for name in file.namelist()}
        members[f"{first.id}.hits"] += b"x"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for name, member in members.items():
                file.writestr(name, member)
        with pytest.raises(InputError, match="changed after the export"):
            import_runs(other, buffer.getvalue(), "archive")


def test_texts_under_the_key_of_another_are_not_taken(first: KeptRun, tmp_path: Path) -> None:
    with FolderStore(tmp_path / "a") as store, FolderStore(tmp_path / "b") as other:
        content = pack(store, [store.save(first).id])
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            texts = msgspec.msgpack.decode(file.read("texts.bin"), type=dict[bytes, bytes])
        lies = dict.fromkeys(texts, zlib.compress(b"a lie"))
        import_runs(other, rewritten(content, lambda parts: parts, lies), "archive")
        assert [hit.text for hit in recorded(other, first.id, "q1").hits] == [None] * 3
        bombs = dict.fromkeys(texts, zlib.compress(b"a" * (1 << 20)))
        store.delete(first.id)
        with pytest.raises(InputError, match="too long"):
            import_runs(store, rewritten(content, lambda parts: parts, bombs), "archive")


def test_other_scores_in_the_parts_are_replaced_by_those_of_the_run(first: KeptRun, tmp_path: Path) -> None:
    with FolderStore(tmp_path / "a") as store, FolderStore(tmp_path / "b") as other:
        content = pack(store, [store.save(first).id])
        lie = edited(put(1, value=["lie"] * 3))
        import_runs(other, rewritten(content, lie), "archive")
        assert recorded(other, first.id, "q1") == recorded(store, first.id, "q1")


def test_saved_results_have_no_hits() -> None:
    [result] = evaluate_all(run_log(q1="abx"), GOLD, consumers=[keep_need]).values()
    saved = keep(saved_form(result))
    assert saved.hits is None
    assert FAILED not in saved.rows.columns
