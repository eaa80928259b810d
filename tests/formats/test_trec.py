"""TREC runs and qrels: the score decides, any white space, and two readers that must agree."""

from __future__ import annotations

import gzip
import hashlib
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.data.audit import Audit
from karat.data.ids import as_list
from karat.errors import InputError, KaratError
from karat.formats import qrels, trec
from karat.formats.base import Source
from karat.results.save import saved_form

pytestmark = pytest.mark.usefixtures("reader")

GOLD = {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}}
METRICS = ["recall@3", "ndcg@5", "map", "mrr", "bpref", "judged@5", "distinct_docs@5"]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def row(query: str, item: str, score: object, rank: int = 0, tag: str = "tag") -> str:
    return f"{query} Q0 {item} {rank} {score} {tag}"


def mrr(tmp_path: Path, text: str) -> dict[str, float | None]:
    return karat.evaluate(write(tmp_path / "run", text), GOLD, ["mrr"]).score("mrr")


@pytest.mark.parametrize(
    "text",
    [
        "q1 Q0 x 1 3.0 tag\nq1 Q0 a 2 2.5 tag\nq2 Q0 c 1 9 tag\n",
        "q1 Q0 x 1 3.0 tag\nq1 Q0 a 2 2.5 tag\nq2 Q0 c 1 9 tag",
        "q1\tQ0\tx\t1\t3.0\ttag\nq1\tQ0\ta\t2\t2.5\ttag\nq2\tQ0\tc\t1\t9\ttag\n",
        "q1   Q0 x\t1 3.0  tag\n q1 Q0 a 2 2.5 tag \nq2 Q0 c 1 9 tag\n",
        "q1 Q0 x 1 3.0 tag\r\nq1 Q0 a 2 2.5 tag\r\nq2 Q0 c 1 9 tag\r\n",
        "\n\nq1 Q0 x 1 3.0 tag\n\nq1 Q0 a 2 2.5 tag\nq2 Q0 c 1 9 tag\n\n",
        "q1 Q0 x 1 3.0\nq1 Q0 a 2 2.5\nq2 Q0 c 1 9\n",
        "q1 Q0 x 1 3.0 tag and more\nq1 Q0 a 2 2.5 tag\nq2 Q0 c 1 9 tag\n",
        "q1 Q0 x 1 3e0 tag\nq1 Q0 a 2 +25E-1 tag\nq2 Q0 c 1 -.5 tag\n",
    ],
    ids=[
        "plain",
        "no last break",
        "tabs",
        "mixed white space",
        "crlf",
        "blank lines",
        "five columns",
        "words after the tag",
        "numbers",
    ],
)
def test_every_way_to_write_a_run(tmp_path: Path, text: str) -> None:
    assert mrr(tmp_path, text) == {"q1": 0.5, "q2": 1.0}


@pytest.mark.parametrize("scattered", [False, True])
def test_lines_with_more_columns_are_counted(tmp_path: Path, in_blocks: Callable[[], None], scattered: bool) -> None:
    lines = [row(f"q{q}", f"d{hit}", 9 - hit, tag="tag" if q % 3 else "my tag") for q in range(200) for hit in range(9)]
    if scattered:
        random.Random(1).shuffle(lines)
    path = write(tmp_path / "run", "\n".join(lines))
    for switch in (None, in_blocks):
        if switch is not None:
            switch()
        audit = karat.evaluate(path, {f"q{q}": {"d1": 1} for q in range(200)}, ["mrr"]).audit
        assert {entry.code: entry.count for entry in audit} == {"more_columns": 67 * 9}


def test_the_score_decides_not_the_rank_nor_the_line(tmp_path: Path) -> None:
    text = "q1 Q0 a 1 0.5 t\nq1 Q0 x 2 0.9 t\nq2 Q0 x 1 1 t\nq2 Q0 c 9 2 t\n"
    assert mrr(tmp_path, text) == {"q1": 0.5, "q2": 1.0}


