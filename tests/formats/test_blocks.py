"""A thread that reads ahead changes nothing but the time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from karat import KaratError, evaluate
from karat.formats import base, blocks, records, trec
from karat.formats.blocks import read_ahead
from karat.results.save import saved_form

GOLD = {f"q{i}": {f"d{i % 9}": 2, f"d{(i + 2) % 9}": 1} for i in range(300)}
LOG = [
    json.dumps(
        {
            "query_id": f"q{i}",
            "topk": [{"rank": r, "chunk_id": f"d{(i * r) % 11}"} for r in range(1, 9)],
            f"new{i // 40}": i,
        }
    )
    for i in range(300)
]
TREC = [f"q{i // 8} Q0 d{i * 7 % 11} 1 {8 - i % 8 // 2} tag" for i in range(2400)]


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many there are, for files of any size in small blocks."""
    found = [1]
    monkeypatch.setattr(blocks, "cores", lambda: found[0])
    monkeypatch.setattr(base, "LARGE", 0)
    monkeypatch.setattr(records, "_BATCH_BYTES", 2000)
    monkeypatch.setattr(trec, "_SMALL", 0)
    monkeypatch.setattr(trec, "_BLOCK", 2000)
    return found


def outcome(path: Path) -> Any:
    try:
        return saved_form(evaluate(path, GOLD, ["recall@5", "mrr", "ndcg@5"]))
    except KaratError as error:
        return str(error)


@pytest.mark.parametrize("lines", [LOG, TREC], ids=["log", "trec"])
@pytest.mark.parametrize("odd", [None, "{", "q1 Q0 d1", "q1 Q0 late 1 2 tag"])
def test_scores_and_complaints_are_the_same(
    lines: list[str], odd: str | None, tmp_path: Path, cores: list[int], reader: str
) -> None:
    changed = lines if odd is None else [*lines[:200], odd, *lines[200:]]
    path = tmp_path / "run"
    path.write_text("\n".join(changed) + "\n")
    one = outcome(path)
    cores[0] = 2
    two = outcome(path)
    if isinstance(one, str):
        assert (two, odd is None) == (one, False)
    else:
        assert (two.scores, two.audit, two.provenance) == (one.scores, one.audit, one.provenance)


def test_no_thread_is_left_where_reading_stops_early(cores: list[int]) -> None:
    cores[0] = 2
    made: list[int] = []

    def parts() -> Iterator[int]:
        for part in range(100):
            made.append(part)
            yield part

    reading = read_ahead(parts(), lambda part: part)
    assert [next(reading), next(reading)] == [0, 1]
    reading.close()  # type: ignore[attr-defined]
    assert len(made) <= 4
    assert "karat-read-ahead" not in {thread.name for thread in threading.enumerate()}


def test_an_error_comes_after_the_parts_before_it(cores: list[int]) -> None:
    cores[0] = 2

    def parts() -> Iterator[str]:
        yield "first"
        raise OSError("gone")

    reading = read_ahead(parts(), lambda part: part)
    assert next(reading) == "first"
    with pytest.raises(OSError, match="gone"):
        next(reading)


def test_an_interrupt_is_raised_at_once(cores: list[int]) -> None:
    cores[0] = 2
    caller = threading.current_thread()

    def make(part: int) -> int:
        if threading.current_thread() is caller:
            raise KeyboardInterrupt
        time.sleep(0.01)
        return part

    with pytest.raises(KeyboardInterrupt):
        list(read_ahead(iter(range(1000)), make))
    assert "karat-read-ahead" not in {thread.name for thread in threading.enumerate()}


def test_all_parts_are_made_where_no_thread_may_start(cores: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    cores[0] = 2

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(read_ahead(iter(range(30)), lambda part: part)) == list(range(30))


@pytest.mark.parametrize("bad", [None, 0, 7, 19])
@pytest.mark.parametrize("where", ["reading", "making"])
def test_parts_come_in_order_whoever_makes_them(bad: int | None, where: str, cores: list[int]) -> None:
    cores[0] = 2
    alive, most, lock = [0], [0], threading.Lock()

    def numbers() -> Iterator[int]:
        for number in range(20):
            if where == "reading" and number == bad:
                raise OSError(number)
            yield number

    def make(number: int) -> int:
        with lock:
            alive[0] += 1
            most[0] = max(most[0], alive[0])
        sum(range(2000 * (number * 7 % 5)))  # some take longer than others
        if where == "making" and number == bad:
            raise OSError(number)
        return number

    found = []
    with nullcontext() if bad is None else pytest.raises(OSError, match=f"^{bad}$"):
        for part in read_ahead(numbers(), make):
            found.append(part)
            sum(range(2000 * (part * 3 % 4)))
            with lock:
                alive[0] -= 1
    assert found == list(range(20 if bad is None else bad))
    assert most[0] <= 4
    assert "karat-read-ahead" not in {thread.name for thread in threading.enumerate()}
