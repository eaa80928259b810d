"""`karat gate comment` as a job runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
MARK = "<!-- karat:karat -->"
BODY = "## May not ship\n\nRecall fell by 6 pp — naïve 👩‍🚀"
TOKEN = "tok-0123456789abcdef"


@pytest.fixture
def body(tmp_path: Path) -> str:
    (tmp_path / "comment.md").write_text(f"{BODY}\n", encoding="utf-8")
    return str(tmp_path / "comment.md")


def test_create_then_update(server: Any, body: str) -> None:
    first = server.karat(body)
    assert (first.returncode, first.stderr) == (0, "")
    assert re.match(r"created .*: https://", first.stdout)
    second = server.karat("-", stdin="All is well again.")
    assert (second.returncode, second.stdout.split()[0]) == (0, "updated")
    assert server.bodies() == [f"{MARK}\nAll is well again."]


def test_an_event_file_and_a_name(github: Any, body: str) -> None:
    github.event.write_text(json.dumps({"pull_request": {"number": 7}}))
    done = github.karat(body, "--name", "de", GITHUB_REF="refs/heads/main", GITHUB_EVENT_PATH=str(github.event))
    assert done.returncode == 0, done.stderr
    assert github.bodies()[0].startswith(f"<!-- karat:de -->\n{BODY}")


def test_a_fork(github: Any, body: str) -> None:
    github.read_only = (403, "Resource not accessible by integration")
    done = github.karat(body)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: POST http://127.0.0.1")
    assert github.summary.read_text(encoding="utf-8").startswith("\n## May not ship")


def test_a_job_token_prints_the_text(gitlab: Any, body: str) -> None:
    done = gitlab.karat(body, GITLAB_TOKEN="")
    assert done.returncode == 0
    assert done.stdout.startswith("## May not ship")
    assert "GITLAB_TOKEN" in done.stderr


def test_a_busy_server_is_asked_again(github: Any, body: str) -> None:
    github.faults = {"GET": [{"status": 429, "headers": {"Retry-After": "0"}}], "POST": [{"drop": 1, "accept": 1}]}
    done = github.karat(body)
    assert (done.returncode, done.stdout.split()[0]) == (0, "updated"), done.stderr
    assert len(github.comments) == 1


def test_a_hanging_server_ends_with_one_message(gitlab: Any, body: str) -> None:
    gitlab.faults["GET"] = [{"hang": True}]
    done = gitlab.karat(body, "--timeout", "1", "--patience", "0")
    assert done.returncode == 2
    assert re.match(r"error: .*\b1 s\b.*\nhint: .*\b0 s\b", done.stderr)  # waited, and was willing to wait


def test_a_proxy_of_the_environment_is_used(github: Any, body: str) -> None:
    done = github.karat(body, GITHUB_API_URL="http://api.invalid", http_proxy=github.url, NO_PROXY="", no_proxy="")
    assert done.returncode == 0, done.stderr
    assert all(path.startswith("http://api.invalid/") for _, path, _ in github.requests)
    assert len(github.comments) == 1


def test_a_wrong_token_is_not_shown(server: Any, body: str) -> None:
    server.authorised = lambda headers: False
    done = server.karat(body)
    assert (done.returncode, done.stdout) == (2, "")
    assert "401 (Bad credentials" in done.stderr
    assert TOKEN not in done.stderr


def test_outside_of_ci_one_message_says_what_is_missing(github: Any, body: str) -> None:
    done = github.karat(body, GITHUB_ACTIONS="")
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("GITHUB_ACTIONS=true", "GITLAB_CI=true"))
    done = github.karat(body, "--service", "gitlab")
    assert "CI_API_V4_URL, CI_PROJECT_ID, GITLAB_TOKEN, CI_MERGE_REQUEST_IID [" in done.stderr


def test_host_and_number_can_be_given(github: Any, body: str) -> None:
    done = github.karat(body, "--service", "github", "--pull-request", "7", GITHUB_ACTIONS="", GITHUB_REF="")
    assert done.returncode == 0, done.stderr


def test_a_dry_run_sends_nothing_and_needs_no_token(server: Any, body: str) -> None:
    done = server.karat(body, "--dry-run", GITHUB_TOKEN="", GITLAB_TOKEN="", CI_JOB_TOKEN="")
    assert done.returncode == 0, done.stderr
    assert MARK in done.stdout
    assert f"{server.url}{server.comments_path} " in done.stdout
    assert server.requests == []


def test_a_bad_name_is_refused_in_a_dry_run_too(server: Any, body: str) -> None:
    done = server.karat(body, "--dry-run", "--name", "a-->b")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --name: ")


def test_the_page_names_options_and_variables_that_exist(github: Any) -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    section = page.partition("## A comment on the pull request")[2].partition("\n## ")[0]
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "src" / "karat" / "net").rglob("*.py"))
    options = set(re.findall(r"(?<=[` ])--[a-z-]+", section)) - {"--gold"}
    assert options == set(re.findall(r"--[a-z-]+", github.karat("-h").stdout)) - {"--help", "--quiet"}
    foreign = {"HTTPS_PROXY", "NO_PROXY"}
    assert {v for v in re.findall(r"\b[A-Z]+_[A-Z0-9_]+\b", section) if v not in code} == foreign
    for example in re.findall(r"```yaml\n(.*?)```", section, re.S):
        assert "retrieval" in str(yaml.safe_load(example))


def test_help_and_import_load_nothing_of_the_network() -> None:
    script = (
        "import sys, karat, karat.cli.main as m\nsys.argv = ['karat', '--help']\n"
        "try:\n    m.main()\nexcept SystemExit:\n    pass\n"
        "print([n for n in sys.modules if n.startswith(('karat.net.hosts', 'http.', 'urllib.request', 'ssl'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
