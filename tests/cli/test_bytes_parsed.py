"""Every command parses each hit of a run once, whatever is requested."""

from __future__ import annotations

import gzip
import json
import os
import random
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from karat.cli.main import main
from karat.data.gold import Gold
from karat.formats.base import PARSED, ReadOptions, Source
from karat.formats.gold_file import read_gold_file

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
CORPUS = str(DEMO / "corpus.jsonl")
QUERIES = 24
MOST = 1.1  # times the size of the runs
FORMATS = ("jsonl", "trec", "csv", "parquet", "jsonl.gz")
SCATTERED = ("scattered.trec", "scattered.csv", "scattered.parquet")  # hits of a query are not together
COMMANDS = {
    "eval": "eval {run} --gold {gold}",
    "json": "eval {run} --gold {gold} -m recall@5 --json",
    "page": "eval {run} --gold {gold} -o page.html -o result.json",
    "save": "eval {run} --gold {gold} --save",
    "corpus": "eval {run} --gold {gold} --corpus {corpus} -o page.html",
    "bounds": "eval {run} --gold {gold} --bounds --labels labels.jsonl",
    "lists of another run": "eval {run} --gold {gold} --raw {other} -o page.html",
    "sweep": "eval sweep {run} --gold {gold}",
    "sweep page": "eval sweep {run} --gold {gold} --corpus {corpus} -o page.html",
    "tune": "eval tune {other} {run} --gold {gold} -m ndcg@5",
    "triage": "eval triage {run} --gold {gold}",
    "triage page": "eval triage {run} --gold {gold} --corpus {corpus} -o page.html",
    "compare": "compare {other} {run} --gold {gold} -o page.html",
    "comparison in a corpus": "compare {other} {run} --gold {gold} --corpus {corpus}",
    "comparison of lists": "compare {other} {run} -o page.html",
    "run as gold": "eval {run} --gold run:{other} -m recall@10 -m rbo@10",
    "reference": "eval {run} --gold {gold} --reference {other}",
    "bounded comparison": "compare {other} {run} --gold {gold} --bounds --labels labels.jsonl",
    "gate": "gate {run} --gold {gold} --baseline {other} --gate 'recall@5 >= 0.2' --gate 'recall@5 drop <= 0.02'",
    "gate page": "gate {run} --gold {gold} --baseline {other} --gate 'ndcg@5 drop <= 0.1' -o a.html -o b.md --save",
    "labelled gate": "gate {run} --gold {gold} --baseline {other} --gate 'recall@5 drop <= 0.1' "
    "--labels labels.jsonl --corpus {corpus} -o verdict.html",
}
ONCE = ("page", "triage", "gate page")  # for runs that are read in another way


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same run in every format, and another one."""
    folder = tmp_path_factory.mktemp("runs")
    lines = [json.loads(line) for line in first_lines("bm25_rerank.jsonl").splitlines()]
    shuffled = random.Random(7)
    for line in lines:
        line["topk_original"] = shuffled.sample(line["topk"], len(line["topk"]))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    hits = [(line["query_id"], hit["chunk_id"], hit["rank"], hit["score"]) for line in lines for hit in line["topk"]]
    table = pl.DataFrame(hits, schema=["query_id", "chunk_id", "rank", "score"], orient="row")
    found = {name: folder / f"run.{name}" for name in (*FORMATS, *SCATTERED, "other", "gold")}
    found["jsonl"].write_text(text)
    found["jsonl.gz"].write_bytes(gzip.compress(text.encode()))
    for before, rows in (("", table), ("scattered.", table.sample(fraction=1, shuffle=True, seed=7))):
        trec = (f"{query} Q0 {item} {rank} {score} s\n" for query, item, rank, score in rows.iter_rows())
        found[f"{before}trec"].write_text("".join(trec))
        rows.write_csv(found[f"{before}csv"])
        rows.write_parquet(found[f"{before}parquet"])
    found["other"].write_text(first_lines("bm25.jsonl"))
    found["gold"].write_text(first_lines("gold.jsonl"))
    pairs = [(line["query_id"], hit["chunk_id"]) for line in lines[:20] for hit in line["topk"][:5]]
    labels = ({"query_id": query, "chunk_id": item, "grade": 1, "annotator": "model"} for query, item in pairs)
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    return found


def first_lines(file: str) -> str:
    return "".join((DEMO / file).read_text().splitlines(keepends=True)[:QUERIES])


@pytest.fixture
def counted(runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own, and a count that begins at 0."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.jsonl").write_bytes((runs["jsonl"].parent / "labels.jsonl").read_bytes())
    PARSED.reset()
    yield
    PARSED.reset()


def arguments_of(command: str, run: Path, runs: dict[str, Path]) -> str:
    few = "" if command.startswith("triage") else " --resamples 100"
    return COMMANDS[command].format(run=run, other=runs["other"], gold=runs["gold"], corpus=CORPUS) + few


def size_of(path: Path) -> int:
    return len(gzip.decompress(path.read_bytes())) if path.suffix == ".gz" else path.stat().st_size


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_is_parsed_once(kind: str, command: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    text = COMMANDS[command]
    arguments = arguments_of(command, runs[kind], runs)
    assert karat(arguments, monkeypatch) in (0, 1)
    read = [runs[kind], *([runs["other"]] if "{other}" in text else [])]
    assert PARSED.bytes >= 0.9 * sum(map(size_of, read))
    assert PARSED.bytes <= MOST * sum(map(size_of, read))


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("command", ["compare", "gate", "several runs"])
def test_the_gold_set_is_read_once(command: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def counting(source: Source, options: ReadOptions) -> Gold:
        read.append(source.path)
        return read_gold_file(source, options)

    monkeypatch.setattr("karat.formats.gold_file.read_gold_file", counting)
    several = f"eval {runs['jsonl']} {runs['other']} --gold {runs['gold']} --resamples 100"
    arguments = several if command == "several runs" else arguments_of(command, runs["jsonl"], runs)
    assert karat(arguments, monkeypatch) in (0, 1)
    assert read == [runs["gold"]]


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("command", ONCE)
@pytest.mark.parametrize("kind", SCATTERED)
@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
def test_a_scattered_run_is_parsed_once(
    is_large: bool, kind: str, command: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:  # read in blocks
        monkeypatch.setattr("karat.formats.trec._SMALL", 0)
        monkeypatch.setattr("karat.formats.trec._BLOCK", 10_000)
        monkeypatch.setattr("karat.formats.parquet.ROWS", 500)
    test_a_run_is_parsed_once(kind, command, runs, monkeypatch)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("command", ONCE)
@pytest.mark.parametrize("kind", ["jsonl", "trec", "csv", "parquet", "jsonl.gz"])
def test_a_pipe_is_parsed_once(
    kind: str, command: str, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(runs[kind].read_bytes(),), daemon=True)
    writer.start()
    arguments = arguments_of(command, pipe, runs)
    assert karat(arguments, monkeypatch) in (0, 1)
    writer.join()
    size = size_of(runs[kind]) + (runs["other"].stat().st_size if "{other}" in COMMANDS[command] else 0)
    assert 0.9 * size <= PARSED.bytes <= MOST * size


def karat(arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command, run in this process."""
    monkeypatch.setattr("sys.argv", ["karat", *shlex.split(arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("kind", ["jsonl", "trec"])
def test_of_many_queries_only_those_that_are_shown_are_read_again(
    kind: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("karat.results.evaluation.KEEP_LISTS", 20)
    assert karat(f"eval triage {runs[kind]} --gold {runs['gold']} -n 2", monkeypatch) == 0
    extra = PARSED.bytes / size_of(runs[kind]) - 1
    assert 0 < extra < 0.15


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("kind", ["parquet", "jsonl.gz"])
def test_what_cannot_be_read_from_the_middle_is_kept_beside(
    kind: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = f"eval triage {runs[kind]} --gold {runs['gold']} -n 3 --json"
    assert karat(arguments, monkeypatch) == 0
    kept = capsys.readouterr().out
    monkeypatch.setattr("karat.results.evaluation.KEEP_LISTS", 20)
    PARSED.reset()
    assert karat(arguments, monkeypatch) == 0
    assert capsys.readouterr().out == kept
    assert PARSED.bytes <= MOST * size_of(runs[kind])
