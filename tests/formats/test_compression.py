"""gzip, zstd, byte order marks and CRLF: seen in the content, in every text format."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from refusals import refused

import karat
from karat.errors import InputError, KaratError
from karat.files.streams import open_content

SCORES = {"q1": 0.5, "q2": 1.0}
BOM = b"\xef\xbb\xbf"
NOTE = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"notes"  # a frame that readers skip

RUNS = {
    "run-log": '{"query_id":"q1","topk":["x","a"]}\n{"query_id":"q2","topk":["c"]}\n',
    "dict": '{"q1": {"x": 2, "a": 1},\n "q2": {"c": 1}}\n',
    "trec-run": "q1 Q0 x 1 2 t\nq1 Q0 a 2 1 t\nq2 Q0 c 1 1 t\n",
    "csv": "query_id,chunk_id,score\nq1,x,2\nq1,a,1\nq2,c,1\n",
    "tsv": "query_id\tchunk_id\trank\nq1\tx\t1\nq1\ta\t2\nq2\tc\t1\n",
    "samples": '{"id":"q1","actualOutput":["x","a"]}\n{"id":"q2","actualOutput":["c"]}\n',
}
GOLDS = {
    "jsonl": '{"query_id":"q1","gold":{"a":2,"b":1}}\n{"query_id":"q2","gold":["c"]}\n',
    "json": '[{"query_id":"q1","gold":{"a":2,"b":1}},\n{"query_id":"q2","gold":["c"]}]\n',
    "yaml": "- query_id: q1\n  gold: {a: 2, b: 1}\n- query_id: q2\n  gold: [c]\n",
    "dict": '{"q1": {"a": 2, "b": 1},\n "q2": ["c"]}\n',
    "qrels": "q1 0 a 2\nq1 0 b 1\nq2 0 c 1\n",
    "csv": "query_id,chunk_id,grade\nq1,a,2\nq1,b,1\nq2,c,1\n",
    "samples": "samples:\n- id: q1\n  expected_output: {a: 2, b: 1}\n- id: q2\n  expected_output: [c]\n",
}


def two_members(data: bytes) -> bytes:
    return gzip.compress(data[:20]) + gzip.compress(data[20:])


def two_frames(data: bytes) -> bytes:
    return zstandard.compress(data[:20]) + zstandard.compress(data[20:])


def streamed_zstd(data: bytes) -> bytes:
    """As `zstd` writes what it reads from a pipe: the size is not in the header."""
    out = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as writer:
        writer.write(data)
    return out.getvalue()


WRAPPERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "bom": lambda data: BOM + data,
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "bom and crlf": lambda data: BOM + data.replace(b"\n", b"\r\n"),
    "gzip": gzip.compress,
    "gzip of two members": two_members,
    "gzip with bom and crlf": lambda data: gzip.compress(BOM + data.replace(b"\n", b"\r\n")),
    "zstd": zstandard.compress,
    "zstd of two frames": two_frames,
    "zstd after a note": lambda data: NOTE + zstandard.compress(data),
    "zstd from a pipe": streamed_zstd,
    "zstd with bom and crlf": lambda data: zstandard.compress(BOM + data.replace(b"\n", b"\r\n")),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS.keys())
def test_runs(tmp_path: Path, text: str, wrap: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "run"
    path.write_bytes(wrap(text.encode()))
    assert karat.evaluate(path, {"q1": {"a": 2, "b": 1}, "q2": ["c"]}, ["mrr"]).score("mrr") == SCORES


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
@pytest.mark.parametrize("text", GOLDS.values(), ids=GOLDS.keys())
def test_gold(tmp_path: Path, text: str, wrap: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "gold"
    path.write_bytes(wrap(text.encode()))
    result = karat.evaluate({"q1": ["x", "a"], "q2": ["c"]}, path, ["mrr", "wrecall@5"])
    assert result.score("mrr") == SCORES
    assert result.score("wrecall@5") == {"q1": pytest.approx(2 / 3), "q2": 1.0}


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, streamed_zstd])
def test_files_larger_than_any_buffer(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    lines = [json.dumps({"query_id": f"q{i}", "topk": ["x", f"d{i}"], "note": f"{i * 7919}"}) for i in range(20_000)]
    data = "\n".join(lines).encode()
    assert len(data) > 1 << 20
    path = tmp_path / "run"
    path.write_bytes(compress(data))
    result = karat.evaluate(path, {"q0": ["d0"], "q19999": ["d19999"]}, ["mrr"])
    assert result.score("mrr") == {"q0": 0.5, "q19999": 0.5}
    assert result.audit["unknown_queries"] == 19_998


@pytest.mark.parametrize("name", ["gold.jsonl.gz", "gold.jsonl.zst", "gold.txt"])
@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, bytes])
def test_the_name_of_a_file_says_nothing(tmp_path: Path, name: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(compress(GOLDS["jsonl"].encode()))
    assert karat.read_gold(path).queries == ["q1", "q2"]


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    hashes = set()
    for name, wrap in {"a": bytes, "b": gzip.compress, "c": zstandard.compress}.items():
        path = tmp_path / name
        path.write_bytes(wrap(GOLDS["qrels"].encode()))
        hashes.add(karat.read_gold(path).dataset.hash)
    assert len(hashes) == 1


def test_lines_are_counted_in_the_content(tmp_path: Path) -> None:
    path = tmp_path / "run.gz"
    path.write_bytes(gzip.compress(BOM + b'{"query_id":"q1","topk":["a"]}\r\n\r\n{"query_id":"q2","topk":5}\r\n'))
    with pytest.raises(InputError) as caught:
        karat.evaluate(path, {"q1": ["a"]})
    assert (caught.value.line, caught.value.field) == (3, "topk")


def test_a_bom_alone_is_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(BOM)
    with refused("empty-file", InputError):
        karat.read_run(path)


def long_text(text: str) -> bytes:
    """The same kind of file, longer than what is looked at to recognise it and hard to compress."""
    if text == RUNS["trec-run"]:
        return "".join(f"q{i} Q0 d{i * 7919 % 99991} 1 {i} t\n" for i in range(9000)).encode()
    if text == GOLDS["qrels"]:
        return "".join(f"q{i} 0 d{i * 7919 % 99991} 1\n" for i in range(9000)).encode()
    if text == RUNS["csv"]:
        return ("query_id,chunk_id\n" + "".join(f"q{i},d{i * 7919 % 99991}\n" for i in range(9000))).encode()
    if text == GOLDS["csv"]:
        return ("query_id,chunk_id,grade\n" + "".join(f"q{i},d{i * 7919 % 99991},1\n" for i in range(9000))).encode()
    if text == RUNS["tsv"]:
        return ("query_id\tchunk_id\n" + "".join(f"q{i}\td{i * 7919 % 99991}\n" for i in range(9000))).encode()
    if text == GOLDS["yaml"]:
        return "".join(f"- query_id: q{i}\n  gold: [d{i * 7919 % 99991}]\n" for i in range(3000)).encode()
    if text == GOLDS["samples"]:
        samples = (f"- id: q{i}\n  expected_output: [d{i * 7919 % 99991}]\n" for i in range(3000))
        return ("samples:\n" + "".join(samples)).encode()
    if text in (RUNS["dict"], GOLDS["dict"]):
        return json.dumps({f"q{i}": {f"d{i * 7919 % 99991}": 1} for i in range(5000)}).encode()
    if text == GOLDS["json"]:
        return json.dumps([{"query_id": f"q{i}", "gold": [f"d{i * 7919 % 99991}"]} for i in range(5000)]).encode()
    key, value = ("query_id", "gold") if text == GOLDS["jsonl"] else ("query_id", "topk")
    if text == RUNS["samples"]:
        key, value = "id", "actualOutput"
    return "".join(json.dumps({key: f"q{i}", value: [f"d{i * 7919 % 99991}"]}) + "\n" for i in range(5000)).encode()


def cut(data: bytes) -> bytes:
    return data[: len(data) * 9 // 10]


def without_end(data: bytes) -> bytes:
    return data[:-5]


def overwritten(data: bytes) -> bytes:
    middle = len(data) * 3 // 4
    return data[:middle] + b"\xff" * 64 + data[middle + 64 :]


_WHOLE: dict[tuple[str, str, Callable[[bytes], bytes]], bytes] = {}  # files that were read before they are damaged


@pytest.mark.parametrize("damage", [cut, without_end, overwritten])
@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [*(("run", t) for t in RUNS.values()), *(("gold", t) for t in GOLDS.values())],
    ids=[*(f"run {n}" for n in RUNS), *(f"gold {n}" for n in GOLDS)],
)
def test_damaged_files_are_refused_by_name(
    tmp_path: Path, kind: str, text: str, compress: Callable[[bytes], bytes], damage: Callable[[bytes], bytes]
) -> None:
    """What is read before the damage shows may be nonsense, so that only the name of the file is certain."""
    path = tmp_path / "file"
    sides = (path, {"q1": ["a"]}) if kind == "run" else ({"q1": ["a"]}, path)
    if (kind, text, compress) not in _WHOLE:
        path.write_bytes(whole := compress(long_text(text)))
        karat.evaluate(*sides, ["mrr"])  # it is the damage that is refused
        _WHOLE[kind, text, compress] = whole
    path.write_bytes(damage(_WHOLE[kind, text, compress]))
    with pytest.raises(KaratError) as caught:
        karat.evaluate(*sides, ["mrr"])
    assert str(path) in str(caught.value)
    assert "closed file" not in str(caught.value)  # what Python says of a stream that nobody has open


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, streamed_zstd], ids=["gzip", "zstd", "pipe"])
@pytest.mark.parametrize("head", ["query_id,chunk_id\n", ""], ids=["csv", "trec"])
def test_a_file_that_ends_too_early_is_not_taken_for_a_short_one(
    tmp_path: Path, head: str, compress: Callable[[bytes], bytes], share: float
) -> None:
    """Half an id at the end of a table is an id as good as any: only the decompressor can know."""
    draw = random.Random(3)
    row = "q{0},{1:032x}\n" if head else "q{0} Q0 {1:032x} 1 1.5 {1:064x}\n"
    rows = "".join(row.format(i, draw.getrandbits(128)) for i in range(20_000))
    whole = compress((head + rows).encode())
    path = tmp_path / "run"
    path.write_bytes(whole[: int(len(whole) * share)])
    with refused("unreadable", InputError, file=path):
        karat.evaluate(path, {"q1": ["a"]}, ["mrr"])


def test_a_zstd_file_may_only_end_where_a_frame_ends(tmp_path: Path) -> None:
    """Frames with a checksum, with blocks of one repeated byte, without compression, and without content."""
    packed = zstandard.ZstdCompressor(write_checksum=True)
    frames = [
        packed.compress(random.Random(1).randbytes(500)),
        NOTE,
        zstandard.compress(b"a" * 300_000),
        streamed_zstd(b"q1 Q0 a 1 1 t\n" * 50),
        packed.compress(b""),
    ]
    ends = {sum(map(len, frames[:count])) for count in range(1, len(frames) + 1)}
    whole, path = b"".join(frames), tmp_path / "run.zst"
    for cut in range(4, len(whole) + 1):
        path.write_bytes(whole[:cut])
        if cut in ends:
            with open_content(path, str(path)) as stream:
                stream.read(1 << 20)
        else:
            with refused("unreadable", InputError, file=path), open_content(path, str(path)) as stream:
                while stream.read(1 << 20):
                    pass


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b" + b"x" * 50, b"\x28\xb5\x2f\xfd" + b"x" * 50, b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]
)
def test_files_that_only_begin_like_compressed_ones_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run"
    path.write_bytes(data)
    for read in (karat.read_run, karat.read_gold):
        with pytest.raises(InputError) as caught:
            read(path)
        assert caught.value.file == str(path)


def test_without_a_zstd_package_the_error_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "gold.zst"
    path.write_bytes(zstandard.compress(GOLDS["qrels"].encode()))
    code = (
        "import sys; sys.modules['zstandard'] = sys.modules['compression'] = None\n"
        "import karat\n"
        "try:\n    karat.read_gold(sys.argv[1])\n"
        "except karat.KaratError as error:\n    print(error.code, error.package, error.extra)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["missing-package", "zstandard", "zstd"]
