"""How much a file may unpack to, and how long a line may be. Both can be set: what is refused may be a good file."""

from __future__ import annotations

import os
import re

from karat.errors import ConfigError, InputError

LINE, EXPANSION = "KARAT_MAX_LINE", "KARAT_MAX_EXPANSION"
_LINE, _EXPANSION = 64 << 20, 500
_AT_ONCE = 10  # times less where everything is read at once; documents usually unpack to 5 to 20 times their size
_ALWAYS = 64 << 20  # bytes that any file may unpack to, however small it is
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def largest_line() -> int:
    """Bytes of the longest line that is read."""
    return _setting(LINE, _LINE)


def largest_content(packed: int, *, at_once: bool = False) -> int:
    """Bytes that a compressed file of this size may unpack to. `at_once`: all of them will be in memory together."""
    times = _setting(EXPANSION, _EXPANSION)
    return max(_ALWAYS, packed * (max(1, times // _AT_ONCE) if at_once else times))


def line_too_long(label: str, line: int | None = None) -> InputError:
    hint = f"a line usually holds one query; if the file is right, set {LINE} to a larger size, such as {LINE}=1G"
    expected = f"at most {largest_line() / (1 << 20):.4g} MB"
    return InputError("a line is too long", code="line-too-long", file=label, line=line, expected=expected, hint=hint)


def expands_too_far(label: str, *, at_once: bool = False) -> InputError:
    times = _setting(EXPANSION, _EXPANSION)
    hint = f"if the file is right, set {EXPANSION} to a larger number, such as {EXPANSION}={times * 20}"
    return InputError(
        "the compressed data unpacks to too much",
        code="expands-too-far",
        file=label,
        expected=f"at most {max(1, times // _AT_ONCE) if at_once else times} times its size",
        hint=hint,
    )


def _setting(name: str, default: int) -> int:
    said = os.environ.get(name, "").strip()
    if not said:
        return default
    found = re.fullmatch(r"(\d{1,15})\s*([kmg]?)(?:i?b)?", said.lower(), re.A)
    if found is None or not int(found[1]):
        raise ConfigError("not a size", field=name, expected="a whole number, such as 500 or 256M", got=said)
    return int(found[1]) * _UNITS[found[2]]
