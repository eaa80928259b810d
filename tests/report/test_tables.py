"""Every table of every command as CSV and Parquet, against the same numbers in its JSON."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from refusals import refused

from karat.cli.main import main
from karat.errors import ConfigError
from karat.report.tables import find_table, frame_of, table_target, tables_of

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
OLD, NEW, GOLD = (str(DEMO / name) for name in ("bm25.jsonl", "bm25_rerank.jsonl", "gold.jsonl"))
QUICK = ("--gold", GOLD, "--resamples", "200")


@pytest.fixture
def karat(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Any, int]]:
    """Runs a command in an empty folder: its JSON, its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[Any, int]:
        monkeypatch.setattr(sys, "argv", ["karat", *arguments])
        try:
            main()
            code: Any = 0
        except SystemExit as done:
            code = done.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return (json.loads(out) if out.startswith(("{", "[")) else err), int(code)

    return run


def points(found: Any) -> Any:
    return [(p["k"], p["recall"]["mean"], p["ndcg"]["high"]) for p in found["curves"][0]["points"]]


def differences(found: Any) -> Any:
    return [(d["metric"], d["delta"], d["low"], d["p"]) for d in found["pairs"][0]["differences"]]


CASES: dict[str, tuple[tuple[str, ...], str, tuple[str, ...], Callable[[Any], Any]]] = {
    "compare": (("compare", OLD, NEW, *QUICK), "differences", ("metric", "delta", "low", "p"), differences),
    "segments": (
        ("compare", OLD, NEW, *QUICK, "-s", "language"),
        "segments.differences",
        ("segments.value", "metric", "delta"),
        lambda found: [
            (group["value"], d["metric"], d["delta"])
            for group in found["pairs"][0]["segments"]
            for d in group["differences"]
        ],
    ),
    "sweep": (("eval", "sweep", NEW, *QUICK), "points", ("k", "recall.mean", "ndcg.high"), points),
    "power": (
        ("eval", "power", NEW, "--gold", GOLD),
        "rows",
        ("metric", "n", "spread"),
        lambda found: [(r["metric"], r["n"], r["spread"]) for r in found["rows"]],
    ),
    "triage": (
        ("eval", "triage", NEW, "--gold", GOLD, "-n", "3"),
        "cases",
        ("query_id", "kind", "scores.ndcg@10"),
        lambda found: [(c["query_id"], c["kind"], c["scores"]["ndcg@10"]) for c in found["cases"]],
    ),
    "gate": (
        ("gate", NEW, *QUICK, "--baseline", OLD, "--gate", "recall@5 >= 0.3", "--gate", "mrr drop <= 0.02"),
        "verdicts",
        ("gate", "outcome", "value", "low"),
        lambda found: [(v["gate"], v["outcome"], v["value"], v["low"]) for v in found["verdicts"]],
    ),
    "selftest": (
        ("gate", "selftest", NEW, "--gold", GOLD, "--rounds", "20", "--gate", "recall@5 >= 0.3"),
        "alarms",
        ("gate", "queries", "passed"),
        lambda found: [(a["gate"], a["queries"], a["passed"]) for a in found["alarms"]],
    ),
    "eval": (
        ("eval", NEW, *QUICK),
        "latency.stages",
        ("stage", "p90.value"),
        lambda found: [(s["stage"], s["p90"]["value"]) for s in found["analyses"]["latency"]["stages"]],
    ),
    "findings": (
        ("eval", NEW, *QUICK),
        "findings",
        ("code", "evidence"),
        lambda found: [(f["code"], f["evidence"]) for f in found["findings"]],
    ),
    "check": (
        ("check", NEW, GOLD),
        "rows",
        ("file",),
        lambda found: [(f["file"],) for f in found],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_table_has_the_numbers_of_the_json(karat: Callable[..., tuple[Any, int]], name: str) -> None:
    arguments, table, columns, expected = CASES[name]
    found, code = karat(*arguments, "--json", "-o", f"{table}=out.parquet", "-o", f"{table}=out.csv")
    assert code in (0, 1)
    wanted = expected(found)
    assert wanted
    assert pl.read_parquet("out.parquet").select(columns).rows() == wanted
    with open("out.csv", newline="") as stream:
        rows = [tuple(row[c] for c in columns) for row in csv.DictReader(stream)]
    assert rows == [tuple("" if v is None else v if isinstance(v, str) else str(v) for v in row) for row in wanted]


@pytest.mark.parametrize(
    "command", [("compare", OLD, NEW, *QUICK), ("eval", "sweep", NEW, *QUICK), ("eval", "power", NEW, "--gold", GOLD)]
)
def test_audits_beside_other_tables_are_tables(karat: Callable[..., tuple[Any, int]], command: tuple[str, ...]) -> None:
    """The demo set has 28 queries without an answer."""
    _, code = karat(*command, "--json", "-o", "audit=out.csv")
    assert code == 0
    found = pl.read_csv("out.csv").select("code", "count").rows()
    assert found == [("no_answer_queries", 28)] * (2 if command[0] == "compare" else 1)


def test_tables_of_eval_that_only_say_what_there_was(karat: Callable[..., tuple[Any, int]]) -> None:
    karat("eval", NEW, *QUICK, "--json", "-o", "made_from=made.csv", "-o", "not_measured=not.csv")
    made = dict(pl.read_csv("made.csv").rows())
    assert (made["run"], made["gold"]) == (NEW, GOLD)
    assert len(pl.read_csv("not.csv")) > 0


def test_the_list_of_metrics_is_a_table(karat: Callable[..., tuple[Any, int]]) -> None:
    found, _ = karat("metrics", "--json", "-o", "rows=out.csv")
    assert pl.read_csv("out.csv")["name"].to_list() == [metric["name"] for metric in found]


def test_a_table_of_several_systems_by_name_or_as_it_is_shown(karat: Callable[..., tuple[Any, int]]) -> None:
    found, _ = karat("eval", OLD, NEW, *QUICK, "--json", "-o", "out.csv", "-o", "systems.metrics=long.csv")
    assert pl.read_csv("out.csv")["system"].to_list() == [system["system"] for system in found["systems"]]
    long = pl.read_csv("long.csv").select("systems.system", "metric", "value").rows()
    assert long == [(s["system"], m["metric"], m["value"]) for s in found["systems"] for m in s["metrics"]]


def test_commands_that_make_something_write_tables_too(karat: Callable[..., tuple[Any, int]]) -> None:
    found, _ = karat(
        "labels", "pool", OLD, NEW, "--gold", GOLD, "-o", "pool.jsonl", "--json", "--table", "about=out.csv"
    )
    with open("out.csv", newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["pairs"], row["queries"]) == (str(found["pairs"]), str(found["queries"]))
    for name, grades in (("ann", (2, 1, 0, 2)), ("ben", (2, 0, 0, 1))):
        pairs = [{"query_id": f"q{i}", "chunk_id": "a", "grade": g, "annotator": name} for i, g in enumerate(grades)]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    found, code = karat("labels", "agree", "ann.jsonl", "ben.jsonl", "--json", "--table", "about=out.parquet")
    assert code == 0
    assert pl.read_parquet("out.parquet")["pairs"].to_list() == [found["pairs"]]


def test_a_page_of_a_command_that_makes_something(karat: Callable[..., tuple[Any, int]]) -> None:
    making = ("labels", "pool", OLD, NEW, "--gold", GOLD, "--settle", "--json", "-o")
    _, code = karat(*making, "pool.html")  # the pool itself is no page
    assert (code, Path("pool.html").exists()) == (2, False)
    _, code = karat(*making, "pool.jsonl", "--report", "pool.html", "--report", "pool.json")
    assert code == 0
    assert 'id="settling"' in Path("pool.html").read_text()
    assert json.loads(Path("pool.json").read_text())["settling"]["metric"] == "ndcg@10"


def test_an_unknown_table_is_refused_with_those_that_there_are(karat: Callable[..., tuple[Any, int]]) -> None:
    for command in (("eval", "sweep", NEW), ("eval", NEW), ("gate", NEW, "--gate", "mrr >= 0.1")):
        _, code = karat(*command, *QUICK, "-o", "nothing=out.csv")
        assert code == 2
        assert "out.csv" not in [p.name for p in Path().iterdir()]


def test_a_table_must_be_named() -> None:
    assert table_target("a.html") is None
    assert table_target("points=a.b/c.parquet") == ("points", Path("a.b/c.parquet"))
    with refused("unnamed-table", ConfigError):
        table_target("out.csv")


def test_records_inside_records() -> None:
    found = {
        "title": "x",
        "one": {"n": 1, "lists": {"a": [1, 2]}},
        "groups": [
            {"value": "g", "rows": [{"k": 1, "at": {"mean": 0.5}}, {"k": 2, "at": {"mean": None}}], "tags": []},
            {"value": "h", "rows": [], "tags": ["p", "q"]},
        ],
    }
    tables = tables_of(found)
    assert tables["about"] == [{"title": "x"}]
    assert tables["one"] == [{"n": 1, "lists.a": "1; 2"}]
    assert tables["groups"] == [{"value": "g"}, {"value": "h", "tags": "p; q"}]
    rows = [{"groups.value": "g", "k": 1, "at.mean": 0.5}, {"groups.value": "g", "k": 2, "at.mean": None}]
    assert tables["groups.rows"] == find_table(tables, "rows") == rows
    frame = frame_of([*rows, {"k": "many", "at.mean": 1}])
    assert frame.schema == {"groups.value": pl.String, "k": pl.String, "at.mean": pl.Float64}
    assert frame_of([]).is_empty()
    with refused("unknown-table", ConfigError):
        find_table(tables, "row")
