"""What is GitLab's own: projects, tokens of jobs, the log."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refused

from karat.errors import ConfigError
from karat.net.hosts.comments import find_host


def without(environment: dict[str, str], *names: str) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key not in names}


def test_the_project_of_the_merge_request_wins_over_the_forks(gitlab: Any) -> None:
    assert "/projects/42/" in find_host(gitlab.environment()).comments_url
    alone = without(gitlab.environment(), "CI_MERGE_REQUEST_PROJECT_ID")
    assert "/projects/99/" in find_host(alone).comments_url
    assert "/projects/acme%2Fsearch/" in find_host(alone | {"CI_PROJECT_ID": "acme/search"}).comments_url


def test_a_job_token_cannot_comment_and_nothing_is_sent(gitlab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = without(gitlab.environment(), "GITLAB_TOKEN")
    monkeypatch.setattr(gitlab, "environment", lambda: there)
    outcome = gitlab.post("Recall\tfell.\x1b[31m")
    assert outcome.text == "Recall  fell.�[31m"
    assert outcome.warning.startswith("GITLAB_TOKEN ")
    assert gitlab.requests == []


def test_a_token_that_may_not_write_gets_the_log(gitlab: Any) -> None:
    gitlab.read_only = (403, "insufficient_scope")
    outcome = gitlab.post("Recall fell.")
    assert outcome.text == "Recall fell."
    assert "insufficient_scope" in outcome.warning


def test_without_any_token_all_that_is_missing_is_named() -> None:
    with refused("missing-variable", ConfigError) as caught:
        find_host({"GITLAB_CI": "true"})
    assert caught.value.what.endswith("CI_API_V4_URL, CI_PROJECT_ID, GITLAB_TOKEN, CI_MERGE_REQUEST_IID")


@pytest.mark.parametrize("number", ["0", "x", "-1", "1/../2", "９", "9" * 20])
def test_a_merge_request_has_a_number(gitlab: Any, number: str) -> None:
    with refused("bad-value", ConfigError, field="CI_MERGE_REQUEST_IID", got=number):
        find_host(gitlab.environment() | {"CI_MERGE_REQUEST_IID": number})


def test_a_body_may_be_a_million_characters(gitlab: Any) -> None:
    gitlab.post("x\n" * 499_000)
    gitlab.post("x\n" * 600_000)
    (body,) = gitlab.bodies()
    assert 999_000 < len(body) <= 1_000_000
    assert len(gitlab.sent("PUT")) == 1


def test_a_server_that_does_not_say_whose_token_it_is_is_none_of_gitlabs(gitlab: Any) -> None:
    from karat.net.hosts.base import HostError

    gitlab.faults["whoami"] = [{"status": 200, "body": "<html>"}]
    with refused("host-error", HostError):
        gitlab.post()
