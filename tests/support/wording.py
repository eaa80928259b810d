"""Sentences as users read them, for the golden files of `tests/golden/wording/`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import chdir
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from karat.errors import KaratError
from karat.errors.spelling import typed


def file(name: str, content: str | bytes) -> str:
    """A new file in the folder of the case; cases name it as a user would who stands there."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def refusals(groups: Mapping[str, Mapping[str, Callable[[], object]]], folder: Path) -> str:
    """What each case is refused with: its name, the code, the message. Each runs in a folder of its own."""
    lines = []
    for group, cases in groups.items():
        lines.append(f"## {group}\n")
        for name, call in cases.items():
            place = folder / str(len(lines))
            place.mkdir()
            with chdir(place), typed():  # options as on the command line, whatever was called before
                lines.append(f"# {name}\n{_without_port(_refusal(name, call)).replace(str(place), '…')}\n")
    return "\n".join(lines)


def _refusal(name: str, call: Callable[[], object]) -> str:
    try:
        call()
    except KaratError as error:
        return f"[{error.code}] {error}"
    pytest.fail(f"{name}: nothing was refused")


class Transcript:
    """A session in a terminal: each command with what it prints and how it ends. Times and commits are masked."""

    def __init__(self, call: Callable[..., tuple[int, str, str, KaratError | None]]) -> None:
        self.text, self._call = "", call

    def __call__(self, *arguments: str) -> None:
        code, out, err, error = self._call(*arguments)
        lines = [f"$ karat {shlex.join(arguments)}", *out.splitlines(), *(f"! {line}" for line in err.splitlines())]
        ended = [f"[exit code {code}{'' if error is None else f', {error.code}'}]"] if code else []
        self.text += "\n".join(map(_masked, [*lines, *ended, "", ""]))


def _without_port(text: str) -> str:
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:…", text)


def _masked(line: str) -> str:
    line = re.sub(r"\b\d+(\.\d+)? (s|ms)\b", r"… \2", _without_port(line.rstrip()))
    return re.sub(r"^(code (?:version|date) +)\S+", r"\1…", line)


_BLOCKS = {
    "p",
    "dt",
    "h1",
    "h2",
    "h3",
    "li",
    "tr",
    "section",
    "form",
    "figure",
    "summary",
    "button",
    "nav",
    "footer",
    "div",
}


class _Words(HTMLParser):
    """The text of a page: a line for each block, cells apart by a bar; neither styles, scripts nor pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.lines, self._silent = [""], 0

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self._silent += tag in ("style", "script", "svg")
        if tag in _BLOCKS:
            self.lines.append("")
        elif tag in ("td", "th", "option", "dd"):
            self.lines[-1] += " | "

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("style", "script", "svg")
        if tag in _BLOCKS:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.lines[-1] += data

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in self.lines)
        return "\n".join(line for line in lines if line.strip("| "))


def words_of(page: str) -> str:
    """The text of a page of HTML."""
    reader = _Words()
    reader.feed(page)
    return reader.text()
