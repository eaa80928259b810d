"""Servers on loopback that speak the comments APIs of GitHub and GitLab, and break down as they are told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from loopback import Handler, Loopback
from msgspec.structs import replace

from karat.net.hosts.base import Outcome
from karat.net.hosts.comments import PATIENCE, find_host, post
from karat.net.http import Retry

TOKEN = "tok-0123456789abcdef"


class Waits:
    """A clock that only sleeping moves, so that a test sees minutes of waiting in no time."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def patience(self, limit: float = 90.0) -> Retry:
        clock = {"sleep": self.slept.append, "clock": lambda: sum(self.slept), "chance": lambda: 0.5}
        return replace(PATIENCE, limit=limit, **clock)


class Server(Loopback):
    """The comments of one pull request. `faults` holds, for a method, what its next requests meet.

    A fault is a dict: `status`, `headers`, `body` for an answer; `drop` to close the connection, `accept` to do
    the work before that; `hang` to say nothing; `trickle` for an answer that never ends.
    """

    comments_path: str
    edit_path: str
    edit_method: str
    limit: int

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.faults: dict[str, list[dict[str, Any]]] = {}
        self.read_only: tuple[int, str] | None = None
        self.foreign: set[int] = set()
        """Comments that may not be edited, whoever the API says has written them."""
        super().__init__(self._handler())
        self.waits = Waits()

    # What tests ask and do

    def environment(self) -> dict[str, str]:
        raise NotImplementedError

    def comment(self, author: str, body: str) -> dict[str, Any]:
        raise NotImplementedError

    def add(self, author: str, body: str) -> int:
        found = self.comment(author, body) | {"id": 1000 + len(self.comments), "body": body}
        self.comments.append(found)
        return int(found["id"])

    def bodies(self) -> list[str]:
        return [c["body"] for c in self.comments]

    def sent(self, method: str, path: str = "") -> list[str]:
        return [p for m, p, _ in self.requests if m == method and path in p]

    def post(
        self, body: str = "Recall fell.", name: str = "karat", limit: float = 90.0, timeout: float = 30
    ) -> Outcome:
        return post(find_host(self.environment()), name, body, self.waits.patience(limit), timeout)

    def karat(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "karat.cli.main", "gate", "comment", *arguments]
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "GITLAB_", "CI_"))}
        everything = {**clean, "NO_COLOR": "1", "NO_PROXY": "*", **self.environment(), **environment}
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=everything)

    # The API

    def authorised(self, headers: dict[str, str]) -> bool:
        raise NotImplementedError

    def me(self) -> str:
        raise NotImplementedError

    def answer(self, method: str, path: str, query: dict[str, str], payload: Any) -> tuple[int, object, dict[str, str]]:
        if method == "GET" and path == self.comments_path:
            return self._list(query)
        if method not in ("POST", self.edit_method):
            return 404, {"message": "Not Found"}, {}
        if self.read_only:
            return self.read_only[0], {"message": self.read_only[1]}, {}
        if len(payload["body"]) > self.limit:
            return 422, {"message": "Validation Failed", "errors": [{"message": "body is too long"}]}, {}
        if method == "POST" and path == self.comments_path:
            self.add(self.me(), payload["body"])
            return 201, self.comments[-1], {}
        found = re.fullmatch(self.edit_path, path)
        for comment in self.comments:
            if method == self.edit_method and found and comment["id"] == int(found[1]):
                if comment["id"] in self.foreign:
                    return 403, {"message": "Must have admin rights"}, {}
                comment["body"] = payload["body"]
                return 200, comment, {}
        return 404, {"message": "Not Found"}, {}

    def _list(self, query: dict[str, str]) -> tuple[int, object, dict[str, str]]:
        size, page = min(100, int(query.get("per_page", 30))), int(query.get("page", 1))
        shown = self.comments[(page - 1) * size : page * size]
        return 200, shown, self.paging(page, page * size < len(self.comments))

    def paging(self, page: int, more: bool) -> dict[str, str]:
        raise NotImplementedError

    def _handler(outer) -> type[Handler]:
        class Answering(Handler):
            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:  # the other side had enough, as some tests want it
                    self.close_connection = True

            def respond(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = urlsplit(self.path)
                outer.requests.append((self.command, self.path, dict(self.headers)))
                query = {k: v[0] for k, v in parse_qs(parts.query).items()}
                payload = json.loads(content) if content else None
                # Who one is (GitHub: a POST) is asked at every try; faults are meant for the comments.
                queue = outer.faults.get("whoami" if parts.path.endswith(("/graphql", "/user")) else self.command, [])
                fault = queue.pop(0) if queue else {}
                if "hang" in fault:
                    outer.over.wait(60)
                    self.close_connection = True
                elif "trickle" in fault:
                    self.trickle()
                elif "drop" in fault:
                    if "accept" in fault:
                        outer.answer(self.command, parts.path, query, payload)
                    self.close_connection = True
                elif fault:
                    self.send(fault["status"], fault.get("body", "{}"), fault.get("headers", {}))
                elif not outer.authorised(dict(self.headers)):
                    self.send(401, json.dumps({"message": f"Bad credentials {dict(self.headers)}"}), {})
                else:
                    status, found, headers = outer.answer(self.command, parts.path, query, payload)
                    self.send(status, json.dumps(found), headers)

            def send(self, status: int, body: str, headers: dict[str, str]) -> None:
                content = body.encode()
                self.send_response_only(status)  # without a Date, which tests set
                for key, value in ({"Content-Length": str(len(content))} | headers).items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(content)
                if int(headers.get("Content-Length", 0)) > len(content):
                    self.close_connection = True

            def trickle(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                while not outer.over.is_set():
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.02)

            do_GET = do_POST = do_PATCH = do_PUT = respond

        return Answering


class GitHubServer(Server):
    comments_path = "/repos/acme/search/issues/7/comments"
    edit_path = r"/repos/acme/search/issues/comments/(\d+)"
    edit_method = "PATCH"
    limit = 65_536
    login = "github-actions[bot]"
    tells_login = True

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.event, self.summary = folder / "event.json", folder / "summary.md"

    def environment(self) -> dict[str, str]:
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.url,
            "GITHUB_REPOSITORY": "acme/search",
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }

    def comment(self, author: str, body: str) -> dict[str, Any]:
        return {"user": {"login": author}, "html_url": f"https://github.com/acme/search/pull/7#{len(self.comments)}"}

    def authorised(self, headers: dict[str, str]) -> bool:
        return headers.get("Authorization") == f"Bearer {TOKEN}"

    def me(self) -> str:
        return self.login

    def answer(self, method: str, path: str, query: dict[str, str], payload: Any) -> tuple[int, object, dict[str, str]]:
        if path == "/graphql":
            assert payload == {"query": "{viewer{login}}"}
            return 200, {"data": {"viewer": {"login": self.login}} if self.tells_login else None}, {}
        return super().answer(method, path, query, payload)

    def paging(self, page: int, more: bool) -> dict[str, str]:
        following = f'<https://evil.example/?page={page + 1}>; rel="next", ' if more else ""
        return {"Link": f'{following}<https://evil.example/?page=1>; rel="first"'}


