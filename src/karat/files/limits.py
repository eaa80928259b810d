"""Limits for unpacked size and line length. Both can be raised for good files that exceed them."""

from __future__ import annotations

import os
import re

from karat.errors import ConfigError, InputError

LINE, EXPANSION = "KARAT_MAX_LINE", "KARAT_MAX_EXPANSION"
_LINE, _EXPANSION = 64 << 20, 500
_AT_ONCE = 10  # times less if everything is read at once; documents usually unpack to 5 to 20 times their size
_ALWAYS = 64 << 20  # bytes that even the smallest file may unpack to
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def largest_line() -> int:
    """Return the limit of a line in bytes."""
    return _setting(LINE, _LINE)


def largest_content(packed: int, *, at_once: bool = False) -> int:
    """Return the bytes that a compressed file may unpack to. `at_once`: everything is in memory at once."""
    times = _setting(EXPANSION, _EXPANSION)
    return max(_ALWAYS, packed * (max(1, times // _AT_ONCE) if at_once else times))


def line_too_long(label: str, line: int | None = None) -> InputError:
    hint = f"a line usually holds one query; if the file is correct, raise the limit, such as {LINE}=1G"
    expected = f"at most {largest_line() / (1 << 20):.4g} MB"
    return InputError("a line is too long", code="line-too-long", file=label, line=line, expected=expected, hint=hint)


def expands_too_far(label: str, *, at_once: bool = False) -> InputError:
    times = _setting(EXPANSION, _EXPANSION)
    hint = f"if the file is correct, raise the limit, such as {EXPANSION}={times * 20}"
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
