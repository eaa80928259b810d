"""The action, the workflow and the GitLab pipeline: valid by their hosts' schemas, and their scripts run."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

from karat.gates.repository import Workflow

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "helpdesk"
PINNED = re.compile(r"actions/[\w-]+@[0-9a-f]{40}")


class Loader(yaml.SafeLoader):
    """YAML 1.2 as the hosts read it: `on` is a word, not true."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: str) -> Any:
    return yaml.load(text, Loader=Loader)  # noqa: S506 (a safe loader)


def rendered(name: str) -> str:
    """A template as `karat init` writes it into an empty folder."""
    return Workflow(host=name.removesuffix(".yml")).text()


def schema(name: str) -> Any:
    """As SchemaStore and GitLab publish it; the package check-jsonschema carries copies."""
    folder = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


ACTION = load((ROOT / "action.yml").read_text())
WORKFLOW = load(rendered("github.yml"))
GITLAB = load(rendered("gitlab.yml"))


def steps() -> Iterator[dict[str, Any]]:
    yield from ACTION["runs"]["steps"]
    yield from WORKFLOW["jobs"]["karat"]["steps"]


@pytest.mark.parametrize(
    ("document", "name"), [(ACTION, "github-actions"), (WORKFLOW, "github-workflows"), (GITLAB, "gitlab-ci")]
)
def test_valid_by_the_hosts_schema(document: Any, name: str) -> None:
    jsonschema.validate(document, schema(name))


@pytest.mark.parametrize(
    ("document", "name", "harm"),
    [
        (ACTION, "github-actions", lambda d: d["runs"]["steps"][1].pop("shell")),
        (WORKFLOW, "github-workflows", lambda d: d["jobs"]["karat"].pop("runs-on")),
        (GITLAB, "gitlab-ci", lambda d: d["karat-gate"]["artifacts"].update(when="sometimes")),
    ],
)
def test_the_schemas_notice_a_mistake(document: Any, name: str, harm: Any) -> None:
    spoiled = json.loads(json.dumps(document))
    harm(spoiled)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spoiled, schema(name))


def test_no_text_of_others_becomes_a_script() -> None:
    scripts = [step["run"] for step in steps() if "run" in step]
    assert len(scripts) > 8
    assert [s for s in scripts if "${{" in s] == []


def test_only_official_actions_at_fixed_commits() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    assert [u for u in used if not PINNED.fullmatch(u)] == []


def test_one_action_has_one_commit_everywhere() -> None:
    pins = {step["uses"] for step in steps() if "uses" in step}
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


def test_the_token_may_do_no_more_than_it_must() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read", "actions": "read", "pull-requests": "write"}


def test_the_gitlab_file_to_include_is_the_one_that_init_writes() -> None:
    """GitLab includes files from a repository, `karat init` from the package: both need one."""
    assert (ROOT / "ci" / "gitlab" / "karat.gitlab-ci.yml").read_text() == rendered("gitlab.yml"), (
        "write `Workflow(host='gitlab').text()` of karat.gates.repository there"
    )


def test_every_input_of_the_action_is_used_and_none_other() -> None:
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])


def test_every_input_of_the_action_is_on_the_page() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    listed = page.partition("<!-- inputs -->")[2].partition("<!-- /inputs -->")[0]
    rows = set(re.findall(r"^\| `([\w-]+)` \|", listed, re.M))
    assert rows == set(ACTION["inputs"]) | set(ACTION["outputs"])


# The scripts, run with bash as a runner would