def test_equal_scores_go_by_id_descending(tmp_path: Path) -> None:
    result = karat.evaluate(
        write(tmp_path / "run", "q1 Q0 a 1 1 t\nq1 Q0 b 2 1 t\nq2 Q0 c 1 1 t\n"), GOLD, ["map(rel=2)"]
    )
    assert result.score("map(rel=2)")["q1"] == 0.5  # b stands before a
    assert result.audit["score_ties"] == 1


def test_scores_are_compared_as_float32(tmp_path: Path) -> None:
    """0.30000001 and 0.3 differ only beyond float32: a tie for trec_eval, so the id decides."""
    text = "q1 Q0 a 1 0.30000001 t\nq1 Q0 x 2 0.3 t\n"
    result = karat.evaluate(write(tmp_path / "run", text), {"q1": ["a"]}, ["mrr"])
    assert (result.means["mrr"], result.audit["score_ties"]) == (0.5, 1)
    in_memory = karat.evaluate({"q1": {"a": 0.30000001, "x": 0.3}}, {"q1": ["a"]}, ["mrr"])
    assert (in_memory.means["mrr"], in_memory.audit["score_ties"]) == (0.5, 1)


def test_the_tag_names_the_system(tmp_path: Path) -> None:
    assert karat.evaluate(write(tmp_path / "run", "q1 Q0 a 1 1 bm25\n"), GOLD, ["mrr"]).system == "bm25"


def test_lines_of_a_query_may_be_scattered(tmp_path: Path) -> None:
    text = "q1 Q0 x 1 3 t\nq2 Q0 x 1 3 t\nq1 Q0 a 2 2 t\nq2 Q0 c 2 2 t\n"
    assert mrr(tmp_path, text) == {"q1": 0.5, "q2": 0.5}


def test_a_system_that_the_file_is_not_of_is_refused(tmp_path: Path) -> None:
    with refused("unknown-system") as caught:
        karat.evaluate(write(tmp_path / "run", "q1 Q0 a 1 1 bm25\n"), GOLD, ["mrr"], system="colbert")
    assert "colbert" in caught.value.what
    assert "bm25" in caught.value.hint


def test_an_empty_run_that_is_named_as_one_has_no_query(tmp_path: Path) -> None:
    with pytest.raises(KaratError):
        karat.evaluate(karat.read_run(write(tmp_path / "run", ""), format="trec-run"), GOLD, ["mrr"])


def test_qrels(tmp_path: Path) -> None:
    gold = karat.read_gold(write(tmp_path / "qrels", "q1 0 a 2\nq2\t0\tc  1\n\nq1 7 b 0.5\r\nq1 0 z -1\n"))
    assert gold.queries == ["q1", "q2"]
    assert gold.ids == ["a", "b", "c"]
    assert gold.grades.tolist() == [2.0, 0.5, 1.0]
    assert gold.audit["negative_grades"] == 1


def test_qrels_name_the_line_of_a_mistake(tmp_path: Path) -> None:
    path = write(tmp_path / "qrels", "q1 0 a 1\nq1 0 b high\n")
    with refused("bad-value", InputError, file=path, line=2, field="grade", got="high"):
        karat.read_gold(path)


# Large files are read in blocks by polars. What that reader makes of a file must be what the careful one makes.


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def switch() -> None:
        monkeypatch.setattr(trec, "_SMALL", 0)
        monkeypatch.setattr(trec, "_BLOCK", 3000)

    return switch


def plain_rows(queries: int = 70, hits: int = 40) -> list[str]:
    """More than what is looked at to recognise a format (64 kB), with ties and duplicates."""
    draw = random.Random(7)
    return [
        row(f"q{q}", f"doc_{draw.randrange(60)}#{draw.randrange(3)}", draw.randrange(80) / 8, rank)
        for q in range(queries)
        for rank in range(hits)
    ]


def large_gold() -> dict[str, dict[str, float]]:
    draw = random.Random(8)
    return {
        f"q{q}": {f"doc_{draw.randrange(60)}#{draw.randrange(3)}": draw.randrange(3) for _ in range(12)}
        for q in range(75)
    }


ROWS = plain_rows()
LARGE_GOLD = large_gold()


