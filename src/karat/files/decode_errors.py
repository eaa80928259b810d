"""Turns errors of decoders into errors with place, expected and actual value."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from karat.errors import InputError, meant, shorten

# Errors that a decoder may raise for bad data.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, ValueError)
# Further errors for a saved file with inconsistent parts.
UNFIT = (*DECODE_ERRORS, KeyError, IndexError, TypeError, AttributeError, AssertionError)
_COMPLAINT = r"(?s)(?P<what>.*?)(?: - at (?P<key>`key` in )?`(?P<path>[^`]*)`)?$"
_TYPES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def refusal(error: Exception, label: str, line: int | None, raw: object = None) -> InputError:
    """Turn an error of msgspec about one record into an InputError."""
    problem, text = partial(InputError, file=label, line=line), str(error)
    if isinstance(error, RecursionError):
        return problem("nested too deeply", code="nested-too-deeply")
    if isinstance(error, msgspec.ValidationError):
        return _invalid(text, problem, raw)
    if "NaN" in text or (isinstance(raw, bytes) and re.search(rb":\s*-?(NaN|Infinity)\b", raw)):
        what, hint = "NaN and Infinity are not valid JSON", "write null, or leave the field out"
        return problem(what, code="bad-value", expected="finite numbers", hint=hint)
    found = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    if isinstance(raw, bytes) and "truncated" in text and re.search(rb"\\u[dD][89abAB]..(?!\\u)", raw):
        return problem("invalid Unicode (a lone surrogate)", code="bad-value", expected="text", got=found)
    if "truncated" in text:
        hint = "remove or complete the line; the file may have been copied during writing"
        return problem("the line is cut off: incomplete JSON", code="cut-off", got=found, hint=hint)
    if isinstance(error, UnicodeError) or "utf-8" in text.lower():
        return problem("the line is not UTF-8 text", code="not-utf8", hint="save the file as UTF-8")
    what = f"not JSON ({text.removeprefix('JSON is malformed: ')})"
    return problem(what, code="not-json", expected="one JSON object per line", got=found)


def _invalid(text: str, problem: Callable[..., InputError], raw: object) -> InputError:
    parts = re.fullmatch(_COMPLAINT, text)
    assert parts is not None
    path = (parts["path"] or "$").removeprefix("$").lstrip(".")
    what, inside = parts["what"], f"{path}." if path else ""
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        hint = meant([missing[1]], _at(raw, path) or ())
        return problem("the field is missing", code="missing-field", field=inside + missing[1], hint=hint)
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.S):
        return problem("unknown field", code="unknown-field", field=inside + unknown[1])
    if what == "Number out of range":
        got = _value_at(raw, path) or _huge_number(raw)
        return problem("not usable", code="bad-value", field=path, expected="a finite number", got=got)
    if bound := re.fullmatch(r"Expected `(\w+)` (<=|>=|<|>) (\S+)", what):
        expected, got = f"{_TYPES.get(bound[1], bound[1])} {bound[2]} {bound[3]}", _value_at(raw, path)
        return problem("out of range", code="bad-value", field=path, expected=expected, got=got)
    if kinds := re.fullmatch(r"Expected `(.*?)`(?:, got `(.*)`)?", what):
        expected = " or ".join(_TYPES.get(t.strip(), t.strip()) for t in kinds[1].split("|"))
        if parts["key"]:  # the path leads to the whole object, which is too much to show
            what, got = "a key of the wrong type", kinds[2]
        else:
            what, path = "wrong type", _culprit(raw, path, kinds[2])
            got = _value_at(raw, path) or kinds[2]
        return problem(what, code="wrong-type", field=path or None, expected=expected, got=got)
    return problem(what, code="bad-value", field=path or None)


def _huge_number(raw: object) -> str | None:
    found = re.search(rb"-?\d[\d.]*[eE]\+?\d{3,}|-?\d{300,}", raw) if isinstance(raw, bytes) else None
    return None if found is None else found[0].decode()


_KINDS = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None), "array": list, "object": dict}


def _culprit(raw: object, path: str, kind: str | None) -> str:
    """Complete a path that msgspec leaves open (`gold[...]`) with the first key whose value has the wrong type."""
    head, open_, rest = path.partition("[...]")
    values = _at(raw, head) if open_ and not rest else None
    for key, value in values.items() if isinstance(values, dict) else ():
        if type(value) is _KINDS.get(kind or ""):
            return f"{head}[{key}]"
    return path


def _value_at(raw: object, path: str) -> str | None:
    value = _at(raw, path)
    return None if value is None else f"'{shorten(value)}'" if isinstance(value, str) else shorten(value)


def _at(raw: object, path: str) -> Any:
    """Return the value at a path such as `topk[0].score` or `gold[doc 1.html]`; None if there is none."""
    try:
        value: Any = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw
        for inner, name in re.findall(r"\[([^\]]*)\]|([^.\[]+)", path):
            value = value[int(inner)] if isinstance(value, list) else value[inner or name]
    except (*DECODE_ERRORS, KeyError, IndexError, TypeError):
        return None
    return value
