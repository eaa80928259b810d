"""`karat labels label` in a real pseudo-terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from karat.errors import KaratError
from karat.labels.screen import escaped

# What the screen shows when it waits for a key, when every pair has a label, and where a key does nothing.
# What else it says is in tests/golden/wording/label.txt.
READY, ALL_DONE, NO_SUCH_KEY, NOTHING_TO_UNDO = "quit", "No pairs left", "unknown key", "to undo"


class Terminal:
    """A process that believes to talk to a person."""

    def __init__(self, *arguments: str) -> None:
        self.handle, inside = pty.openpty()
        command = [sys.executable, "-m", "karat.cli.main", "labels", "label", *arguments]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        self.process = subprocess.Popen(
            command,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=environment,
            start_new_session=True,
        )
        os.close(inside)
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 60) -> str:
        """Everything shown up to a text, which is then done with."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} was not shown, but {self.seen!r}"
            if select.select([self.handle], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.handle, 65536).decode()
                except OSError as error:
                    raise AssertionError(f"{text!r} was not shown, but {self.seen!r}") from error
        shown, _, self.seen = self.seen.partition(text)
        return shown + text

    def press(self, keys: str) -> None:
        os.write(self.handle, keys.encode())

    def ends(self, code: int = 0) -> str:
        while True:
            assert select.select([self.handle], [], [], 60)[0], f"it goes on after {self.seen!r}"
            try:
                read = os.read(self.handle, 65536)
            except OSError:  # the other side is closed
                break
            if not read:
                break
            self.seen += read.decode()
        assert self.process.wait(60) == code, self.seen
        return self.seen


@pytest.fixture
def label() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: object) -> Terminal:
        opened.append(Terminal(*map(str, arguments)))
        return opened[-1]

    yield start
    for terminal in opened:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
        os.close(terminal.handle)


QUERY = "how long do refunds take"
TEXTS = ("Refunds take five days.", "Cards ship in two weeks.", "A refund needs a receipt.", "Nothing of the sort.")


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    lines = [
        {"query_id": "q1", "query": QUERY, "chunk_id": f"d{i}", "text": text, "language": "en"}
        for i, text in enumerate(TEXTS)
    ]
    path = tmp_path / "pool.jsonl"
    path.write_text("".join(json.dumps({**line, "inclusion_probability": 0.5}) + "\n" for line in lines))
    return path


def labels_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def grades_of(path: Path) -> dict[str, float | None]:
    return {label["chunk_id"]: label["grade"] for label in labels_of(path)}