def changed(at: int, line: str) -> str:
    return "\n".join([*ROWS[:at], line, *ROWS[at:]]) + "\n"


def scattered() -> str:
    rows = list(ROWS)
    random.Random(9).shuffle(rows)
    return "\n".join(rows) + "\n"


WELL_FORMED = {
    "plain": "\n".join(ROWS) + "\n",
    "no last break": "\n".join(ROWS),
    "tabs": "\n".join(ROWS).replace(" ", "\t"),
    "crlf": "\r\n".join(ROWS) + "\r\n",
    "crlf and tabs": "\r\n".join(ROWS).replace(" ", "\t"),
    "scattered": scattered(),
    "one query comes back": "\n".join([*ROWS, row("q0", "doc_1#1", 99)]),
    "blank line": changed(2600, ""),
    "blank line with spaces": changed(2600, "  "),
    "two spaces": changed(2600, "q65  Q0 doc_3#1 1 99 tag"),
    "tab among spaces": changed(2600, "q65\tQ0 doc_3#1 1 99 tag"),
    "leading space": changed(2600, " q65 Q0 doc_3#1 1 99 tag"),
    "trailing space": changed(2600, "q65 Q0 doc_3#1 1 99 tag "),
    "words after the tag": changed(2600, "q65 Q0 doc_3#1 1 99 tag and more"),
    "tags of two words": "\n".join(ROWS).replace("tag", "neural v2").replace("neural", "2stage", 50) + "\n",
    "lines apart": "\n\n".join(ROWS) + "\n",
    "plus sign": changed(2600, "q65 Q0 doc_3#1 1 +99 tag"),
    "numbers of all kinds": changed(
        2600, "q65 Q0 doc_3#1 1 .5e1 tag\nq65 Q0 doc_4#1 1 7. tag\nq65 Q0 doc_5#1 1 -0 tag"
    ),
    "long numbers": changed(2600, f"q65 Q0 doc_3#1 1 4.{'3' * 40} tag"),
    "quotes": changed(2600, 'q65 Q0 "doc_3#1 1 99 tag\nq65 "Q0" doc_4#1 1 99 tag'),
    "ids like numbers": changed(2600, "q65 Q0 007 1 99 tag\nq65 Q0 1e5 1 99 tag"),
    "ids like nothing": changed(2600, "null Q0 null 1 99 null\nq65 Q0 NaN 1 98 NA"),
    "other letters": changed(2600, "q65 Q0 größe#é 1 99 tag\nq65 Q0 漢字 1 98 tag"),
    "no-break space": changed(2600, "q65 Q0 doc\u00a03 1 99 tag"),
    "comment sign": changed(2600, "#q65 Q0 doc_3#1 1 99 tag"),
    "equal in float32": changed(2600, "q65 Q0 doc_3#1 1 99.00000001 tag\nq65 Q0 doc_4#1 1 99 tag"),
    "too large for float32": changed(2600, "q65 Q0 doc_3#1 1 1e39 tag"),
    "two tags": changed(0, "q0 Q0 doc_3#1 1 99 another"),
}


@pytest.mark.parametrize("text", WELL_FORMED.values(), ids=WELL_FORMED.keys())
def test_both_readers_agree(tmp_path: Path, in_blocks: Callable[[], None], text: str) -> None:
    path = write(tmp_path / "run", text)
    by_line = saved_form(karat.evaluate(path, LARGE_GOLD, METRICS, resamples=100))
    in_blocks()
    by_block = saved_form(karat.evaluate(path, LARGE_GOLD, METRICS, resamples=100))
    assert by_block.scores == by_line.scores
    assert {e.code: e.count for e in by_block.audit} == {e.code: e.count for e in by_line.audit}
    assert by_block.system == by_line.system


