"""The text of a comment: read, marked, and cut to what a host takes."""

from __future__ import annotations

import re
from collections.abc import Callable

from karat.errors import ConfigError, InputError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_READ = 2_000_000  # characters, more than any host takes
_NOTE = "\n\n*Cut here: the rest is longer than a comment may be.*\n"
_RESERVE = 400  # for the note and what must be closed before it
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def marker(name: str) -> str:
    """The first line of a comment, which no reader sees, and by which it is found again."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "no usable name", code="bad-name", field="--name", expected="1 to 64 letters, digits, - and _", got=name
        )
    return f"<!-- karat:{name} -->"


def is_marked(body: str, mark: str) -> bool:
    """Only the first line counts: further down stands text of queries, which anybody may have written."""
    return body.partition("\n")[0].strip() == mark


def read_body(path: str) -> str:
    """The Markdown of a file, or of standard input for `-`."""
    name = "standard input" if path == "-" else path
    try:
        with open(0 if path == "-" else path, encoding="utf-8-sig", closefd=path != "-") as stream:
            text = stream.read(_READ)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", code="unreadable", file=name) from error
    except UnicodeDecodeError:
        raise InputError("no text", code="not-utf8", file=name, expected="Markdown in UTF-8") from None
    if not text.strip():
        raise InputError("nothing to say", code="empty-file", file=name, expected="Markdown text", got="an empty file")
    return text.replace("\0", "�")  # GitLab's database refuses it


def utf8(text: str) -> int:
    return len(text.encode())


def cut(text: str, limit: int, size: Callable[[str], int] = len) -> str:
    """`text` if it is within the limit, else its first lines and a note."""
    if size(text) <= limit:
        return text
    left = limit - _RESERVE
    kept: list[str] = []
    for line in text.split("\n"):
        left -= size(line) + 1
        if left < 0:
            break
        kept.append(line)
    if not kept:
        kept = [text[: (limit - _RESERVE) // 4]]  # one endless line; a character has four bytes at most
    return "\n".join(kept) + _closing(kept) + _NOTE


def _closing(lines: list[str]) -> str:
    """Ends of the code and the folds that were cut open, or they would swallow the note."""
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence):
            fence = ""
    text = "\n".join(lines)
    folds = text.count("<details") - text.count("</details>")
    return (f"\n{fence[:100]}" if fence else "") + "\n</details>" * min(folds, 20)