class Runner:
    """A folder that looks to a script like a runner's, with `karat` on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        self.programs = folder / "bin"
        self.output, self.summary = folder / "output", folder / "summary.md"
        for made in (self.repo, self.programs, folder / "temp"):
            made.mkdir()
        self.output.write_text("")
        self.program("karat", f'exec {sys.executable} -m karat.cli.main "$@"')
        shutil.copy(DEMO / "dataset.yaml", self.repo)
        for name in ("bm25.jsonl", "bm25_rerank.jsonl", "gold.jsonl"):  # half are enough for a verdict
            lines = (DEMO / name).read_text().splitlines(keepends=True)
            (self.repo / name).write_text("".join(lines[1::2]))

    def program(self, name: str, script: str) -> None:
        (self.programs / name).write_text(f"#!/bin/bash\n{script}\n")
        (self.programs / name).chmod(0o755)

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "NO_COLOR": "1",
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.folder / "temp"),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_REPOSITORY": "acme/search",
            "GITHUB_WORKFLOW": "karat",
            "GITHUB_BASE_REF": "main",
            **variables,
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.repo, env=environment, timeout=120
        )

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def script(document: Any, name: str) -> str:
    found = document["runs"]["steps"] if "runs" in document else document["jobs"]["karat"]["steps"]
    (step,) = [s for s in found if s.get("name") == name]
    return str(step["run"])


def judge(runner: Runner, **inputs: str) -> subprocess.CompletedProcess[str]:
    given = {"KARAT": "karat", "GOLD": "", "CRITERIA": "", "GATES": "", "BASELINE": "", **inputs}
    return runner.run(script(ACTION, "Judge"), **given)


def test_the_action_judges_and_keeps_the_exit_code_for_the_end(runner: Runner) -> None:
    saved = {"KARAT": "karat", "RUN": "bm25_rerank.jsonl", "GOLD": "gold.jsonl", "CRITERIA": "", "SAVE": "old.json"}
    done = runner.run(script(ACTION, "Save the result"), **saved)
    assert done.returncode == 0, done.stderr
    gates = "recall@5 >= 0.2\n\n  ndcg@5 drop <= 0.02  \n"
    done = judge(runner, RUN="bm25.jsonl", GOLD="gold.jsonl", GATES=gates, BASELINE="old.json")
    assert done.returncode == 0, done.stderr
    assert runner.outputs()["exit-code"] == "1"
    assert "::error title=Karat%3A ndcg@5::" in done.stdout
    folder = Path(runner.outputs()["folder"])
    comment = (folder / "comment.md").read_text()
    assert comment == runner.summary.read_text()
    assert ElementTree.parse(folder / "junit.xml").getroot().get("failures") == "1"
    assert json.loads((folder / "verdicts.json").read_text())["exit_code"] == 1
    assert runner.run(script(ACTION, "Verdict"), CODE="1").returncode == 1
    assert runner.run(script(ACTION, "Verdict"), CODE="0").returncode == 0


def test_the_action_without_a_baseline_yet(runner: Runner) -> None:
    files = {"RUN": "bm25.jsonl", "GOLD": "gold.jsonl", "BASELINE": "none.json"}
    done = judge(runner, **files, GATES="recall@5 drop <= 0.1\nrecall@5 >= 0.2")
    assert runner.outputs()["exit-code"] == "0"
    assert "::" in done.stdout
    verdicts = json.loads((Path(runner.outputs()["folder"]) / "verdicts.json").read_text())["verdicts"]
    assert [part["outcome"] for part in verdicts[0]["parts"]] == ["not checked"]
    done = judge(runner, **files, GATES="recall@5 drop <= 0.1")
    assert runner.outputs()["exit-code"] == "2"
    assert "::error" in done.stdout


@pytest.mark.parametrize(
    "inputs",
    [
        {"RUN": "absent.jsonl", "GOLD": "gold.jsonl", "GATES": "recall@5 >= 0.2"},
        {"RUN": "bm25.jsonl", "GOLD": "gold.jsonl", "GATES": "recall@5 is fine"},
        {"RUN": "bm25.jsonl", "GOLD": "gold.jsonl", "CRITERIA": "absent.yaml"},
        {"RUN": "bm25.jsonl", "GATES": "recall@5 >= 0.2"},
    ],
)
def test_what_the_action_cannot_judge(runner: Runner, inputs: dict[str, str]) -> None:
    done = judge(runner, **inputs)
    assert done.returncode == 0
    assert runner.outputs()["exit-code"] == "2"
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["ship-criteria.yaml", "config/ship-criteria.yaml"])
def test_the_action_finds_the_criteria_and_takes_saved_results(runner: Runner, place: str) -> None:
    """A saved result needs no gold set; a run file is a baseline too."""
    (runner.repo / place).parent.mkdir(exist_ok=True)
    (runner.repo / place).write_text("gates: [{metric: recall@5, threshold: 0.2, regression_max: 0.5}]\n")
    saved = {"KARAT": "karat", "RUN": "bm25.jsonl", "GOLD": "gold.jsonl", "CRITERIA": place, "SAVE": "run.json"}
    assert runner.run(script(ACTION, "Save the result"), **saved).returncode == 0
    judge(runner, RUN="run.json", BASELINE="run.json")
    judge(runner, RUN="bm25.jsonl", GOLD="gold.jsonl", BASELINE="bm25_rerank.jsonl")
    assert [line for line in runner.output.read_text().splitlines() if "exit" in line] == ["exit-code=0"] * 2


def test_the_action_leaves_the_jobs_python_alone(runner: Runner) -> None:
    """And installs what `package` names, if anything, instead of its own."""
    (python,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "python"]
    assert python["with"] == {"python-version": "${{ inputs.python-version }}", "update-environment": False}
    made = runner.folder / "temp" / "karat" / "bin"
    made.mkdir(parents=True)
    runner.program("python", f'echo "$@" >> {runner.folder}/asked')
    (made / "python").symlink_to(runner.programs / "python")
    for package in ("", "git+https://example.com/o/karat@" + "a" * 40):
        variables = {"PYTHON": "python", "PACKAGE": package, "GITHUB_ACTION_PATH": "the/action"}
        assert runner.run(script(ACTION, "Install Karat"), **variables).returncode == 0
    asked = (runner.folder / "asked").read_text().splitlines()
    assert [line.split()[-1] for line in asked[1::2]] == ["the/action", package]
    assert all(line.startswith("-I -m ") for line in asked)
    assert runner.outputs()["karat"] == str(made / "karat")


def test_who_wants_no_comment_gets_none() -> None:
    (commenting,) = [step for step in ACTION["runs"]["steps"] if step.get("name") == "Comment"]
    assert commenting["if"].startswith("${{ inputs.comment == 'true' && inputs.token != '' && ")
    assert (ACTION["inputs"]["comment"]["default"], ACTION["inputs"]["token"]["default"]) == (
        "true",
        "${{ github.token }}",
    )


def test_a_baseline_is_kept_for_90_days() -> None:
    (kept,) = [step for step in WORKFLOW["jobs"]["karat"]["steps"] if step.get("name") == "Keep the baseline"]
    assert (kept["if"], kept["with"]["retention-days"]) == ("github.event_name == 'push'", 90)
    assert GITLAB["karat-baseline"]["artifacts"]["expire_in"] == "90 days"
    assert [rule["if"] for rule in GITLAB["karat-baseline"]["rules"]] == ["$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"]


@pytest.mark.usefixtures("criteria")
def test_a_baseline_of_the_repository_is_taken_where_it_stands(runner: Runner) -> None:
    """Where the steps that measure, keep and fetch one were deleted."""
    made = (
        "eval",
        "bm25_rerank.jsonl",
        "--gold",
        "gold.jsonl",
        "--criteria",
        "ship-criteria.yaml",
        "-o",
        "baseline.json",
    )
    assert runner.run("karat " + " ".join(made)).returncode == 0
    assert workflow(runner, "Judge").returncode == 1


def test_inputs_are_not_run(runner: Runner) -> None:
    hostile = '$(touch hacked) `touch hacked`"; touch hacked; echo "'
    judge(runner, **dict.fromkeys(("RUN", "GOLD", "CRITERIA", "GATES", "BASELINE"), hostile))
    for name in ("RUN", "GOLD", "GATES"):
        judge(runner, **{"RUN": "bm25.jsonl", "GOLD": "gold.jsonl", "GATES": "mrr >= 0.1", name: "--help"})
    assert not (runner.repo / "hacked").exists()
    assert {line for line in runner.output.read_text().splitlines() if line.startswith("exit")} == {"exit-code=2"}


def test_the_action_comments_also_when_there_is_nothing_to_say(runner: Runner) -> None:
    runner.program("karat", 'printf "%s\\n" "$@" > ../asked; cat "${@: -1}" > ../said')
    inputs = {"KARAT": "karat", "FOLDER": str(runner.folder), "NAME": "second", "GITHUB_TOKEN": "x"}
    assert runner.run(script(ACTION, "Comment"), **inputs).returncode == 0
    assert (runner.folder / "asked").read_text().split() == [
        "gate",
        "comment",
        "--name=second",
        "--",
        str(runner.folder / "comment.md"),
    ]
    assert "could not judge" in (runner.folder / "said").read_text()
    runner.program("karat", "exit 2")
    failed = runner.run(script(ACTION, "Comment"), **inputs)
    assert failed.returncode == 0, "the verdict does not depend on the comment"
    assert "::warning title=Karat::" in failed.stdout


def workflow(runner: Runner, step: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"RUN": "bm25.jsonl", "GOLD": "gold.jsonl", "CRITERIA": "ship-criteria.yaml"}
    return runner.run(script(WORKFLOW, step), **{**environment, **variables})


@pytest.fixture
def criteria(runner: Runner) -> None:
    text = "gates:\n  - {metric: recall@5, threshold: 0.2}\n  - {metric: 'ndcg(gain=linear)@5', regression_max: 0.02}\n"
    (runner.repo / "ship-criteria.yaml").write_text(text)


@pytest.mark.usefixtures("criteria")
def test_the_workflow_from_main_to_a_pull_request(runner: Runner) -> None:
    """`gh` stands in for GitHub: it hands out what main has kept."""
    made = workflow(runner, "Measure the baseline", RUN="bm25_rerank.jsonl")
    assert made.returncode == 0, made.stderr
    (runner.repo / "baseline.json").rename(runner.folder / "kept.json")
    runner.program(
        "gh", 'echo "$@" >> ../asked; if [ "$2" = list ]; then echo 41; else cp ../kept.json baseline.json; fi'
    )
    assert workflow(runner, "Fetch the baseline").returncode == 0
    listed, fetched = (runner.folder / "asked").read_text().splitlines()
    assert "--branch main --event push --status success" in listed
    assert "workflowName == env.GITHUB_WORKFLOW" in listed
    assert fetched == "run download 41 --repo acme/search --name karat-baseline"
    judged = workflow(runner, "Judge")
    assert judged.returncode == 1, judged.stderr
    assert "dropped from" in runner.summary.read_text()
    assert "::error file=ship-criteria.yaml,line=3," in judged.stdout
    assert (runner.repo / "junit.xml").exists()
    assert (runner.repo / "comment.md").exists()
    (kept,) = [s for s in WORKFLOW["jobs"]["karat"]["steps"] if s.get("name") == "Keep the verdict"]
    assert "verdict.html" in kept["with"]["path"].split()
    assert (runner.repo / "verdict.html").read_text().startswith("<!doctype html>")


OWN = "a pull request's own baseline"  # which it brings along, and which nobody may take


@pytest.mark.usefixtures("criteria")
def test_the_first_pull_request_has_no_baseline(runner: Runner) -> None:
    (runner.repo / "baseline.json").write_text(OWN)
    runner.program("gh", "true")
    fetched = workflow(runner, "Fetch the baseline")
    assert (fetched.returncode, "No baseline yet" in fetched.stdout) == (0, True)
    judged = workflow(runner, "Judge")
    assert judged.returncode == 0, judged.stderr
    assert "karat eval" in runner.summary.read_text()  # how to save one


@pytest.mark.parametrize("answer", ["exit 1", 'if [ "$2" = list ]; then echo 41; else exit 1; fi'])
def test_a_baseline_that_cannot_be_fetched_is_no_green_light(runner: Runner, answer: str) -> None:
    (runner.repo / "baseline.json").write_text(OWN)
    runner.program("gh", answer)
    fetched = workflow(runner, "Fetch the baseline")
    assert (fetched.returncode, "::error title=Karat::" in fetched.stdout) == (2, True)
    assert not (runner.repo / "baseline.json").exists()


def test_pull_requests_of_forks_get_no_comment() -> None:
    """Their token may not write one; the host decides by this condition."""
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    commenting = [step for step in steps() if step.get("name") == "Comment"]
    assert len(commenting) == 2
    assert [step["if"] for step in commenting if own not in step["if"]] == []
    assert "pull_request_target" not in WORKFLOW["on"]


def test_no_step_leaves_a_token_in_the_checkout() -> None:
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert [step["with"]["persist-credentials"] for step in checkouts] == [False]
    with_token = [step["name"] for step in steps() if "token" in json.dumps(step.get("env", {})).lower()]
    assert with_token == ["Comment", "Fetch the baseline", "Comment"]


def test_a_step_that_may_fail_says_so() -> None:
    """`|| true` would pass over what went wrong, and go on with what a pull request brings."""
    assert [step["name"] for step in steps() if "|| true" in step.get("run", "")] == []


SEARCH = """
def search(query, k=10):
    return [f"doc_{len(query)}#p{n}" for n in range(k)]
