"""What Python users type: the programs of the documentation, and what every object they hold can do."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import karat

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "examples" / "helpdesk"
OLD, NEW, GOLD = (str(DEMO / name) for name in ("bm25.jsonl", "bm25_rerank.jsonl", "gold.jsonl"))


@pytest.fixture(scope="module")
def result() -> karat.Result:
    return karat.evaluate(NEW, GOLD)


@pytest.fixture(scope="module")
def held(result: karat.Result) -> dict[str, Any]:
    """One of every kind that a program gets without a model."""
    return {
        "result": result,
        "comparison": karat.compare(OLD, result, GOLD),
        "verdicts": karat.gate(NEW, GOLD, ["recall@5 >= 0.3", "ndcg@5 >= 0.99"], baseline=OLD),
        "sweep": result.sweep(),
        "triage": result.triage(5),
        "plan": result.power(detect=0.03),
    }


def test_estimates_by_key(result: karat.Result) -> None:
    found = result["recall@5"]
    assert found.low < found.mean < found.high
    assert found.n == 259
    assert result["ndcg@7"] == result.measure(["ndcg@7"])["ndcg@7"]
    assert karat.evaluate(result, metrics=["mrr"]).means == {"mrr": result["mrr"].mean}


def test_frames(result: karat.Result) -> None:
    assert isinstance(result.by("language"), pl.DataFrame)
    assert set(result.by("language", ["recall@5"])["metric"]) == {"recall@5"}
    for table in ("summary", "scores", "segments"):
        frame, other = result.to_polars(table), result.to_pandas(table)
        assert isinstance(other, pd.DataFrame)
        assert (list(other.columns), len(other)) == (frame.columns, frame.height)
        for name in frame.columns:
            assert [None if pd.isna(value) else value for value in other[name]] == frame[name].to_list()


def test_frames_for_pandas_need_no_pyarrow() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import karat; r = karat.evaluate({'q': {'d': 1.0}}, {'q': {'d': 1}}, ['recall@5'])\n"
        "print(r.to_pandas('summary').shape)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_difference_by_key(held: dict[str, Any]) -> None:
    comparison = held["comparison"]
    found = comparison["recall@5"]
    assert found.low < found.delta < found.high
    assert found.p < 0.05
    assert found.reading == "better"
    assert comparison["recall@1"].reading == "unclear"
    with pytest.raises(KeyError):
        comparison["recall@77"]
    with pytest.raises(karat.KaratError):
        karat.compare(OLD, NEW, GOLD, ["mrr"], others=[OLD])["mrr"]


def test_verdicts_are_true_where_a_run_may_ship(held: dict[str, Any]) -> None:
    assert not held["verdicts"]
    assert "ndcg@5" in str(held["verdicts"])
    assert karat.gate(NEW, GOLD, ["recall@5 >= 0.3"])


def test_several_systems(tmp_path: Path) -> None:
    both = tmp_path / "both.jsonl"
    lines = [
        json.dumps({"query_id": "q", "system": system, "topk": [hit]}) for system, hit in (("one", "d"), ("two", "e"))
    ]
    both.write_text("\n".join(lines))
    found: Any = karat.evaluate(both, {"q": {"d": 1}}, ["recall@5"])
    assert {name: one["recall@5"].mean for name, one in found.items()} == {"one": 1.0, "two": 0.0}
    assert "three" not in found
    with pytest.raises(KeyError):
        found["three"]
    assert found.to_polars("summary")["system"].to_list() == ["one", "two"]
    assert len(repr(found).splitlines()) == 3
    assert found.save(tmp_path / "both.html").stat().st_size > 10_000
    assert karat.evaluate(both, {"q": {"d": 1}}, ["recall@5"], system="two")["recall@5"].mean == 0.0


@pytest.mark.parametrize("name", ["result", "comparison", "verdicts", "sweep", "triage", "plan"])
def test_whatever_people_hold_can_be_shown_and_saved(name: str, held: dict[str, Any], tmp_path: Path) -> None:
    thing = held[name]
    assert len(repr(thing)) < 1_000
    assert len(repr(thing).splitlines()) <= 10
    assert len(str(thing).splitlines()) > 3
    view = thing._repr_html_()
    assert view.count("karat-view") >= 2
    assert "<script" not in view
    for ending in ("html", "json", "md"):
        assert thing.save(tmp_path / f"x.{ending}").read_bytes()
    table = thing.to_polars()
    assert table.height
    assert len(thing.to_pandas()) == table.height
    for each in thing.table_names:
        assert thing.to_polars(each).height, each
    assert thing.save(f"{thing.table_names[0]}={tmp_path / 'table.csv'}") == tmp_path / "table.csv"


@pytest.mark.parametrize("name", ["result", "comparison", "verdicts", "sweep", "triage", "plan"])
def test_links_of_a_view_lead_somewhere(name: str, held: dict[str, Any]) -> None:
    view = held[name]._repr_html_()
    assert set(re.findall(r'href="#([^"]+)"', view)) <= set(re.findall(r'\bid="([^"]+)"', view))


def test_a_view_shows_the_charts_of_the_page(held: dict[str, Any]) -> None:
    assert held["result"]._repr_html_().count("<svg") >= 2
    assert held["sweep"]._repr_html_().count("<svg") >= 1


def test_a_saved_result_is_a_result(result: karat.Result, tmp_path: Path) -> None:
    loaded = karat.load(result.save(tmp_path / "r.json"))
    assert type(loaded) is karat.Result
    assert loaded["recall@5"] == result["recall@5"]
    assert repr(loaded).splitlines()[1:] == repr(result).splitlines()[1:]


def test_names_of_0_1_say_what_to_write_instead() -> None:
    page = (ROOT / "docs" / "renamed.md").read_text()
    for old, new in karat._RENAMED.items():
        with pytest.raises(AttributeError) as raised:
            getattr(karat, old)
        assert new in str(raised.value)
        assert f"`karat.{old}`" in page


@pytest.mark.parametrize("package", ["karat", "karat.labels", "karat.systems", "karat.history", "karat.sinks"])
def test_every_public_name_is_there_and_documented(package: str) -> None:
    found = importlib.import_module(package)
    for name in found.__all__:
        value = getattr(found, name)
        assert value.__doc__, f"{package}.{name}"
    assert set(dir(found)) <= set(found.__all__)


def test_metrics_by_text() -> None:
    assert str(karat.Metric.parse("P_5")) == "precision@5"
    assert "ndcg" in karat.Metric.all()


def test_the_history_keeps_a_result(result: karat.Result, tmp_path: Path) -> None:
    from karat import history

    where = str(tmp_path / ".karat")
    run = history.save_result(result, where, tags=["first"])
    with history.open_store(where) as store:
        assert store.find("first") == run


def test_the_page_of_renamed_names_is_complete() -> None:
    rows = re.findall(r"^\| `karat\.(\w+)`", (ROOT / "docs" / "renamed.md").read_text(), re.M)
    assert sorted(rows) == sorted(karat._RENAMED)


def test_the_rooms_need_no_import_of_their_own() -> None:
    code = "import karat\nprint(karat.labels.make_pool.__name__, karat.systems.Retriever, karat.history.open_store)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_everything_tells_itself_in_a_line(result: karat.Result, held: dict[str, Any]) -> None:
    pool = karat.labels.make_pool([OLD], {"q_000101": ["doc_101#p1"]}, k=3)
    things = [karat.read_gold(GOLD), karat.read_run(OLD), result["recall@5"], held["comparison"]["recall@5"]]
    for thing in (*things, *result.findings, *held["triage"].cases, pool):
        assert len(repr(thing)) < 200
        assert " at 0x" not in repr(thing)
        assert "\n" not in repr(thing)


def test_labels_go_from_one_function_to_the_next(tmp_path: Path) -> None:
    """A pool, a judge's labels and people's, without a file between them; and with files, which say the same."""
    gold = [{"query_id": f"q{i}", "query": "red or blue?", "gold": {}} for i in range(8)]
    run = [{"query_id": f"q{i}", "topk": [{"chunk_id": c, "text": c} for c in ("red", "blue")]} for i in range(8)]
    pool = karat.labels.make_pool([run], gold)
    assert len(pool) == len(list(pool)) == 16
    judged = karat.labels.judge_pool(
        pool, judge=lambda query, passage: 2 if "red" in passage else 0, cache=tmp_path / "cache"
    )
    people = [
        {"query_id": f"q{i}", "chunk_id": c, "grade": 2 * (c == "red" or i == 0), "annotator": "ann"}
        for i in range(8)
        for c in ("red", "blue")
    ]
    found = karat.labels.calibrate(judged, people)
    assert (found.shared, found.overall.sensitivity.value is not None) == (16, True)
    (tmp_path / "people.jsonl").write_text("\n".join(map(json.dumps, people)))
    files = karat.labels.calibrate(judged, tmp_path / "people.jsonl", pool=pool.save(tmp_path / "pool.jsonl"))
    assert files.overall == found.overall
    marked = karat.labels.with_labels(karat.read_gold(gold), people)
    assert karat.evaluate(run, marked, ["recall@1"])["recall@1"].mean == pytest.approx(15 / 16)
    assert karat.labels.with_labels(karat.read_gold(gold), judged).audit["labels_added"] == 16
    with pytest.raises(karat.KaratError) as raised:
        karat.labels.calibrate(judged, [{**people[0], "grade": "high"}])
    assert (raised.value.code, raised.value.line, raised.value.field) == ("wrong-type", 1, "grade")


def test_several_candidates_in_a_list(tmp_path: Path) -> None:
    runs = [tmp_path / f"{name}.json" for name in "abc"]
    for run in runs:
        run.write_text(json.dumps({"q1": {"d1": 1.0}}))
    gold = {"q1": {"d1": 1}}
    found = karat.compare(runs[0], runs[1:], gold)
    assert [pair.candidate for pair in found.pairs] == [
        pair.candidate for pair in karat.compare(*runs[:2], gold, others=runs[2:]).pairs
    ]
    for sides in ({"run": runs}, {"run": runs[0], "baseline": runs}):
        with pytest.raises(karat.KaratError) as caught:
            karat.gate(**sides, gold=gold, criteria="recall@5 >= 0.5")
        assert caught.value.code == "several-runs"


def test_what_a_caller_forgets_or_misspells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run, gold = {"q1": {"d1": 1.0}}, {"q1": {"d1": 1}}
    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "criteria=": ("unknown-option", lambda: karat.gate(run, gold, gates=["recall@5 >= 0.5"])),  # type: ignore[call-arg]
        "criteria=[": ("no-criteria", lambda: karat.gate(run, gold)),
        "did you mean scores": ("unknown-table", lambda: karat.evaluate(run, gold).to_polars("scors")),
        "summary": ("unknown-table", lambda: karat.evaluate(run, gold).to_polars("everything")),
        "gold=": ("no-gold", lambda: karat.evaluate(run)),
    }
    for hint, (code, call) in calls.items():
        with pytest.raises(karat.KaratError) as caught:
            call()
        assert (caught.value.code, hint in str(caught.value), "--" in str(caught.value)) == (code, True, False)
