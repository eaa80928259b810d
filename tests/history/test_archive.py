"""Runs as files: what comes in is what went out, and nothing that is broken comes in."""

from __future__ import annotations

import hashlib
import io
import json
import weakref
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from karat.errors import InputError, KaratError
from karat.history.archive import import_runs, pack
from karat.history.folder import FolderStore
from karat.history.rows import Judgement
from karat.history.store import Store
from karat.results.kept_run import KeptRun

Maker = Callable[..., KeptRun]
Command = Callable[..., tuple[int, str, str]]
DAY = "2025-06-01T08:00:00.000000Z"


@pytest.fixture
def exported(tmp_path: Path, made_run: Maker) -> Path:
    said = Judgement(outcome="pass", document='{"schema": "karat/gates/1", "outcome": "pass"}', judged_at=DAY)
    with FolderStore(tmp_path / "first") as store:
        for i in range(3):
            store.save(made_run(i), branch="main", author="ada", tags=["a", f"n{i}"], saved_at=DAY, judgements=[said])
        (tmp_path / "runs.zip").write_bytes(pack(store, store.ids()))
    return tmp_path / "runs.zip"


def test_runs_go_from_one_history_to_another(store: Store, exported: Path, made_run: Maker) -> None:
    assert [one.new for one in import_runs(store, exported, "x")] == [True] * 3
    assert [one.new for one in import_runs(store, exported, "x")] == [False] * 3
    row = store.row(made_run(1).id)
    assert (row.saved_at, row.head.branch, row.tags, row.outcome) == (DAY, "main", ["a", "n1"], "pass")
    assert (row.head.author, store.choices().authors) == ("ada", ["ada"])
    assert store.kept(row.id).saved() == made_run(1).saved()


def changed(path: Path, name: str, change: Callable[[bytes], bytes], *, resign: bool = False) -> Path:
    """The file with one member changed; `resign`: with a checksum that fits again."""
    with zipfile.ZipFile(path) as file:
        members = {entry: file.read(entry) for entry in file.namelist()}
    name = next(entry for entry in members if entry.endswith(name))
    members[name] = change(members[name])
    if resign:
        manifest = json.loads(members["history.json"])
        for entry in manifest["runs"]:
            entry["sha256"] = hashlib.sha256(members[f"{entry['id']}.parquet"]).hexdigest()
        members["history.json"] = json.dumps(manifest).encode()
    target = path.with_name("changed.zip")
    with zipfile.ZipFile(target, "w") as file:
        for entry, content in members.items():
            file.writestr(entry, content)
    return target


def manifest(**fields: Any) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        found = json.loads(content)
        found["runs"][1] |= fields
        return json.dumps(found).encode()

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (manifest(sha256="0" * 64), "changed-run"),
        (manifest(id="../../etc/passwd"), "not-an-archive"),
        (manifest(saved_at="yesterday"), "bad-value"),
        (manifest(saved_at="2025-06-01"), "bad-value"),
        (manifest(tags=["a b"]), "bad-name"),
        (manifest(author="a\nb"), "bad-name"),
        (manifest(judgements=[{"outcome": "great", "document": "{}", "judged_at": DAY}]), "not-an-archive"),
        (manifest(judgements=[{"outcome": "pass", "document": "no", "judged_at": DAY}]), "not-an-archive"),
        (lambda content: b"{", "not-an-archive"),
        (lambda content: content.replace(b"history/1", b"history/9"), "not-an-archive"),
    ],
)
def test_a_broken_list_of_runs(store: Store, exported: Path, change: Callable[[bytes], bytes], code: str) -> None:
    with refused(code):
        import_runs(store, changed(exported, "history.json", change), "x.zip")
    assert store.count() == 0  # not even those before the broken one


def test_a_run_that_was_cut_or_changed(store: Store, exported: Path, made_run: Maker) -> None:
    with refused("changed-run", file="x.zip"):
        import_runs(store, changed(exported, ".parquet", lambda content: content[:-1]), "x.zip")
    with refused("damaged-run"):
        import_runs(store, changed(exported, ".parquet", lambda content: content[:500], resign=True), "x.zip")
    other = made_run(9).to_parquet()
    with refused("changed-run", file="x.zip"):
        import_runs(store, changed(exported, ".parquet", lambda _: other, resign=True), "x.zip")
    assert store.count() == 0


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + b"\0" * 50, b"PAR1" + b"\0" * 50])
def test_files_that_hold_no_runs(tmp_path: Path, karat_refuses: Callable[..., KaratError], content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    error = karat_refuses("history", "import", str(tmp_path / "x.zip"), "--store", str(tmp_path / "s"))
    assert (error.code in ("not-an-archive", "damaged-run"), error.file) == (True, str(tmp_path / "x.zip"))


def test_a_member_that_never_ends(store: Store, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.history.archive.LARGEST", 2000)
    with refused("too-large"):
        import_runs(store, exported, "x.zip")


def test_parquet_that_is_no_run(tmp_path: Path, store: Store) -> None:
    import polars as pl

    pl.DataFrame({"document": ["{}"], "query_id": ["q"]}).write_parquet(tmp_path / "other.parquet")
    with refused("damaged-run", file="other.parquet"):
        import_runs(store, tmp_path / "other.parquet", "other.parquet")


def test_a_run_whose_parts_do_not_fit(store: Store, made_run: Maker) -> None:
    """Its id is right: it was made so."""
    run = made_run(1)
    torn = KeptRun(run.text, run.rows.drop("score/recall@5"))
    with refused("damaged-run"):
        import_runs(store, torn.to_parquet(), "torn")


def packed(runs: list[KeptRun]) -> bytes:
    """As `karat history export` packs them."""
    buffer, entries = io.BytesIO(), []
    with zipfile.ZipFile(buffer, "w") as file:
        for run in runs:
            content = run.to_parquet()
            entries.append({"id": run.id, "sha256": hashlib.sha256(content).hexdigest(), "saved_at": DAY})
            file.writestr(f"{run.id}.parquet", content)
        file.writestr("history.json", json.dumps({"schema": "karat/history/1", "karat": "1", "runs": entries}))
    return buffer.getvalue()


@pytest.mark.parametrize("field", ["segment", "dataset"])
def test_one_that_no_history_can_hold_keeps_all_others_out(store: Store, made_run: Maker, field: str) -> None:
    document = json.loads(made_run(1).text)
    if field == "segment":
        document["result"]["segments"][0]["value"] = "a\0b"
    else:
        document["result"]["dataset"]["name"] = "a\0b"
    archive = packed([made_run(0), KeptRun(json.dumps(document).encode(), made_run(1).rows)])
    with refused("bad-name", InputError):
        import_runs(store, archive, "x.zip")
    assert store.ids() == []


@pytest.mark.parametrize("held", [0, 1, 1 << 30])
def test_an_archive_of_many_runs_takes_the_memory_of_few(
    tmp_path: Path, made_run: Maker, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """A small archive may unpack to many runs of 64 MB each."""
    archive, seen, most = packed([made_run(i) for i in range(6)]), list[Any](), [0]

    def checked(run: KeptRun, label: str) -> KeptRun:
        seen.append(weakref.ref(run.rows))
        most[0] = max(most[0], sum(one() is not None for one in seen))
        return run

    monkeypatch.setattr("karat.history.archive._HELD", held)
    monkeypatch.setattr("karat.history.archive.checked_run", checked)
    with FolderStore(tmp_path / ".karat") as store:
        assert len(import_runs(store, archive, "x.zip")) == len(store.ids()) == 6
    assert most[0] <= 2
