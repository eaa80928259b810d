"""GitLab: comments on a merge request are called notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from karat.errors import ConfigError, printable
from karat.net.hosts.base import Host, HostClient, HostError, Outcome, json_of, login, require
from karat.net.http import check_token, check_url


@dataclass(frozen=True, kw_only=True)
class GitLab(Host):
    title: ClassVar[str] = "GitLab"
    variable: ClassVar[str] = "GITLAB_CI"
    limit: ClassVar[int] = 1_000_000
    edit_method: ClassVar[str] = "PUT"
    oldest_first: ClassVar[str] = "sort=asc&order_by=created_at&"
    author: ClassVar[tuple[str, str]] = ("author", "username")
    user_url: str
    page: str  # of the merge request; empty if unknown

    @classmethod
    def find(cls, environment: Mapping[str, str], number: int | None, dry_run: bool) -> GitLab:
        api = environment.get("CI_API_V4_URL", "")
        # In a fork's pipeline CI_PROJECT_ID is the fork, and the merge request belongs to the other project.
        project = environment.get("CI_MERGE_REQUEST_PROJECT_ID") or environment.get("CI_PROJECT_ID", "")
        token = check_token(environment.get("GITLAB_TOKEN", ""), "GITLAB_TOKEN")
        number = number or _number(environment.get("CI_MERGE_REQUEST_IID", ""))
        require(
            cls.title,
            {
                "CI_API_V4_URL": api,
                "CI_PROJECT_ID": project,
                "GITLAB_TOKEN": token or environment.get("CI_JOB_TOKEN") or dry_run,
                "CI_MERGE_REQUEST_IID": number,
            },
            hint="run the job with `rules: - if: $CI_PIPELINE_SOURCE == 'merge_request_event'`, or give "
            "--pull-request N; GITLAB_TOKEN is a project access token with scope api",
        )
        api = check_url(api, None, field="CI_API_V4_URL", query=False)
        notes = f"{api}/projects/{quote(project, safe='')}/merge_requests/{number}/notes"
        page = environment.get("CI_MERGE_REQUEST_PROJECT_URL", "")
        return cls(
            comments_url=notes,
            comment_url=notes,
            user_url=f"{api}/user",
            token=token,
            headers={"PRIVATE-TOKEN": token, "Accept": "application/json"},
            page=f"{page}/-/merge_requests/{number}" if page else "",
        )

    def whoami(self, client: HostClient) -> str:
        name = login(json_of(client.send("GET", self.user_url)), "username")
        if name is None:
            raise HostError(f"{self.user_url}: the owner of the token is missing", hint="check CI_API_V4_URL")
        return name

    def page_of(self, comment: Mapping[str, Any]) -> str:
        return f"{self.page}#note_{comment.get('id')}" if self.page else ""

    def unable(self) -> str:
        return "" if self.token else "GITLAB_TOKEN is not set, and job tokens cannot write comments"

    def instead(self, body: str, reason: str) -> Outcome:
        """Print to the job's log, since GitLab has no summary. Not an error: pipelines of forks never get the token."""
        warning = (
            f"{reason}\nThe text is in this job's log. For a comment, give a project access token with role Reporter "
            "or higher and scope api\nas the variable GITLAB_TOKEN, masked and not protected (protected variables "
            "are kept from merge requests)."
        )
        return Outcome("printed the text instead of a comment", warning, printable(body.expandtabs()))


def _number(text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise ConfigError("invalid number of a merge request", code="bad-value", field="CI_MERGE_REQUEST_IID", got=text)
    return int(text)
