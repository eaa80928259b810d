"""What is said of the history: by the commands, and where it cannot be used."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from golden import check
from karat.history.archive import import_runs
from karat.history.location import open_store
from wording import Transcript, file, refusals

Case = Callable[[], object]
SAVED = ("--gold", "gold.jsonl", "-m", "mrr", "--resamples", "200", "--brief", "--save")


def lines(name: str, *records: Any) -> str:
    return file(name, "".join(json.dumps(record) + "\n" for record in records))


def history() -> None:
    """Two runs, the first of them pinned."""
    lines("gold.jsonl", *({"query_id": f"q{i}", "gold": ["a"], "language": "en" if i % 2 else "pt"} for i in range(8)))
    for name, good in (("old", 4), ("new", 6)):
        lines(
            f"{name}.jsonl", *({"query_id": f"q{i}", "system": name, "topk": ["b", "a"][i < good :]} for i in range(8))
        )


def without_ids(text: str) -> str:
    """Ids hang on the version and the commit, days on the day."""
    text = re.sub(r"\b[0-9a-f]{10,64}\b", "…id…", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?\b", "…day…", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\dT[\d:.]+Z\b", "…time…", text)
    text = re.sub(r"\bcli:\S+", "cli:…", text)
    return re.sub(r" +(?=\S)", lambda spaces: " " * min(2, len(spaces[0])), text)


def test_history(terminal: Transcript) -> None:
    history()
    terminal("history", "list")
    terminal("eval", "old.jsonl", *SAVED, "--tag", "first")
    terminal("eval", "new.jsonl", *SAVED, "--tag", "second")
    terminal("eval", "new.jsonl", *SAVED)
    terminal("history", "list")
    terminal("history", "list", "--until", "2001-01-01")
    terminal("history", "list", "--since", "some day")
    terminal("history", "pin", "first", "main")
    terminal("history", "pin", "second", "main")
    terminal("history", "pin", "first")
    terminal("history", "pins")
    terminal("history", "delete", "second")
    terminal("history", "tag", "second", "v1")
    terminal("history", "untag", "second", "good")
    terminal("history", "trend", "mrr")
    terminal("history", "trend", "bpref")
    terminal("history", "trend", "mrr", "--where", "language=xx")
    terminal("gate", "new.jsonl", "--gold", "gold.jsonl", "--anchor", "relase", "--gate", "recall@5 drop <= 0.1")
    terminal(
        "gate", "new.jsonl", "--gold", "gold.jsonl", "--anchor", "history:relase", "--gate", "recall@5 drop <= 0.1"
    )
    terminal("eval", "history:second", "--gold", "gold.jsonl")
    terminal("history", "export", "--all", "-o", "runs.zip")
    terminal("history", "export", "-o", "runs.zip")
    terminal("history", "import", "runs.zip", "--store", "other")
    terminal("history", "import", "runs.zip", "--store", "other")
    terminal("history", "check", "--store", "other")
    next(iter(Path("other/runs").iterdir())).unlink()
    terminal("history", "check", "--store", "other")
    terminal("history", "unpin", "main")
    terminal("history", "unpin", "main")
    terminal("history", "rename", "v1", "First try")
    terminal("history", "rename", "v1", "two\nlines")
    terminal("history", "note", "v1", "One line\nand another")
    terminal("history", "list")
    with open_store() as store:
        run_id = store.find("v1")
    terminal("history", "delete", "v1")
    terminal("history", "show", "v1")
    terminal("history", "deleted")
    terminal("history", "restore", run_id[:10])
    terminal("history", "restore", run_id[:10])
    terminal("history", "deleted")
    terminal("history", "audit", "-n", "4")
    terminal("history", "audit", "--run", "?")
    terminal("history", "retention")
    terminal("history", "retention", "--keep-last", "100", "--days", "90", "--dry-run")
    terminal("history", "retention", "--keep-last", "100", "--days", "90")
    terminal("history", "retention", "--keep-all", "--days", "90")
    terminal("history", "clean")
    terminal("history", "push", "http://127.0.0.1:9")
    check("wording/history.txt", without_ids(terminal.text.replace(str(Path.cwd()), "…")))


def test_errors_of_the_history(tmp_path: Path, karat_command: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    history()
    for name in ("old", "new"):
        assert karat_command("eval", f"{name}.jsonl", *SAVED, "--tag", name)[0] == 0
    assert karat_command("history", "export", "--all", "-o", "runs.zip")[0] == 0
    kept, archive = tmp_path / ".karat", tmp_path / "runs.zip"

    def spoil_catalogue(run: Path) -> None:
        for path in run.parents[1].glob("history.db*"):
            path.unlink()
        (run.parents[1] / "history.db").write_bytes(b"no database at all " * 200)

    def damaged(change: Callable[[Path], object]) -> Case:
        def call() -> None:
            shutil.copytree(kept, ".karat")
            with open_store(".karat") as store:
                run = Path(".karat/runs") / f"{store.find('old')}.parquet"
            change(run)
            with open_store(".karat") as store:
                store.kept(store.find("old"))

        return call

    def imported(change: Callable[[dict[str, Any]], Any]) -> Case:
        def call() -> None:
            with zipfile.ZipFile(archive) as before, zipfile.ZipFile("x.zip", "w") as after:
                for name in before.namelist():
                    content = before.read(name)
                    if name.endswith("history.json"):
                        found = json.loads(content)
                        change(found)
                        content = json.dumps(found).encode()
                    after.writestr(name, content)
            with open_store("new", create=True) as store:
                import_runs(store, Path("x.zip"), "x.zip")

        return call

    def too_large() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("karat.history.archive.LARGEST", 2000)
            imported(lambda found: None)()

    def asked(call: Callable[[Any], object]) -> Case:
        def with_store() -> None:
            shutil.copytree(kept, ".karat")
            with open_store(".karat") as store:
                call(store)

        return with_store

    def newer(store: Any) -> None:
        with store.transaction(write=True) as connection:
            connection.execute("UPDATE karat_history SET version = 99")
        open_store(".karat")

    def pinned(store: Any) -> None:
        store.pin(store.find("old"), "main", "baseline")
        store.pin(store.find("old"), "main", "anchor")

    def untrusted() -> None:
        file("karat.yaml", "store: postgresql://me@db.example/karat\n")
        with monkeypatch.context() as patch:
            patch.setenv("CI", "true")
            patch.delenv("KARAT_STORE", raising=False)
            open_store()

    groups: dict[str, dict[str, Case]] = {
        "Stores": {
            "a settings file in CI": untrusted,
            "no history": lambda: open_store(".karat"),
            "a catalogue that is damaged": damaged(spoil_catalogue),
            "a run without its file": damaged(lambda path: path.unlink()),
            "a run that is cut off": damaged(lambda path: path.write_bytes(path.read_bytes()[:2000])),
            "a place where no folder can be": lambda: open_store(file("file", "x") + "/.karat", create=True),
            "an address of another kind": lambda: open_store("mysql://me:s3cret@host/karat", create=True),
            "words of libpq": lambda: open_store("host=db dbname=karat password=s3cret", create=True),
            "a newer history": asked(newer),
            "a run that is not there": asked(lambda store: store.find("olld")),
            "a tag that is not there": asked(lambda store: store.untag(store.find("old"), ["good"])),
            "a tag that cannot be": asked(lambda store: store.tag(store.find("old"), ["a b"])),
            "a pin that cannot be": asked(lambda store: store.pin(store.find("old"), "a b", "baseline")),
            "a pin of another kind": asked(pinned),
            "a pin that is not there": asked(lambda store: store.unpin("main")),
            "a place in a list that is not one": asked(lambda store: store.runs(after="x")),
        },
        "Archives": {
            "not an archive": lambda: import_runs(
                open_store("new", create=True), Path(file("x.zip", b"hello")), "x.zip"
            ),
            "another checksum": imported(lambda found: found["runs"][0].update(sha256="0" * 64)),
            "another path": imported(lambda found: found["runs"][0].update(id="../../etc/passwd")),
            "a time that is not one": imported(lambda found: found["runs"][0].update(saved_at="yesterday")),
            "a member that is too large": too_large,
            "another version": imported(lambda found: found.update(schema="karat/history/9")),
        },
    }
    (tmp_path / "cases").mkdir()
    check("wording/errors_history.txt", without_ids(refusals(groups, tmp_path / "cases")))
