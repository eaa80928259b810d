"""`karat gate` and `karat gate selftest` as a user runs them: output, files, exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from karat.cli.main import main
from karat.errors import KaratError
from karat.formats.read import read_gold
from karat.schemas import schema_text

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "helpdesk"
RUN, BEFORE, GOLD = (str(DEMO / name) for name in ("bm25_rerank.jsonl", "bm25.jsonl", "gold.jsonl"))
Karat = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]


@pytest.fixture
def karat(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Karat:
    """Runs a command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["karat", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(done.value.code or 0), out, err

    return run


def small(folder: Path, good: int = 8, size: int = 10, name: str = "run", **fields: Any) -> None:
    """A run that finds `good` of `size` answers, and the gold set."""
    lines = [{"query_id": f"q{i}", "system": name, "topk": ["a" if i < good else "b"], **fields} for i in range(size)]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    gold = [
        {"query_id": f"q{i}", "query": "what?", "gold": ["a"], "language": "en" if i % 2 else "pt"} for i in range(size)
    ]
    (folder / "gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in gold))


SMALL = ("run.jsonl", "-g", "gold.jsonl")


@pytest.mark.parametrize(
    ("gates", "code", "outcomes"),
    [
        (["recall@5 >= 0.3"], 0, ["pass"]),
        (["recall@5 >= 0.9"], 1, ["fail"]),
        (["recall@5 >= 0.36 on bound"], 1, ["inconclusive"]),
        (["recall@5 drop <= 0.02 in each language", "mrr drop <= 0.02"], 0, ["pass"] * 4),
        (["recall@5 >= 0.3 in language=xx"], 2, ["invalid"]),
    ],
)
def test_the_demo_set(karat: Karat, gates: list[str], code: int, outcomes: list[str]) -> None:
    options = [part for gate in gates for part in ("--gate", gate)]
    found, out, err = karat("gate", RUN, "-g", GOLD, "-b", BEFORE, *options)
    assert (found, err) == (code, "")
    assert max(map(len, out.splitlines())) <= 100
    verdicts = json.loads(karat("gate", RUN, "-g", GOLD, "-b", BEFORE, *options, "--json")[1])["verdicts"]
    assert [v["outcome"] for v in verdicts] == outcomes
    assert f"{len(outcomes)} check" in out.splitlines()[-1]


def test_the_default_file_is_found_and_more_gates_are_added(karat: Karat, tmp_path: Path) -> None:
    small(tmp_path)
    code, _, err = karat("gate", *SMALL)
    assert (code, "ship-criteria.yaml" in err) == (2, True)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "ship-criteria.yaml").write_text("gates:\n  - {metric: mrr, threshold: 0.5}\n")
    assert karat("gate", *SMALL)[0] == 0
    code, out, _ = karat("gate", *SMALL, "-c", "config/ship-criteria.yaml", "--gate", "recall@5 >= 0.9", "--json")
    verdicts = json.loads(out)["verdicts"]
    assert (code, [(v["metric"], v["file"], v["line"]) for v in verdicts]) == (
        1,
        [("mrr", "config/ship-criteria.yaml", 2), ("recall@5", None, None)],
    )
    (tmp_path / "gates.conf").write_text("gates:\n  - {metric: mrr, threshold: 0.9}\n")
    assert karat("gate", *SMALL, "--criteria", "gates.conf")[0] == 1


@pytest.mark.parametrize("baseline", [True, False])
def test_json_is_as_its_schema_says(karat: Karat, baseline: bool) -> None:
    options = ("-b", BEFORE) if baseline else ()
    gates = ("--gate", "recall@5 drop <= 0.02", "--gate", "latency_p90 <= 60 ms", "--gate", "mrr >= 0.9 in language=xx")
    code, out, _ = karat("gate", RUN, "-g", GOLD, *options, *gates, "--json")
    found = json.loads(out)
    jsonschema.validate(found, json.loads(schema_text("gates")))
    assert (code, found["exit_code"], found["outcome"]) == (2, 2, "invalid")
    assert (found["comparison"] is None) != baseline


def test_selftest_json_is_as_its_schema_says(karat: Karat) -> None:
    gates = ("--gate", "recall@5 drop <= 0.02 in each language", "--gate", "ndcg@5 >= 0.4")
    code, out, _ = karat("gate", "selftest", RUN, "-g", GOLD, *gates, "--rounds", "20", "--json")
    found = json.loads(out)
    jsonschema.validate(found, json.loads(schema_text("selftest")))
    assert (code, found["rounds"], len(found["alarms"])) == (0, 20, 4)


def test_selftest_counts_no_false_alarms_of_a_limit_that_the_run_misses(karat: Karat, tmp_path: Path) -> None:
    small(tmp_path, 30, 40)
    missed, met = ("--gate", "recall@5 >= 0.9"), ("--gate", "recall@5 >= 0.4")
    _, out, _ = karat("gate", "selftest", *SMALL, *missed, *met, "--rounds", "20")
    first, second = re.findall(r"^recall@5 .*$", out, re.M)
    assert ("misses it" in first, "%" in first, "misses it" in second, "0%" in second) == (True, False, False, True)
    assert "does not meet 1 of 2 gates" in out
    assert "0% of 20 rounds" in out
    _, out, _ = karat("gate", "selftest", *SMALL, *missed, "--rounds", "20", "--json")
    found = json.loads(out)
    assert (found["blocked"], found["alarms"][0]["unmet"], found["alarms"][0]["caught"]) == (0, "missed", None)
    _, out, _ = karat("gate", "selftest", *SMALL, "--gate", "recall@5 >= 0.7 on bound", "--rounds", "20")
    assert "not proven" in out


def test_selftest_prints_a_table(karat: Karat, tmp_path: Path) -> None:
    small(tmp_path, 30, 40)
    code, out, _ = karat(
        "gate", "selftest", *SMALL, "--gate", "recall@5 drop <= 0.02", "--rounds", "20", "-o", "out.md"
    )
    assert (code, "recall@5" in out) == (0, True)
    assert max(map(len, out.splitlines())) <= 100
    assert "recall@5" in (tmp_path / "out.md").read_text()
    for options in (("--rounds", "3"), ("--seed", "-1"), ("--gate", "nonsense")):
        code, out, err = karat("gate", "selftest", *SMALL, "--gate", "recall@5 drop <= 0.02", *options)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")


OUTPUTS = ("out.json", "out.md", "junit.xml", "annotations=notes.txt", "codequality=quality.json", "summary=step.md")


def test_every_kind_of_output(karat: Karat, tmp_path: Path) -> None:
    small(tmp_path)
    (tmp_path / "step.md").write_text("before\n")
    options = [part for output in OUTPUTS for part in ("-o", output)]
    code, out, err = karat("gate", *SMALL, "--gate", "recall@5 >= 0.9", "--gate", "mrr >= 0.5", *options)
    assert code == 1
    assert [line.removeprefix("wrote ") for line in err.splitlines()] == [o.split("=")[-1] for o in OUTPUTS]
    assert json.loads((tmp_path / "out.json").read_text())["outcome"] == "fail"
    comment = (tmp_path / "out.md").read_text()
    assert comment.startswith("## ❌ ")
    assert (tmp_path / "step.md").read_text() == "before\n" + comment
    assert ElementTree.parse(tmp_path / "junit.xml").getroot().attrib["failures"] == "1"
    assert (tmp_path / "notes.txt").read_text().startswith("::error title=Karat%3A recall@5::")
    assert [issue["severity"] for issue in json.loads((tmp_path / "quality.json").read_text())] == ["blocker"]
    assert "recall@5" in out


def test_annotations_can_be_printed(karat: Karat, tmp_path: Path) -> None:
    small(tmp_path)
    _, out, _ = karat("gate", *SMALL, "--gate", "recall@5 >= 0.9", "-o", "annotations=-")
    last = out.splitlines()[-1]
    assert last.startswith("::error title=Karat%3A recall@5::")
    assert "80.0%25" in last


def test_what_was_read_is_never_overwritten(karat: Karat, karat_refuses: Refuses, tmp_path: Path) -> None:
    small(tmp_path)
    assert karat("eval", *SMALL, "-o", "base.json")[0] == 0
    before = (tmp_path / "base.json").read_bytes()
    for output in ("base.json", "summary=./base.json", "json=base.json"):
        error = karat_refuses("gate", *SMALL, "-b", "base.json", "--gate", "mrr >= 0.1", "-o", output)
        assert error.code == "would-overwrite"
    assert (tmp_path / "base.json").read_bytes() == before


def test_a_saved_result_is_a_baseline_and_can_be_gated_again(karat: Karat, tmp_path: Path) -> None:
    small(tmp_path, 30, 40)
    small(tmp_path, 20, 40, name="worse")
    assert karat("eval", *SMALL, "-o", "base.json")[0] == 0
    assert karat("eval", "worse.jsonl", "-g", "gold.jsonl", "-o", "worse.json")[0] == 0
    gates = ("--gate", "recall@5 drop <= 0.02", "--gate", "mrr >= 0.6", "-b", "base.json", "--json")
    live = karat("gate", "worse.jsonl", "-g", "gold.jsonl", *gates)
    again = karat("gate", "worse.json", *gates)
    assert live[0] == again[0] == 1
    assert json.loads(live[1])["verdicts"] == json.loads(again[1])["verdicts"]
    # What the command line names wins over what was saved.
    strict = json.loads(karat("gate", "worse.json", *gates, "--confidence", "0.99")[1])
    assert strict["statistics"]["level"] == 0.99
    widths = [v["verdicts"][0]["high"] - v["verdicts"][0]["low"] for v in (strict, json.loads(again[1]))]
    assert widths[0] > widths[1]


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("none.jsonl", "-g", "gold.jsonl", "--gate", "mrr >= 0.5"), "no-such-file", "none.jsonl"),
        ((*SMALL, "--gate", "mrr > 0.5"), "bad-gate", "mrr > 0.5"),
        ((*SMALL, "--gate", "mmr >= 0.5"), "unknown-metric", " mrr"),
        ((*SMALL, "-c", "none.yaml"), "unreadable", "none.yaml"),
        ((*SMALL, "-c", "gold.jsonl"), "not-yaml", "gold.jsonl"),
        ((*SMALL, "--gate", "mrr >= 0.5", "-b", "none.json"), "no-such-file", "none.json"),
        ((*SMALL, "--gate", "mrr >= 0.5", "-o", "out.pdf"), "unknown-output", "out.pdf"),
        ((*SMALL, "--gate", "mrr >= 0.5", "-o", "nowhere/out.json"), "not-writable", "nowhere"),
        ((*SMALL, "--gate", "mrr >= 0.5 in each colour"), "unknown-attribute", "colour"),
        (("run.jsonl", "--gate", "mrr >= 0.5"), "no-gold", "gold"),
        (("two.jsonl", "-g", "gold.jsonl", "--gate", "mrr >= 0.5"), "several-systems", "--system"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    karat_refuses: Refuses,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: str,
    word: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    small(tmp_path)
    lines = [{"query_id": "q1", "system": s, "topk": ["a"]} for s in "xy"]
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    error = karat_refuses("gate", *arguments)
    assert error.code == code
    assert word in str(error)


def test_one_of_several_systems_is_picked(karat: Karat, tmp_path: Path) -> None:
    small(tmp_path)
    lines = [{"query_id": f"q{i}", "system": s, "topk": ["a" if s == "x" else "b"]} for s in "xy" for i in range(10)]
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for system, code in (("x", 0), ("y", 1)):
        assert karat("gate", "two.jsonl", "-g", "gold.jsonl", "--gate", "mrr >= 0.5", "--system", system)[0] == code


COMMAND = re.compile(r"^\s*::|##\w*\[", re.M)


def test_no_output_of_any_command_obeys_the_data(karat: Karat, tmp_path: Path) -> None:
    """A system, query, tag, item or gate that holds workflow commands: on both streams, also as JSON."""
    evil = "x\n::error::y\n##[add-mask]z " + " ".join("::stop-commands::t" for _ in range(40))
    lines = [{"query_id": f"{i}{evil}", "system": evil, "topk": [f"b{evil}", "a"]} for i in range(8)]
    gold = [
        {
            "query_id": f"{i}{evil}",
            "query": evil,
            "gold": ["a" if i % 2 else f"b{evil}"],
            "tags": {"topic": evil + "ab"[i % 2]},
        }
        for i in range(8)
    ]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in gold))
    criteria = {
        "gates": [
            {"name": evil, "metric": "mrr", "threshold": 0.9},
            {"metric": "mrr", "threshold": 0.9, "each": "topic"},
        ]
    }
    (tmp_path / "ship-criteria.yaml").write_text(json.dumps(criteria))
    (tmp_path / "bad.yaml").write_text(json.dumps({"gates": [{"metric": evil, evil: evil}]}))
    (tmp_path / "bad.jsonl").write_text(
        json.dumps({"query_id": evil, "topk": [{"chunk_id": evil, "score": evil}]}) + "\n"
    )
    for arguments in (
        ("gate", *SMALL),
        ("gate", *SMALL, "--json"),
        ("gate", *SMALL, "-o", "md=-", "-o", "junit=-", "-o", "codequality=-", "-o", "json=-"),
        ("gate", *SMALL, "-c", "bad.yaml"),
        ("gate", "bad.jsonl", "-g", "gold.jsonl"),
        ("gate", "selftest", *SMALL, "--rounds", "20"),
        ("eval", *SMALL),
        ("eval", *SMALL, "--json"),
        ("eval", *SMALL, "-s", "topic"),
        ("check", "run.jsonl", "gold.jsonl", "bad.jsonl"),
        ("check", "run.jsonl", "gold.jsonl", "bad.jsonl", "--json"),
        ("compare", "run.jsonl", "run.jsonl", "-g", "gold.jsonl", "-s", "topic"),
    ):
        code, out, err = karat(*arguments)
        assert out or code == 2, arguments
        assert not COMMAND.search(out), arguments
        assert not COMMAND.search(err), arguments
    saved = json.loads(karat("eval", *SMALL, "--json")[1])
    assert saved["system"] == evil  # and the data stays what it was
    printed = karat("gate", *SMALL, "--json", "-o", "json=-")[1]
    first, end = json.JSONDecoder().raw_decode(printed)
    assert json.loads(printed[end:]) == first
    assert first["run"] == evil


