"""`karat init` in a folder of a user: gates that fit the gold set, whole files that work together, and never over what
is there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from commands import run_here

from karat.schemas import schema_text

ROOT = Path(__file__).parents[2]
FILES = ["ship-criteria.yaml", "ship-criteria.schema.json", "gold.yaml", ".github/workflows/karat.yml"]


def karat(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, cwd=cwd)


def tree(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def perfect_run(folder: Path) -> None:
    entries = yaml.safe_load((folder / "gold.yaml").read_text())
    lines = [json.dumps({"query_id": e["query_id"], "system": "mine", "topk": list(e["gold"])}) for e in entries]
    (folder / "run.jsonl").write_text("\n".join(lines) + "\n")


def test_what_it_writes_works_together(tmp_path: Path) -> None:
    done = karat("init", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[:4]) == (0, [f"wrote {name}" for name in FILES])
    assert tree(tmp_path) == set(FILES)
    perfect_run(tmp_path)
    assert karat("check", "run.jsonl", "gold.yaml", cwd=tmp_path).returncode == 0
    measured = karat(
        "eval", "run.jsonl", "-g", "gold.yaml", "-c", "ship-criteria.yaml", "-o", "baseline.json", cwd=tmp_path
    )
    assert measured.returncode == 0, measured.stderr
    judged = karat("gate", "run.jsonl", "-g", "gold.yaml", "-b", "baseline.json", "--json", cwd=tmp_path)
    assert judged.returncode == 0, judged.stderr
    assert [v["outcome"] for v in json.loads(judged.stdout)["verdicts"]] == ["pass"] * 2


def test_an_editor_finds_the_schema_and_the_criteria_fit_it(tmp_path: Path) -> None:
    karat("init", cwd=tmp_path)
    criteria = (tmp_path / "ship-criteria.yaml").read_text()
    first = criteria.splitlines()[0]
    assert first == "# yaml-language-server: $schema=ship-criteria.schema.json"
    schema = tmp_path / first.rpartition("=")[2]
    assert schema.read_text() == schema_text("ship-criteria")
    jsonschema.validate(yaml.safe_load(criteria), json.loads(schema.read_text()))


def test_the_ideas_in_the_criteria_can_be_used(tmp_path: Path) -> None:
    """Someone takes every `#` away."""
    karat("init", cwd=tmp_path)
    text = (tmp_path / "ship-criteria.yaml").read_text()
    head, _, ideas = text.partition("  # Ideas. Remove the `#` to use them.\n")
    (tmp_path / "ship-criteria.yaml").write_text(head + ideas.replace("  # ", "  ").replace("\n# anchor", "\nanchor"))
    perfect_run(tmp_path)
    karat("eval", "run.jsonl", "-g", "gold.yaml", "-o", "release.json", cwd=tmp_path)
    judged = karat("gate", "run.jsonl", "-g", "gold.yaml", "--json", cwd=tmp_path)
    assert judged.returncode == 2, judged.stderr
    invalid = [v["metric"] for v in json.loads(judged.stdout)["verdicts"] if v["outcome"] == "invalid"]
    assert "latency_p90(stage=retrieve)" in invalid  # nothing was logged of it
    assert "recall@5" in invalid  # too few queries


def test_what_exists_is_kept(tmp_path: Path) -> None:
    mine = "- {query_id: q1, query: how, gold: [a]}\n"
    (tmp_path / "gold.yaml").write_text(mine)
    (tmp_path / "ship-criteria.schema.json").symlink_to("nowhere")
    done = karat("init", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:4] == [
        "wrote ship-criteria.yaml",
        "kept ship-criteria.schema.json",
        "kept gold.yaml",
        "wrote .github/workflows/karat.yml",
    ]
    assert (tmp_path / "gold.yaml").read_text() == mine
    assert (tmp_path / "ship-criteria.schema.json").is_symlink()
    again = karat("init", cwd=tmp_path)
    assert again.stdout.splitlines()[:4] == [f"kept {name}" for name in FILES]


def test_the_workflow_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "ship-criteria.yaml").write_text("gates: []")
    (tmp_path / "gold.jsonl").write_text('{"query_id": "q", "query": "how?", "gold": ["a"]}\n')
    done = karat("init", cwd=tmp_path)
    assert done.stdout.splitlines()[:3] == [
        "kept config/ship-criteria.yaml",
        "wrote config/ship-criteria.schema.json",
        "kept gold.jsonl",
    ]
    environment = yaml.safe_load((tmp_path / FILES[3]).read_text())["env"]
    assert (environment["GOLD"], environment["CRITERIA"]) == ("gold.jsonl", "config/ship-criteria.yaml")
    assert not (tmp_path / "ship-criteria.yaml").exists(), "it would win over the one in config/"


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = karat("init", "new", "--gitlab", "--dry-run", cwd=tmp_path)
    assert done.stdout.splitlines() == [f"would write {name}" for name in (*FILES[:3], ".gitlab-ci.karat.yml")]
    assert list(tmp_path.iterdir()) == []


def test_another_folder_is_made(tmp_path: Path) -> None:
    assert karat("init", "a/b", "--gitlab", cwd=tmp_path).returncode == 0
    assert tree(tmp_path / "a" / "b") == {*FILES[:3], ".gitlab-ci.karat.yml"}


def test_a_folder_below_the_top_of_a_repository_is_told(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    top, inner = (karat("init", *folder, cwd=tmp_path).stderr for folder in ((), ("inner",)))
    assert ["warning: " in said for said in (top, inner)] == [False, True]


@pytest.mark.parametrize(
    ("blocking", "arguments", "said"),
    [
        ("file", ["file"], "file: "),
        (".github", [], ".github"),
        (None, ["--gitlub"], "--gitlab"),
    ],
)
def test_what_cannot_be_is_one_message(tmp_path: Path, blocking: str | None, arguments: list[str], said: str) -> None:
    if blocking:
        (tmp_path / blocking).write_text("a file")
    done = karat("init", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        done = karat("init", "/proc/nothing", cwd=tmp_path)
    else:
        (tmp_path / "shut").mkdir(mode=0o500)
        done = karat("init", "shut", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
