"""What is said about places: what was done, what would be sent, and why it could not be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from golden import check
from karat.cli.send import _parcels
from karat.sinks.base import PATIENCE, Delivery, Parcel, open_sink
from wording import file, refusals

if TYPE_CHECKING:
    from .conftest import FakeMLflow, Server

Case = Callable[[], object]


def test_errors_of_places(
    mlflow: FakeMLflow, hook: Server, result: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msgspec.structs import replace

    monkeypatch.setattr("karat.sinks.wandb.find_spec", lambda name: None)
    [parcel], [judged] = _parcels(result), _parcels(verdict)
    once = Delivery(0.2, replace(PATIENCE, limit=0))
    known = {"MLFLOW_TRACKING_URI": mlflow.url, "SLACK_WEBHOOK_URL": f"{hook.url}/services/abcdefghijklmnopqrstuvwx"}

    def opened(place: str, **environment: str) -> Case:
        return lambda: open_sink(place, known | environment)

    def met(place: str, fault: dict[str, Any], sent: Parcel) -> Case:
        def call() -> None:
            mlflow.faults = hook.faults = [fault]
            open_sink(place, known).send(sent, once)

        return call

    def deleted() -> None:
        mlflow.experiments["old"] = {"experiment_id": "7", "lifecycle_stage": "deleted"}
        open_sink("mlflow:old", known).send(parcel, once)

    def read(name: str, content: str) -> Case:
        return lambda: list(_parcels(file(name, content)))

    refused = {"error_code": "INVALID_PARAMETER_VALUE", "message": "'name' exceeds the maximum length"}
    groups: dict[str, dict[str, Case]] = {
        "Settings": {
            "a place that does not exist": opened("slak"),
            "no address of MLflow": opened("mlflow", MLFLOW_TRACKING_URI=""),
            "a database of MLflow": opened("mlflow", MLFLOW_TRACKING_URI="sqlite:///mlruns.db"),
            "a password in the address": opened("mlflow:http://ada:secret@host:5000"),
            "a token that would be readable": opened("mlflow:http://host:5000", MLFLOW_TRACKING_TOKEN="x" * 20),
            "no address of Slack": opened("slack", SLACK_WEBHOOK_URL=""),
            "an address of Slack on the command line": opened("slack:https://hooks.example.org/services/abcdefghijkl"),
            "an address that is not one": opened("slack", SLACK_WEBHOOK_URL="hooks.example.org/services/abcdefghijkl"),
            "a webhook without encryption": opened("slack", SLACK_WEBHOOK_URL="http://hooks.example.org/services/x"),
            "W&B is not installed": opened("wandb:helpdesk"),
            "a project that is not one": opened("wandb:a/b/c"),
            "a mode of W&B that sends nothing": opened("wandb", WANDB_MODE="disabled"),
        },
        "MLflow": {
            "a deleted experiment": deleted,
            "a name that is refused": met("mlflow", {"status": 400, "body": refused}, parcel),
            "a wrong token": met("mlflow", {"status": 401, "body": "You are not authenticated."}, parcel),
            "a host name that is not allowed": met(
                "mlflow",
                {"status": 403, "body": "Invalid Host header - possible DNS rebinding attack detected"},
                parcel,
            ),
            "another server": met("mlflow", {"status": 200, "body": "<html>"}, parcel),
            "a server that hangs": met("mlflow", {"hang": True}, parcel),
        },
        "Webhooks": {
            "a webhook that was removed": met("slack", {"status": 404, "body": "no_service"}, judged),
            "a message that is refused": met("slack", {"status": 400, "body": "invalid_payload"}, judged),
            "a server that hangs": met("slack", {"hang": True}, judged),
        },
        "Files": {
            "a run": read("run.jsonl", "{}"),
            "a verdict that is not one": read("verdict.json", '{"schema": "karat/gates/1", "outcome": "maybe"}'),
        },
    }
    check("wording/errors_sinks.txt", refusals(groups, tmp_path))


def test_what_is_sent(
    terminal: Any, mlflow: FakeMLflow, hook: Server, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow.url)
    monkeypatch.setenv("SLACK_WEBHOOK_URL", f"{hook.url}/services/abcdefghijklmnopqrstuvwx")
    monkeypatch.setenv("KARAT_BRANCH", "main")
    Path("result.json").write_bytes(Path(verdict).read_bytes())
    terminal("send", "slack", verdict, "--dry-run")
    terminal("send", "slack", verdict)
    terminal("send", "mlflow:helpdesk", verdict)
    terminal("send", "mlflow:helpdesk", verdict)
    mlflow.root = "s3://bucket/files"
    terminal("send", "mlflow:bucket", verdict)
    cards = json.dumps(open_sink("teams", {"TEAMS_WEBHOOK_URL": hook.url}).plan(next(_parcels(verdict))), indent=1)
    assert "AdaptiveCard" in cards
    check("wording/sinks.txt", terminal.text.replace(mlflow.url, "http://mlflow"))
