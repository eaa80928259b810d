"""`compare`, `sweep`, `power` and the statistics of `eval`: output, files, schemas, exit codes, equal bytes."""

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

from karat.errors import KaratError
from karat.schemas import schema_text

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "helpdesk"
BEFORE, AFTER, GOLD, CORPUS = (str(DEMO / f) for f in ("bm25.jsonl", "bm25_rerank.jsonl", "gold.jsonl", "corpus.jsonl"))
QUICK = ("--resamples", "200")
Call = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]


@pytest.fixture
def karat(karat_command: Call) -> Call:
    return karat_command


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two runs, one of them with two systems, and a gold set."""
    monkeypatch.chdir(tmp_path)
    gold = [{"query_id": f"q{i}", "query": "what?", "gold": ["a", "b"], "tags": {"t": str(i % 2)}} for i in range(6)]
    write("gold.jsonl", gold)
    write("a.jsonl", [{"query_id": f"q{i}", "system": "old", "topk": ["a", "x"]} for i in range(6)])
    write(
        "b.jsonl", [{"query_id": f"q{i}", "system": "new", "topk": ["a", "b"] if i else ["y", "z"]} for i in range(6)]
    )
    write("two.jsonl", [{"query_id": f"q{i}", "system": s, "topk": [s, "x"]} for s in ("a", "x") for i in range(6)])
    return tmp_path


def write(name: str, records: list[Any]) -> None:
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))


COMMANDS = {
    "result": ("eval", BEFORE, "--gold", GOLD, "--segment", "language", *QUICK),
    "comparison": ("compare", BEFORE, AFTER, "--gold", GOLD, "--segment", "language", *QUICK),
    "sweep": ("eval", "sweep", BEFORE, "--gold", GOLD, "--segment", "language", *QUICK),
    "plan": ("eval", "power", BEFORE, "--gold", GOLD, "--against", AFTER),
}
# Options that would do nothing there, and that the command therefore does not have.
NOT_OFFERED = {("plan", "--resamples"), ("plan", "--seed"), ("plan", "--interval"), ("sweep", "--k")}


# --- what every command promises


@pytest.mark.parametrize("name", COMMANDS)
def test_json_follows_its_schema(karat: Call, name: str) -> None:
    code, out, err = karat(*COMMANDS[name], "--json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    assert value["schema"] == f"karat/{name}/{2 if name == 'result' else 1}"
    jsonschema.Draft202012Validator(json.loads(schema_text(name))).validate(value)
    code, out, _ = karat("check", "schema", name)
    assert (code, out) == (0, schema_text(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_fit_and_files_are_written_whole(karat: Call, tmp_path: Path, name: str) -> None:
    files = tmp_path / "out.json", tmp_path / "out.md"
    code, out, err = karat(*COMMANDS[name], "-o", str(files[0]), "-o", str(files[1]))
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 100
    assert err.splitlines() == [f"wrote {file}" for file in files]
    _, printed, _ = karat(*COMMANDS[name], "--json")
    assert files[0].read_text() == printed
    assert files[1].read_text().startswith("# ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "out.md"]


@pytest.mark.parametrize("name", COMMANDS)
def test_same_input_same_bytes_in_another_process(name: str, tmp_path: Path) -> None:
    outputs = []
    for seed in ("0", "1"):
        folder = tmp_path / seed
        folder.mkdir()
        command = [sys.executable, "-m", "karat.cli.main", *COMMANDS[name], "-o", "out.json", "-o", "out.md"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, check=False, cwd=folder, env=environment)
        assert done.returncode == 0, done.stderr
        outputs.append((done.stdout, *(file.read_bytes() for file in sorted(folder.iterdir()))))
    assert len(outputs[0]) == 3
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_an_input_is_never_written_over(karat_refuses: Refuses, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "run.json"
    records = [json.loads(line) for line in Path(BEFORE).read_text().splitlines()[:30]]
    copy.write_text(json.dumps(records))
    before = copy.read_bytes()
    arguments = [str(copy) if a == BEFORE else a for a in COMMANDS[name]]
    assert karat_refuses(*arguments, "-o", str(copy)).code == "would-overwrite"
    assert copy.read_bytes() == before


BAD = [
    (("--resamples", "0"), "bad-setting", "0"),
    (("--confidence", "95"), "bad-setting", "95"),
    (("--confidence", "0"), "bad-setting", "0"),
    (("--confidence", "nan"), "bad-setting", "nan"),
    (("--seed", "-1"), "bad-setting", "-1"),
    (("--cluster", "converstion_id"), "unknown-attribute", "conversation_id"),
    (("--min-score", "nan"), "bad-setting", "nan"),
    (("--gold", "nowhere.jsonl"), "no-such-file", "nowhere.jsonl"),
    (("-o", "nowhere/out.json"), "not-writable", "nowhere"),
    (("-o", "out.xyz"), "unknown-output", ".json"),
    (("--system", "nobody"), "unknown-system", "nobody"),
]


@pytest.mark.parametrize(
    ("name", "options", "code", "named"),
    [(name, *bad) for name in COMMANDS for bad in BAD if (name, bad[0][0]) not in NOT_OFFERED],
)
def test_bad_options_are_refused_with_a_reason(
    karat_refuses: Refuses, name: str, options: tuple[str, ...], code: str, named: str
) -> None:
    error = karat_refuses(*COMMANDS[name], *options)
    assert error.code == code
    assert named in str(error)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--resamples", "many"), "many"),
        (("--interval", "magic"), "'bayes', 'percentile', 'bca', 'strict'"),
        (("--missing", "maybe"), "'worst', 'skip'"),
        (("--k", "0"), "--k"),
        (("--bogus",), "--bogus"),
    ],
)
def test_options_of_another_kind_are_refused_before(
    karat: Call, name: str, options: tuple[str, ...], named: str
) -> None:
    code, out, err = karat(*COMMANDS[name], *options)
    assert (code, out) == (2, ""), err
    assert (f"No such option '{options[0]}'" if (name, options[0]) in NOT_OFFERED else named) in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["eval", "eval sweep", "compare"])
def test_an_unknown_segment_is_refused_with_what_there_is(karat_refuses: Refuses, small: Path, command: str) -> None:
    arguments = [*command.split(), "a.jsonl", *(["b.jsonl"] if command == "compare" else []), "-g", "gold.jsonl"]
    error = karat_refuses(*arguments, "-s", "tt", *QUICK)
    assert error.code == "unknown-attribute"
    assert "'tt'" in error.what
    assert " t?" in str(error.hint)
    error = karat_refuses(*arguments, "-s", "zzz", *QUICK)
    assert error.code == "unknown-attribute"
    assert "t, query_length, gold_items, constraints" in str(error.hint)


# --- eval


def test_segments_by_version_and_as_a_table(karat: Call, tmp_path: Path) -> None:
    file = tmp_path / "segments.csv"
    options = ("--corpus", CORPUS, "-s", "doc_version", "-m", "recall@5", "-o", f"segments={file}", *QUICK)
    code, out, err = karat("eval", AFTER, "-g", GOLD, *options)
    assert code == 0, err
    assert "doc_version" in out
    table = pl.read_csv(file)
    assert table["segment"].unique().to_list() == ["doc_version"]
    assert table["queries"].sum() == 287
    assert {"several", "(not given)"} <= set(table["value"])


def test_clusters_can_be_chosen(karat: Call) -> None:
    def cluster(*options: str) -> Any:
        code, out, err = karat("eval", BEFORE, "-g", GOLD, "-m", "recall@5", "--json", *QUICK, *options)
        assert code == 0, err
        return json.loads(out)["statistics"]["cluster"], json.loads(out)["summary"][0]["low"]

    found = dict([cluster(), cluster("--cluster", "none"), cluster("--cluster", "topic")])
    assert set(found) == {"conversation_id", None, "topic"}
    assert found["topic"] < found["conversation_id"] < found[None] + 0.01


# --- compare


def test_saved_results_need_no_gold(karat: Call, karat_refuses: Refuses, small: Path) -> None:
    for run in ("a", "b"):
        assert karat("eval", f"{run}.jsonl", "-g", "gold.jsonl", "-o", f"{run}.json", *QUICK)[0] == 0
    code, out, err = karat("compare", "a.json", "b.json", "--json", *QUICK)
    assert (code, err) == (0, "")
    code, runs, _ = karat("compare", "a.jsonl", "b.jsonl", "-g", "gold.jsonl", "--json", *QUICK)
    saved, live = json.loads(out)["pairs"][0], json.loads(runs)["pairs"][0]
    assert saved["differences"] == live["differences"]
    code, out, err = karat("compare", "a.json", "b.jsonl", "-g", "gold.jsonl", "--json", *QUICK)
    assert json.loads(out)["pairs"][0]["differences"] == live["differences"]
    assert karat_refuses("compare", "a.json", "b.jsonl").code == "no-gold"


def test_saved_results_heed_the_cluster(karat: Call, small: Path) -> None:
    for run in ("a", "b"):
        assert karat("eval", f"{run}.jsonl", "-g", "gold.jsonl", "-o", f"{run}.json", *QUICK)[0] == 0
    found = []
    for sides in (("a.json", "b.json"), ("a.jsonl", "b.jsonl", "-g", "gold.jsonl")):
        code, out, _ = karat("compare", *sides, "--cluster", "t", "--json", *QUICK)
        assert (code, json.loads(out)["statistics"]["cluster"]) == (0, "t")
        found.append(json.loads(out)["pairs"][0]["differences"])
    assert found[0] == found[1]
    assert found[0] != json.loads(karat("compare", "a.json", "b.json", "--json", *QUICK)[1])["pairs"][0]["differences"]


def test_another_dataset_version_is_refused_and_can_be_forced(karat: Call, karat_refuses: Refuses, small: Path) -> None:
    assert karat("eval", "a.jsonl", "-g", "gold.jsonl", "-o", "a.json", *QUICK)[0] == 0
    value = json.loads(Path("a.json").read_text())
    for version in ("1", "2"):
        value["dataset"]["version"] = version
        Path(f"v{version}.json").write_text(json.dumps(value))
    error = karat_refuses("compare", "v1.json", "v2.json", *QUICK)
    assert error.code == "not-comparable"
    assert "--force" in str(error.hint)
    code, out, _ = karat("compare", "v1.json", "v2.json", "--force", "--json", *QUICK)
    assert code == 0
    assert len(json.loads(out)["pairs"][0]["notes"]) == 1


def test_systems_of_one_file_are_compared(karat: Call, karat_refuses: Refuses, small: Path) -> None:
    code, out, _ = karat("compare", "two.jsonl", "-g", "gold.jsonl", "-m", "recall@1", "--json", *QUICK)
    value = json.loads(out)
    assert (code, value["baseline"], value["pairs"][0]["candidate"]) == (0, "a", "x")
    assert karat_refuses("compare", "two.jsonl", "--system", "a", "-g", "gold.jsonl", *QUICK).code == "one-run"


def test_three_runs_and_the_same_file_twice(karat: Call, small: Path) -> None:
    code, out, err = karat("compare", "a.jsonl", "b.jsonl", "a.jsonl", "-g", "gold.jsonl", *QUICK)
    assert code == 0, err
    for words in ("Holm", "BH", "old (a.jsonl) #1", "old (a.jsonl) #3"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 100


def test_changes_can_be_left_out(karat: Call, small: Path) -> None:
    arguments = ("compare", "a.jsonl", "b.jsonl", "-g", "gold.jsonl", *QUICK)
    assert "q1" in karat(*arguments)[1]
    without = karat(*arguments, "--changes", "0")[1]
    assert "q1" not in without.partition("Same lists?")[0]  # that section names queries, too
    code, _, err = karat(*arguments, "--changes", "-1")
    assert code == 2
    assert "--changes" in err


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (("a.jsonl",), "one-run"),
        (("a.jsonl", "missing.jsonl"), "no-such-file"),
        (("a.jsonl", "gold.jsonl"), "swapped"),
        (("a.jsonl", "torn.json"), "not-a-result"),
        (("a.jsonl", "binary.jsonl"), "binary-file"),
        (("a.jsonl", "empty.jsonl"), "empty-file"),
        (("a.jsonl", "."), "unrecognised"),
        (("a.jsonl", "unknown.jsonl"), "no-overlap"),
    ],
)
def test_files_that_cannot_be_compared(karat_refuses: Refuses, small: Path, files: tuple[str, ...], code: str) -> None:
    Path("torn.json").write_text('{"schema": "karat/result/1", "scores"')
    Path("binary.jsonl").write_bytes(bytes(range(256)))
    Path("empty.jsonl").write_text("")
    write("unknown.jsonl", [{"query_id": "nobody", "topk": ["a"]}])
    error = karat_refuses("compare", *files, "-g", "gold.jsonl", *QUICK)
    assert error.code == code
    assert code == "one-run" or files[-1] in str(error)


def test_runs_must_be_named(karat: Call, small: Path) -> None:
    code, out, err = karat("compare", "-g", "gold.jsonl")
    assert (code, out) == (2, "")
    assert "RUNS" in err


def test_runs_on_different_queries(karat: Call, karat_refuses: Refuses, small: Path) -> None:
    lines = Path("b.jsonl").read_text().splitlines(keepends=True)
    Path("some.jsonl").write_text("".join(lines[2:]))
    arguments = ("-g", "gold.jsonl", "--missing", "skip", *QUICK)
    code, out, _ = karat("compare", "a.jsonl", "some.jsonl", *arguments, "--json")
    assert code == 0
    pair = json.loads(out)["pairs"][0]
    assert (pair["queries"], re.findall(r"\d+", pair["notes"][0])) == (4, ["4", "2", "0"])  # compared, left out
    Path("first.jsonl").write_text("".join(lines[:2]))
    assert karat_refuses("compare", "first.jsonl", "some.jsonl", *arguments).code == "no-common-query"


# --- sweep


def test_depths_are_settable(karat: Call, small: Path) -> None:
    code, out, _ = karat("eval", "sweep", "a.jsonl", "-g", "gold.jsonl", "--ks", "2, 1,7", "--json", *QUICK)
    value = json.loads(out)
    assert (code, value["ks"], value["depth"]) == (0, [1, 2], 2)
    assert "k = 7" in value["notes"][0]


@pytest.mark.parametrize("ks", ["", ",", "1,,2", "0", "-3", "1.5", "five", "99999999999999999999"])
def test_depths_that_are_none(karat_refuses: Refuses, small: Path, ks: str) -> None:
    error = karat_refuses("eval", "sweep", "a.jsonl", "-g", "gold.jsonl", f"--ks={ks}", *QUICK)
    assert error.code == "bad-setting"
    assert error.expected


def test_every_system_is_swept(karat: Call, small: Path) -> None:
    code, out, _ = karat("eval", "sweep", "two.jsonl", "-g", "gold.jsonl", "--json", *QUICK)
    values = json.loads(out)
    assert (code, [v["system"] for v in values]) == (0, ["a", "x"])
    for value in values:
        jsonschema.validate(value, json.loads(schema_text("sweep")))
    code, out, _ = karat("eval", "sweep", "two.jsonl", "-g", "gold.jsonl", *QUICK)
    assert out.count("Over k, 6 queries") == 2


def test_a_saved_result_cannot_be_swept(karat: Call, karat_refuses: Refuses, small: Path) -> None:
    assert karat("eval", "a.jsonl", "-g", "gold.jsonl", "-o", "a.json", *QUICK)[0] == 0
    for command in (("eval", "sweep"), ("eval",)):
        error = karat_refuses(*command, "a.json", "-g", "gold.jsonl", *QUICK)
        assert (error.code, error.file) == ("no-hits-kept", "a.json")


# --- power


def test_a_saved_result_tells_its_power_without_gold(karat: Call, karat_refuses: Refuses, small: Path) -> None:
    assert karat("eval", "a.jsonl", "-g", "gold.jsonl", "-o", "a.json", *QUICK)[0] == 0
    code, out, _ = karat("eval", "power", "a.json")
    assert (code, out) == (0, karat("eval", "power", "a.jsonl", "-g", "gold.jsonl")[1])
    assert karat_refuses("eval", "power", "a.jsonl").code == "no-gold"


def test_power_says_whether_the_set_is_enough(karat: Call) -> None:
    code, out, _ = karat("eval", "power", BEFORE, "-g", GOLD, "-m", "recall@5", "--detect", "0.2", "--json")
    plan = json.loads(out)
    assert (code, plan["correlation"], plan["against"]) == (0, 0.5, None)
    code, out, _ = karat("eval", "power", BEFORE, "-g", GOLD, "-m", "recall@5", "--against", AFTER, "--json")
    assert json.loads(out)["against"] == "bm25 + static rerank"


@pytest.mark.parametrize(
    "options",
    [
        ("--detect", "0"),
        ("--detect", "-0.1"),
        ("--detect", "3"),
        ("--detect", "1e-300"),
        ("--detect", "nan"),
        ("--detect", "much"),
        ("--power", "1.5"),
        ("--power", "0.01"),
        ("--correlation", "1"),
        ("--against", "missing.jsonl"),
        ("-m", "latency"),
        ("-m", "recal@5"),
    ],
)
def test_power_refuses_what_makes_no_sense(karat: Call, small: Path, options: tuple[str, str]) -> None:
    code, out, err = karat("eval", "power", "a.jsonl", "-g", "gold.jsonl", *options)
    assert (code, out) == (2, "")
    assert err


def test_one_query_gives_every_command_something_to_say(karat: Call, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write("gold.jsonl", [{"query_id": "q", "gold": ["a"], "tags": {"t": "x"}}])
    write("a.jsonl", [{"query_id": "q", "topk": ["x", "a"]}])
    for arguments in (("eval", "a.jsonl"), ("compare", "a.jsonl", "a.jsonl"), ("eval", "sweep", "a.jsonl")):
        code, out, err = karat(*arguments, "-g", "gold.jsonl", "-s", "t", *QUICK)
        assert (code, err) == (0, "")
        assert out
    code, out, err = karat("eval", "power", "a.jsonl", "-g", "gold.jsonl")
    assert (code, err) == (0, "")
