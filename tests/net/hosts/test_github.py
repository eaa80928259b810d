"""What is GitHub's own: which pull request, whose token, forks, the summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from karat.errors import ConfigError
from karat.net.hosts.base import HostError
from karat.net.hosts.comments import find_host

MARK = "<!-- karat:karat -->"
FORK = (403, "Resource not accessible by integration")


def number(github: Any, event: object, ref: str = "refs/heads/main") -> int:
    github.event.write_text(event if isinstance(event, str) else json.dumps(event))
    found = find_host(github.environment() | {"GITHUB_REF": ref, "GITHUB_EVENT_PATH": str(github.event)})
    return int(found.comments_url.split("/")[-2])


@pytest.mark.parametrize(
    "event",
    [
        {"pull_request": {"number": 12}, "number": 12},
        {"issue": {"number": 12, "pull_request": {"url": "…"}}, "comment": {}},
        {"workflow_run": {"pull_requests": [{"number": 12}]}},
    ],
)
def test_the_event_tells_the_pull_request(github: Any, event: object) -> None:
    assert number(github, event) == 12


def test_the_ref_of_a_pull_request_needs_no_event(github: Any) -> None:
    assert number(github, "no JSON", "refs/pull/34/merge") == 34


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"ref": "refs/heads/main", "commits": []},
        {"issue": {"number": 12}},
        {"workflow_run": {"pull_requests": []}},
        {"workflow_run": {"pull_requests": [{"number": 1}, {"number": 2}]}},
        {"pull_request": {"number": "12"}},
        {"pull_request": {"number": True}},
        {"pull_request": [12]},
    ],
)
def test_an_event_without_a_pull_request_is_said_to_be_one(github: Any, event: object) -> None:
    with refused("missing-variable", ConfigError):
        number(github, event)


@pytest.mark.parametrize("event", ["", "{", "[]", "12", "[" * 100_000])
def test_an_event_file_that_is_none_is_named(github: Any, event: str) -> None:
    with refused("wrong-type", ConfigError, file=github.event):
        number(github, event)


def test_an_event_file_that_is_not_there_is_named(github: Any) -> None:
    environment = github.environment() | {"GITHUB_REF": "", "GITHUB_EVENT_PATH": "/no/such.json"}
    with refused("unreadable", ConfigError, file="/no/such.json"):
        find_host(environment)
    assert "/issues/5/" in find_host(environment, number=5).comments_url


@pytest.mark.parametrize("repository", ["acme", "acme/search/x", "../x?y", "acme/sea rch"])
def test_a_repository_has_an_owner_and_a_name(github: Any, repository: str) -> None:
    with refused("bad-value", ConfigError, field="GITHUB_REPOSITORY", got=repository):
        find_host(github.environment() | {"GITHUB_REPOSITORY": repository})


@pytest.mark.parametrize(
    ("api", "graphql"),
    [
        ("", "https://api.github.com/graphql"),
        ("https://api.github.com/", "https://api.github.com/graphql"),
        ("https://git.acme.com/api/v3", "https://git.acme.com/api/graphql"),
    ],
)
def test_where_to_ask_who_one_is(github: Any, api: str, graphql: str) -> None:
    assert find_host(github.environment() | {"GITHUB_API_URL": api}).graphql == graphql  # type: ignore[attr-defined]


@pytest.mark.parametrize("login", ["alice", "acme-bot[bot]"])
def test_tokens_of_people_and_apps_find_their_own_comments(github: Any, login: str) -> None:
    github.add("github-actions[bot]", f"{MARK}\nof the workflow")
    github.login = login
    github.post("one")
    github.post("two")
    assert github.bodies() == [f"{MARK}\nof the workflow", f"{MARK}\ntwo"]


def test_a_server_that_does_not_say_who_one_is_means_the_bot_of_the_workflows(github: Any) -> None:
    github.tells_login = False
    github.post("one")
    github.faults["whoami"] = [{"status": 404}]
    assert github.post("two").done.startswith("updated")


@pytest.mark.parametrize("status", [403, 404])
def test_a_fork_gets_the_summary(github: Any, status: int) -> None:
    github.read_only = (status, FORK[1])
    github.summary.write_text("# Tests")
    outcome = github.post("Recall fell.\tSee 👩‍🚀")
    assert outcome.warning
    assert github.summary.read_text() == "# Tests\nRecall fell.\tSee 👩‍🚀\n"
    assert github.waits.slept == []


def test_a_fork_whose_comment_is_there_gets_the_summary(github: Any) -> None:
    github.add(github.me(), f"{MARK}\nold")
    github.read_only = FORK
    assert github.post("new").warning
    assert github.bodies() == [f"{MARK}\nold"]


def test_a_token_that_may_not_even_read_gets_the_summary(github: Any) -> None:
    github.faults["GET"] = [{"status": 403, "body": json.dumps({"message": FORK[1]})}]
    assert FORK[1] in github.post().warning


def test_a_fork_without_a_summary_is_an_error(github: Any) -> None:
    github.read_only, github.summary = FORK, ""
    with refused("host-error", HostError) as caught:
        github.post()
    assert "403" in caught.value.what
    assert "pull-requests: write" in caught.value.hint


def test_a_summary_that_cannot_be_written_is_named(github: Any, tmp_path: Path) -> None:
    github.read_only, github.summary = FORK, tmp_path / "no" / "summary.md"
    with refused("not-writable", ConfigError, file=github.summary):
        github.post()


def test_a_summary_stays_below_its_limit_in_bytes(github: Any) -> None:
    github.read_only = FORK
    github.summary.write_text("x" * 1000)
    github.post("ä" * 99 + "\n" + ("ü" * 99 + "\n") * 6000)
    assert 1_040_000 < github.summary.stat().st_size <= 1 << 20
    assert github.summary.read_text().endswith(".*\n\n")
    with refused("full-summary", HostError):
        github.post("y" * 9000)


@pytest.mark.parametrize(
    ("fault", "slept"),
    [
        ({"headers": {"Retry-After": "7"}}, 7.5),
        ({"body": '{"message": "You have exceeded a secondary rate limit."}'}, 60.5),
        ({"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}}, 0.5),
    ],
)
def test_a_rate_limit_dressed_as_403_is_waited_for(github: Any, fault: dict[str, Any], slept: float) -> None:
    github.faults["POST"] = [{"status": 403, **fault}]
    assert github.post().done.startswith("created")
    assert github.waits.slept == [slept]


def test_a_huge_body_is_cut_at_a_line(github: Any) -> None:
    github.post("\n".join(f"line {i} äöü" for i in range(20_000)))
    (body,) = github.bodies()
    assert 65_000 < len(body) <= 65_536
    first, *lines = body.split("\n\n*")[0].split("\n")
    assert first == MARK
    assert lines == [f"line {i} äöü" for i in range(len(lines))]


def test_what_the_server_says_to_a_refused_text_is_shown(github: Any) -> None:
    github.limit = 10
    with refused("host-error", HostError) as caught:
        github.post("x" * 100)
    assert '422 (Validation Failed; [{"message": "body is too long"}])' in caught.value.what
