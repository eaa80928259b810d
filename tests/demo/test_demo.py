"""`karat serve --demo`: a history for those who have none yet."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from karat.demo.helpdesk import STORY, baseline_of, read_helpdesk, run_log
from karat.demo.history import _made
from karat.history.queries import query_over_time
from karat.history.store import Store

Command = Callable[..., tuple[int, str, str]]
# One step of the story is enough to see that it begins, is served and ends.
PROGRAM = """
import sys
from karat.cli.main import main
from karat.demo import history
history.STORY, history._MOST = history.STORY[3:4], 1
sys.argv = ["karat", "serve", "--demo", "--port", "0"]
main()
"""


def test_every_page_has_something_to_show(demo: Store) -> None:
    rows = demo.runs(limit=100).rows
    assert len(rows) == len(STORY)
    choices = demo.choices()
    assert (len(choices.systems), choices.datasets) == (2, ["helpdesk"])
    assert {"main", "feature/rerank"} <= set(choices.branches)
    assert {"nightly", "v1.0", "v1.1"} <= set(choices.tags)
    assert {(pin.name, pin.kind) for pin in demo.pins()} == {("main", "baseline"), ("release", "anchor")}
    assert {row.outcome for row in rows} == {"pass", "fail"}
    assert all(row.head.cases for row in rows)
    assert len({point.first_rank for point in query_over_time(demo, "q_000622").points}) > 3


def test_the_lost_articles_are_seen_in_their_language_only(demo: Store) -> None:
    """What the demo tells: the mean falls, and the segment says where."""
    broken, mended = (next(r for r in demo.runs(limit=100).rows if r.saved_at.startswith(day)).id
                      for day in ("2025-10-13", "2025-10-14"))  # fmt: skip
    for language, falls in (("es-AR", True), ("en", False), ("pt-BR", False)):
        points = {p.run_id: p.measure.mean for p in demo.trend("recall@5", segment=("language", language))}
        difference = (points[mended] or 0) - (points[broken] or 0)
        assert (difference > 0.2) is falls, language


def test_the_same_every_time(demo: Store) -> None:
    step = STORY[-1]
    assert baseline_of(step) is not None
    kept, said = _made(step)
    assert kept.id == demo.find("latest")
    assert [said] == demo.judgements(kept.id)


def test_an_index_has_what_was_put_into_it() -> None:
    helpdesk = read_helpdesk()
    language = dict(zip(helpdesk.corpus.ids, helpdesk.corpus.fields["language"], strict=True))
    broken = next(step for step in STORY if step.without == "es-AR")
    hits = {hit["chunk_id"] for record in run_log(helpdesk, broken) for hit in record["topk"]}
    assert {language[hit] for hit in hits} == {"en", "pt-BR"}
    tidy = next(step for step in STORY if step.one_per_article)
    for record in run_log(helpdesk, tidy):
        articles = [hit["chunk_id"].partition("#")[0] for hit in record["topk"]]
        assert len(articles) == len(set(articles))


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_leaves_nothing_behind(tmp_path: Path, ending: signal.Signals) -> None:
    scratch, home = tmp_path / "scratch", tmp_path / "home"
    scratch.mkdir()
    home.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "KARAT_STORE": str(tmp_path / "mine")}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=home, env=environment, text=True, stdout=-1, stderr=-1
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line
        connection = http.client.HTTPConnection("127.0.0.1", int(line.split("127.0.0.1:")[1].split("/")[0]), timeout=30)
        connection.request("GET", "/api/v1/runs")
        assert len(json.loads(connection.getresponse().read())["rows"]) == 1
        connection.request("GET", "/api/v1/pools")
        (pool,) = json.loads(connection.getresponse().read())
        assert pool["pairs"] == 40
        connection.close()
        assert [path.name.startswith("karat-demo-") for path in scratch.iterdir()] == [True]
    finally:
        process.send_signal(ending)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert [*scratch.iterdir(), *home.iterdir()] == []
    assert not (tmp_path / "mine").exists()


def test_a_demo_of_ones_own_history_is_refused(karat_command: Command) -> None:
    code, _, err = karat_command("serve", "--demo", "--store", "x")
    assert (code, "--store" in err) == (2, True)


def test_the_wheel_has_what_the_demo_reads() -> None:
    """In a checkout the files lie among the examples."""
    import tomllib

    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    taken = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    read = {"gold.jsonl", "dataset.yaml", "corpus.jsonl", "bm25.jsonl", "bm25_rerank.jsonl"}
    assert {Path(inside).name for inside in taken.values()} == read
    assert all((root / outside).is_file() for outside in taken)
    assert {str(Path(inside).parent) for inside in taken.values()} == {"karat/demo/files"}
