"""Exit code 1 is a verdict. Whatever else goes wrong is 2, and a reader that goes away changes nothing."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.formats.corpus import read_corpus
from karat.scoring.metrics.grammar import parse_metric

RUN = '{"query_id":"q1","topk":["a"]}\n{"query_id":"q2","topk":["b"]}\n'
GOLD = '{"query_id":"q1","gold":["a"]}\n{"query_id":"q2","gold":["c"]}\n'
HUGE = str(10**21)
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.jsonl").write_text(RUN)
    (tmp_path / "gold.jsonl").write_text(GOLD)
    return tmp_path


def shell(line: str, **environment: str) -> int:
    """The exit code of karat in a line of bash, where `karat` is this one."""
    karat = f'"{sys.executable}" -m karat'
    script = f'karat() {{ {karat} "$@"; }}; {line}; exit "${{PIPESTATUS[0]}}"'
    environment = {**os.environ, "KARAT_STORE": "store", **environment}
    return subprocess.run(["bash", "-c", script], capture_output=True, env=environment, check=False).returncode


GATE = "karat gate run.jsonl --gold gold.jsonl"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("gate", "code"), [("recall@5 >= 0.99", 1), ("recall@5 >= 0.1", 0)])
def test_a_closed_pipe_keeps_the_verdict_and_the_files(gate: str, code: int) -> None:
    assert shell(f"{GATE} --gate '{gate}' -o verdict.json -o page.html --save | true") == code
    assert json.loads(Path("verdict.json").read_text())["schema"] == "karat/gates/1"
    assert Path("page.html").stat().st_size > 1000
    assert len(list(Path("store/runs").glob("*.parquet"))) == 1


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-", "2>/dev/full", "<&- >&- 2>&-", "2> >(true)"])
def test_closed_streams_keep_the_verdict_and_the_files(closed: str) -> None:
    assert shell(f"{GATE} --gate 'recall@5 >= 0.99' -o verdict.json {closed}") == 1
    assert json.loads(Path("verdict.json").read_text())["schema"] == "karat/gates/1"
    assert shell(f"karat eval run.jsonl --gold missing.jsonl {closed}") == 2
    assert shell(f"karat eval run.jsonl --gold gold.jsonl {closed}") == 0


@pytest.mark.usefixtures("files")
def test_output_that_cannot_be_written_is_an_error() -> None:
    assert shell("karat eval run.jsonl --gold gold.jsonl > /dev/full") == 2
    assert shell("karat metrics > /dev/full") == 2


def test_a_bug_is_no_verdict(files: Path) -> None:
    """Whatever a plug-in or a library raises."""
    (files / "broken.py").write_text(
        "import karat.cli.main as m\n"
        "def fail(**_): raise BaseException('x' * 5000)\n"
        "m.karat_command.main = fail\nm.main()\n"
    )
    done = subprocess.run([sys.executable, "broken.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 1000
    shown = {**os.environ, "KARAT_TRACEBACK": "1"}
    done = subprocess.run([sys.executable, "broken.py"], capture_output=True, text=True, check=False, env=shown)
    assert "Traceback" in done.stderr


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "line",
    [
        f"eval run.jsonl --gold gold.jsonl --k {HUGE}",
        f"power run.jsonl --gold gold.jsonl --k {HUGE}",
        f"compare run.jsonl run.jsonl --gold gold.jsonl --k {HUGE}",
        f"compare run.jsonl run.jsonl --gold gold.jsonl --changes {HUGE}",
        f"triage run.jsonl --gold gold.jsonl --k {HUGE}",
        f"triage run.jsonl --gold gold.jsonl -n {HUGE}",
        f"eval run.jsonl --gold gold.jsonl --seed {HUGE}",
        f"eval run.jsonl --gold gold.jsonl --min-score -{HUGE}0e999",
        f"sweep run.jsonl --gold gold.jsonl --ks {HUGE}",
        f"pool run.jsonl --gold gold.jsonl -o pool.jsonl --budget {HUGE}",
        f"run bm25 --queries gold.jsonl --corpus run.jsonl -o out.jsonl -k {HUGE}",
        "eval run.jsonl --gold gold.jsonl -m recallİ@5",
        f"eval run.jsonl --gold gold.jsonl -m recall@{'9' * 5000}",
        f"gate run.jsonl --gold gold.jsonl --gate 'recall@{HUGE}>=0.5'",
    ],
)
def test_numbers_and_names_that_cannot_be(karat_command: Command, line: str) -> None:
    assert karat_command(*shlex.split(line))[0] == 2


def gold(*entries: dict[str, Any]) -> karat.Result:
    run = {f"q{i}": ["a"] for i in range(len(entries))}
    found = karat.evaluate(run, [{"query_id": f"q{i}", "gold": ["a"], **entry} for i, entry in enumerate(entries)])
    assert isinstance(found, karat.Result)
    return found


@pytest.mark.parametrize("name", ["evidence", "answer", "topic"])
def test_what_is_said_of_a_query_as_a_field_and_in_tags(name: str) -> None:
    """It stays with the query of which it is said."""
    found = gold({}, {name: "one"}, {"tags": {name: "two"}}, {name: "three"}, {}).gold
    column = [value[0] if isinstance(value, list) else value for value in {**found.fields, **found.tags}[name]]
    assert column == [None, "one", "two", "three", None]
    assert gold({name: "same", "tags": {name: "same"}}).queries
    if name == "topic":  # any tag: what stands in tags decides
        return
    with refused("contradiction", field=name, query="q1"):
        gold({name: "one"}, {name: "two", "tags": {name: "three"}})


@pytest.mark.parametrize("language", ["7", "true", '["en"]', '{"a":1}', "1.5"])
def test_the_language_of_a_chunk_is_a_text(tmp_path: Path, language: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id":"a","text":"x","language":null}\n{"id":"b","text":"y","language":' + language + "}\n")
    with refused("wrong-type", file=path, line=2, field="language"):
        read_corpus(path)


@pytest.mark.parametrize("name", ["recallİ@5", "İ", "ﬁrst@5", "recall@²", "recall@" + "9" * 5000, "x" * 10**6])
def test_names_of_no_metric(name: str) -> None:
    with pytest.raises(karat.KaratError) as caught:
        parse_metric(name)
    assert len(str(caught.value)) < 1000