class GitLabServer(Server):
    comments_path = "/api/v4/projects/42/merge_requests/7/notes"
    edit_path = r"/api/v4/projects/42/merge_requests/7/notes/(\d+)"
    edit_method = "PUT"
    limit = 1_000_000
    username = "project_42_bot"

    def environment(self) -> dict[str, str]:
        return {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": f"{self.url}/api/v4",
            "CI_PROJECT_ID": "99",
            "CI_MERGE_REQUEST_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_PROJECT_URL": "https://gitlab.com/acme/search",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_JOB_TOKEN": "job-token",
            "GITLAB_TOKEN": TOKEN,
        }

    def comment(self, author: str, body: str) -> dict[str, Any]:
        return {"author": {"username": author}, "system": False}

    def authorised(self, headers: dict[str, str]) -> bool:
        return headers.get("Private-Token", headers.get("PRIVATE-TOKEN")) == TOKEN

    def me(self) -> str:
        return self.username

    def answer(self, method: str, path: str, query: dict[str, str], payload: Any) -> tuple[int, object, dict[str, str]]:
        if path == "/api/v4/user":
            return 200, {"id": 5, "username": self.username}, {}
        if method == "GET":
            assert query["sort"] == "asc"
        return super().answer(method, path, query, payload)

    def paging(self, page: int, more: bool) -> dict[str, str]:
        return {"X-Next-Page": str(page + 1) if more else ""}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    server = GitHubServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def gitlab() -> Iterator[GitLabServer]:
    server = GitLabServer()
    yield server
    server.close()


@pytest.fixture(params=["github", "gitlab"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[GitHubServer]:
    """A server that must hear of nothing."""
    found = GitHubServer(tmp_path)
    yield found
    found.close()
