"""Servers on loopback that take results: one that speaks MLflow's REST API, and one that takes anything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from loopback import Handler, Loopback
from msgspec.structs import replace

from karat.sinks.base import PATIENCE

RUN = "".join(f'{{"query_id": "q{i}", "topk": ["a{i}", "b{i}"]}}\n' for i in range(30))
GOLD = "".join(f'{{"query_id": "q{i}", "gold": ["{"a" if i % 3 else "x"}{i}"]}}\n' for i in range(30))
SECRETS = ("MLFLOW_", "WANDB_", "SLACK_", "TEAMS_", "KARAT_WEBHOOK", "GITHUB_", "CI")


class Server(Loopback):
    """Takes requests. `faults`: what the next requests meet, instead of an answer: a status, its body, or a number of
    seconds; `drop` does the work and says nothing."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.faults: list[dict[str, Any]] = []
        super().__init__(self._handler())

    def answer(self, method: str, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        return 200, "ok"

    def bodies(self) -> list[Any]:
        return [body for *_, body in self.requests]

    def _handler(server) -> type[Handler]:
        class Answers(Handler):
            def _take(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    body = json.loads(content) if content else {}
                except ValueError:
                    body = content
                server.requests.append((self.command, self.path, dict(self.headers), body))
                fault = server.faults.pop(0) if server.faults else {}
                if fault.get("hang"):
                    server.over.wait(30)
                    return
                place = urlsplit(self.path)
                asked = {name: value[0] for name, value in parse_qs(place.query).items()}
                given = (fault["status"], fault.get("body", "")) if "status" in fault else None
                if given is None:
                    asked |= body if isinstance(body, dict) else {"content": content}
                    given = server.answer(self.command, unquote(place.path), asked)
                if fault.get("drop"):
                    self.close_connection = True
                    return
                status, told = given
                text = told if isinstance(told, str) else json.dumps(told)
                self.send_response(status)
                for name, value in fault.get("headers", {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = do_PUT = _take

        return Answers


class FakeMLflow(Server):
    """The part of MLflow's API that is used. Names are checked as the real server does."""

    def __init__(self) -> None:
        self.experiments: dict[str, dict[str, str]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.root = "mlflow-artifacts:"
        super().__init__()

    def answer(self, method: str, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        proxy = "/api/2.0/mlflow-artifacts/artifacts/"
        if path.startswith(proxy) and method == "PUT":
            self.files[path.removeprefix(proxy)] = asked.get("content") or json.dumps(asked).encode()
            return 200, {}
        name = path.removeprefix("/api/2.0/mlflow/")
        answers = {
            "experiments/get-by-name": self._named,
            "experiments/create": self._create_experiment,
            "runs/search": self._search,
            "runs/create": self._create_run,
            "runs/log-batch": self._log,
            "runs/update": self._update,
        }
        return answers[name](asked) if name in answers else (404, "<!doctype html><title>Not Found</title>")

    def _named(self, asked: dict[str, Any]) -> tuple[int, Any]:
        found = self.experiments.get(asked["experiment_name"])
        if found is None:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Could not find experiment"}
        return 200, {"experiment": found}

    def _create_experiment(self, asked: dict[str, Any]) -> tuple[int, Any]:
        number = str(len(self.experiments) + 1)
        made = {"experiment_id": number, "name": asked["name"], "lifecycle_stage": "active"}
        self.experiments[asked["name"]] = made
        return 200, {"experiment_id": number}

    def _search(self, asked: dict[str, Any]) -> tuple[int, Any]:
        wanted = re.fullmatch(r"tags\.`karat\.result` = '([0-9a-f]{64})'", asked["filter"])
        assert wanted
        return 200, {
            "runs": [
                run
                for run in self.runs.values()
                if run["info"]["experiment_id"] in asked["experiment_ids"]
                and {"key": "karat.result", "value": wanted[1]} in run["data"]["tags"]
            ]
        }

    def _create_run(self, asked: dict[str, Any]) -> tuple[int, Any]:
        number = f"run{len(self.runs)}"
        place = f"{self.root}/{asked['experiment_id']}/{number}/artifacts"
        info = {"run_id": number, "status": "RUNNING", "start_time": asked["start_time"], "artifact_uri": place}
        info["experiment_id"] = asked["experiment_id"]
        self.runs[number] = {"info": info, "data": {"tags": asked["tags"], "params": [], "metrics": []}}
        return 200, {"run": self.runs[number]}

    def _log(self, asked: dict[str, Any]) -> tuple[int, Any]:
        data = self.runs[asked["run_id"]]["data"]
        for kind in ("metrics", "params"):
            for given in asked.get(kind, []):
                if not re.fullmatch(r"[\w./ :-]{1,250}", given["key"], re.ASCII):
                    return 400, {"error_code": "INVALID_PARAMETER_VALUE", "message": f"Invalid name {given['key']}"}
                if given not in data[kind]:
                    data[kind].append(given)
        for tag in asked.get("tags", []):
            data["tags"] = [one for one in data["tags"] if one["key"] != tag["key"]] + [tag]
        return 200, {}

    def _update(self, asked: dict[str, Any]) -> tuple[int, Any]:
        self.runs[asked["run_id"]]["info"]["status"] = asked["status"]
        return 200, {}

    def only_run(self) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
        """Metrics, parameters and tags of the only run."""
        [run] = self.runs.values()
        data = run["data"]
        assert run["info"]["status"] == "FINISHED"
        metrics, params, tags = ({one["key"]: one["value"] for one in data[k]} for k in ("metrics", "params", "tags"))
        assert len(metrics) == len(data["metrics"])  # none twice
        return metrics, params, tags


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run and a gold set, and an environment without places."""
    import os

    for name in list(os.environ):
        if name.startswith(SECRETS):
            monkeypatch.delenv(name)
    monkeypatch.setattr("karat.sinks.base.PATIENCE", replace(PATIENCE, first=0.01))
    monkeypatch.chdir(tmp_path)
    Path("run.jsonl").write_text(RUN)
    Path("gold.jsonl").write_text(GOLD)
    return tmp_path


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A saved result, and a verdict that fails."""
    import karat

    folder = tmp_path_factory.mktemp("saved") / "helpdesk"
    folder.mkdir()
    (folder / "run.jsonl").write_text(RUN)
    (folder / "gold.jsonl").write_text(GOLD)
    run, gold = str(folder / "run.jsonl"), str(folder / "gold.jsonl")
    karat.evaluate(run, gold).save(folder / "result.json")
    karat.gate(run, gold, ["recall@5 >= 0.99", "hit@5 >= 0.1"]).save(folder / "verdict.json")
    return (folder / "result.json").read_bytes(), (folder / "verdict.json").read_bytes()


@pytest.fixture
def result(saved: tuple[bytes, bytes]) -> str:
    Path("result.json").write_bytes(saved[0])
    return "result.json"


@pytest.fixture
def verdict(saved: tuple[bytes, bytes]) -> str:
    Path("verdict.json").write_bytes(saved[1])
    return "verdict.json"


@pytest.fixture
def hook() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMLflow]:
    made = FakeMLflow()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", made.url)
    yield made
    made.close()