def test_same_input_same_bytes(tmp_path: Path) -> None:
    """In processes of their own, with another seed of Python's hashes."""
    outputs = []
    for seed in ("0", "1"):
        folder = tmp_path / seed
        folder.mkdir()
        options = [part for output in OUTPUTS for part in ("-o", output)]
        gates = ("--gate", "recall@5 drop <= 0.02 in each topic", "--gate", "mrr >= 0.9")
        command = [sys.executable, "-m", "karat.cli.main", "gate", RUN, "-g", GOLD, "-b", BEFORE, *gates, *options]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "NO_COLOR": "1"}
        done = subprocess.run(command, capture_output=True, check=False, cwd=folder, env=environment)
        assert done.returncode == 1, done.stderr
        outputs.append({p.name: p.read_bytes() for p in folder.iterdir()} | {"stdout": done.stdout})
    assert len(outputs[0]) == len(OUTPUTS) + 1
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    "said",
    [
        ["--gate", "recall@5 drop <= 0.02", "--top-k", "3", "--missing", "skip"],
        ["--criteria", "my gates.yaml", "--top-k", "3", "--normalize-ids"],
        ["--gate", "precision@5 drop <= 0.9", "--gold-labels", "my labels.jsonl", "--max-grade", "1"],
    ],
    ids=str,
)
def test_the_command_that_saves_an_invalid_baseline_again(
    said: list[str], karat: Karat, karat_refuses: Refuses, tmp_path: Path
) -> None:
    """It can be typed as it is told, and then the gate has its baseline."""
    label = {"query_id": read_gold(GOLD).queries[0], "chunk_id": "new#1", "grade": 1, "annotator": "ann"}
    (tmp_path / "my labels.jsonl").write_text(json.dumps(label) + "\n")
    (tmp_path / "my gates.yaml").write_text("gates:\n  - metric: recall@5\n    regression_max: 0.02\n")
    assert karat("eval", BEFORE, "--gold", GOLD, "-o", "old.json")[0] == 0
    gate = ("gate", RUN, "--gold", GOLD, *said, "--baseline")
    refused = karat_refuses(*gate, "old.json")
    assert (refused.code, refused.exit_code) == ("not-comparable", 2)
    command = shlex.split(refused.hint.partition(": ")[2])
    assert (command[0], command[-1]) == ("karat", "baseline.json")
    assert karat(*command[1:])[0] == 0
    assert karat(*gate, "baseline.json")[0] == 0


def test_a_system_is_picked_in_the_run_and_not_forced_on_the_baseline(
    tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    gold, old, both = (tmp_path / name for name in ("gold.json", "old.jsonl", "both.jsonl"))
    gold.write_text(json.dumps({f"q{i}": ["a"] for i in range(30)}))
    lines = {
        system: [json.dumps({"query_id": f"q{i}", "system": system, "topk": hits}) + "\n" for i in range(30)]
        for system, hits in (("old", ["b", "a"]), ("new", ["a", "b"]))
    }
    old.write_text("".join(lines["old"]))
    both.write_text("".join([*lines["old"], *lines["new"]]))
    asked = ("gate", str(both), "--gold", str(gold), "--system", "new", "--gate", "mrr drop <= 0", "--json")
    code, out, err = karat_command(*asked, "--baseline", str(old))
    assert code == 0, err
    found = json.loads(out)
    assert (found["run"], found["baseline"]) == ("new", "old")
    assert found["verdicts"][0]["parts"][0]["difference"]["delta"] == 0.5
    # The same file twice would compare the system with itself.
    code, _, err = karat_command(*asked, "--baseline", str(both))
    assert code == 2
    assert str(both) in err
