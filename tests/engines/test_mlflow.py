"""`karat send mlflow` against a real MLflow server: one for all tests, because it takes a while to start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from karat.errors import KaratError

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"
RUN, OTHER, GOLD = (str(HELPDESK / name) for name in ("bm25_rerank.jsonl", "bm25.jsonl", "gold.jsonl"))
STARTS_WITHIN = 180  # seconds; 14 on an idle machine


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/files"]
    # Its jobs would be four more processes.
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | quiet, stdout=log, stderr=log, start_new_session=True
    )
    address = f"http://127.0.0.1:{port}"
    try:
        started = time.monotonic()
        while not _is_up(f"{address}/health"):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() - started < STARTS_WITHIN, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
        log.close()


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture
def client(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """MLflow's own client, which reads what was sent."""
    from mlflow import MlflowClient

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    return MlflowClient(server)


def runs_of(client: Any, experiment: str) -> list[Any]:
    found = client.get_experiment_by_name(experiment)
    return [] if found is None else list(client.search_runs([found.experiment_id]))


def test_a_result_is_a_run_of_mlflow(karat_command: Command, client: Any, tmp_path: Path) -> None:
    code, _, err = karat_command("eval", RUN, "--gold", GOLD, "-o", "result.json", "--brief", "--send", "mlflow:eval")
    assert code == 0, err
    assert "warning" not in err
    [run] = runs_of(client, "eval")
    assert (run.info.status, run.info.run_name) == ("FINISHED", "bm25 + static rerank")
    metrics = run.data.metrics
    assert metrics["recall_at_5_low"] < metrics["recall_at_5"] < metrics["recall_at_5_high"]
    assert metrics["queries"] == 287
    assert (run.data.params["dataset"], run.data.params["k"]) == ("helpdesk", "5")
    names = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert names == {"report.html", "result.json"}
    fetched = client.download_artifacts(run.info.run_id, "result.json", str(tmp_path))
    import karat

    assert karat.load(fetched)["recall@5"].mean == pytest.approx(metrics["recall_at_5"])
    code, out, _ = karat_command("send", "mlflow:eval", "result.json")  # the same result, from its file
    assert (code, "already there" in out) == (0, True)
    assert len(runs_of(client, "eval")) == 1
    assert len(client.get_metric_history(run.info.run_id, "recall_at_5")) == 1


def test_a_verdict_is_added_to_its_run(karat_command: Command, client: Any) -> None:
    asked = ("gate", RUN, "--gold", GOLD, "--baseline", OTHER, "--send", "mlflow:gate")
    assert karat_command(*asked, "--gate", "recall@5 >= 0.9")[0] == 1
    assert karat_command(*asked, "--gate", "recall@5 >= 0.1")[0] == 0
    [run] = runs_of(client, "gate")
    assert run.data.tags["karat.outcome"] == "pass"
    names = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert names == {"result.json", "verdict.html", "verdict.json"}
    found = client.search_runs([run.info.experiment_id], "tags.`karat.outcome` = 'pass'")
    assert [one.info.run_id for one in found] == [run.info.run_id]


def test_every_metric_has_a_name_that_the_server_accepts(karat_command: Command, client: Any) -> None:
    names = "recall@5,ndcg(gain=linear)@10,latency_p50(stage=retrieve),mrr,recall(rel=2)@5"
    code, _, err = karat_command("eval", RUN, "--gold", GOLD, "-m", names, "--brief", "--send", "mlflow:names")
    assert code == 0, err
    [run] = runs_of(client, "names")
    assert {"ndcg_gain_linear_at_10", "recall_rel_2_at_5", "latency_p50_stage_retrieve"} <= run.data.metrics.keys()


def test_files_elsewhere_are_a_warning(karat_command: Command, client: Any, tmp_path: Path) -> None:
    client.create_experiment("bucket", artifact_location="s3://bucket/files")
    code, _, err = karat_command("eval", RUN, "--gold", GOLD, "--brief", "--send", "mlflow:bucket")
    assert (code, "s3://bucket" in err) == (0, True), err
    assert runs_of(client, "bucket")[0].info.status == "FINISHED"


def test_deleted_experiments_runs_and_bad_names(karat_command: Command, karat_refuses: Refuses, client: Any) -> None:
    karat_command("eval", RUN, "--gold", GOLD, "--brief", "-o", "result.json", "--send", "mlflow:deleted")
    [run] = runs_of(client, "deleted")
    client.delete_run(run.info.run_id)
    assert karat_command("send", "mlflow:deleted", "result.json")[0] == 0
    assert [one.info.run_id == run.info.run_id for one in runs_of(client, "deleted")] == [False]
    client.delete_experiment(run.info.experiment_id)
    assert karat_refuses("send", "mlflow:deleted", "result.json").code == "experiment-deleted"
    assert karat_refuses("send", f"mlflow:{'x' * 600}", "result.json").code == "not-sent"
    address = os.environ["MLFLOW_TRACKING_URI"]
    assert karat_refuses("send", f"mlflow:{address}/elsewhere", "result.json").code == "not-mlflow"
    assert karat_refuses("send", f"mlflow:{address}#/experiments/99999", "result.json").code == "not-sent"
