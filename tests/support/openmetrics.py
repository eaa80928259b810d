"""A strict reader of OpenMetrics 1.0 text, for the kinds of families that Karat writes."""

from __future__ import annotations

import math
import re

_LABELS = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({_LABELS}(?:,{_LABELS})*)\}})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_ENDS = {"gauge": "", "counter": "_total", "info": "_info", "stateset": ""}
_ESCAPED = {'\\"': '"', "\\n": "\n", "\\\\": "\\"}

Samples = dict[tuple[tuple[str, str], ...], float]


def read(text: str) -> dict[str, Samples]:
    """Family → labels → value. Anything that the format does not allow is an AssertionError."""
    assert text.endswith("# EOF\n")
    lines = text.split("\n")
    assert lines.count("# EOF") == 1
    assert lines[-2:] == ["# EOF", ""]
    families: dict[str, Samples] = {}
    name, kind, seen = "", "", set[str]()
    for line in lines[:-2]:
        if line.startswith("# "):
            word, about, rest = line[2:].split(" ", 2)
            if word == "TYPE":
                assert about not in families, f"{about} is not in one piece"
                assert rest in _ENDS
                name, kind, seen = about, rest, set()
                families[name] = {}
            assert about == name, line
            assert word in ("TYPE", "UNIT", "HELP")
            assert word not in seen, line
            assert not families[name], "said after the samples"
            seen.add(word)
            if word == "UNIT":
                assert name.endswith(f"_{rest}"), line
            continue
        found = _SAMPLE.fullmatch(line)
        assert found, line
        assert found[1] == name + _ENDS[kind], line
        assert _NUMBER.fullmatch(found[3]), line
        labels = [(key, _plain(value)) for key, value in _LABEL.findall(found[2] or "")]
        assert len(dict(labels)) == len(labels), line
        key, value = tuple(sorted(labels)), float(found[3])
        assert key not in families[name], f"twice: {line}"
        assert math.isfinite(value)
        assert kind != "info" or value == 1
        assert kind != "counter" or value >= 0
        assert kind != "stateset" or (value in (0, 1) and name in dict(labels)), line
        families[name][key] = value
    return families


def _plain(text: str) -> str:
    return re.sub(r'\\["\\n]', lambda found: _ESCAPED[found[0]], text)
