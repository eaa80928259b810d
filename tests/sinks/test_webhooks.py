"""`karat send slack`, `teams` and `webhook`: what arrives, and what never shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from karat.errors import KaratError

if TYPE_CHECKING:
    from .conftest import Server

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
PATH = "/services/T0123/B0123/abcdefghijklmnopqrstuvwx"
VARIABLES = {"slack": "SLACK_WEBHOOK_URL", "teams": "TEAMS_WEBHOOK_URL", "webhook": "KARAT_WEBHOOK_URL"}
PLACES = [*VARIABLES]
GATE = ("gate", "run.jsonl", "--gold", "gold.jsonl", "--gate", "recall@5 >= 0.99")


@pytest.fixture(autouse=True)
def addresses(hook: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES.values():
        monkeypatch.setenv(name, f"{hook.url}{PATH}?sig=0123456789abcdefghij")


def texts(value: Any) -> list[str]:
    """Every text in what was posted."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("place", PLACES)
def test_the_verdict_is_posted(karat_command: Command, hook: Server, verdict: str, place: str) -> None:
    code, out, err = karat_command("send", place, verdict)
    assert (code, len(hook.requests)) == (0, 1), err
    method, path, headers, body = hook.requests[0]
    assert (method, path.partition("?")[0], headers["Content-Type"]) == ("POST", PATH, "application/json")
    said = "\n".join(texts(body))
    assert "May not ship" in said
    assert "recall@5" in said
    assert "abcdefghijklmnopqrstuvwx" not in out + err + said
    assert "0123456789abcdefghij" not in out + err + said


def test_slack_gets_blocks(karat_command: Command, hook: Server, verdict: str) -> None:
    karat_command("send", "slack", verdict)
    [body] = hook.bodies()
    assert body["blocks"][0]["type"] == "header"
    assert len(body["blocks"][0]["text"]["text"]) <= 150
    assert {block["type"] for block in body["blocks"]} <= {"header", "section", "context"}
    assert len(body["blocks"]) <= 50


def test_teams_gets_an_adaptive_card(karat_command: Command, hook: Server, verdict: str) -> None:
    karat_command("send", "teams", verdict)
    [body] = hook.bodies()
    [attachment] = body["attachments"]
    assert (body["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}  # no Markdown


def test_a_webhook_gets_every_check(karat_command: Command, hook: Server, verdict: str) -> None:
    karat_command("send", "webhook", verdict)
    [body] = hook.bodies()
    assert (body["schema"], body["kind"], body["outcome"], body["exit_code"]) == (
        "karat/message/1",
        "verdict",
        "fail",
        1,
    )
    assert [(line["outcome"], line["blocks"]) for line in body["lines"]] == [("fail", True), ("pass", False)]
    assert body["lines"][0]["low"] < body["lines"][0]["value"] < body["lines"][0]["high"]


@pytest.mark.parametrize("place", PLACES)
def test_a_result_is_posted_with_its_metrics(karat_command: Command, hook: Server, result: str, place: str) -> None:
    assert karat_command("send", place, result)[0] == 0
    assert "recall@5" in "\n".join(texts(hook.bodies()[0]))


def test_gate_posts_its_verdict_and_keeps_its_exit_code(karat_command: Command, hook: Server) -> None:
    assert karat_command(*GATE, "--send", "slack", "--send", "webhook")[0] == 1
    assert len(hook.requests) == 2
    hook.faults = [{"status": 404, "body": "no_service"}]
    code, _, err = karat_command(*GATE, "--send", "slack", "--quiet")
    assert (code, "warning: Slack (SLACK_WEBHOOK_URL): answered 404 (no_service)" in err) == (1, True), err


def test_gate_can_post_failures_only(karat_command: Command, hook: Server) -> None:
    passes = (*GATE[:-1], "recall@5 >= 0.1")
    assert karat_command(*passes, "--send", "slack", "--send-on", "fail")[0] == 0
    assert not hook.requests
    assert karat_command(*GATE, "--send", "slack", "--send-on", "fail")[0] == 1
    assert len(hook.requests) == 1


def test_a_pull_request_from_a_fork_is_judged_without_the_secret(
    karat_command: Command, karat_refuses: Refuses, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_WEBHOOK_URL", "")
    assert karat_refuses(*GATE, "--send", "slack").code == "missing-variable"
    monkeypatch.setenv("CI", "true")
    code, _, err = karat_command(*GATE, "--send", "slack")
    assert (code, "warning: " in err, "SLACK_WEBHOOK_URL" in err) == (1, True, True)
    assert karat_refuses("send", "slack", verdict).code == "missing-variable"


def test_nothing_is_sent_unless_asked(karat_command: Command, hook: Server) -> None:
    karat_command(*GATE)
    karat_command("eval", "run.jsonl", "--gold", "gold.jsonl", "--brief")
    assert not hook.requests


def test_a_run_of_the_history_has_its_verdict(karat_command: Command, hook: Server) -> None:
    karat_command(*GATE, "--save")
    assert karat_command("send", "webhook", "history:latest")[0] == 0
    assert [body["outcome"] for body in hook.bodies()] == ["fail"]


def test_the_ci_job_is_linked(
    karat_command: Command, hook: Server, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/repo")
    monkeypatch.setenv("GITHUB_RUN_ID", "12")
    for place in PLACES:
        karat_command("send", place, verdict)
    assert all("https://github.example/me/repo/actions/runs/12" in json.dumps(body) for body in hook.bodies())
    monkeypatch.setenv("CI_JOB_URL", "javascript:alert(1)|<x>")
    karat_command("send", "slack", verdict)
    assert "javascript" not in json.dumps(hook.bodies()[-1])


def test_hostile_names_are_plain_text(karat_command: Command, hook: Server, verdict: str) -> None:
    found = json.loads(Path(verdict).read_text())
    found["run"] = "<!here> [x](https://evil.example) *b* & <https://evil.example|y>\u0007" + "z" * 5000
    found["verdicts"][0]["reason"] = "<!channel> " + "r" * 50_000
    Path(verdict).write_text(json.dumps(found))
    karat_command("send", "slack", verdict)
    karat_command("send", "teams", verdict)
    slack, teams = hook.bodies()
    assert "<" not in slack["text"]
    assert {part["text"]["type"] for part in slack["blocks"] if "text" in part} == {"plain_text"}
    assert all(len(text) <= 3000 for text in texts(slack))
    assert max(len(json.dumps(slack)), len(json.dumps(teams))) < 28_000  # as much as Teams takes


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"status": 404, "body": "no_service"}, "denied"),
        ({"status": 410, "body": "channel_is_archived"}, "denied"),
        ({"status": 302, "headers": {"Location": "https://evil.example"}}, "denied"),
        ({"status": 400, "body": "invalid_payload"}, "not-sent"),
        ({"status": 500, "body": {"error": {"code": "x"}}}, "not-sent"),
        ({"status": 404, "body": f"Cannot POST {PATH}"}, "denied"),
        ({"drop": True}, "no-answer"),
        ({"hang": True}, "no-answer"),
    ],
)
def test_errors_name_the_variable_and_never_the_address(
    karat_refuses: Refuses, hook: Server, verdict: str, fault: dict[str, Any], code: str
) -> None:
    hook.faults = [fault]
    error = karat_refuses("send", "slack", verdict, "--patience", "0", "--timeout", "1")
    assert error.code == code
    assert "SLACK_WEBHOOK_URL" in str(error)
    assert "abcdefghijklmnopqrstuvwx" not in str(error)
    assert hook.url not in str(error)


