"""The command line as a user runs it: its output and its exit code. Where a process matters, it is one of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from commands import run_here

from karat.cli.main import COMMANDS
from karat.errors import KaratError
from karat.schemas import schema_text

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "helpdesk"
RUN, GOLD = str(DEMO / "bm25_rerank.jsonl"), str(DEMO / "gold.jsonl")
Refuses = Callable[..., KaratError]


def karat(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, cwd=cwd)


def process(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "karat.cli.main", *arguments]
    environment = {**os.environ, "NO_COLOR": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder with a tiny run and gold set."""
    hits = ["7", "3", "1", "9", "2"]
    (tmp_path / "run.jsonl").write_text(json.dumps({"query_id": "q", "system": "s", "topk": hits}) + "\n")
    (tmp_path / "gold.jsonl").write_text(json.dumps({"query_id": "q", "query": "what?", "gold": ["3", "9"]}) + "\n")
    return tmp_path


@pytest.fixture
def refuses(small: Path, monkeypatch: pytest.MonkeyPatch, karat_refuses: Refuses) -> Refuses:
    """The error that ends a command in that folder."""
    monkeypatch.chdir(small)
    return karat_refuses


def test_eval_prints_the_panel_within_100_columns() -> None:
    done = process("eval", RUN, "--gold", GOLD, "--corpus", str(DEMO / "corpus.jsonl"))
    assert done.returncode == 0, done.stderr
    for expected in ("recall@5", "ndcg@5", "precision@5", "distinct_docs@5", "mrr", "judged@5", "latency_p90"):
        assert expected in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_every_table_fits_100_columns(small: Path) -> None:
    long = "x" * 300
    with (small / "run.jsonl").open("a") as file:
        file.write(json.dumps({"query_id": long, "system": "s", "topk": [long, long]}) + "\n")
    for arguments in (
        ("eval", "run.jsonl", "--gold", "gold.jsonl"),
        ("metrics",),
        ("check", "run.jsonl", "gold.jsonl"),
    ):
        done = karat(*arguments, cwd=small)
        assert max(len(line) for line in done.stdout.splitlines()) <= 100, done.stdout


def test_eval_json_is_the_saved_result(small: Path) -> None:
    done = process("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", "recall@5", "-m", "mrr", "--json", cwd=small)
    saved = json.loads(done.stdout)
    assert saved["schema"] == "karat/result/2"
    assert [(r["metric"], r["mean"], r["n"], r["undefined"]) for r in saved["summary"]] == [
        ("recall@5", 1.0, 1, 0),
        ("mrr", 0.5, 1, 0),
    ]
    assert 0 < saved["summary"][0]["low"] < saved["summary"][0]["high"] == 1
    assert saved["scores"] == {"q": {"recall@5": 1.0, "mrr": 0.5}}
    jsonschema.validate(saved, json.loads(schema_text("result")))


