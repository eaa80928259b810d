"""Bombs: small files that would fill the memory are refused while they are still small."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from refusals import refused

import karat
from karat.errors import ConfigError, KaratError
from karat.files.limits import largest_content, largest_line
from karat.files.streams import open_content
from karat.formats.corpus import read_corpus
from karat.formats.signals import with_signal
from karat.history.archive import import_runs
from karat.history.folder import FolderStore
from karat.labels.calibration_file import read_calibration
from karat.labels.files import read_labels

GOLD = {"q1": ["a"]}
RUN = {"q1": ["a"]}
LINE = b'{"query_id":"q1","topk":["a"]}\n'
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda text: text,
    ".gz": lambda text: gzip.compress(text, mtime=0),
    ".zst": zstandard.compress,
}
LONG = b"x" * (2 << 20)
# What begins like a file of each kind and goes on with one line that does not end.
BEGINNINGS = {
    "run.jsonl": LINE + b'{"query_id":"',
    "one.jsonl": b'{"query_id":"',
    "run.json": b'{"q1": {"',
    "run.trec": b"q1 Q0 a 1 1 t\nq2 Q0 ",
    "run.csv": b"query_id,chunk_id,rank\nq1,",
}
GOLDS = {
    "gold.jsonl": b'{"query_id":"q1","gold":["a"]}\n{"query_id":"',
    "gold.json": b'[{"query_id":"',
    "gold.yaml": b'queries:\n- query_id: "',
    "qrels.txt": b"q1 0 a 1\nq2 0 ",
    "gold.csv": b"query_id,chunk_id,grade\nq1,",
}


@pytest.fixture(params=PACKERS)
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, bytes], Path]:
    def write(name: str, text: bytes) -> Path:
        path: Path = tmp_path / (name + request.param)
        path.write_bytes(PACKERS[request.param](text))
        return path

    return write


@pytest.fixture
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_MAX_LINE", "1M")


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_run_with_a_line_that_does_not_end(packed: Callable[[str, bytes], Path], name: str) -> None:
    path = packed(name, BEGINNINGS[name] + LONG)
    with refused("line-too-long", file=path):
        karat.evaluate(path, GOLD)


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("name", GOLDS)
def test_gold_with_a_line_that_does_not_end(packed: Callable[[str, bytes], Path], name: str) -> None:
    path = packed(name, GOLDS[name] + LONG)
    with refused("line-too-long", file=path):
        karat.evaluate(RUN, path)


@pytest.mark.usefixtures("short_lines")
def test_other_files_with_a_line_that_does_not_end(packed: Callable[[str, bytes], Path]) -> None:
    readers: dict[str, tuple[Callable[[Path], object], bytes]] = {
        "corpus.jsonl": (read_corpus, b'{"chunk_id":"a","text":"'),
        "labels.jsonl": (lambda path: read_labels(str(path)), b'{"query_id":"'),
        "result.json": (karat.load, b'{"schema":"karat/result/2","karat":"'),
        "calibration.json": (read_calibration, b'{"schema":"karat/calibration/1","judge":"'),
        "signals.csv": (lambda path: with_signal(karat.read_gold(GOLD), str(path)), b"query_id,ctr\nq1,"),
        "signals.jsonl": (lambda path: with_signal(karat.read_gold(GOLD), str(path)), b'{"query_id":"q","ctr":1}\n{"'),
    }
    for name, (read, begins) in readers.items():
        path = packed(name, begins + LONG)
        if name.startswith("signals.csv") and path.suffix != ".csv":
            continue
        with refused("line-too-long", file=path):
            read(path)


def test_lines_up_to_the_limit_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"query_id": "q1", "topk": ["a"], "note": "x" * (4 << 20)}).encode()
    path = tmp_path / "run.jsonl"
    path.write_bytes(LINE.replace(b"q1", b"q0") + text)
    monkeypatch.setenv("KARAT_MAX_LINE", str(len(text)))
    assert karat.evaluate(path, GOLD).means["recall@5"] == 1
    monkeypatch.setenv("KARAT_MAX_LINE", str(len(text) // 2))  # blocks of 1 MB may be added to it
    with refused("line-too-long", file=path):
        karat.evaluate(path, GOLD)


@pytest.mark.parametrize("packer", [".gz", ".zst"])
def test_compressed_text_that_unpacks_to_too_much(tmp_path: Path, packer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many short lines, and a document of many lines: no line is too long."""
    monkeypatch.setenv("KARAT_MAX_EXPANSION", "100")
    block = PACKERS[packer]((b" " * 255 + b"\n") * (1 << 18))  # 64 MB
    run = tmp_path / f"run.jsonl{packer}"
    run.write_bytes(PACKERS[packer](LINE) + block * 2)
    with refused("expands-too-far", file=run):
        karat.evaluate(run, GOLD)
    gold = tmp_path / f"gold.json{packer}"
    gold.write_bytes(PACKERS[packer](b'{"q1":\n') + block * 2)
    with refused("expands-too-far", file=gold):
        karat.evaluate(RUN, gold)


