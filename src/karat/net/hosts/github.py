"""GitHub: comments of a pull request belong to its issue."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from karat.errors import ConfigError
from karat.net.hosts.base import (
    Denied,
    Host,
    HostClient,
    HostError,
    NotFound,
    Outcome,
    cut,
    json_of,
    login,
    require,
    utf8,
)
from karat.net.http import check_token, check_url

_API = "https://api.github.com"
_SUMMARY_BYTES = 1 << 20
_ACTIONS_BOT = "github-actions[bot]"
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True)
class GitHub(Host):
    title: ClassVar[str] = "GitHub"
    variable: ClassVar[str] = "GITHUB_ACTIONS"
    limit: ClassVar[int] = 65_536
    edit_method: ClassVar[str] = "PATCH"
    oldest_first: ClassVar[str] = ""
    author: ClassVar[tuple[str, str]] = ("user", "login")
    graphql: str
    summary: str

    @classmethod
    def find(cls, environment: Mapping[str, str], number: int | None, dry_run: bool) -> GitHub:
        repository = environment.get("GITHUB_REPOSITORY", "")
        token = check_token(environment.get("GITHUB_TOKEN", ""), "GITHUB_TOKEN")
        number = number or _number(environment)
        require(
            cls.title,
            {
                "GITHUB_REPOSITORY": repository,
                "GITHUB_TOKEN": token or dry_run,
                "a pull request (none in GITHUB_REF and GITHUB_EVENT_PATH)": number,
            },
            hint="in a workflow, run on pull_request with `env: GITHUB_TOKEN: ${{ github.token }}`; "
            "elsewhere give --pull-request N",
        )
        if not _REPOSITORY.fullmatch(repository):
            where = "GITHUB_REPOSITORY"
            raise ConfigError(
                "invalid repository", code="bad-value", field=where, expected="owner/name", got=repository
            )
        api = check_url(environment.get("GITHUB_API_URL") or _API, None, field="GITHUB_API_URL", query=False)
        graphql = environment.get("GITHUB_GRAPHQL_URL") or f"{api.removesuffix('/v3')}/graphql"
        kind = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        return cls(
            comments_url=f"{api}/repos/{repository}/issues/{number}/comments",
            comment_url=f"{api}/repos/{repository}/issues/comments",
            graphql=check_url(graphql, None, field="GITHUB_GRAPHQL_URL", query=False),
            token=token,
            headers={"Authorization": f"Bearer {token}", **kind},
            summary=environment.get("GITHUB_STEP_SUMMARY", ""),
        )

    def whoami(self, client: HostClient) -> str:
        """Return the login, by GraphQL: REST does not return it for tokens of workflows and apps."""
        try:
            said = json_of(client.send("POST", self.graphql, {"query": "{viewer{login}}"}))
        except (Denied, NotFound):
            said = None
        data = said.get("data") if isinstance(said, dict) else None
        return login(data.get("viewer") if isinstance(data, dict) else None, "login") or _ACTIONS_BOT

    def page_of(self, comment: Mapping[str, Any]) -> str:
        return str(comment.get("html_url") or "")

    def instead(self, body: str, reason: str) -> Outcome:
        """Write to the step's summary, never to the log, where lines can be commands to the workflow."""
        if not self.summary:
            raise HostError(reason, hint="the token needs `permissions: pull-requests: write`")
        try:
            self._append(body)
        except OSError as error:
            what = f"cannot be written: {error.strerror or error}"
            raise ConfigError(what, code="not-writable", file=self.summary) from error
        warning = (
            f"{reason}\nThe token may not comment, so the text is in the job's summary. This is normal for a pull "
            "request from a fork.\nOtherwise the job needs `permissions: pull-requests: write`."
        )
        return Outcome("wrote the job's summary instead of a comment", warning)

    def _append(self, body: str) -> None:
        """Append to the summary, cut to the space that other steps left: GitHub hides a summary that is too large."""
        with open(self.summary, "a", encoding="utf-8") as file:
            left = _SUMMARY_BYTES - os.fstat(file.fileno()).st_size - 2
            if left < utf8(body) and left < 1024:
                raise HostError("the job's summary is full", code="full-summary", file=self.summary)
            file.write(f"\n{cut(body, left, utf8)}\n")


def _number(environment: Mapping[str, str]) -> int | None:
    """Return the number from the ref of a pull request's workflow, else from the event that started it."""
    found = re.fullmatch(r"refs/pull/([0-9]{1,9})/(merge|head)", environment.get("GITHUB_REF", ""))
    if found:
        return int(found[1])
    path = environment.get("GITHUB_EVENT_PATH", "")
    return _number_of_event(_read_event(path)) if path else None


def _read_event(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            event = json.load(file)
    except OSError as error:
        what = f"GITHUB_EVENT_PATH: cannot be read: {error.strerror or error}"
        raise ConfigError(what, code="unreadable", file=path) from error
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        what = "GITHUB_EVENT_PATH: not a GitHub event"
        raise ConfigError(what, code="wrong-type", file=path, expected="a JSON object")
    return event


def _number_of_event(event: dict[str, Any]) -> int | None:
    """Return the number from an event: pull_request(_target), a comment on one, or a workflow run for exactly one."""
    issue, run = event.get("issue"), event.get("workflow_run")
    requests = run.get("pull_requests") if isinstance(run, dict) else None
    candidates = (
        event.get("pull_request"),
        issue if isinstance(issue, dict) and issue.get("pull_request") else None,
        requests[0] if isinstance(requests, list) and len(requests) == 1 else None,
    )
    numbers = (c.get("number") for c in candidates if isinstance(c, dict))
    return next((n for n in numbers if type(n) is int and n > 0), None)
