"""Docs that cannot lie: what is generated is current, what the README shows is what one gets."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from doc_pages import unknown

import karat
from karat.cli.convert import command as convert_command
from karat.formats.convert import TARGETS
from karat.formats.read import REGISTRY
from karat.gates.criteria import CriteriaFile, Gate, parse_gate, read_criteria
from karat.labels.files import Label, PoolEntry
from karat.report.drift import drift_report
from karat.report.export import to_json
from karat.report.renderers.markdown import render_markdown
from karat.scoring.metrics.reference import reference
from karat.settings import Config, fields, load_config

ROOT = Path(__file__).parents[1]


def test_the_metrics_page_is_current() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == reference(), "run `make docs`"


def test_every_metric_answers_one_question() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    questions, _, described = page.partition("## How to write a name")
    assert sorted(re.findall(r"\(#(\w+)\)", questions)) == sorted(re.findall(r"^## (\w+)$", described, re.M))
    assert "| Others |" not in questions, "add new metrics to _QUESTIONS in scoring/metrics/reference.py"


def test_every_format_is_on_the_formats_page() -> None:
    page = (ROOT / "docs" / "formats.md").read_text()
    assert all(f"`{name}`" in page for name in REGISTRY.builtin())
    written = page.partition("| `--to` |")[2].partition("\n\n")[0]
    assert {name for row in written.splitlines()[2:] for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])} == {
        *TARGETS
    }
    asked = next(option for option in convert_command.params if option.name == "to")
    assert all(name in str(getattr(asked, "help", "")) for name in TARGETS)


def test_the_page_of_the_demo_has_its_commands() -> None:
    """What they print is checked with all other pages (tests/test_doc_pages.py)."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    recipe = subprocess.run(
        ["make", "--dry-run", "demo-two"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    said = re.findall(r"echo '\$ karat (.*?)'", recipe.replace("\\\n", " "))
    page = (ROOT / "docs" / "demo.md").read_text()
    assert [" ".join(command.split()) for command in said] == re.findall(r"^\$ karat (.*)$", page, re.M)


def test_the_demo_without_static_embeddings_runs_bm25_and_says_so(tmp_path: Path) -> None:
    """As on a Python for which wordllama has no wheel."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text("import sys\nsys.modules['wordllama'] = None\n")
    for name, does in (("python", f'exec {sys.executable} "$@"'), ("karat", "exit 0")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    command = ["make", "--no-print-directory", "--old-file=.venv/.demo", "BIN=bin", "demo"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "without"), "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wordllama" in done.stdout
    typed = [line.split()[2:] for line in done.stdout.splitlines() if line.startswith("$ karat")]
    assert [words[:2] for words in typed] == [["run", "bm25"], ["eval", "out/bm25.jsonl"], ["eval", "sweep"]]
    assert [wrong for words in typed for wrong in unknown(words)] == []


def test_the_readme_is_one_screen() -> None:
    """What it is, a picture, two commands, three examples, links."""
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 50
    assert "<picture>" in readme
    assert re.findall(r"^make (\w+)", readme, re.M) == ["demo", "test"]
    assert re.findall(r"^karat (\w+)", readme, re.M) == ["eval", "compare", "gate"]


def test_the_example_of_paraphrases_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "paraphrases.md").read_text()
    monkeypatch.chdir(tmp_path)
    Path("gold.jsonl").write_text(re.findall(r"```json.*?\n(.*?)```", page, re.S)[0])
    names: dict[str, Any] = {}
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(block, names)
    for expression, said in re.findall(r"^(\S.*?) +# ([\d.]+|'q1')", block, re.M):
        assert repr(eval(expression, names)) == said


def test_the_example_of_a_drift_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "drift.md").read_text()
    monkeypatch.chdir(tmp_path)
    gold = []
    for name, billing, right in (("may", 20, 13), ("june", 50, 28)):
        run = []
        for i in range(100):
            topic, found = ("billing", i < right) if i < billing else ("setup", (i - billing) % 10 > 0)
            gold.append({"query_id": f"{name}{i}", "gold": [f"{name}{i}"], "topic": topic})
            run.append({"query_id": f"{name}{i}", "topk": [{"chunk_id": f"{name}{i}" if found else "x"}]})
        Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in run))
    Path("gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in gold))
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)
    assert names["recall"].in_words in " ".join(page.replace("\n> ", " ").split())
    shown = render_markdown(drift_report(names["drift"])).replace("\\", "")
    rows = [line for line in page.splitlines() if line.startswith(("| billing", "| setup"))]
    assert len(rows) == 2
    assert [row for row in rows if row not in shown] == []


def test_the_code_and_the_lines_on_the_labels_page_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "labels.md").read_text()
    (lines,), (code,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.S) for kind in ("json", "python"))
    (tmp_path / "labels.jsonl").write_text(lines)
    assert [label.grade for label in karat.labels.read_labels(tmp_path / "labels.jsonl")] == [2, None]
    (tmp_path / "gold.jsonl").write_text('{"query_id": "q1", "gold": ["a"]}')
    (tmp_path / "new.jsonl").write_text('{"query_id": "q1", "topk": ["doc_123#p6", "a"]}')
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["result"].means["judged@10"] == names["result"].audit["labels_added"] == 1
    commands = set(re.findall(r"^(?:\$ |`)?karat (?:labels )?(\w+)", page, re.M))
    assert commands == {"pool", "label", "agree", "merge", "eval", "gate", "clicks", "compare", "calibrate", "serve"}


@pytest.mark.parametrize(("name", "struct"), [("Labels file", Label), ("Pool file", PoolEntry)])
def test_the_labels_page_has_every_field(name: str, struct: type[msgspec.Struct]) -> None:
    page = (ROOT / "docs" / "labels.md").read_text().partition(f"## {name}")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", page, re.M)
    fields = {field for row in rows for field in re.findall(r"`(\w+)`", row)}
    assert fields | {"doc_id"} == {field.name for field in msgspec.structs.fields(struct)}


OUTSIDE_DOCS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "SKILL.md", "llms.txt")
FOLDERS = ("docs", "examples", "benchmarks")


def test_links_lead_somewhere() -> None:
    """To files; headings and generated pages are checked when the site is built."""
    files = [
        *(ROOT / name for name in OUTSIDE_DOCS),
        *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md")),
    ]
    wrong = []
    for file in files:
        text = re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)
        found = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)", text)
        found += re.findall(r"<(?:img|source) [^>]*?src(?:set)?=\"([^\"]+)\"", text)
        for target in found:
            path = Path(os.path.normpath(file.parent / target))
            if not path.is_relative_to(ROOT / "docs" / "reference") and not path.exists():
                wrong.append(f"{file.relative_to(ROOT)}: {target}")
    assert not wrong, "\n".join(wrong)


def test_the_configuration_page_has_every_field_and_no_other() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z][\w.]*)` \| (\S+) \|", page, re.M))
    assert rows == {name: str(field.default) for name, field in fields().items()}


def test_the_configuration_page_shows_a_file_that_is_read(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    (tmp_path / "karat.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    assert load_config(tmp_path) == Config()


def table(page: str, heading: str) -> dict[str, str]:
    """First column → second, of the table under a header row."""
    rows = page.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| *(\S*) *\|", rows, re.M))


@pytest.mark.parametrize(("heading", "struct"), [("field of the file", CriteriaFile), ("field of a gate", Gate)])
def test_the_gates_page_has_every_field_and_its_default(heading: str, struct: type[msgspec.Struct]) -> None:
    defaults = {f.name: f.default for f in msgspec.structs.fields(struct)}
    shown = {n: "" if d is msgspec.NODEFAULT else "none" if d is None else str(d) for n, d in defaults.items()}
    assert table((ROOT / "docs" / "gates.md").read_text(), heading) == shown


def test_the_gates_page_shows_a_file_that_is_read(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "gates.md").read_text()
    (tmp_path / "c.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    criteria = read_criteria(tmp_path / "c.yaml")
    assert [str(gate.parsed) for gate in criteria.gates] == ["recall@5", "recall@5", "latency_p90(stage=retrieve)"]
    assert criteria.max_missing == 0.05


def test_the_texts_on_the_gates_page_mean_what_stands_beside_them(tmp_path: Path) -> None:
    rows = (ROOT / "docs" / "gates.md").read_text().partition("| text | in the file |")[2].partition("\n\n")[0]
    pairs = re.findall(r"^\| `(.+?)` \| (.+) \|$", rows, re.M)
    assert len(pairs) > 5
    for text, fields_ in pairs:
        gate = parse_gate(text)
        lines = [f"    {field}" for field in re.findall(r"`(.+?)`", fields_)]
        (tmp_path / "c.yaml").write_text("\n".join(["gates:", f"  - metric: {gate.metric}", *lines]) + "\n")
        assert read_criteria(tmp_path / "c.yaml").gates == [gate]


def test_the_ci_page_shows_tests_that_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    (tmp_path / "test_page.py").write_text(block)
    hits = {"query_id": "q", "topk": ["a"]}
    (tmp_path / "run.jsonl").write_text(json.dumps(hits))
    (tmp_path / "gold.jsonl").write_text(json.dumps({"query_id": "q", "gold": ["a"]}))
    (tmp_path / "ship-criteria.yaml").write_text("gates: [{metric: mrr, threshold: 0.9}]")
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "baseline.json").write_bytes(
        to_json([karat.evaluate(tmp_path / "run.jsonl", tmp_path / "gold.jsonl", ["recall@5", "ndcg@5"])])
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "karat.pytest_plugin"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plug-ins take seconds to load
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=alone)
    assert "2 passed" in done.stdout, done.stdout


def test_the_page_of_installing_names_every_extra() -> None:
    with open(ROOT / "pyproject.toml", "rb") as stream:
        extras = tomllib.load(stream)["project"]["optional-dependencies"]
    ours = {"all", "test", "test-engines", "test-frameworks", "check", "bench", "site"}
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`\.\[(\w+)\]`", page)) == set(extras) - ours
    everything = set(re.fullmatch(r"karat\[(.*)\]", extras["all"][0])[1].split(","))  # type: ignore[index]
    assert everything == set(extras) - ours - {"spark", "models", "mcp", "wandb"}
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r'MissingExtra\([^)]*"(\w+)"\)', code)) <= set(extras)


COMMANDS = {
    "eval": ("bm25.jsonl", "--gold", "gold.jsonl"),
    "compare": ("bm25.jsonl", "bm25_rerank.jsonl", "--gold", "gold.jsonl"),
    "gate": ("bm25.jsonl", "--gold", "gold.jsonl", "--gate", "recall@5 >= 0.1"),
    "eval triage": ("bm25.jsonl", "--gold", "gold.jsonl"),
    "check": ("bm25.jsonl", "gold.jsonl"),
}


def test_the_skill_names_fields_that_are_printed(
    karat_command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "examples" / "helpdesk")
    page = (ROOT / "SKILL.md").read_text()
    asked = re.findall(r"^\|.*\| `karat (\w+(?: triage)?) [^`]*--json` \|$", page, re.M)
    assert set(asked) == set(COMMANDS)
    rows = re.findall(r"^\| `([\w ]+)` \| (.*?) \|", page, re.M)
    assert {command for command, _ in rows} == set(COMMANDS)
    printed = {name: json.loads(karat_command(*name.split(), *given, "--json")[1]) for name, given in COMMANDS.items()}
    for command, said in rows:
        for path in re.findall(r"`([\w.\[\]]+)`", said):
            value: Any = printed[command]
            for part in filter(None, re.split(r"\.|(\[\])", path)):
                value = value[0] if part == "[]" else value[part]  # a KeyError names what is not there


def test_llms_txt_names_every_page() -> None:
    named = set(re.findall(r"\]\((docs/\w+\.md)\)", (ROOT / "llms.txt").read_text()))
    assert named == {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}


def test_the_scale_page_and_the_guide_have_the_measured_numbers() -> None:
    measured = re.sub(" +", " ", (ROOT / "benchmarks" / "SCALE.md").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| (?:[\d,]+|trec|jsonl|parquet|nested) \|.*\|$", measured, re.M)
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert len(rows) > 12
    assert [row for row in rows if row not in page] == []
    cells = [row.strip("| ").split(" | ") for row in rows]
    guide = (ROOT / "docs" / "guides" / "spark.md").read_text(encoding="utf-8").partition("\n## 1.")[0]
    local = next(row for row in cells if row[0] == "100,000,000" and row[3] == "local")
    spark = next(row for row in cells if row[0] == "10,000,000" and row[3] == "spark")
    assert {f"{float(local[4]):.0f}", local[7], f"{float(spark[4]):.0f}"} <= set(re.findall(r"\d+", guide))


def test_the_page_about_agents_names_every_tool_and_argument() -> None:
    from karat.web.agents import MOST, REQUESTS, argument_schema

    page = (ROOT / "docs" / "agents.md").read_text()
    rows = {name: re.findall(r"`(\w+)`", takes) for name, takes in re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", page, re.M)}
    assert rows == {name: [*argument_schema(kind, False)["properties"]] for name, kind in REQUESTS.items()}
    assert f"{MOST:,} characters" in page
