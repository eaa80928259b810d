"""What was sent and not answered may have been paid for: it is sent again under the same key, and counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.labels.judge.judge import Judgements

Command = Callable[..., tuple[int, str, str]]


def judge(server: Any, pool: Path, **options: Any) -> Judgements:
    return karat.labels.judge_pool(
        pool, model="m", base_url=server.url, **{"canaries": 0, "timeout": 5, "retries": 2, **options}
    )


def first_of(pool: Path) -> Path:
    pool.write_text(pool.read_text().splitlines()[0] + "\n")
    return pool


def keys(server: Any) -> list[str]:
    return [headers["Idempotency-Key"] for headers in server.headers]


def test_every_request_has_a_key_of_its_own(server: Any, pool: Path) -> None:
    done = judge(server, pool)
    assert len(set(keys(server))) == 20
    assert (done.spending.now.calls, done.spending.repeated) == (20, 0)


@pytest.mark.parametrize("fault", ["drop", "hang"])
def test_a_request_whose_answer_got_lost_keeps_its_key(server: Any, pool: Path, fault: str) -> None:
    server.faults = [fault]
    done = judge(server, first_of(pool), timeout=0.4)
    assert len(server.asked) == 2
    assert len(set(keys(server))) == 1
    assert done.spending.repeated == 1


@pytest.mark.parametrize(("fault", "same"), [(500, False), (409, True)])
def test_after_an_error_a_new_key_unless_the_first_is_still_being_answered(
    server: Any, pool: Path, fault: int, same: bool
) -> None:
    """Some servers say the same error again for the same key."""
    server.faults = [fault]
    done = judge(server, first_of(pool))
    assert (len(set(keys(server))) == 1) is same
    assert done.spending.repeated == 0, "an error is not charged"


def test_another_body_has_another_key(server: Any, pool: Path) -> None:
    server.faults = [(400, {"error": {"message": "temperature is not supported"}})]
    judge(server, first_of(pool))
    assert len(set(keys(server))) == 2


def test_asking_afresh_gets_no_old_answer(server: Any, pool: Path) -> None:
    judge(server, first_of(pool))
    judge(server, pool, fresh=True)
    assert len(set(keys(server))) == 2


def test_a_request_that_failed_for_good_is_counted_when_it_is_sent_again(server: Any, pool: Path) -> None:
    server.faults = [None, "drop", "drop", "drop"]
    assert judge(server, pool, workers=1).missing == {"no reply": 1}
    done = judge(server, pool)
    assert (done.spending.now.calls, done.spending.repeated) == (1, 1)
    assert judge(server, pool).spending.repeated == 0


def test_a_killed_run_says_what_it_sends_again_and_uses_the_same_keys(
    server: Any, pool: Path, karat_command: Command
) -> None:
    call = ["labels", "judge", str(pool), "--model", "m", "--base-url", server.url, "--canaries", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    server.hold_after = 5
    command = [sys.executable, "-m", "karat.cli.main", *call, "--workers", "4"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while (len(server.asked), server.answered) < (5 + 4, 5) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    server.hold_after = None
    server.over.set()
    code, out, _ = karat_command(*call, "--json")
    assert code == 0
    spent = json.loads(out)["spending"]
    assert (spent["now"]["calls"], spent["repeated"]) == (15, 4)
    assert sorted(Counter(keys(server)).values()) == [1] * 16 + [2] * 4
