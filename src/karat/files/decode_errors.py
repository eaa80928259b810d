"""What a decoder complains of, as an error that says where, what was expected and what was found."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from karat.errors import InputError, meant, shorten

# Whatever a decoder may raise about a user's data.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, ValueError)
_COMPLAINT = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`(?P<path>[^`]*)`)?$", re.S)
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
    """msgspec's complaint about one record as an error with place, expectation and what was found."""
    if isinstance(error, RecursionError):
        return InputError("nested too deeply", code="nested-too-deeply", file=label, line=line)
    if isinstance(error, msgspec.ValidationError):
        return _invalid(str(error), label, line, raw)
    text = str(error)
    if "NaN" in text or (isinstance(raw, bytes) and re.search(rb":\s*-?(NaN|Infinity)\b", raw)):
        return InputError(
            "NaN and Infinity are no JSON numbers",
            code="bad-value",
            file=label,
            line=line,
            expected="finite numbers",
            hint="write null, or leave the field out",
        )
    if "truncated" in text:
        return InputError(
            "the line is cut off: JSON ends in the middle",
            code="cut-off",
            file=label,
            line=line,
            got=raw,
            hint="was the file copied while it was written? Remove or complete the line",
        )
    if isinstance(error, UnicodeError) or "utf-8" in text.lower():
        return InputError(
            "the line is not UTF-8 text", code="not-utf8", file=label, line=line, hint="save the file as UTF-8"
        )
    found = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return InputError(
        f"not JSON ({text.removeprefix('JSON is malformed: ')})",
        code="not-json",
        file=label,
        line=line,
        expected="one JSON object a line",
        got=found,
    )


def _invalid(text: str, label: str, line: int | None, raw: object) -> InputError:
    parts = _COMPLAINT.fullmatch(text)
    assert parts is not None
    path = (parts["path"] or "$").removeprefix("$").lstrip(".")
    what = parts["what"]
    missing = re.fullmatch(r"Object missing required field `(.*)`", what)
    if missing:
        field = f"{path}.{missing[1]}" if path else missing[1]
        hint = meant([missing[1]], _at(raw, path) or ())
        return InputError("the field is missing", code="missing-field", file=label, line=line, field=field, hint=hint)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what, re.S)
    if unknown:
        return InputError(
            "unknown field",
            code="unknown-field",
            file=label,
            line=line,
            field=f"{path}.{unknown[1]}" if path else unknown[1],
        )
    if what == "Number out of range":
        got = _value_at(raw, path) or _huge_number(raw)
        return InputError(
            "not usable", code="bad-value", file=label, line=line, field=path, expected="a finite number", got=got
        )
    bound = re.fullmatch(r"Expected `(\w+)` (<=|>=|<|>) (\S+)", what)
    if bound:
        expected, got = f"{_TYPES.get(bound[1], bound[1])} {bound[2]} {bound[3]}", _value_at(raw, path)
        return InputError(
            "out of range", code="bad-value", file=label, line=line, field=path, expected=expected, got=got
        )
    kinds = re.fullmatch(r"Expected `(.*?)`(?:, got `(.*)`)?", what)
    if kinds:
        expected = " or ".join(_TYPES.get(t.strip(), t.strip()) for t in kinds[1].split("|"))
        if not parts["key"]:
            path = _culprit(raw, path, kinds[2])
        # What stands at the path of a bad key is the object that has it: too much to show.
        got = kinds[2] if parts["key"] else _value_at(raw, path) or kinds[2]
        what = "a key of the wrong type" if parts["key"] else "wrong type"
        return InputError(
            what, code="wrong-type", file=label, line=line, field=path or None, expected=expected, got=got
        )
    return InputError(what, code="bad-value", file=label, line=line, field=path or None)


def _huge_number(raw: object) -> str | None:
    found = re.search(rb"-?\d[\d.]*[eE]\+?\d{3,}|-?\d{300,}", raw) if isinstance(raw, bytes) else None
    return None if found is None else found[0].decode()


_KINDS = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None), "array": list, "object": dict}


def _culprit(raw: object, path: str, kind: str | None) -> str:
    """The path with the key that msgspec leaves open (`gold[...]`): the first whose value is of the refused kind."""
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
    """What stands at a path such as `topk[0].score` or `gold[doc 1.html]`; None where nothing does."""
    try:
        value: Any = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw
        for inner, name in re.findall(r"\[([^\]]*)\]|([^.\[]+)", path):
            value = value[int(inner)] if isinstance(value, list) else value[inner or name]
    except (*DECODE_ERRORS, KeyError, IndexError, TypeError):
        return None
    return value