def test_same_input_same_bytes(tmp_path: Path) -> None:
    outputs = []
    for i, seed in enumerate(("0", "1")):
        folder = tmp_path / str(i)
        folder.mkdir()
        names = ("out.json", "out.md", "scores.parquet", "out.csv", "summary=s.csv", "audit=a.csv")
        options = [part for name in names for part in ("-o", name)]
        done = process("eval", RUN, "--gold", GOLD, *options, cwd=folder, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        outputs.append({p.name: p.read_bytes() for p in folder.iterdir()} | {"stdout": done.stdout.encode()})
    assert len(outputs[0]) == 7
    assert outputs[0] == outputs[1]


def test_written_tables_can_be_read_back(tmp_path: Path) -> None:
    done = karat("eval", RUN, "-g", GOLD, "-o", "scores.parquet", "-o", "summary=s.csv", "-o", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores, saved = pl.read_parquet(tmp_path / "scores.parquet"), json.loads((tmp_path / "r.json").read_text())
    assert scores.height == len(saved["scores"]) == 287
    first = scores.row(0, named=True)
    assert {k: v for k, v in first.items() if k != "query_id"} == saved["scores"][first["query_id"]]
    assert pl.read_csv(tmp_path / "s.csv")["metric"].to_list() == [r["metric"] for r in saved["summary"]]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.json", "s.csv", "scores.parquet"]  # nothing half-written


def test_a_result_is_a_typed_object_again(tmp_path: Path) -> None:
    import karat as library

    process("eval", RUN, "-g", GOLD, "-o", "r.json", cwd=tmp_path)
    saved = library.load(tmp_path / "r.json")
    live = library.evaluate(RUN, GOLD)
    assert saved.means == live.means


@pytest.mark.parametrize(
    ("output", "code"),
    [("nowhere/out.json", "not-writable"), ("out.xyz", "unknown-output"), ("nothing=out.csv", "unknown-table")],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(refuses: Refuses, output: str, code: str) -> None:
    assert refuses("eval", "nothing.jsonl", "--gold", "gold.jsonl", "-o", output).code == code


def test_an_unwritable_folder_is_refused_before_the_work(small: Path) -> None:
    locked = small / "locked"
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):  # nothing is locked for root, but the kernel's own folder
        locked = Path("/proc")
    (small / "folder.json").mkdir()
    for output in (str(locked / "out.json"), "folder.json"):
        done = process("eval", "run.jsonl", "--gold", "gold.jsonl", "-o", output, cwd=small)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr


@pytest.mark.parametrize("table", ["scores", "summary", "audit"])
def test_a_named_table_is_written_in_every_format(small: Path, table: str) -> None:
    """Also in those that hold the whole result where no table is named."""
    with (small / "gold.jsonl").open("a") as file:
        file.write(json.dumps({"query_id": "none", "no_answer": True}) + "\n")
    options = [part for ending in ("csv", "json", "md", "parquet") for part in ("-o", f"{table}=t.{ending}")]
    done = karat("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", "recall@5", "-m", "mrr", *options, cwd=small)
    assert done.returncode == 0, done.stderr
    expected = pl.read_parquet(small / "t.parquet")
    assert expected.height
    assert json.loads((small / "t.json").read_text()) == expected.to_dicts()
    assert pl.read_csv(small / "t.csv", schema=expected.schema).equals(expected)
    shown = (small / "t.md").read_text()
    assert shown.count("\n| ") == expected.height + 2
    assert all(name.replace("_", "\\_") in shown for name in expected.columns)


def test_an_input_is_never_overwritten(small: Path, refuses: Refuses) -> None:
    before = (small / "run.jsonl").read_bytes()
    (small / "run.json").write_bytes(before)
    assert refuses("eval", "run.json", "--gold", "gold.jsonl", "-o", "./run.json").code == "would-overwrite"
    assert (small / "run.json").read_bytes() == before


def test_several_systems_give_several_results(small: Path, refuses: Refuses) -> None:
    with (small / "run.jsonl").open("a") as file:
        file.write(json.dumps({"query_id": "q", "system": "t", "topk": ["9", "3"]}) + "\n")
    done = karat("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", "mrr", "--json", cwd=small)
    results = json.loads(done.stdout)["results"]
    assert {r["system"]: r["summary"][0]["mean"] for r in results} == {"s": 0.5, "t": 1.0}
    done = karat("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", "mrr", "--json", "--system", "t", cwd=small)
    assert json.loads(done.stdout)["system"] == "t"
    error = refuses("eval", "run.jsonl", "--gold", "gold.jsonl", "--system", "u")
    assert error.code == "unknown-system"
    assert "s, t" in str(error.hint)


def test_default_k_comes_from_karat_yaml_upward(small: Path) -> None:
    (small / "karat.yaml").write_text("metrics: {retrieval: {default_k: 3}}\n")
    inner = small / "a" / "b"
    inner.mkdir(parents=True)
    done = karat("eval", "../../run.jsonl", "--gold", "../../gold.jsonl", "-m", "recall", "--json", cwd=inner)
    assert json.loads(done.stdout)["scores"]["q"] == {"recall@k": 0.5}
    done = karat(
        "eval", "../../run.jsonl", "--gold", "../../gold.jsonl", "-m", "recall", "--k", "5", "--json", cwd=inner
    )
    assert json.loads(done.stdout)["scores"]["q"] == {"recall@k": 1.0}


@pytest.mark.parametrize("text", ["metrics: {retrieval: {default_k: 0}}", "metrcs: {}", "a: [", "metrics: 3"])
def test_a_bad_karat_yaml_is_an_error_with_its_name(small: Path, text: str) -> None:
    (small / "karat.yaml").write_text(text)
    done = karat("eval", "run.jsonl", "--gold", "gold.jsonl", cwd=small)
    assert done.returncode == 2
    assert "karat.yaml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "code", "field", "meant"),
    [
        ("metrcs: {}", "unknown-field", "metrcs", "metrics"),
        ("metrics: {retrieval: {defaultk: 3}}", "unknown-field", "defaultk", "metrics.retrieval.default_k"),
        ("metrics: {retrieval: {default_k: 0}}", "bad-value", "metrics.retrieval.default_k", None),
        ("metrics: {retrieval: {default_k: all}}", "wrong-type", "metrics.retrieval.default_k", None),
    ],
)
def test_a_bad_setting_is_named_with_what_it_may_be(
    small: Path, refuses: Refuses, text: str, code: str, field: str, meant: str | None
) -> None:
    (small / "karat.yaml").write_text(text)
    error = refuses("eval", "run.jsonl", "--gold", "gold.jsonl")
    assert (error.code, error.file) == (code, str(small / "karat.yaml"))
    assert str(error.field).endswith(field)
    assert meant in error.hint if meant and error.hint else error.expected


def test_errors_are_one_message_on_standard_error(small: Path) -> None:
    (small / "bad.jsonl").write_text('{"query_id": "q", "topk": [{"chunk_id": "a", "score": "high"}]}\n')
    done = process("eval", "bad.jsonl", "--gold", "gold.jsonl", cwd=small)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: bad.jsonl:1: topk[0].score: ")
    assert done.stderr.endswith("got 'high' [wrong-type]\n")
    assert done.stderr.count("\n") == 1


def test_unknown_metric_and_command_get_a_hint(refuses: Refuses) -> None:
    error = refuses("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", "recal@5")
    assert error.code == "unknown-metric"
    assert "recall" in str(error.hint)
    done = karat("evl")
    assert done.returncode == 2
    assert " eval" in done.stderr.partition("hint: ")[2]


def test_a_gold_set_given_as_an_argument_gets_a_hint(small: Path) -> None:
    done = karat("eval", "run.jsonl", "gold.jsonl", cwd=small)
    assert done.returncode == 2
    assert "eval run.jsonl --gold gold.jsonl" in done.stderr
    done = karat("eval", "run.jsonl", "-m", "mrr", cwd=small)
    assert (done.returncode, "eval run.jsonl --gold GOLD" in done.stderr) == (2, True)


def test_check_of_an_unknown_file_speaks_of_both_kinds_and_of_options_that_it_has(small: Path) -> None:
    (small / "odd.csv").write_text("question,passage\na,b\n")
    (small / "odd.txt").write_text("hello\n")
    done = karat("check", "odd.csv", "odd.txt", "--json", cwd=small)
    assert done.returncode == 2
    table, text = (found["error"] for found in json.loads(done.stdout))
    assert "--map query_id=question,chunk_id=passage" in table
    assert "-format" not in table + text


def test_check_tells_a_table_of_gold_from_a_run(small: Path) -> None:
    (small / "gold.csv").write_text("query_id,chunk_id,grade\nq,3,1\n")
    (small / "run.csv").write_text("query_id,chunk_id,score\nq,3,1\n")
    found = json.loads(karat("check", "gold.csv", "run.csv", "--json", cwd=small).stdout)
    assert [(f["kind"], f["audit"]) for f in found] == [("gold", []), ("run", [])]


def test_check_says_what_files_hold(small: Path) -> None:
    with (small / "run.jsonl").open("a") as file:
        file.write(json.dumps({"query_id": "other", "system": "s", "topk": ["a", "a"]}) + "\n")
    done = karat("check", "run.jsonl", "gold.jsonl", "--json", cwd=small)
    assert done.returncode == 0, done.stderr
    run, gold = json.loads(done.stdout)
    assert (run["kind"], run["format"], run["holds"]["queries"]) == ("run", "run-log", 2)
    assert (gold["kind"], gold["holds"]["items"]) == ("gold", 2)
    assert {e["code"]: e["count"] for e in run["audit"]} == {"unknown_queries": 1}
    assert "mean" not in done.stdout


ODD_RUN = [
    {"query_id": "q", "system": "s", "topk": [{"chunk_id": i, "score": 1} for i in "3993"]},
    {"query_id": "r", "system": "s", "topk": [{"chunk_id": "7", "rank": 4}]},
    {"query_id": "t", "system": "s", "topk": []},
]


def test_check_of_a_run_alone_says_what_eval_would_repair(small: Path) -> None:
    (small / "odd.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ODD_RUN))
    (small / "all.jsonl").write_text("".join(json.dumps({"query_id": q, "gold": ["3"]}) + "\n" for q in "qrt"))
    alone, beside, scored = (
        json.loads(karat(*arguments, "--json", cwd=small).stdout)
        for arguments in (
            ("check", "odd.jsonl"),
            ("check", "odd.jsonl", "all.jsonl"),
            ("eval", "odd.jsonl", "-g", "all.jsonl"),
        )
    )
    assert {e["code"]: e["count"] for e in alone[0]["audit"]} == {
        "empty_results": 1,
        "duplicate_hits": 2,
        "rank_gaps": 1,
        "score_ties": 1,
    }
    assert alone[0]["audit"] == beside[0]["audit"] == scored["audit"]


def test_check_counts_missing_queries_for_each_system(small: Path) -> None:
    lines = [{"query_id": q, "system": s, "topk": ["3"]} for q, s in (("q", "s"), ("q", "t"), ("r", "t"))]
    (small / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (small / "gold.jsonl").write_text("".join(json.dumps({"query_id": q, "gold": ["3"]}) + "\n" for q in "qrt"))
    run, _ = json.loads(karat("check", "two.jsonl", "gold.jsonl", "--json", cwd=small).stdout)
    assert run["holds"]["queries of gold.jsonl"] == 2
    assert {e["code"]: e["count"] for e in run["audit"]} == {"missing_queries": 3}


def test_check_says_that_run_and_gold_name_items_in_two_ways(small: Path) -> None:
    (small / "gold.jsonl").write_text(json.dumps({"query_id": "q", "gold": ["doc-3"]}) + "\n")
    done = karat("check", "run.jsonl", "gold.jsonl", cwd=small)
    assert "doc-3" in done.stdout
    run, _ = json.loads(karat("check", "run.jsonl", "gold.jsonl", "--json", cwd=small).stdout)
    assert [entry["code"] for entry in run["audit"]] == ["no_shared_items"]


def test_check_refuses_what_cannot_be_used(small: Path) -> None:
    (small / "bad.jsonl").write_text("{")
    done = karat("check", "run.jsonl", "bad.jsonl", "missing.jsonl", "--json", cwd=small)
    assert done.returncode == 2
    assert [bool(found.get("error")) for found in json.loads(done.stdout)] == [False, True, True]
    assert "Traceback" not in done.stderr


def test_help_promises_what_there_is() -> None:
    shown = process("--help").stdout
    listed = re.findall(r"^  (\w+)  +\w", shown.partition("Measure:")[2], re.M)
    assert listed == [name for part in COMMANDS.values() for name in part]
    assert {"eval", "check", "metrics", "labels"} <= set(listed)
    assert len(listed) <= 16
    for name in listed:
        assert karat(name, "--help").returncode == 0


def test_help_all_of_groups_shows_every_command() -> None:
    from karat.cli.main import every_command

    everything = karat("--help-all").stdout
    assert all(re.search(rf"^  {name}\s", everything, re.M) for name in every_command())
    labels = karat("labels", "--help-all").stdout
    assert all(option in labels for option in ("--annotator", "--only-differences", "--adjudicator", "--version"))
    assert "Sub-commands:" in karat("eval", "--help").stdout


def test_exit_codes_are_worded_once() -> None:
    words = "Exit codes: 0 success, 1 a gate failed, 2 could not judge (bad input or usage)."
    files = [(ROOT / name).read_text() for name in ("docs/questions.md", "SKILL.md", "docs/gates.md")]
    for text in (*files, karat("--help").stdout, karat("gate", "--help").stdout):
        assert words in " ".join(text.split())


@pytest.mark.parametrize("old", ["triage", "sweep"])
def test_the_hint_for_a_command_of_0_1_works(small: Path, old: str) -> None:
    assert karat("eval", "run.jsonl", "--gold", "gold.jsonl", "-o", "result.json", cwd=small).returncode == 0
    for given in (["result.json"], ["run.jsonl", "--gold", "gold.jsonl"]):
        done = karat(old, *given, cwd=small)
        hint = re.search(r"^hint: karat (.*)$", done.stderr, re.M)
        assert done.returncode == 2
        assert hint is not None
        again = karat(*hint[1].split(), cwd=small)
        assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("runs", "endings"),
    [(["run.jsonl"], "html json md csv parquet"), (["run.jsonl", "run.jsonl"], "html json md csv parquet tex")],
)
def test_an_unknown_ending_gets_a_list_of_those_that_work(small: Path, runs: list[str], endings: str) -> None:
    refused = karat("eval", *runs, "--gold", "gold.jsonl", "-o", "out.xyz", cwd=small)
    assert refused.returncode == 2
    assert all(f".{ending}" in refused.stderr for ending in endings.split())
    for ending in endings.split():
        done = karat("eval", *runs, "--gold", "gold.jsonl", "-o", f"out.{ending}", cwd=small)
        assert done.returncode == 0, done.stderr


def test_triage_fits_two_screens_and_explain_shows_all(tmp_path: Path) -> None:
    demo = ROOT / "examples" / "helpdesk"
    files = (str(demo / "bm25.jsonl"), "--gold", str(demo / "gold.jsonl"), "--corpus", str(demo / "corpus.jsonl"))
    short = karat("eval", "triage", *files, "-o", str(tmp_path / "triage.md"))
    assert len(short.stdout.splitlines()) <= 100
    assert all(word in short.stdout for word in ("--explain", "-o triage.html", "also finds nothing"))
    whole = karat("eval", "triage", *files, "--explain").stdout
    assert whole.count("was found") == (tmp_path / "triage.md").read_text().count("was found") == 20
    one = karat("eval", "triage", *files, "-n", "1").stdout
    assert (one.count("was found"), "Shown: the worst." in one, "--explain" in one) == (1, True, False)


def test_how_many_hits_are_judged_is_no_quality(tmp_path: Path) -> None:
    lines = [{"query_id": f"q{i}", "query": "x", "gold": {f"a{i}": 1, f"n{i}": 0}} for i in range(40)]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, other in (("old", "x"), ("new", "n")):
        hits = [{"query_id": f"q{i}", "topk": [f"a{i}", f"{other}{i}"]} for i in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in hits))
    metrics = ("-m", "recall@5,judged@5", "--gold", "gold.jsonl")
    done = karat("compare", "old.jsonl", "new.jsonl", *metrics, cwd=tmp_path)
    row = next(line for line in done.stdout.splitlines() if line.startswith("judged@5"))
    assert row.split()[-1] == "higher"
    planned = karat("eval", "power", "old.jsonl", *metrics, cwd=tmp_path).stdout
    assert ("recall@5" in planned, "judged@5" in planned) == (True, False)
    table = karat("eval", "old.jsonl", "new.jsonl", *metrics, "--json", cwd=tmp_path).stdout
    judged = [standing["metrics"][1] for standing in json.loads(table)["systems"]]
    assert [(standing["best"], standing["beats"]) for standing in judged] == [(False, "")] * 2


@pytest.mark.parametrize("text", ["3%", "3 %", "3pp", "0.03"])
def test_a_difference_to_detect_may_be_in_percent(small: Path, text: str) -> None:
    command = ("eval", "power", "run.jsonl", "--gold", "gold.jsonl", "-m", "recall@5", "--json")
    done = karat(*command, "--detect", text, cwd=small)
    assert json.loads(done.stdout)["rows"][0]["detect"] == 0.03
    assert "write 0.03 or 3%" in karat(*command, "--detect", "three", cwd=small).stderr


def test_metrics_lists_and_explains() -> None:
    done = karat("metrics", "--json")
    found = {m["name"]: m for m in json.loads(done.stdout)}
    assert found["ndcg"]["trec_eval"].startswith("ndcg_cut")
    assert all(m["definition"] for m in found.values())
    done = karat("metrics", "P@5")
    assert found["precision"]["definition"].splitlines()[0] in done.stdout


@pytest.mark.parametrize(
    "arguments", ["metrics --markdown", "metrics", f"eval {RUN} --gold {GOLD}", f"check {RUN} {GOLD}"]
)
def test_a_closed_pipe_is_no_error(arguments: str) -> None:
    command = f"{sys.executable} -m karat.cli.main {arguments} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_eval_measures_what_the_gates_ask_of_a_baseline(small: Path) -> None:
    (small / "c.yaml").write_text(
        "gates: [{metric: 'ndcg(gain=linear)@3', threshold: 0.1}, {metric: mrr, threshold: 0.1}]"
    )
    command = ("eval", "run.jsonl", "--gold", "gold.jsonl", "--criteria")
    done = karat(*command, "c.yaml", "--json", cwd=small)
    metrics = [row["metric"] for row in json.loads(done.stdout)["summary"]]
    assert metrics[-1] == "ndcg(gain=linear)@3"
    assert (metrics[0], metrics.count("mrr")) == ("recall@1", 1)
    (small / "bad.yaml").write_text("gates: [{metric: recal@3, threshold: 0.1}]")
    for file in ("bad.yaml", "absent.yaml"):
        refused = karat(*command, file, cwd=small)
        assert (refused.returncode, refused.stderr.startswith(f"error: {file}")) == (2, True), refused.stderr


@pytest.mark.parametrize("command", [("eval", "--brief"), ("compare", "run.jsonl"), ("eval sweep",), ("eval power",)])
def test_every_command_says_what_was_not_scored(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Any
) -> None:
    """One query failed, one is missing, one is unknown: whoever reads only this output must know."""
    monkeypatch.chdir(tmp_path)
    failed = {"query_id": "q2", "topk": [], "error": "timeout after 5 s"}
    records = [{"query_id": "q1", "topk": ["a"]}, failed, {"query_id": "stranger", "topk": ["a"]}]
    Path("run.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("gold.jsonl").write_text("".join(json.dumps({"query_id": f"q{i}", "gold": ["a"]}) + "\n" for i in (1, 2, 3)))
    name, *more = command
    code, printed, _ = karat_command(*name.split(), "run.jsonl", *more, "--gold", "gold.jsonl")
    assert code == (2 if name == "compare" else 0)  # with one of three failed, nothing can be compared
    assert "q2: timeout after 5 s" in printed
    assert all(code in printed for code in (("missing", "gold set") if name == "eval" else ("q3", "stranger")))


def test_each_of_two_missing_files_has_its_own_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs.jsonl", "golds.jsonl"):
        Path(name).touch()
    code, _, printed = karat_command("eval", "run.jsonl", "--gold", "gold.jsonl")
    assert code == 2
    assert [line.partition(":")[0] for line in printed.splitlines()] == ["error", "hint", "also", "hint"]
    _, _, printed = karat_command("eval", "run.jsonl", "--gold", "run.jsonl")
    assert len(printed.splitlines()) == 2