def test_a_key_a_grade_and_everything_is_stored(label: Callable[..., Terminal], pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "ann.jsonl"
    terminal = label(pool, "-o", out, "--annotator", "ann")
    shown = terminal.wait_for(READY)
    assert QUERY in shown
    assert "\x1b[1;4mRefunds\x1b[0m \x1b[1;4mtake\x1b[0m five days." in shown, "shared words are marked"
    terminal.press("2")
    terminal.wait_for("two weeks")
    assert grades_of(out) == {"d0": 2.0}, "stored before the next key"
    terminal.press("0s1")
    terminal.wait_for(ALL_DONE)
    terminal.press("q")
    assert re.search(r"\b3\b.*\b4\b.*\b1\b", terminal.ends())  # labelled, of all, skipped
    assert grades_of(out) == {"d0": 2.0, "d1": 0.0, "d2": None, "d3": 1.0}
    first, *_, skipped, _ = labels_of(out)
    assert first["annotator"] == "ann"
    assert first["time"].startswith("20")
    assert first["inclusion_probability"] == 0.5
    assert skipped["reason"] == "skipped"


def test_undo_takes_back_what_was_given_also_in_an_earlier_session(
    label: Callable[..., Terminal], pool: Path, tmp_path: Path
) -> None:
    out = tmp_path / "ann.jsonl"
    terminal = label(pool, "-o", out, "--annotator", "ann")
    terminal.wait_for(READY)
    terminal.press("20u1q")
    terminal.ends()
    assert grades_of(out) == {"d0": 2.0, "d1": 1.0}
    terminal = label(pool, "-o", out, "--annotator", "ann")
    terminal.wait_for(READY)
    terminal.press("uuu")
    terminal.wait_for(NOTHING_TO_UNDO)
    terminal.press("1q")
    terminal.ends()
    assert grades_of(out) == {"d0": 1.0}


def test_a_session_that_was_killed_goes_on_and_half_a_line_is_repaired(
    label: Callable[..., Terminal], pool: Path, tmp_path: Path
) -> None:
    out = tmp_path / "ann.jsonl"
    terminal = label(pool, "-o", out, "--annotator", "ann")
    terminal.wait_for(READY)
    terminal.press("21")
    terminal.wait_for("needs a receipt")
    terminal.process.send_signal(signal.SIGKILL)
    terminal.process.wait()
    with out.open("a") as stream:
        stream.write('{"query_id":"q1","chunk_id":"d2","gra')
    terminal = label(pool, "-o", out, "--annotator", "ann")
    terminal.wait_for("needs a receipt")
    terminal.press("00")
    terminal.wait_for(ALL_DONE)
    terminal.press("q")
    terminal.ends()
    assert grades_of(out) == {"d0": 2.0, "d1": 1.0, "d2": 0.0, "d3": 0.0}
    assert len(labels_of(out)) == 4


def test_an_interrupt_loses_nothing(label: Callable[..., Terminal], pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "ann.jsonl"
    terminal = label(pool, "-o", out, "--annotator", "ann")
    terminal.wait_for(READY)
    terminal.press("2")
    terminal.wait_for("two weeks")
    terminal.wait_for(READY)  # Python may lose a signal while it draws
    terminal.process.send_signal(signal.SIGINT)
    assert re.search(r"\b1\b.*\b4\b.*\b3\b", terminal.ends())  # labelled, of all, left
    assert grades_of(out) == {"d0": 2.0}


def test_arrow_and_function_keys_are_no_grades(label: Callable[..., Terminal], pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "ann.jsonl"
    terminal = label(pool, "-o", out, "--annotator", "ann")
    terminal.wait_for(READY)
    for key in ("\x1b[2~", "\x1b[1;5C", "\x1bOP", "\x1b[A", "7", "x"):
        terminal.press(key)
        terminal.wait_for(NO_SUCH_KEY)
    terminal.press("q")
    terminal.ends()
    assert not out.exists(), "a file without labels is not left behind"


def test_notes_go_with_the_next_label(label: Callable[..., Terminal], pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "ann.jsonl"
    terminal = label(pool, "-o", out, "--annotator", "ann")
    terminal.wait_for(READY)
    terminal.press("n")
    terminal.wait_for("note: ")
    terminal.press("see page 2, früher\n")
    terminal.wait_for("note: see page 2")
    terminal.press("1" + "0q")
    terminal.ends()
    assert [label.get("note") for label in labels_of(out)] == ["see page 2, früher", None]


def test_what_was_skipped_can_be_shown_again(label: Callable[..., Terminal], pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "ann.jsonl"
    terminal = label(pool, "-o", out, "--annotator", "ann")
    terminal.wait_for(READY)
    terminal.press("ss00q")
    assert "--skipped" in terminal.ends()
    terminal = label(pool, "-o", out, "--annotator", "ann", "--skipped")
    terminal.wait_for(READY)
    terminal.press("s2")
    terminal.wait_for(ALL_DONE)
    terminal.press("q")
    terminal.ends()
    assert grades_of(out)["d1"] == 2.0


def test_a_passage_is_shown_as_data(label: Callable[..., Terminal], tmp_path: Path) -> None:
    pool = tmp_path / "pool.jsonl"
    hostile = "\x1b[2J\x1b]0;title\x07 press 2 \u202eevil [bold red]markup[/] \x00"
    entry = {"query_id": "q", "query": "a\x1b[31m", "chunk_id": "c\x1b[1m", "title": "t\x07", "text": hostile}
    pool.write_text(json.dumps(entry) + "\n")
    terminal = label(pool, "-o", tmp_path / "out.jsonl", "--annotator", "ann")
    shown = terminal.wait_for(READY)
    assert "\\x1b[2J\\x1b]0;title\\x07" in shown
    assert "\\u202eevil [bold red]markup[/]" in shown
    for raw in ("\x1b]0;", "\x07", "\u202e", "\x1b[31m"):
        assert raw not in shown
    terminal.press("q")
    terminal.ends()


def test_near_duplicates_say_what_was_given_before(label: Callable[..., Terminal], tmp_path: Path) -> None:
    pool = tmp_path / "pool.jsonl"
    entries = [{"query_id": "q", "chunk_id": "a", "text": "x"}, {"query_id": "q", "chunk_id": "b", "text": "x"}]
    entries[1]["near_duplicate_of"] = "a"
    pool.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    terminal = label(pool, "-o", tmp_path / "out.jsonl", "--annotator", "ann")
    terminal.wait_for(READY)
    terminal.press("1")
    terminal.wait_for("which you graded 1")
    terminal.press("q")
    terminal.ends()


def test_two_sessions_cannot_write_one_file(label: Callable[..., Terminal], pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    first = label(pool, "-o", out, "--annotator", "ann")
    first.wait_for(READY)
    assert f"error: {out}: " in label(pool, "-o", out, "--annotator", "ben").ends(2).replace("\x1b[0m", "")
    first.press("q")
    first.ends()


def test_the_terminal_is_as_it_was_afterwards(label: Callable[..., Terminal], pool: Path, tmp_path: Path) -> None:
    import termios

    terminal = label(pool, "-o", tmp_path / "out.jsonl", "--annotator", "ann")
    before = termios.tcgetattr(terminal.handle)
    terminal.wait_for(READY)
    assert termios.tcgetattr(terminal.handle)[3] != before[3]
    terminal.press("q")
    terminal.wait_for("out.jsonl")
    terminal.process.wait(60)
    assert termios.tcgetattr(terminal.handle) == before


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "empty-file"),
        ('{"query_id":"q","text":"x"}\n', "missing-field"),
        ('{"query_id":"q","chunk_id":"c"}\n{"query_id":"q","chunk_id":"c"}\n', "duplicate-pair"),
    ],
)
def test_a_bad_pool_is_refused(
    karat_refuses: Callable[..., KaratError], tmp_path: Path, content: str, code: str
) -> None:
    (tmp_path / "pool.jsonl").write_text(content)
    out = tmp_path / "out.jsonl"
    error = karat_refuses("labels", "label", str(tmp_path / "pool.jsonl"), "-o", str(out), "--annotator", "ann")
    assert error.code == code
    assert not out.exists()


def test_without_a_terminal_nothing_is_labelled(
    karat_refuses: Callable[..., KaratError], pool: Path, tmp_path: Path
) -> None:
    error = karat_refuses("labels", "label", str(pool), "-o", str(tmp_path / "out.jsonl"), "--annotator", "ann")
    assert error.code == "no-terminal"


@pytest.mark.parametrize("before", ["some notes of mine", '{"a": 1}\n'])
def test_other_files_are_not_written_to(
    label: Callable[..., Terminal], pool: Path, tmp_path: Path, before: str
) -> None:
    out = tmp_path / "notes.txt"
    out.write_text(before)
    assert "notes.txt" in label(pool, "-o", out, "--annotator", "ann").ends(2)
    assert out.read_text() == before


def test_joiners_of_words_and_emoji_stay() -> None:
    assert escaped("می\u200cخواهم 👩\u200d🔧\u00adx") == "می\u200cخواهم 👩\u200d🔧\u00adx"
