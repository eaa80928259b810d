"""One spelling of options in messages: that of the command line there, and keywords in Python.

Messages are written for the command line. `spell` translates them where Karat is called from Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_OPTION = r"(?<![\w-])(--[a-z][a-z-]*[a-z])(?: ('[^']*'|[^\s;()]*[^\s;().,:]))?"
_COMMAND = r"(?<!`)\bkarat [a-z]"  # the rest of the line is a command to type
_ENGINES = ("local", "spark")  # an engine may also be an object, so its option has no list of values
Values = Callable[[], tuple[object, ...]]
_keywords: dict[str, tuple[str, Values]] = {}
_typed = False


def learn(option: str, keyword: str, values: Values = lambda: ()) -> None:
    """Note what an option of the command line is called in Python. `values`: (True,) for a switch, or the choices."""
    _keywords[option] = keyword, values


def is_typed() -> bool:
    """Whether a command is running."""
    return _typed


@contextmanager
def typed() -> Iterator[None]:
    """While a command runs, options are written as they are typed."""
    global _typed
    before, _typed = _typed, True
    try:
        yield
    finally:
        _typed = before


def spell(text: str, *, as_typed: bool | None = None) -> str:
    """The text with options as the caller writes them. `as_typed`: whether that is on the command line.

    >>> learn("--map", "columns"); learn("--normalize-ids", "normalize_ids", lambda: (True,))
    >>> spell("use --map query_id=id, or --normalize-ids. `karat eval --map` is a command.")
    "use columns='query_id=id', or normalize_ids=True. `karat eval --map` is a command."
    """
    typed = _typed if as_typed is None else as_typed
    return text if typed or "--" not in text else "\n".join(map(_spell_line, text.split("\n")))


def _spell_line(line: str) -> str:
    def keyword(found: re.Match[str]) -> str:
        option, value = found[1], found[2]
        in_code = line.count("`", 0, found.start()) % 2 == 1 or "in Python" in line
        if option not in _keywords or in_code or re.search(_COMMAND, line[: found.start()]):
            return found[0]
        name, values = _keywords[option][0], _keywords[option][1]()
        if values == (True,):
            return f"{name}=True" + (f" {value}" if value else "")
        if value is None or value.isupper():
            return f"{name}={value or ''}"
        given = "=" in value or value.startswith("'") or value in (*values, *_ENGINES)
        return f"{name}='{value.strip(chr(39))}'" if given else f"{name}= {value}"

    return re.sub(_OPTION, keyword, line)