def test_a_busy_service_is_asked_again(karat_command: Command, hook: Server, verdict: str) -> None:
    hook.faults = [{"status": 429, "headers": {"Retry-After": "0"}}]
    assert karat_command("send", "slack", verdict)[0] == 0
    assert len(hook.requests) == 2


@pytest.mark.parametrize("place", PLACES)
def test_addresses_come_from_the_environment(
    karat_refuses: Refuses, karat_command: Command, verdict: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "https://hooks.example.org/services/T9/B9/zyxwvutsrqponmlkjihg"
    error = karat_refuses("send", f"{place}:{typed}", verdict)
    assert (error.code, "zyxwvutsrq" in str(error)) == ("bad-place", False)
    for value, code in (("", "missing-variable"), ("not an address", "bad-address"), (typed[8:], "bad-address")):
        monkeypatch.setenv(VARIABLES[place], value)
        error = karat_refuses("send", place, verdict)
        assert (error.code, "zyxwvutsrq" in str(error), VARIABLES[place] in str(error)) == (code, False, True)
    monkeypatch.setenv(VARIABLES[place], "http://hooks.example.org/x")
    assert karat_refuses("send", place, verdict).code == "insecure-address"


def test_another_variable_may_hold_the_address(
    karat_command: Command, hook: Server, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_B", f"{hook.url}/team-b")
    assert karat_command("send", "slack:TEAM_B", verdict)[0] == 0
    assert hook.requests[0][1] == "/team-b"


def test_a_dry_run_shows_the_message_and_sends_nothing(karat_command: Command, hook: Server, verdict: str) -> None:
    code, out, _ = karat_command("send", "slack", verdict, "--dry-run")
    assert (code, hook.requests) == (0, [])
    assert "May not ship" in out
    assert "abcdefghijklmnopqrstuvwx" not in out


def test_addresses_are_in_no_page_and_no_saved_result(karat_command: Command, hook: Server) -> None:
    said = karat_command(*GATE, "--send", "slack", "-o", "verdict.html", "-o", "v.json", "--save")
    written = "".join(path.read_text(errors="replace") for path in Path.cwd().rglob("*") if path.is_file())
    assert "abcdefghijklmnopqrstuvwx" not in written + "".join(map(str, said))
    assert len(hook.requests) == 1