"""
ASKED = {"RETRIEVER": "my_app:search", "QUERIES": "gold.jsonl", "CORPUS": "", "RUN": "run.jsonl"}


def test_the_workflow_asks_the_users_function(runner: Runner) -> None:
    (runner.repo / "my_app.py").write_text(SEARCH)
    (runner.repo / "run.jsonl").write_text("an older one\n")
    asked = workflow(runner, "Ask the retriever", **ASKED)
    assert asked.returncode == 0, asked.stderr
    first = json.loads((runner.repo / "run.jsonl").read_text().splitlines()[0])
    assert (first["system"], len(first["topk"])) == ("my_app:search", 50)


def test_the_workflow_stops_where_the_retriever_fails(runner: Runner) -> None:
    absent = workflow(runner, "Ask the retriever", **ASKED)
    assert (absent.returncode, "my_app" in absent.stderr) == (2, True)
    (runner.repo / "my_app.py").write_text("def search(query):\n    raise TimeoutError('down')\n")
    down = workflow(runner, "Ask the retriever", **ASKED)
    assert (down.returncode, "TimeoutError" in down.stderr) == (2, True)


def test_the_workflow_searches_a_corpus_where_one_is_named(runner: Runner) -> None:
    shutil.copy(DEMO / "corpus.jsonl", runner.repo)
    asked = workflow(runner, "Ask the retriever", **{**ASKED, "RETRIEVER": "random", "CORPUS": "corpus.jsonl"})
    assert asked.returncode == 0, asked.stderr


def test_nothing_is_installed_until_it_is_said_what(runner: Runner) -> None:
    """No package index has Karat, so an empty workflow must not ask one for it."""
    runner.program("pip", 'printf "%s\\n" "$@" > ../asked')
    empty = workflow(runner, "Install Karat", KARAT="")
    assert (empty.returncode, "::error title=Karat::" in empty.stdout) == (2, True)
    job = runner.run("\n".join(GITLAB[".karat"]["before_script"]))
    assert job.returncode == 2
    assert not (runner.folder / "asked").exists()
    pinned = "karat[http] @ git+https://example.com/o/karat@" + "a" * 40
    assert workflow(runner, "Install Karat", KARAT=pinned).returncode == 0
    assert (runner.folder / "asked").read_text() == f"install\n{pinned}\n"


def test_no_file_installs_a_name_from_a_package_index() -> None:
    """Somebody else could own it, and CI would run their code."""
    pages = [ROOT / "README.md", ROOT / "action.yml", *(ROOT / "docs").glob("*.md"), *(ROOT / "ci").rglob("*.yml")]
    pages += (ROOT / "src" / "karat" / "templates").iterdir()
    named = re.compile(r"pip3? install (?:-\S+ )*['\"]?karat(?:[\s'\"=<>~]|$)|karat==", re.M)
    assert {page.name: named.findall(page.read_text()) for page in pages if named.search(page.read_text())} == {}


def test_the_comment_step_of_the_workflow_asks_karat(runner: Runner) -> None:
    runner.program("karat", 'echo "$@" > ../asked')
    assert workflow(runner, "Comment", GITHUB_TOKEN="x").returncode == 0
    assert (runner.folder / "asked").read_text() == "gate comment comment.md\n"
    assert "could not judge" in (runner.repo / "comment.md").read_text()


class Artifacts(http.server.BaseHTTPRequestHandler):
    """GitLab's artifacts of the default branch, for who has the token."""

    content: bytes = b""
    seen: list[str] = []
    stored = ""  # where the files are, if elsewhere
    status = 0  # what is answered in any case

    def do_GET(self) -> None:
        self.seen.append(self.path)
        allowed = "Bearer secret" in self.headers.get("Authorization", "") or "JOB-TOKEN" in self.headers
        self.send_response(self.status or (302 if self.stored else 200) if allowed or self.status else 404)
        if self.stored:
            self.send_header("Location", self.stored)
        self.end_headers()
        self.wfile.write(self.content if allowed else b'{"message": "404 Not found"}')

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def gitlab() -> Iterator[str]:
    Artifacts.seen, Artifacts.stored, Artifacts.status = [], "", 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Artifacts)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api/v4"
    server.shutdown()
    server.server_close()


