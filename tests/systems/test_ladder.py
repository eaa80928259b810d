"""The ladder of baselines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.report.blocks import Table
from karat.report.renderers.markdown import render_markdown
from karat.report.systems import ladder_report
from karat.schemas import schema_text
from karat.systems.ladder import BASELINES
from karat.systems.run import run_retriever

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
FILES: dict[str, Any] = {"corpus": DEMO / "corpus.jsonl", "gold": DEMO / "gold.jsonl"}


@pytest.fixture(scope="module")
def ladder() -> karat.systems.Ladder:
    return karat.systems.baseline_ladder(**FILES, runs=[DEMO / "bm25_rerank.jsonl"], metrics=["recall@5", "mrr"])


def test_rungs_stand_in_order_with_the_run_among_them(ladder: karat.systems.Ladder) -> None:
    names = [rung.system for rung in ladder.rungs]
    assert sorted(names) == sorted([*BASELINES, "bm25 + static rerank"])
    assert names[:2] == ["random", "bm25:title"]
    means = [rung.values[0].mean or 0 for rung in ladder.rungs]
    assert means == sorted(means)
    assert [rung.system for rung in ladder.rungs if not rung.baseline] == ["bm25 + static rerank"]


def test_steps_are_the_differences_that_compare_gives(ladder: karat.systems.Ladder) -> None:
    for below, rung in zip(ladder.rungs, ladder.rungs[1:], strict=False):
        step = rung.above_next[0]
        assert step.delta == pytest.approx((rung.values[0].mean or 0) - (below.values[0].mean or 0))
        assert step.low is not None
        assert step.low < (step.delta or 0) < (step.high or 0)
    by_name = {rung.system: rung for rung in ladder.rungs}
    assert by_name["bm25"].above_bm25 == []
    given = by_name["bm25 + static rerank"].above_bm25[0]
    plain = run_retriever("bm25", DEMO / "gold.jsonl", corpus=DEMO / "corpus.jsonl").run
    pair = karat.compare(plain, DEMO / "bm25_rerank.jsonl", DEMO / "gold.jsonl", ["recall@5"]).pairs[0]
    assert given.delta == pytest.approx(pair.differences[0].delta)


def test_chance_is_k_of_n(ladder: karat.systems.Ladder) -> None:
    assert ladder.floors["recall@5"] == pytest.approx(5 / 708, abs=1e-9)
    low, high = ladder.rungs[0].values[0].low, ladder.rungs[0].values[0].high
    assert low is not None
    assert high is not None
    assert low <= 5 / 708 <= high


def test_the_report_shows_chance_bm25_and_the_ceiling(ladder: karat.systems.Ladder) -> None:
    table = ladder_report(ladder).sections[0].blocks[0]
    assert isinstance(table, Table)
    names = [row[0] for row in table.rows]
    assert names[-2] == "random"
    assert all(name.startswith("(") for name in (names[0], names[-1]))  # a perfect ranking, and chance
    assert {"bm25", "→ bm25 + static rerank"} <= set(names)


def test_hybrid_is_not_worse_than_the_weaker_part(ladder: karat.systems.Ladder) -> None:
    means = {rung.system: rung.values[0].mean or 0 for rung in ladder.rungs}
    assert means["hybrid"] >= min(means["bm25"], means["dense"])


def test_the_saved_form_follows_its_schema_and_is_the_same_every_time(
    ladder: karat.systems.Ladder, tmp_path: Path
) -> None:
    import msgspec

    saved = json.loads(msgspec.json.encode(ladder))
    jsonschema.validate(saved, json.loads(schema_text("ladder")))
    again = karat.systems.baseline_ladder(**FILES, runs=[DEMO / "bm25_rerank.jsonl"], metrics=["recall@5", "mrr"])
    assert msgspec.json.encode(again) == msgspec.json.encode(ladder)


def test_what_cannot_run_is_skipped_with_a_word() -> None:
    corpus = Corpus("c", ["a", "b"], ["", ""], ["red apple", "green pear"])
    found = karat.systems.baseline_ladder(corpus, [{"query_id": "q", "query": "apple", "gold": ["a"]}])
    assert list(found.skipped) == ["bm25:title"]
    assert found.skipped["bm25:title"] in render_markdown(ladder_report(found))


def test_without_the_extras_the_others_still_run() -> None:
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.partition('.')[0] in ('tokenizers', 'safetensors'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "import karat, json\n"
        f"found = karat.systems.baseline_ladder({str(FILES['corpus'])!r}, {str(FILES['gold'])!r})\n"
        "print(json.dumps([[r.system for r in found.rungs], found.skipped]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, skipped = json.loads(done.stdout)
    assert sorted(names) == ["bm25", "bm25:title", "random"]
    assert list(skipped) == ["dense", "hybrid"]
    assert "karat[dense]" in skipped["dense"]


def test_a_metric_that_looks_deeper_is_given_more_hits() -> None:
    corpus = Corpus("c", [str(n) for n in range(80)], [""] * 80, ["apple"] * 80)
    gold = [{"query_id": "q", "query": "apple", "gold": corpus.ids}]
    found = karat.systems.baseline_ladder(corpus, gold, metrics=["recall@80"], baselines=["bm25", "random"], k=10)
    assert [rung.values[0].mean for rung in found.rungs] == [1.0, 1.0]


def test_an_empty_corpus_and_a_gold_set_without_texts_are_refused() -> None:
    gold = [{"query_id": "q", "query": "apple", "gold": ["a"]}]
    with refused("empty-corpus"):
        karat.systems.baseline_ladder(Corpus("c", [], [], []), gold)
    with refused("missing-text"):
        karat.systems.baseline_ladder(Corpus("c", ["a"], [""], ["x"]), {"q": ["a"]})


def test_the_command_prints_json_and_keeps_the_runs(tmp_path: Path) -> None:
    files = ["--corpus", str(FILES["corpus"]), "--queries", str(FILES["gold"])]
    chosen = [
        "--retriever",
        "random",
        "--retriever",
        "bm25:title",
        "--keep",
        "runs",
        "-m",
        "hit@5",
        "--json",
        "-o",
        "ladder.md",
    ]
    line = [sys.executable, "-m", "karat.cli.main", "baseline", *files, *chosen]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [rung["system"] for rung in json.loads(done.stdout)["rungs"]] == ["random", "bm25:title"]
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["bm25_title.jsonl", "random.jsonl"]
    assert "bm25:title" in (tmp_path / "ladder.md").read_text()
