"""Places: names in karat.yaml, files that can be sent, sinks of other packages, W&B without its package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import karat
from karat.errors import KaratError
from karat.sinks import Parcel, Receipt, Sink, send
from karat.sinks.base import SINKS, Delivery, safe_names

if TYPE_CHECKING:
    from .conftest import FakeMLflow, Server

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]


def test_karat_yaml_can_name_places(karat_command: Command, mlflow: FakeMLflow, result: str) -> None:
    Path("karat.yaml").write_text(f"places:\n  team: mlflow:{mlflow.url}#team\n")
    assert karat_command("send", "team", result)[0] == 0
    assert [*mlflow.experiments] == ["team"]


def test_in_ci_its_places_must_be_trusted(
    karat_command: Command, karat_refuses: Refuses, mlflow: FakeMLflow, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    Path("karat.yaml").write_text(f"places:\n  team: mlflow:{mlflow.url}#team\n")
    for asked in (("send", "team", result), ("eval", "run.jsonl", "--gold", "gold.jsonl", "--send", "team")):
        assert karat_refuses(*asked).code == "untrusted-config"
    assert not mlflow.requests
    assert karat_command("send", "team", result, "--trust-config")[0] == 0


def test_karat_yaml_cannot_replace_a_place(
    karat_command: Command, mlflow: FakeMLflow, hook: Server, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("karat.yaml").write_text(f"places:\n  mlflow: mlflow:{hook.url}\n")
    assert karat_command("send", "mlflow", result)[0] == 0
    assert (len(mlflow.runs), hook.requests) == (1, [])


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"schema": "karat/gates/1", "outcome": "pass"}', "not-a-verdict"),
        (b'{"schema": "karat/gates/1"', "not-a-verdict"),
        (b'{"schema": "karat/pool/1"}', "not-a-result"),
        (b"", "not-a-result"),
        (b"\xff\xfe", "not-a-result"),
    ],
)
def test_other_files_are_refused(karat_refuses: Refuses, mlflow: FakeMLflow, content: bytes, code: str) -> None:
    Path("x.json").write_bytes(content)
    assert karat_refuses("send", "mlflow", "x.json").code == code
    assert not mlflow.requests


def test_a_run_is_not_a_result(karat_refuses: Refuses, mlflow: FakeMLflow) -> None:
    assert karat_refuses("send", "mlflow", "run.jsonl").code == "not-a-result"
    assert karat_refuses("send", "mlflow", "missing.json").code == "no-such-file"


def test_several_systems_become_several_runs(karat_command: Command, mlflow: FakeMLflow) -> None:
    Path("other.jsonl").write_text(Path("run.jsonl").read_text().replace('"a', '"c'))
    code, _, err = karat_command("eval", "run.jsonl", "other.jsonl", "--gold", "gold.jsonl", "--send", "mlflow")
    assert (code, len(mlflow.runs)) == (0, 2), err


def test_from_python(mlflow: FakeMLflow, hook: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_WEBHOOK_URL", hook.url)
    result = karat.evaluate("run.jsonl", "gold.jsonl")
    assert "runs/run0" in send(result, "mlflow").done
    send(karat.gate("run.jsonl", "gold.jsonl", ["recall@5 >= 0.1"]), "webhook")
    assert [body["outcome"] for body in hook.bodies()] == ["pass"]


def test_w_and_b_without_its_package(
    karat_refuses: Refuses, result: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "wandb" / "offline-run-1").mkdir(parents=True)  # a folder of that name is not the package
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("karat.sinks.wandb.find_spec", lambda name: None)
    error = karat_refuses("send", "wandb:helpdesk", result)
    assert (error.code, "karat[wandb]" in str(error)) == ("missing-package", True)


@pytest.mark.parametrize("place", ["wandb:a/b/c", "wandb:a b", "wandb:/x", "wandb:x/"])
def test_bad_projects_are_refused(karat_refuses: Refuses, result: str, place: str) -> None:
    assert karat_refuses("send", place, result).code == "bad-place"


def test_a_sink_of_another_package(
    karat_command: Command, result: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Shelf(Sink):
        name = "shelf"
        about = "a folder"

        def __init__(self, folder: str) -> None:
            self.folder = folder

        @classmethod
        def open(cls, where: str, environment: Mapping[str, str]) -> Shelf:
            return cls(where)

        @property
        def title(self) -> str:
            return f"shelf {self.folder}"

        def plan(self, parcel: Parcel) -> str:
            return "would put it there"

        def send(self, parcel: Parcel, how: Delivery) -> Receipt:
            Path(self.folder).mkdir()
            for name, content in parcel.files.items():
                Path(self.folder, name).write_bytes(content)
            return Receipt("put there")

    monkeypatch.setattr(SINKS, "_plugins", {"shelf": Shelf})
    code, out, _ = karat_command("send", "shelf:out", result)
    assert (code, "shelf out: put there" in out) == (0, True)
    assert sorted(path.name for path in Path("out").iterdir()) == ["report.html", "result.json"]


def test_names_stay_different() -> None:
    names = ["recall@5", "recall(x=1)@5", "recall(x-1)@5", "recall at 5", "@@", "é", "ß", "x" * 900, "x" * 901]
    safe = safe_names(names)
    assert len({*safe.values()}) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-") for name in safe.values())
    assert max(map(len, safe.values())) <= 210
