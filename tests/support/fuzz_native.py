"""Feed the native reader with damaged files, under AddressSanitizer and UBSan: `make fuzz-native`.

The library is built with sanitizers into a temporary folder, and this file starts itself with it. Every block is
copied to memory of exactly its size, so that a read past its end is noticed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_FLAGS = ("-std=c11", "-O1", "-g", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_PIECES = [
    b"",
    b"\n",
    b'"',
    b"\\",
    b"\\u12",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
    b"\0",
    b"\x01",
    b"\xff",
    b"\xf0\x9f",
]
_PIECES += [b"null", b"true", b"1e999", b"-", b".", b"9" * 400, b"0." + b"0" * 40 + b"1", b"[" * 200, b'{"a":' * 100]
_PIECES += [
    b"x" * 300,
    b'"query_id":"q",',
    b'"topk":[],',
    b'"raw":[1],',
    b'"new":1,',
    b"18446744073709551615",
    b"\t \r",
]


def sanitized(folder: Path) -> tuple[Path, str] | None:
    """The library and what must be preloaded to run it; None where the compiler cannot make it."""
    from karat.files.native import build

    library = folder / "reader.so"
    if build.compile_reader(library, _FLAGS) is not None:
        return None
    asked = [*(build.compiler() or ["cc"]), "-print-file-name=libasan.so"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return (library, found) if Path(found).is_absolute() else None


def fuzz(seconds: float, seed: int) -> str | None:
    """Run in a process of its own; what it says where it fails, None where all is well or nothing can be made."""
    with tempfile.TemporaryDirectory() as folder:
        made = sanitized(Path(folder))
        if made is None:
            return "no sanitizers"
        environment = {**os.environ, "KARAT_READER": str(made[0]), "LD_PRELOAD": made[1], "KARAT_PURE": "0"}
        environment["ASAN_OPTIONS"] = "detect_leaks=0:allocator_may_return_null=1"
        environment["PYTHONMALLOC"] = "malloc"  # so that a read past the end of bytes is noticed
        _write_tables(Path(folder))
        command = [sys.executable, __file__, "--inside", folder, "--seconds", str(seconds), "--seed", str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        return None if done.returncode == 0 else (done.stdout + done.stderr)[-4000:]


def _samples() -> list[bytes]:
    log = [
        {
            "query_id": f"q{i}",
            "query": 'a "b" \u00e9\n',
            "topk": [
                {"rank": r, "chunk_id": f"d{r}#é", "score": r / 7, "text": "x\\", "doc_version": r or "v1"}
                for r in range(i % 4)
            ],
            "raw": [{"id": 5, "score": 1e-9}] if i % 2 else None,
            "latency_ms": {"a": 1.5, "b": None},
            "extra": {"deep": [[[1, {"x": "y"}]]]},
        }
        for i in range(8)
    ]
    gold = [{"query_id": f"q{i}", "gold": [{"chunk_id": f"d{i}", "grade": 1}, "b", 7]} for i in range(8)]
    trec = "".join(f"q{i // 3} Q0 document_{i}é {i} {i / 7} tag\n" for i in range(12))
    long = "".join(f"query-{i // 9} Q0 {i * i} {i} {i / 8} tag\n" for i in range(220))
    qrels = "".join(f"q{i // 3}\t0  d{i} {i % 3}\r\n" for i in range(12))
    lines = (
        "\n".join(json.dumps(e, ensure_ascii=i) for e in entries) for i in (False, True) for entries in (log, gold)
    )
    return [*(text.encode() for text in lines), trec.encode(), long.encode(), qrels.encode()]


def _write_tables(folder: Path) -> None:
    """Parquet files as several writers make them, with small pages."""
    import polars as pl
    import pyarrow.parquet as pq

    rows = range(300)
    frame = pl.DataFrame(
        {
            "query_id": [f"query {i // 7}" for i in rows],
            "chunk_id": [f"d{i}é#{'x' * (i % 30)}" if i % 2 else f"doc_{i % 9}" for i in rows],
            "score": [i / 7 for i in rows],
            "rank": [i % 7 for i in rows],
            "system": ["bm25"] * len(rows),
        }
    )
    frame.write_parquet(folder / "polars.parquet", compression="snappy", row_group_size=120, data_page_size=200)
    frame.write_parquet(folder / "plain.parquet", compression="uncompressed", row_group_size=100)
    frame.write_parquet(folder / "zstd.parquet", compression="zstd", data_page_size=100)
    table = frame.to_arrow()
    for version in ("1.0", "2.0"):
        where = folder / f"arrow{version}.parquet"
        pq.write_table(table, where, data_page_version=version, use_dictionary=["chunk_id"], data_page_size=64)


def _damaged(text: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(text) + 1)
        piece = chance.choice(_PIECES) if chance.random() < 0.8 else bytes([chance.randrange(256)])
        text = text[:at] + piece + text[min(len(text), at + chance.choice((0, 0, 1, 1, 4, 30))) :]
    return text[: chance.randrange(len(text) + 1)] if chance.random() < 0.3 else text


def _damaged_table(content: bytes, chance: random.Random) -> bytes:
    """Change some bytes, mostly of pages; their number stays the same, so that the footer still fits."""
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(end if chance.random() < 0.8 else len(content))
        changed[at] = chance.choice((0, 1, 127, 128, 255, changed[at] ^ 1 << chance.randrange(8)))
    return bytes(changed)


def _read_table(path: Path, content: bytes) -> None:
    from karat.data.hits import Ungrouped
    from karat.files.parquet_file import Unusual, table_of
    from karat.formats.parquet_rows import query_rows

    path.write_bytes(content)
    table = table_of(path)
    names = ("query_id", "chunk_id", "score", "rank", "system")
    if table is None or not set(names) <= set(table.fields):
        return
    try:
        for rows in query_rows(table, *names[:2], names[2:4], system="system", rows=64):
            assert len(rows.ids) == rows.counts.sum()
    except (Unusual, Ungrouped):
        return


def inside(folder: Path, seconds: float, seed: int) -> int:
    """How many blocks were read."""
    import karat.files.native as door
    from karat.data.hits import METADATA, OPTIONAL_COLUMNS, OTHER_LISTS
    from karat.formats import json_lines, trec_rows
    from karat.formats.gold_parts import ITEMS
    from karat.formats.gold_records import GoldEntry
    from karat.formats.records import RecordDecoder
    from karat.formats.run_log import _TOPK, _with_values
    from karat.formats.run_records import SlimRecord, hits_record, slim_record

    library = door.native()
    assert library is not None, "the library was not loaded"
    exactly = _ExactCopies(library)
    json_lines.native = trec_rows.native = lambda: exactly  # type: ignore[assignment]
    chance, samples, until, count = random.Random(seed), _samples(), time.monotonic() + seconds, 0
    others = frozenset(OTHER_LISTS)
    kinds = (
        (SlimRecord, _TOPK),
        (slim_record(others), _TOPK),
        (hits_record(others), _with_values(OPTIONAL_COLUMNS - {METADATA})),
        (GoldEntry, ITEMS),
    )
    tables = [file.read_bytes() for file in sorted(folder.glob("*.parquet"))]
    for content in tables:
        _read_table(folder / "damaged", content)
    decoders = [RecordDecoder(struct, lists=lists) for struct, lists in kinds]  # type: ignore[type-var]
    while time.monotonic() < until:
        block = _damaged(chance.choice(samples), chance)
        count += 1
        for decoder in decoders:
            decoder._unlike = 0  # never tired of odd blocks
            table = decoder.read_lines(block)
            for name in () if table is None else table.spans:
                table.column(name)  # type: ignore[union-attr]
        trec_rows.read_rows(block, columns=5, number=4)
        trec_rows.read_rows(block, columns=4, exactly=True, number=3)
        _look_up(block, chance)
        _read_table(folder / "damaged", _damaged_table(chance.choice(tables), chance))
    return count


def _look_up(block: bytes, chance: random.Random) -> None:
    """Lists of random lengths, of the words of a block: what follows reading. Arrays have no bytes to spare."""
    import numpy as np

    from karat.matching.blocks import matched_letters

    text = block.decode("utf-8", "replace")[:700]
    matched_letters(text, text[chance.randrange(len(text) + 1) :] + text[: chance.randrange(len(text) + 1)])

    from karat.data.ids import Owners, Seen, count_distinct, first_equal, hashes, match, may_repeat
    from karat.data.packed_ids import cut_packed, hash_cut, hash_texts, pack
    from karat.data.score_order import ranks_are_places, score_order, ties_at

    words = block.decode("utf-8", "replace").split()[:200]
    offsets = np.unique([0, len(words), *(chance.randrange(len(words) + 1) for _ in range(5))])
    packed, owners = pack(words), np.arange(len(offsets) - 1)
    hash_texts(words)
    cut_packed(packed, ord("#"))
    hashed, docs = hashes(packed), hash_cut(packed, ord("#"))
    may_repeat(packed, offsets, hashed)
    first_equal(docs)
    count_distinct(docs, offsets)
    match(hashed, Owners(offsets, owners), docs, offsets, docs % 3 == 0 if chance.random() < 0.5 else None)
    seen = Seen()
    seen.add(words)
    seen.add(range(300))
    numbers = (hashed % 3).astype(np.float64)
    tied = score_order(numbers, offsets, 32).tied
    ties_at(tied, np.array([chance.randrange(len(words)) for _ in words[:5]], np.int64))
    ranks_are_places(numbers, offsets)


class _ExactCopies:
    """The library, each block of bytes handed over in memory of exactly its size."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._malloc = ctypes.CDLL(None).malloc
        self._malloc.restype, self._malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = [ctypes.c_void_p]

    def __getattr__(self, name: str) -> object:
        function = getattr(self._library, name)

        def call(text: bytes, *rest: object) -> object:
            copy = self._malloc(max(1, len(text)))
            ctypes.memmove(copy, text, len(text))
            try:
                return function(copy, *rest)
            finally:
                self._free(copy)

        return call


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.inside is not None:
        print(inside(asked.inside, asked.seconds, asked.seed), "blocks")  # noqa: T201
        return
    sys.exit(fuzz(asked.seconds, asked.seed))


if __name__ == "__main__":
    main()
