"""What is said of comments on pull requests: what was done, and why it could not be."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from golden import check
from karat.net.hosts.base import cut
from karat.net.hosts.comments import find_host, plan, post, read_body
from karat.net.timeouts import Workers
from wording import file, refusals

Case = Callable[[], object]


def test_comments(github: Any, gitlab: Any) -> None:
    """Outcome by outcome, as `karat gate comment` prints them."""
    said: list[str] = []

    def done(name: str, server: Any, body: str = "Recall fell.") -> None:
        outcome = server.post(body)
        said.append(f"# {name}\n{outcome.done}\n" + (f"warning: {outcome.warning}\n" if outcome.warning else ""))

    done("created", github)
    done("updated", github)
    github.read_only = (403, "Resource not accessible by integration")
    done("a fork", github)
    done("created at GitLab", gitlab)
    gitlab.read_only = (403, "insufficient_scope")
    done("a token of GitLab that may not write", gitlab)
    job = find_host(gitlab.environment() | {"GITLAB_TOKEN": "", "CI_JOB_TOKEN": "x"})
    outcome = post(job, "karat", "Recall fell.", gitlab.waits.patience(), 5)
    said.append(f"# only the token of a job\n{outcome.done}\nwarning: {outcome.warning}\n")
    said.append(f"# a dry run\n{plan(find_host(github.environment()), 'karat', 'Recall fell.')}\n")
    *_, note = cut("line\n" * 1000, 500).strip().splitlines()
    said.append(f"# a text that is too long\n{note}\n")
    text = "\n".join(said).replace(github.url, "http://github").replace(gitlab.url, "http://gitlab")
    check("wording/comment.txt", text)


def test_errors_of_hosts(github: Any, gitlab: Any, tmp_path: Path) -> None:
    def met(fault: dict[str, Any], times: int = 1, method: str = "GET", **options: Any) -> Case:
        def call() -> None:
            github.faults = {method: [fault] * times}
            github.post(**options)

        return call

    def told(**environment: str) -> Case:
        return lambda: find_host(github.environment() | environment)

    def event(content: str) -> Case:
        return lambda: told(GITHUB_REF="", GITHUB_EVENT_PATH=file("event.json", content))()

    def fork(summary: Any) -> Case:
        def call() -> None:
            github.faults = {}
            github.read_only, github.summary = (403, "Resource not accessible by integration"), summary
            github.post("y" * 9000)

        return call

    def full() -> None:
        fork(Path(file("summary.md", "x" * ((1 << 20) - 100))))()

    def unknown() -> None:
        github.faults, path, github.comments_path = {}, github.comments_path, "/elsewhere"
        try:
            github.post()
        finally:
            github.comments_path = path

    def foreign() -> None:
        gitlab.faults["whoami"] = [{"status": 200, "body": "<html>"}]
        gitlab.post()

    def endless() -> None:
        gitlab.paging = lambda page, more: {"X-Next-Page": str(page + 1)}
        gitlab.post()

    groups: dict[str, dict[str, Case]] = {
        "Answers": {
            "a server that fails": met({"status": 503}, 9, limit=5),
            "a server that hangs": met({"hang": True}, 9, limit=0, timeout=0.2),
            "a long wait": met({"status": 429, "headers": {"Retry-After": "3600"}}),
            "a wrong token": met({"status": 401, "body": '{"message": "Bad credentials"}'}),
            "a pull request that is not there": unknown,
            "something else than comments": met({"status": 200, "body": "<html>login</html>"}),
            "another server": met({"status": 302, "headers": {"Location": "https://evil.example/x"}}),
            "redirects in a circle": met({"status": 302, "headers": {"Location": "/again"}}, 9),
            "a text that is refused": met(
                {"status": 422, "body": json.dumps({"message": "Validation Failed"})}, method="POST"
            ),
            "a server that does not say whose token it is": foreign,
            "comments without end": endless,
            "a fork without a summary": fork(""),
            "a summary that cannot be written": fork(Path("no/summary.md")),
            "a summary that is full": full,
        },
        "Settings": {
            "outside of CI": lambda: find_host({}),
            "no variable of GitLab": lambda: find_host({"GITLAB_CI": "true"}),
            "a host that does not exist": lambda: find_host({}, "bitbucket"),
            "a repository without an owner": told(GITHUB_REPOSITORY="acme"),
            "an event without a pull request": event("{}"),
            "an event that is not one": event("[]"),
            "an event that is not there": told(GITHUB_REF="", GITHUB_EVENT_PATH="none.json"),
            "a merge request without a number": lambda: find_host(gitlab.environment() | {"CI_MERGE_REQUEST_IID": "x"}),
            "a token of two lines": told(GITHUB_TOKEN="secret\nX-Evil: 1"),
            "an address that is not one": told(GITHUB_API_URL="https://u:p@x/"),
            "a name that is not one": lambda: github.post(name="a-->b"),
            "a text that is not there": lambda: read_body("none.md"),
            "an empty text": lambda: read_body(file("comment.md", " \n")),
            "a text that is not text": lambda: read_body(file("comment.md", b"\xff\xfe")),
        },
    }
    check("wording/errors_hosts.txt", refusals(groups, tmp_path))


def test_a_retriever_that_hangs(tmp_path: Path) -> None:
    hanging = threading.Event()

    def hang() -> None:
        list(Workers(lambda n: hanging.wait(5), 32, timeout=0.01).each(range(500)))

    said = refusals({"Workers": {"all of them hang": hang}}, tmp_path)
    hanging.set()
    check("wording/errors_workers.txt", re.sub(r"\d+ queries", "… queries", said))