@pytest.mark.parametrize(
    "name",
    ["plain", "tabs", "crlf", "no last break", "other letters", "long numbers", "tags of two words", "lines apart"],
)
def test_blocks_are_really_used(tmp_path: Path, in_blocks: Callable[[], None], reader: str, name: str) -> None:
    if reader == "plain" and name in ("tags of two words", "lines apart"):
        pytest.skip("the plain reader reads them line by line")
    path = write(tmp_path / "run", WELL_FORMED[name])
    in_blocks()
    slices = list(karat.read_run(path).slices(frozenset(), Audit()))
    assert len(slices) > 20
    assert {type(s.ids).__name__ for s in slices} == {"ndarray"}  # a list where they were read line by line


@pytest.mark.parametrize("name", ["plain", "tabs", "crlf", "no last break", "other letters", "long numbers"])
def test_small_files_are_taken_apart_as_a_whole(tmp_path: Path, reader: str, name: str) -> None:
    run = karat.read_run(write(tmp_path / "run", WELL_FORMED[name]))
    assert isinstance(run, trec.TrecRun)
    at_once, by_line = run._read_whole(), run._read_lines()
    if reader == "plain":
        assert at_once is None
        return
    assert at_once is not None
    assert (at_once.queries, as_list(at_once.ids)) == (by_line.queries, by_line.ids)
    for one, other in zip(
        (at_once.offsets, at_once.score, at_once.places), (by_line.offsets, by_line.score, by_line.places), strict=True
    ):
        assert one is not None
        assert other is not None
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("size", [1, 30, 300, 1 << 20])
@pytest.mark.parametrize(
    "odd", ["", "\n", "q9  0 x 1\n", "q0 0 late 3\n"], ids=["alike", "empty", "spaces", "scattered"]
)
def test_qrels_are_taken_apart_by_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, odd: str
) -> None:
    lines = [f"q{n // 7} 0 doc_é{n} {n % 4 - 1}" for n in range(50)]
    path = write(tmp_path / "qrels", "\n".join(lines) + "\n" + odd + "q8 0 last 1")
    with monkeypatch.context() as patch:
        patch.setattr(qrels._Judgements, "add_block", lambda self, block, line: False)
        by_line = karat.read_gold(path)
    monkeypatch.setattr(qrels, "_BLOCK", size)
    by_block = karat.read_gold(path)
    assert (by_block.queries, by_block.ids) == (by_line.queries, by_line.ids)
    assert by_block.grades.tolist() == by_line.grades.tolist()
    assert repr(by_block.audit) == repr(by_line.audit)


@pytest.mark.parametrize("size", [1, 20, 1 << 20])
@pytest.mark.parametrize(
    "line", ["q1 0 a", "q1 0 a b c", "q1 0 a x", "q1 0 a 1_0", "q1 0 a ٣", "q1 0 a nan", "q1 0 a inf"]
)
def test_a_bad_line_of_qrels_is_named_in_any_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, size: int
) -> None:
    monkeypatch.setattr(qrels, "_BLOCK", size)
    path = write(tmp_path / "qrels", f"q0 0 a 1\nq1 0 b 1\n{line}\nq2 0 c 1\n")
    with pytest.raises(InputError) as caught:
        karat.read_gold(path)
    assert caught.value.line == 3


def test_compressed_files_are_read_in_blocks_too(tmp_path: Path, in_blocks: Callable[[], None]) -> None:
    plain = write(tmp_path / "run", WELL_FORMED["plain"])
    packed = write(tmp_path / "run.gz", gzip.compress(plain.read_bytes()))
    in_blocks()
    assert karat.evaluate(packed, LARGE_GOLD, METRICS).means == karat.evaluate(plain, LARGE_GOLD, METRICS).means


