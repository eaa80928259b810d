"""`karat send mlflow`, against a server on loopback that checks what the real one checks (see tests/engines)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from karat.errors import KaratError

if TYPE_CHECKING:
    from .conftest import FakeMLflow

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]


def test_a_result_becomes_a_run(karat_command: Command, mlflow: FakeMLflow, result: str) -> None:
    code, out, _ = karat_command("send", "mlflow:helpdesk", result)
    assert code == 0
    assert f"{mlflow.url}/#/experiments/1/runs/run0" in out
    metrics, params, tags = mlflow.only_run()
    assert metrics["recall_at_5"] == pytest.approx(2 / 3)
    assert metrics["recall_at_5_low"] < metrics["recall_at_5"] < metrics["recall_at_5_high"]
    assert metrics["queries"] == 30
    assert params["k"] == "5"
    assert params["interval.level"] == "0.95"
    assert tags["mlflow.runName"] == "run"
    assert len(tags["karat.result"]) == 64
    assert mlflow.experiments["helpdesk"]["experiment_id"] == "1"
    assert sorted(mlflow.files) == ["1/run0/artifacts/report.html", "1/run0/artifacts/result.json"]
    assert json.loads(mlflow.files["1/run0/artifacts/result.json"])["schema"] == "karat/result/2"
    assert b"<html" in mlflow.files["1/run0/artifacts/report.html"]


def test_sending_twice_makes_one_run(karat_command: Command, mlflow: FakeMLflow, result: str) -> None:
    karat_command("send", "mlflow", result)
    before = len(mlflow.requests)
    code, out, _ = karat_command("send", "mlflow", result)
    assert (code, "already there" in out) == (0, True)
    assert len(mlflow.runs) == 1
    assert [method for method, *_ in mlflow.requests[before:]] == ["GET", "POST"]  # looked for, nothing written


def test_a_result_from_elsewhere_is_the_same_run(karat_command: Command, mlflow: FakeMLflow, result: str) -> None:
    karat_command("send", "mlflow", result)
    code, _, err = karat_command("eval", "run.jsonl", "--gold", "gold.jsonl", "--brief", "--send", "mlflow")
    assert (code, "already there" in err) == (0, True), err


def test_a_run_that_was_cut_off_is_completed(karat_command: Command, mlflow: FakeMLflow, result: str) -> None:
    mlflow.faults = [{}, {}, {}, {}, {}, {"status": 400, "body": "no"}]  # metrics are refused
    assert karat_command("send", "mlflow", result)[0] == 2
    assert [run["info"]["status"] for run in mlflow.runs.values()] == ["RUNNING"]
    code, out, _ = karat_command("send", "mlflow", result)
    assert (code, "already there" in out) == (0, False)
    assert mlflow.only_run()[0]["queries"] == 30


@pytest.mark.parametrize("request_number", range(10))
def test_no_lost_answer_makes_a_second_run(
    karat_command: Command, mlflow: FakeMLflow, result: str, request_number: int
) -> None:
    mlflow.faults = [*[{}] * request_number, {"drop": True}]
    assert karat_command("send", "mlflow", result)[0] == 0
    assert mlflow.only_run()[0]["queries"] == 30


def test_busy_servers_are_asked_again(karat_command: Command, mlflow: FakeMLflow, result: str) -> None:
    mlflow.faults = [{"status": 503, "headers": {"Retry-After": "0"}}, {"status": 429, "headers": {"Retry-After": "0"}}]
    assert karat_command("send", "mlflow", result)[0] == 0
    assert len(mlflow.runs) == 1


def test_gate_adds_its_verdict(karat_command: Command, mlflow: FakeMLflow) -> None:
    asked = ("gate", "run.jsonl", "--gold", "gold.jsonl", "--gate", "recall@5 >= 0.99", "--send", "mlflow")
    code, _, err = karat_command(*asked)
    assert (code, "sent" in err) == (1, True), err
    metrics, _, tags = mlflow.only_run()
    assert tags["karat.outcome"] == "fail"
    assert "ndcg_at_5" in metrics  # the usual panel, not only the metrics of gates
    assert sorted(name.rpartition("/")[2] for name in mlflow.files) == ["result.json", "verdict.html", "verdict.json"]
    code, _, err = karat_command(*asked)
    assert "already there" in err
    asked = (*asked[:5], "recall@5 >= 0.1", *asked[6:])
    code, _, err = karat_command(*asked)
    assert (code, "updated" in err) == (0, True), err
    assert mlflow.only_run()[2]["karat.outcome"] == "pass"


def test_a_verdict_alone(karat_command: Command, mlflow: FakeMLflow, verdict: str) -> None:
    assert karat_command("send", "mlflow", verdict)[0] == 0
    metrics, _, tags = mlflow.only_run()
    assert tags["karat.outcome"] == "fail"
    assert metrics["recall_at_5"] == pytest.approx(2 / 3)
    assert metrics["queries"] == 30
    assert sorted(name.rpartition("/")[2] for name in mlflow.files) == ["verdict.html", "verdict.json"]


@pytest.mark.parametrize("root", ["s3://bucket/x", "/srv/mlruns", "dbfs:/x", "mlflow-artifacts://elsewhere:80"])
def test_other_places_for_files_are_a_warning(
    karat_command: Command, mlflow: FakeMLflow, result: str, root: str
) -> None:
    mlflow.root = root
    code, _, err = karat_command("send", "mlflow", result)
    assert code == 0
    assert "warning: result.json and report.html were not sent" in err
    assert not mlflow.files
    assert mlflow.only_run()[0]["queries"] == 30


def test_a_deleted_experiment_is_named(karat_refuses: Refuses, mlflow: FakeMLflow, result: str) -> None:
    mlflow.experiments["old"] = {"experiment_id": "7", "lifecycle_stage": "deleted"}
    assert karat_refuses("send", "mlflow:old", result).code == "experiment-deleted"
    assert not mlflow.runs


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"status": 401, "body": "You are not authenticated."}, "denied"),
        ({"status": 403, "body": {"error_code": "PERMISSION_DENIED", "message": "Permission denied"}}, "denied"),
        ({"status": 400, "body": {"error_code": "INVALID_PARAMETER_VALUE", "message": "name refused"}}, "not-sent"),
        ({"status": 500, "body": {"error_code": "INTERNAL_ERROR", "message": "boom"}}, "not-sent"),
        ({"status": 200, "body": "<html>a login page</html>"}, "not-mlflow"),
        ({"status": 404, "body": "<html>nothing</html>"}, "not-mlflow"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:9/"}}, "not-mlflow"),
        ({"status": 200, "body": "[[[["}, "not-mlflow"),
        ({"hang": True}, "no-answer"),
    ],
)
def test_errors_are_named(
    karat_refuses: Refuses, mlflow: FakeMLflow, result: str, fault: dict[str, object], code: str
) -> None:
    mlflow.faults = [fault]
    error = karat_refuses("send", "mlflow", result, "--patience", "0", "--timeout", "1")
    assert error.code == code
    assert mlflow.url in str(error)


def test_a_server_that_is_down_is_named(karat_refuses: Refuses, result: str) -> None:
    error = karat_refuses("send", "mlflow:http://127.0.0.1:1#x", result, "--patience", "0")
    assert (error.code, "http://127.0.0.1:1" in str(error)) == ("no-answer", True)


def test_credentials_come_from_the_environment(
    karat_command: Command, mlflow: FakeMLflow, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "correct horse battery")
    karat_command("send", "mlflow", result)
    packed = base64.b64encode(b"ada:correct horse battery").decode()
    assert {headers["Authorization"] for _, _, headers, _ in mlflow.requests} == {f"Basic {packed}"}
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token-0123456789")
    mlflow.faults = [{"status": 401, "body": "wrong token token-0123456789"}]
    code, out, err = karat_command("send", "mlflow", result)
    assert (code, "token-0123456789" in out + err) == (2, False)
    assert mlflow.requests[-1][2]["Authorization"] == "Bearer token-0123456789"


def test_a_token_is_not_sent_unencrypted(karat_refuses: Refuses, result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token-0123456789")
    assert karat_refuses("send", "mlflow:http://mlflow.example.org", result).code == "insecure-address"


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("mlflow", "missing-variable"),
        ("mlflow:sqlite:///mlruns.db", "bad-address"),
        ("mlflow:http://ada:secret@host:5000", "bad-address"),
        ("mlflo", "unknown-place"),
    ],
)
def test_bad_places_are_refused_before_any_work(karat_refuses: Refuses, result: str, place: str, code: str) -> None:
    assert karat_refuses("send", place, result).code == code
    error = karat_refuses("eval", "no-such-run.jsonl", "--gold", "gold.jsonl", "--send", place)
    assert (error.code, "secret" in str(error)) == (code, False)


def test_the_address_of_an_experiments_page(karat_command: Command, mlflow: FakeMLflow, result: str) -> None:
    karat_command("send", f"mlflow:{mlflow.url}/#/experiments/7/runs?x=y", result, "--patience", "0")
    assert mlflow.requests[0][1] == "/api/2.0/mlflow/experiments/get?experiment_id=7"


def test_a_dry_run_sends_nothing(karat_command: Command, mlflow: FakeMLflow, result: str) -> None:
    code, out, _ = karat_command("send", "mlflow:helpdesk", result, "--dry-run")
    assert (code, mlflow.requests) == (0, [])
    assert "metric recall_at_5 0.666667" in out
    assert "report.html" in out
