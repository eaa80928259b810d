"""A folder for agents: nothing outside of it is read or written, whatever a path looks like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from karat.errors import KaratError
from karat.files.guarded_folder import GuardedFolder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuardedFolder:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    (root / "beir" / "qrels").mkdir(parents=True)
    outside.mkdir()
    for file in (
        root / "run.jsonl",
        root / "sub" / "run.jsonl",
        root / "-",
        root / "history:main",
        outside / "x.jsonl",
    ):
        file.write_text("{}")
    (root / "beir" / "queries.jsonl").write_text("{}")
    (root / "inner.jsonl").symlink_to("sub/run.jsonl")
    monkeypatch.chdir(root)
    return GuardedFolder(root, writable=True)


def code(call: object, *arguments: object) -> str:
    with pytest.raises(KaratError) as raised:
        call(*arguments)  # type: ignore[operator]
    return raised.value.code


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("run.jsonl", "run.jsonl"),
        ("./sub/../run.jsonl", "run.jsonl"),
        ("inner.jsonl", "sub/run.jsonl"),
        ("../root/run.jsonl", "run.jsonl"),
        ("-", "./-"),  # not standard input
        ("history:main", "./history:main"),  # not a pin of the history
        ("sub", "sub"),
    ],
)
def test_files_below_are_read(folder: GuardedFolder, name: str, read: str) -> None:
    assert folder.read(name, "run") == read
    assert folder.read(str(folder.path / name), "run") == read


@pytest.mark.parametrize(
    "name", ["../outside/x.jsonl", "../outside/none", "/etc/passwd", "sub/../../outside/x.jsonl", "..", "~/../../etc"]
)
def test_files_outside_are_refused_whether_they_exist_or_not(folder: GuardedFolder, name: str) -> None:
    assert code(folder.read, name, "run") == "outside-root"


@pytest.mark.parametrize("link", ["link.jsonl", "folder", "sub/link.jsonl", "beir/qrels/test.tsv"])
def test_links_that_lead_out_are_refused(folder: GuardedFolder, link: str) -> None:
    target = folder.path.parent / "outside"
    (folder.path / link).symlink_to(target if link == "folder" else target / "x.jsonl")
    asked = {"folder": "folder/x.jsonl", "sub/link.jsonl": "sub", "beir/qrels/test.tsv": "beir/queries.jsonl"}
    assert code(folder.read, asked.get(link, link), "run") == "outside-root"


def test_a_link_that_stays_inside_is_followed_to_one_that_does_not(folder: GuardedFolder) -> None:
    (folder.path / "other").mkdir()
    (folder.path / "other" / "test.tsv").symlink_to(folder.path.parent / "outside" / "x.jsonl")
    (folder.path / "set").mkdir()
    (folder.path / "set" / "qrels").symlink_to("../other")
    (folder.path / "set" / "queries.jsonl").write_text("{}")
    for name in ("set", "set/queries.jsonl"):
        assert code(folder.read, name, "gold") == "outside-root"
    (folder.path / "other" / "test.tsv").unlink()
    assert folder.read("set", "gold") == "set"
    (folder.path / "set" / "up").symlink_to("..")
    folder.read("set", "gold")  # links in a circle come to an end


def test_what_is_read_beside_a_gold_set_is_guarded_too(folder: GuardedFolder) -> None:
    (folder.path / "dataset.yaml").symlink_to(folder.path.parent / "outside" / "x.jsonl")
    assert code(folder.read, "run.jsonl", "gold") == "outside-root"


@pytest.mark.parametrize("name", ["*.jsonl", "s3://bucket/run.parquet", "https://example.org/run.jsonl", "none.jsonl"])
def test_patterns_and_addresses_are_no_files(folder: GuardedFolder, name: str) -> None:
    assert code(folder.read, name, "run") == "no-such-file"


def test_what_is_no_file_is_refused(folder: GuardedFolder) -> None:
    os.mkfifo(folder.path / "pipe")
    (folder.path / "delta" / "_delta_log").mkdir(parents=True)
    (folder.path / "circle").symlink_to("circle")
    assert code(folder.read, "pipe", "run") == "not-a-file"
    assert code(folder.read, "delta", "run") == "delta-table"
    assert code(folder.read, "circle", "run") in ("bad-path", "no-such-file")
    assert code(folder.read, "a\0b", "run") == "bad-path"
    assert code(folder.read, "x" * 5000, "run") in ("bad-path", "no-such-file")


def test_reports_are_new_files_below(folder: GuardedFolder) -> None:
    assert folder.new("sub/report.html", []) == "sub/report.html"
    (folder.path / "dangling.html").symlink_to(folder.path / "none.html")
    (folder.path / "out").symlink_to(folder.path.parent / "outside")
    assert code(folder.new, "run.jsonl", []) == "unknown-output"
    assert code(folder.new, "summary=x.html", []) == "unknown-output"
    assert code(folder.new, "dangling.html", []) == "file-exists"
    assert code(folder.new, "../x.html", []) == "outside-root"
    assert code(folder.new, "out/x.html", []) == "outside-root"
    assert code(folder.new, "none/x.html", []) == "not-writable"
    (folder.path / "README.md").write_text("mine")
    assert code(folder.new, "README.md", []) == "file-exists"
    assert code(GuardedFolder(folder.path).new, "x.html", []) == "read-only"


def test_a_root_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("none", "file"):
        assert code(GuardedFolder, tmp_path / name) == "no-such-folder"