def test_the_limit_of_expansion_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"\n" * (8 << 20), mtime=0) * 9)
    with refused("expands-too-far", file=path):
        open_content(path, str(path)).read()
    monkeypatch.setenv("KARAT_MAX_EXPANSION", "20000")
    assert len(open_content(path, str(path)).read()) == 72 << 20


@pytest.mark.parametrize("said", ["much", "-1", "0", "1e9", "９", "9" * 40])
def test_a_limit_that_is_none(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("KARAT_MAX_LINE", said)
    monkeypatch.setenv("KARAT_MAX_EXPANSION", said)
    with refused("bad-setting", ConfigError, field="KARAT_MAX_LINE"):
        largest_line()
    with refused("bad-setting", ConfigError, field="KARAT_MAX_EXPANSION"):
        largest_content(1)


def test_limits_with_units(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, size in (("64", 64), ("2k", 2 << 10), ("3 MB", 3 << 20), ("1GiB", 1 << 30)):
        monkeypatch.setenv("KARAT_MAX_LINE", said)
        assert largest_line() == size


def test_an_archive_that_unpacks_to_too_much(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("history.json", b" " * (80 << 20))
    with FolderStore(tmp_path / ".karat") as store, refused("too-large", file="upload"):
        import_runs(store, buffer.getvalue(), "upload")


def test_a_run_that_an_archive_lists_twice(tmp_path: Path) -> None:
    run = {"id": "a" * 64, "sha256": "", "saved_at": ""}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("history.json", json.dumps({"schema": "karat/history/1", "karat": "1", "runs": [run] * 2}))
    with FolderStore(tmp_path / ".karat") as store, refused("not-an-archive", KaratError, file="upload"):
        import_runs(store, buffer.getvalue(), "upload")


_MEASURED = """
from karat.cli.main import main
try:
    main()
except SystemExit as end:
    status = open("/proc/self/status").read()
    print("peak", end.code, status.partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of one program")
@pytest.mark.parametrize("packer", PACKERS)
def test_the_memory_that_a_bomb_takes(tmp_path: Path, packer: str) -> None:
    """One line of 256 MB in plain text; of 2 GB where it is compressed."""
    path = tmp_path / f"run.jsonl{packer}"
    block = PACKERS[packer](b"x" * (8 << 20))
    with path.open("wb") as stream:
        stream.write(PACKERS[packer](LINE + b'{"query_id":"'))
        for _ in range(256 if packer else 32):
            stream.write(block)
    (tmp_path / "gold.jsonl").write_bytes(b'{"query_id":"q1","gold":["a"]}\n')
    command = [sys.executable, "-c", _MEASURED, "eval", str(path), "--gold", str(tmp_path / "gold.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    _, code, kilobytes = done.stdout.split()[-3:]
    assert (int(code), int(kilobytes) < 300_000) == (2, True), done.stdout + done.stderr
