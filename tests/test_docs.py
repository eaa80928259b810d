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
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import msgspec
import pytest

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


def test_every_format_is_on_the_formats_page() -> None:
    page = (ROOT / "docs" / "formats.md").read_text()
    assert all(f"`{name}`" in page for name in REGISTRY.builtin())
    written = page.partition("| `--to` |")[2].partition("\n\n")[0]
    assert {name for row in written.splitlines()[2:] for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])} == {
        *TARGETS
    }
    asked = next(option for option in convert_command.params if option.name == "to")
    assert all(name in str(getattr(asked, "help", "")) for name in TARGETS)


@pytest.fixture(scope="module")
def demo() -> str:
    """What the README says that `make demo` prints."""
    readme = (ROOT / "README.md").read_text()
    return readme.partition("`make demo` prints:")[2].partition("```\n")[2].partition("```")[0]


def test_the_readme_shows_what_the_demo_prints(demo: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "out").mkdir()
    for part in demo.split("$ karat ")[1:]:
        command, _, shown = part.partition("\n")
        arguments = [sys.executable, "-m", "karat.cli.main", *command.split()]
        done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == (1 if command.startswith("gate") else 0), done.stderr
        printed = set(map(without_times, (done.stdout + done.stderr).splitlines()))
        expected = [line for line in shown.splitlines() if line.strip() not in ("", "…")]
        assert expected
        assert [line for line in expected if without_times(line) not in printed] == []
    assert {page.name for page in (tmp_path / "out").glob("*.html")} == {"report.html", "verdict.html"}


def without_times(line: str) -> str:
    """A line without its seconds and milliseconds, which no two machines share."""
    return re.sub(r"[\d.]+ (?=m?s\b)", "# ", line.rstrip())


def test_the_readme_has_the_commands_of_the_demo(demo: str) -> None:
    if shutil.which("make") is None:
        pytest.skip("no make")
    recipe = subprocess.run(
        ["make", "--dry-run", "demo-two"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    said = re.findall(r"echo '\$ karat (.*?)'", recipe.replace("\\\n", " "))
    assert [" ".join(command.split()) for command in said] == re.findall(r"^\$ karat (.*)$", demo, re.M)


def test_the_demo_without_static_embeddings_runs_bm25_and_says_so(tmp_path: Path) -> None:
    """As on a Python for which wordllama has no wheel."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text("import sys\nsys.modules['wordllama'] = None\n")
    for name, more in (("python", ""), ("karat", "-m karat.cli.main ")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {more}"$@"\n')
        program.chmod(0o755)
    command = ["make", "--no-print-directory", "--old-file=.venv/.demo", "BIN=bin", "demo"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "without"), "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wordllama" in done.stdout
    assert [line.split()[2:4] for line in done.stdout.splitlines() if line.startswith("$ karat")] == [
        ["run", "bm25"],
        ["eval", "out/bm25.jsonl"],
        ["eval", "sweep"],
    ]
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"bm25.jsonl", "report.html"}


def test_the_readme_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the very lines that the README shows as a run, a gold set and a label."""
    readme = (ROOT / "README.md").read_text()
    run, gold, label = re.findall(r"```json\n(.*?)```", readme, re.S)
    for name in ("run", "old", "new"):
        (tmp_path / f"{name}.jsonl").write_text(run)
    (tmp_path / "gold.jsonl").write_text(gold)
    (tmp_path / "human.jsonl").write_text(label)
    monkeypatch.chdir(tmp_path)
    for command in (
        ["eval", "run.jsonl", "--gold", "gold.jsonl", "-o", "result.json"],
        ["labels", "merge", "human.jsonl", "--gold", "gold.jsonl", "-o", "gold_v2.jsonl"],
    ):
        subprocess.run([sys.executable, "-m", "karat.cli.main", *command], check=True, capture_output=True)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", readme, re.S):
        exec(block, names)
    assert names["r"]["recall@5"].mean == 0.5
    assert names["c"]["recall@5"].delta == 0.0
    assert names["v"]


def test_the_example_of_paraphrases_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "paraphrases.md").read_text()
    monkeypatch.chdir(tmp_path)
    Path("gold.jsonl").write_text(re.findall(r"```json\n(.*?)```", page, re.S)[0])
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


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/formats.md",
        "docs/configuration.md",
        "docs/statistics.md",
        "docs/rechunking.md",
        "docs/diagnosis.md",
        "docs/evidence.md",
        "docs/gates.md",
        "docs/history.md",
        "docs/sending.md",
        "docs/dashboard.md",
        "docs/ci.md",
        "docs/components.md",
        "docs/report.md",
        "docs/time_and_no_answer.md",
        "docs/cost.md",
        "docs/retrievers.md",
        "docs/judge.md",
        "docs/labels.md",
        "docs/calibration.md",
        "docs/scale.md",
        "docs/agents.md",
        "SKILL.md",
        "llms.txt",
        "examples/notebooks/README.md",
        "benchmarks/README.md",
        *(f"docs/decisions/{page.name}" for page in sorted((ROOT / "docs" / "decisions").glob("*.md"))),
    ],
)
def test_links_lead_somewhere(page: str) -> None:
    file = ROOT / page
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", file.read_text())
    assert [t for t in targets if not (file.parent / t).exists()] == []


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
    plug_in = [] if "karat" in {p.name for p in entry_points(group="pytest11")} else ["-p", "karat.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plug_in]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout


def test_the_readme_names_every_extra() -> None:
    with open(ROOT / "pyproject.toml", "rb") as stream:
        extras = tomllib.load(stream)["project"]["optional-dependencies"]
    ours = {"all", "test", "test-engines", "test-frameworks", "check", "bench", "site"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`\.\[(\w+)\]`", readme)) == set(extras) - ours
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


def test_the_page_about_agents_names_every_tool_and_argument() -> None:
    from karat.web.agents import MOST, REQUESTS, argument_schema

    page = (ROOT / "docs" / "agents.md").read_text()
    rows = {name: re.findall(r"`(\w+)`", takes) for name, takes in re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", page, re.M)}
    assert rows == {name: [*argument_schema(kind, False)["properties"]] for name, kind in REQUESTS.items()}
    assert f"{MOST:,} characters" in page