class Reading:
    """A large run is read from the start, and its gold set as soon as a block of the run is."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.blocks: list[int] = []
        self.began_early = False
        make = trec.TrecRun._of_block

        def of_block(run: trec.TrecRun, block: Any) -> Any:
            self.blocks.append(block.begin)
            return make(run, block)

        def read_late(gold: Any, **options: Any) -> Any:
            deadline = time.monotonic() + 10
            while not self.blocks and time.monotonic() < deadline:
                time.sleep(0.001)
            self.began_early = bool(self.blocks)
            return karat.read_gold(gold, **options)

        patch.setattr("karat.formats.base.LARGE", 0)
        patch.setattr("karat.formats.blocks.cores", lambda: 2)
        patch.setattr("karat.results.pipeline.read_gold", read_late)
        patch.setattr(trec.TrecRun, "_of_block", of_block)

    @property
    def is_over(self) -> bool:
        return "karat-read-ahead" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture
def read_early(monkeypatch: pytest.MonkeyPatch, in_blocks: Callable[[], None], reader: str) -> Callable[[], Reading]:
    if reader == "plain":
        pytest.skip("only the native reader begins early")

    def switch() -> Reading:
        in_blocks()
        return Reading(monkeypatch)

    return switch


def test_a_large_run_is_read_while_the_gold_set_is(tmp_path: Path, read_early: Callable[[], Reading]) -> None:
    path = write(tmp_path / "run", WELL_FORMED["plain"])
    expected = karat.evaluate(path, LARGE_GOLD, METRICS).means
    reading = read_early()
    assert karat.evaluate(path, LARGE_GOLD, METRICS).means == expected
    assert reading.began_early
    assert reading.is_over
    assert len(reading.blocks) == len(set(reading.blocks)) > 4  # each was made once


@pytest.mark.parametrize("name", ["plain", "scattered", "two spaces", "other letters"])
def test_a_small_run_is_read_while_the_gold_set_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, name: str
) -> None:
    path = write(tmp_path / "run", WELL_FORMED[name])
    expected = karat.evaluate(path, LARGE_GOLD, METRICS).means
    readers: list[str] = []
    read = trec.TrecRun._read_whole

    def read_whole(run: trec.TrecRun) -> Any:
        readers.append(threading.current_thread().name)
        return read(run)

    monkeypatch.setattr(trec, "_LITTLE", 0)
    monkeypatch.setattr("karat.formats.blocks.cores", lambda: 2)
    monkeypatch.setattr(trec.TrecRun, "_read_whole", read_whole)
    assert karat.evaluate(path, LARGE_GOLD, METRICS).means == expected
    assert len(readers) == (reader == "native")  # once
    assert "karat-read-ahead" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("size", [0, 10, 3 << 20])
def test_a_file_has_the_same_hash_however_it_is_computed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "qrels"
    path.write_bytes(b"q1 0 a 1\n" * (size // 9))
    packed = tmp_path / "qrels.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    expected = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    assert Source(path).content_hash() == Source(packed).content_hash() == expected


@pytest.mark.parametrize("wrong", [{"gold": {}}, {"segments": ["nothing"]}])
def test_a_run_that_was_begun_for_nothing_is_left(
    tmp_path: Path, read_early: Callable[[], Reading], wrong: dict[str, Any]
) -> None:
    path, reading = write(tmp_path / "run", WELL_FORMED["plain"]), read_early()
    with pytest.raises(KaratError):
        karat.evaluate(path, **{"gold": LARGE_GOLD, **wrong})
    assert reading.began_early
    assert reading.is_over
    assert len(reading.blocks) <= 4


BAD = {
    "score is a word": ("q65 Q0 doc_3#1 1 high tag", "bad-value", "high"),
    "nan": ("q65 Q0 doc_3#1 1 nan tag", "bad-value", "nan"),
    "NaN": ("q65 Q0 doc_3#1 1 NaN tag", "bad-value", "NaN"),
    "infinite": ("q65 Q0 doc_3#1 1 -inf tag", "bad-value", "-inf"),
    "too large": ("q65 Q0 doc_3#1 1 1e999 tag", "bad-value", "1e999"),
    "four columns": ("q65 Q0 doc_3#1 1", "bad-row", "4 columns"),
    "json": ('{"query_id":"q65","topk":["a"]}', "bad-row", "1 column"),
    "no tag, where others have one": ("q65 Q0 doc_3#1 1 99", "bad-row", "5 columns"),
    "white space in an id": ("q65 Q0 doc 3#1 1 99 tag", "bad-row", "7 columns"),
    "white space before a number in an id": ("q65 Q0 doc 3 1 99 tag", "bad-row", "7 columns"),
    "a bad score and a tag of two words": ("q65 Q0 doc_3#1 1 nan my tag", "bad-value", "nan"),
    "white space in two columns": ("q65 Q0 doc x#1 1 99 tag and more", "bad-row", "9 columns"),
    "old line ends": ("q65 Q0 doc_3#1 1 99 tag\rq65 Q0 doc_4#1 2 98 tag", "bad-row", "12 columns"),
    "underscore": ("q65 Q0 doc_3#1 1 1_0 tag", "bad-value", "1_0"),
    "other digits": ("q65 Q0 doc_3#1 1 ٣ tag", "bad-value", "٣"),
}


@pytest.mark.parametrize("reader", ["lines", "blocks"])
@pytest.mark.parametrize(("line", "code", "got"), BAD.values(), ids=BAD.keys())
def test_both_readers_refuse_a_bad_line_by_its_number(
    tmp_path: Path, in_blocks: Callable[[], None], reader: str, line: str, code: str, got: str
) -> None:
    path = write(tmp_path / "run", changed(2600, line))
    if reader == "blocks":
        in_blocks()
    with refused(code, InputError, file=path, line=2601, got=got):
        karat.evaluate(path, LARGE_GOLD, METRICS)


def test_blank_lines_may_come_first(tmp_path: Path) -> None:
    path = write(tmp_path / "run", "\n" * 70_000 + "q1 Q0 a 1 2 t\n")
    assert karat.evaluate(path, {"q1": ["a"]}, ["mrr"]).means == {"mrr": 1.0}


@pytest.mark.parametrize("last", ["q1 Q0 b c 2 0.8", "q1 Q0 b 3 2 0.8"])
def test_white_space_in_an_id_is_refused_in_runs_without_tags(
    tmp_path: Path, in_blocks: Callable[[], None], last: str
) -> None:
    path = write(tmp_path / "run", f"q1 Q0 a 1 0.9\n{last}\n")
    for switch in (lambda: None, in_blocks):
        switch()
        with refused("bad-row", InputError, file=path, line=2, got="6 columns"):
            karat.evaluate(path, LARGE_GOLD, METRICS)


def test_a_line_that_is_too_long_is_named_in_a_block(
    tmp_path: Path, in_blocks: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "run", changed(2600, "q65 Q0 " + "x" * 500))
    monkeypatch.setenv("KARAT_MAX_LINE", "300")
    in_blocks()
    with refused("line-too-long", InputError, file=path, line=2601):
        karat.evaluate(path, LARGE_GOLD, METRICS)


@pytest.mark.parametrize("reader", ["lines", "blocks"])
@pytest.mark.parametrize("part", [b"doc\xff3 1 99 tag", b"doc_3#1 1 9\xff9 tag"], ids=["id", "score"])
def test_both_readers_refuse_what_is_not_utf8(
    tmp_path: Path, in_blocks: Callable[[], None], reader: str, part: bytes
) -> None:
    text = WELL_FORMED["plain"].encode() + b"q69 Q0 " + part + b"\n"
    path = write(tmp_path / "run", text)
    if reader == "blocks":
        in_blocks()
    with refused("not-utf8", InputError, line=len(ROWS) + 1):
        karat.evaluate(path, LARGE_GOLD, METRICS)


@pytest.mark.parametrize("reader", ["lines", "blocks"])
def test_both_readers_refuse_compressed_data_that_ends_too_early(
    tmp_path: Path, in_blocks: Callable[[], None], reader: str
) -> None:
    packed = gzip.compress(WELL_FORMED["plain"].encode())
    path = write(tmp_path / "run.gz", packed[: len(packed) * 95 // 100])
    if reader == "blocks":
        in_blocks()
    with refused("unreadable", InputError, file=path):
        karat.evaluate(path, LARGE_GOLD, METRICS)


def test_what_follows_compressed_data_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "run.gz", gzip.compress(WELL_FORMED["plain"].encode()) + b"more")
    with refused("unreadable", InputError, file=path):
        karat.evaluate(path, LARGE_GOLD, METRICS)
