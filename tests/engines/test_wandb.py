"""`karat send wandb` with W&B's own client, in its offline mode."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from karat.errors import KaratError

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"
RUN, GOLD = (str(HELPDESK / name) for name in ("bm25.jsonl", "gold.jsonl"))
EVAL = ("eval", RUN, "--gold", GOLD, "--brief")


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")


def records(folder: Path) -> list[Any]:
    """What the client wrote for `wandb sync`. Its own process writes it, and ends with a record of the exit."""
    [file] = folder.glob("*.wandb")
    for _ in range(300):
        found = _read(file.read_bytes())
        if any(record.HasField("exit") for record in found):
            return found
        time.sleep(0.1)
    raise AssertionError("the run has no end")


def _read(content: bytes) -> list[Any]:
    """Records in blocks of 32 kB, as in LevelDB's log, after seven bytes."""
    from wandb.proto import wandb_internal_pb2

    found, piece = [], b""
    assert content[:4] in (b":W&B", b"")
    at = 7
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        piece += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or its last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(piece)
            found.append(record)
            piece = b""
    return found


def test_the_offline_run_has_metrics_settings_and_files(karat_command: Command) -> None:
    code, _, err = karat_command(*EVAL, "-o", "result.json", "--send", "wandb:me/helpdesk")
    assert (code, "wandb sync wandb/offline-run-" in err) == (0, True), err
    [folder] = Path("wandb").glob("offline-run-*")
    said = records(folder)
    [run] = [record.run for record in said if record.HasField("run")][:1]
    assert (run.entity, run.project, run.display_name) == ("me", "helpdesk", "bm25")
    settings = {one.key: json.loads(one.value_json) for one in run.config.update}
    assert (settings["k"], settings["dataset"]) == ("5", "helpdesk")
    history = {
        item.key or ".".join(item.nested_key): json.loads(item.value_json)
        for record in said
        if record.HasField("history")
        for item in record.history.item
    }
    assert history["recall_at_5_low"] < history["recall_at_5"] < history["recall_at_5_high"]
    assert history["queries"] == 287
    assert {path.name for path in (folder / "files").iterdir()} == {"report.html", "result.json"}
    result = json.loads((folder / "files" / "result.json").read_text())
    assert result["schema"] == "karat/result/2"


def test_the_same_result_has_the_same_id(karat_command: Command) -> None:
    karat_command(*EVAL, "-o", "result.json", "--send", "wandb")
    assert karat_command("send", "wandb", "result.json")[0] == 0
    names = " ".join(path.name for path in Path("wandb").glob("offline-run-*"))  # of the same second: with a number
    assert len(set(re.findall(r"karat-[0-9a-f]+", names))) == 1


def test_nothing_about_the_machine_is_collected(karat_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    karat_command(*EVAL, "--send", "wandb:helpdesk")
    [folder] = Path("wandb").glob("offline-run-*")
    said = records(folder)
    told = b"".join(record.SerializeToString() for record in said)
    for secret in (str(Path.cwd()), "0123456789" * 4):
        assert secret.encode() not in told, secret
    assert {record.run.host for record in said} == {""}
    assert not any(record.run.git.remote_url or record.run.git.commit for record in said)
    assert not (folder / "files" / "wandb-metadata.json").exists()
    assert not (folder / "files" / "requirements.txt").exists()


def test_errors_are_named(karat_command: Command, karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    karat_command(*EVAL, "-o", "result.json")
    monkeypatch.setenv("WANDB_MODE", "online")
    error = karat_refuses("send", "wandb:helpdesk", "result.json")
    assert (error.code, "WANDB_API_KEY" in str(error)) == ("not-sent", True)
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:1")
    error = karat_refuses("send", "wandb:helpdesk", "result.json", "--timeout", "5")
    assert (error.code, "0123456789" in str(error)) == ("not-sent", False)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert karat_refuses("send", "wandb:helpdesk", "result.json").field == "WANDB_MODE"


def test_in_ci_a_settings_file_must_be_trusted(
    karat_command: Command, karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    karat_command(*EVAL, "-o", "result.json")
    Path("wandb").mkdir()
    Path("wandb/settings").write_text("[default]\nbase_url = https://evil.example\n")
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("CI", "true")
    assert karat_refuses("send", "wandb:helpdesk", "result.json").code == "untrusted-config"