class Storage(http.server.BaseHTTPRequestHandler):
    """Where a GitLab may keep its files, on a server of its own."""

    seen: list[dict[str, str]] = []

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(Artifacts.content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def storage() -> Iterator[str]:
    Storage.seen = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Storage)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://localhost:{server.server_port}/baseline.json?signature=1"
    server.shutdown()
    server.server_close()


def fetched(runner: Runner, gitlab: str, **tokens: str) -> subprocess.CompletedProcess[str]:
    """The part of the job that asks for the baseline."""
    variables = {
        "CI_API_V4_URL": gitlab,
        "CI_MERGE_REQUEST_PROJECT_ID": "7",
        "CI_DEFAULT_BRANCH": "main",
        "NO_PROXY": "127.0.0.1,localhost",
        "GITLAB_TOKEN": "",
        "CI_JOB_TOKEN": "",
    }
    (runner.repo / "baseline.json").write_text(OWN)
    return runner.run(GITLAB["karat-gate"]["script"][0], **{**variables, **tokens})


@pytest.mark.parametrize("token", ["GITLAB_TOKEN", "CI_JOB_TOKEN"])
def test_a_token_of_gitlab_goes_nowhere_else(runner: Runner, gitlab: str, storage: str, token: str) -> None:
    Artifacts.stored, Artifacts.content = storage, b"what main has kept"
    done = fetched(runner, gitlab, **{token: "secret"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert (runner.repo / "baseline.json").read_bytes() == b"what main has kept"
    assert len(Storage.seen) == 1
    assert "secret" not in json.dumps(Storage.seen)
    assert not {"authorization", "job-token", "private-token"} & Storage.seen[0].keys()


@pytest.mark.parametrize(("status", "code"), [(404, 0), (500, 2), (403, 2)])
def test_a_merge_request_brings_no_baseline_of_its_own(runner: Runner, gitlab: str, status: int, code: int) -> None:
    Artifacts.status = status
    script = GITLAB["karat-gate"]["script"][0]
    assert "--retry 3" in script
    GITLAB["karat-gate"]["script"][0] = script.replace("--retry 3", "--retry 0")  # which takes seconds
    try:
        assert fetched(runner, gitlab, GITLAB_TOKEN="secret").returncode == code
    finally:
        GITLAB["karat-gate"]["script"][0] = script
    assert not (runner.repo / "baseline.json").exists()


@pytest.mark.usefixtures("criteria")
@pytest.mark.parametrize(("token", "code"), [("secret", 1), ("", 0)])
def test_the_gitlab_jobs(runner: Runner, gitlab: str, token: str, code: int) -> None:
    variables = {
        "KARAT_RUN": "bm25.jsonl",
        "KARAT_GOLD": "gold.jsonl",
        "KARAT_CRITERIA": "ship-criteria.yaml",
        "CI_API_V4_URL": gitlab,
        "CI_MERGE_REQUEST_PROJECT_ID": "7",
        "CI_DEFAULT_BRANCH": "release/next",
        "GITLAB_TOKEN": token,
        "NO_PROXY": "127.0.0.1",
    }

    def job(name: str, **more: str) -> subprocess.CompletedProcess[str]:
        return runner.run("\n".join(GITLAB[name]["script"]), **{**variables, **more})

    (runner.repo / "my_app.py").write_text(SEARCH)
    asked = {
        "KARAT_RETRIEVER": "my_app:search",
        "KARAT_QUERIES": "gold.jsonl",
        "KARAT_CORPUS": "",
        "KARAT_RUN": "run.jsonl",
    }
    assert job("karat-run", **asked).returncode == 0
    assert job("karat-run", **{**asked, "KARAT_RETRIEVER": "my_app:nothing"}).returncode == 2
    assert job("karat-baseline", KARAT_RUN="bm25_rerank.jsonl").returncode == 0
    Artifacts.content = (runner.repo / "baseline.json").read_bytes()
    (runner.repo / "baseline.json").unlink()
    judged = job("karat-gate")
    assert judged.returncode == code, judged.stderr
    assert Artifacts.seen == ["/api/v4/projects/7/jobs/artifacts/release%2Fnext/raw/baseline.json?job=karat-baseline"]
    assert ("karat eval" in (runner.repo / "comment.md").read_text()) == (not token)  # how to save a baseline
    reports = GITLAB["karat-gate"]["artifacts"]["reports"]
    assert ElementTree.parse(runner.repo / reports["junit"]).getroot().get("failures") == str(code)
    assert len(json.loads((runner.repo / reports["codequality"]).read_text())) == code
    runner.program("karat", 'echo "$@" > ../asked')
    assert runner.run("\n".join(GITLAB["karat-gate"]["after_script"])).returncode == 0
    assert (runner.folder / "asked").read_text() == "gate comment comment.md\n"


def test_the_action_installs_karat_with_all_that_belongs_to_it(runner: Runner, tmp_path: Path) -> None:
    """For real, but without the dependencies: those are taken from here."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    build += ["--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "KARAT_PURE": "1"})
    (wheel,) = tmp_path.glob("karat-*.whl")
    variables = {"PYTHON": sys.executable, "PACKAGE": "", "GITHUB_ACTION_PATH": str(wheel), "PIP_NO_DEPS": "1"}
    variables["PIP_NO_COMPILE"] = "1"
    hostile = [runner.repo / f"{name}.py" for name in ("venv", "pip", "ensurepip", "sitecustomize", "json", "karat")]
    for module in hostile:  # of a pull request
        module.write_text(f"open({str(runner.folder / 'hacked')!r}, 'a').write(__name__)\n")
    installed = runner.run(script(ACTION, "Install Karat"), **variables)
    assert installed.returncode == 0, installed.stderr
    assert not (runner.folder / "hacked").exists(), (runner.folder / "hacked").read_text()
    for module in hostile:
        module.unlink()
    program = runner.outputs()["karat"]
    packages = os.pathsep.join(p for p in sys.path if p.endswith("site-packages"))
    started = runner.run(f'"{program}" init new', PYTHONPATH=packages)
    assert started.returncode == 0, started.stderr
    assert (runner.repo / "new" / ".github" / "workflows" / "karat.yml").is_file()
    test = "def test_it(karat_gate):\n    karat_gate('bm25.jsonl', 'gold.jsonl', 'recall@5 >= 0.9')\n"
    (runner.repo / "test_it.py").write_text(test)
    python = Path(program).with_name("python")
    tested = runner.run(f'"{python}" -m pytest -p no:cacheprovider test_it.py', PYTHONPATH=packages)
    assert tested.returncode == 1
    assert "fail: recall@5" in tested.stdout, tested.stdout
