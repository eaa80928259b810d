"""Alerts: a failed gate or a drop on a branch reaches a webhook on loopback, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Handler, Loopback

import karat
from karat.errors import ConfigError
from karat.gates.gate import gate
from karat.history.folder import FolderStore
from karat.history.keep import judgement, keep_result
from karat.history.rows import now
from karat.history.store import Store
from karat.sinks.base import open_sink
from karat.web.alerts import KINDS, Watch, made_alerts

QUERIES = 60
GOLD = [{"query_id": f"q{i}", "query": f"question {i}", "gold": [f"a{i}"]} for i in range(QUERIES)]


class Taking(Loopback):
    """Takes posts; the next ones get the statuses in `answers`."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.answers: list[int] = []
        taking = self

        class Answers(Handler):
            def do_POST(self) -> None:
                taking.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(taking.answers.pop(0) if taking.answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        super().__init__(Answers)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Taking]:
    made = Taking()
    for name in ("KARAT_WEBHOOK_URL", "SLACK_WEBHOOK_URL", "TEAMS_WEBHOOK_URL"):
        monkeypatch.setenv(name, f"{made.url}/hook")
    yield made
    made.close()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[Store]:
    with FolderStore(tmp_path / ".karat") as store:
        yield store


def measured(found: int, *, system: str = "hybrid", offset: int = 0) -> karat.Result:
    """A result in which `found` queries are answered."""
    run = [
        {"query_id": f"q{i}", "system": system, "topk": [f"a{i}" if (i + offset) % QUERIES < found else "x", "y"]}
        for i in range(QUERIES)
    ]
    return karat.evaluate(run, GOLD)


def watch(store: Store, *places: str, branches: tuple[str, ...] = (), kinds: Any = KINDS, said: Any = None) -> Watch:
    sinks = [open_sink(place) for place in places or ("webhook",)]
    alerts = made_alerts(sinks, kinds, branches, "https://karat.example.org/team/")
    return Watch(store, alerts, (lambda text: None) if said is None else said.append)


def test_a_drop_is_told_once_with_a_link_to_the_comparison(history: Store, hook: Taking) -> None:
    looking = watch(history)
    first = history.save(keep_result(measured(50)), branch="main").id
    assert looking.look() == 0
    second = history.save(keep_result(measured(20)), branch="main").id
    assert looking.look() == 1
    assert looking.look() == 0
    assert watch(history).look() == 0  # after a restart, or in another server
    (told,) = hook.bodies
    assert told["kind"] == "alert"
    assert told["title"].startswith("hybrid on main: ")
    assert told["title"].endswith(" dropped")
    assert told["link"] == f"https://karat.example.org/team/compare?run={first[:16]}&run={second[:16]}"
    line = next(line for line in told["lines"] if line["name"] == "recall@5")
    assert line["text"].startswith("0.8333 → 0.3333, −50.00 [")
    assert line["high"] < 0


def test_a_change_within_noise_or_a_gain_is_not_told(history: Store, hook: Taking) -> None:
    looking = watch(history)
    for found, offset in ((40, 0), (40, 1), (39, 0), (60, 0)):
        history.save(keep_result(measured(found, offset=offset)), branch="main")
        looking.look()
    assert hook.bodies == []


def test_only_the_same_system_branch_and_gold_are_compared(history: Store, hook: Taking) -> None:
    looking = watch(history, branches=("main", "dev"))
    history.save(keep_result(measured(50)), branch="main")
    history.save(keep_result(measured(10, system="bm25")), branch="main")
    history.save(keep_result(measured(12)), branch="dev")
    run = [{"query_id": f"q{i}", "system": "hybrid", "topk": ["x"]} for i in range(QUERIES)]
    other = karat.evaluate(run, GOLD[: QUERIES // 2])
    history.save(keep_result(other), branch="main")
    assert looking.look() == 0, hook.bodies


def test_other_branches_are_left_alone(history: Store, hook: Taking) -> None:
    looking = watch(history)
    history.save(keep_result(measured(50)), branch="main")
    history.save(keep_result(measured(51)), branch="feature")
    history.save(keep_result(measured(5)), branch="feature")
    assert looking.look() == 0
    assert watch(history, branches=("feature",)).look() == 1


def test_a_failed_gate_is_told_in_every_form(history: Store, hook: Taking) -> None:
    looking = watch(history, "webhook", "slack", "teams", kinds=("gate",))
    result = measured(30)
    verdicts = gate(result, criteria=["recall@5 >= 0.9"])
    saved = history.save(keep_result(result), branch="main", judgements=[judgement(verdicts)]).id
    assert looking.look() == 1
    plain, slack, teams = hook.bodies
    assert (plain["kind"], plain["outcome"]) == ("alert", "fail")
    assert plain["link"] == f"https://karat.example.org/team/runs/{saved}"
    assert "recall@5" in plain["lines"][0]["name"]
    assert "Open in the dashboard" in json.dumps(slack)
    assert "Open in the dashboard" in json.dumps(teams)
    # Another verdict on the same run is told again; one that passes is not.
    history.save(keep_result(result), judgements=[judgement(gate(result, criteria=["hit@5 >= 0.9"]))])
    history.save(keep_result(measured(59)), branch="main")
    assert looking.look() == 1


def test_runs_from_before_are_not_told(history: Store, hook: Taking) -> None:
    for found, day in ((50, 1), (10, 2)):
        history.save(keep_result(measured(found)), branch="main", saved_at=f"2025-06-0{day}T08:00:00.000000Z")
    assert watch(history).look() == 0
    history.save(keep_result(measured(1)), branch="main", saved_at=now())
    assert watch(history).look() == 1


def test_what_could_not_be_sent_is_sent_later(history: Store, hook: Taking) -> None:
    said: list[str] = []
    looking = watch(history, said=said)
    history.save(keep_result(measured(50)), branch="main")
    history.save(keep_result(measured(20)), branch="main")
    hook.answers = [404, 404]
    assert looking.look() == 0
    assert looking.look() == 0
    assert looking.look() == 1
    assert len(said) == 1
    assert "was not sent" in said[0]
    assert hook.url not in said[0]


def test_places_that_take_no_alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="slack, teams or webhook"):
        made_alerts([open_sink("mlflow")], KINDS, (), None)


@pytest.mark.parametrize("site", ["karat.example.org", "https://karat.example.org/?a=b", "ftp://x"])
def test_an_address_of_the_dashboard_that_is_none(site: str) -> None:
    with pytest.raises(ConfigError):
        made_alerts([], KINDS, (), site)


def test_the_thread_looks_by_itself_and_ends(history: Store, hook: Taking) -> None:
    looking = Watch(history, made_alerts([open_sink("webhook")], KINDS, (), None), lambda text: None, every=0.01)
    history.save(keep_result(measured(50)), branch="main")
    history.save(keep_result(measured(20)), branch="main")
    looking.start()
    for _ in range(1000):
        if hook.bodies:
            break
        hook.over.wait(0.02)
    looking.close()
    assert len(hook.bodies) == 1
    assert not looking._thread.is_alive()
