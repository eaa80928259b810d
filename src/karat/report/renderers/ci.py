"""Verdicts in the forms that CI servers read."""

from __future__ import annotations

import hashlib
from collections import Counter
from xml.etree import ElementTree

from karat.data.saved import json_text
from karat.gates.verdicts import GateVerdict, Verdicts

_MOST = 10  # annotations of a kind that GitHub shows of a step
_CRITERIA = "ship-criteria.yaml"


def render_annotations(found: Verdicts) -> str:
    """`::error …::` and `::warning …::` lines; what passed says nothing."""
    kinds: dict[str, list[GateVerdict]] = {"error": [], "warning": []}
    for verdict in found.verdicts:
        if verdict.blocks:
            kinds["error"].append(verdict)
        elif verdict.outcome in ("fail", "inconclusive"):
            kinds["warning"].append(verdict)
    lines = []
    for kind, verdicts in kinds.items():
        # The last place says how many there are more: GitHub would drop them in silence.
        shown = verdicts if len(verdicts) <= _MOST else verdicts[: _MOST - 1]
        lines += [_command(kind, v) for v in shown]
        if len(verdicts) > len(shown):
            lines.append(f"::{kind} title=Karat::{len(verdicts) - len(shown)} more checks")
    return "".join(line + "\n" for line in lines)


def _command(kind: str, verdict: GateVerdict) -> str:
    title = f"Karat: {verdict.gate}" + (f" [{verdict.segment}]" if verdict.segment else "")
    place = {"file": verdict.file, "line": verdict.line, "title": title}
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in place.items() if value is not None)
    return f"::{kind} {properties}::{_data(verdict.reason)}"


def _data(text: str) -> str:
    """Text that cannot end the command and start another."""
    plain = "".join(c if c.isprintable() or c in "\r\n" else "\ufffd" for c in text)
    return plain.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render_code_quality(found: Verdicts) -> bytes:
    """GitLab's list of issues."""
    seen: Counter[str] = Counter()
    issues = [_issue(v, seen) for v in found.verdicts if v.outcome != "pass"]
    return json_text(issues)


def _issue(verdict: GateVerdict, seen: Counter[str]) -> dict[str, object]:
    """`seen`: GitLab shows one issue a fingerprint, and two gates may be about the same."""
    identity = "\0".join((verdict.gate, verdict.metric, verdict.segment or ""))
    seen[identity] += 1
    identity += "\0" * (seen[identity] - 1)
    return {
        "description": f"{verdict.gate}{f' in {verdict.segment}' if verdict.segment else ''}: {verdict.reason}",
        "check_name": "karat",
        "fingerprint": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:32],
        "severity": "blocker" if verdict.blocks else "minor",
        "location": {"path": verdict.file or _CRITERIA, "lines": {"begin": verdict.line or 1}},
    }


def render_junit(found: Verdicts) -> bytes:
    cases = found.verdicts
    failures = sum(v.blocks and v.outcome != "invalid" for v in cases)
    errors = sum(v.outcome == "invalid" for v in cases)
    facts = {"name": "karat", "tests": str(len(cases)), "failures": str(failures), "errors": str(errors)}
    suites = ElementTree.Element("testsuites", facts)
    suite = ElementTree.SubElement(suites, "testsuite", {**facts, "skipped": "0"})
    for verdict in cases:
        _case(suite, verdict)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _case(suite: ElementTree.Element, verdict: GateVerdict) -> None:
    name = verdict.gate + (f" [{verdict.segment}]" if verdict.segment else "")
    case = ElementTree.SubElement(suite, "testcase", {"classname": "karat", "name": _clean(name), "time": "0"})
    if verdict.outcome == "invalid":
        ElementTree.SubElement(case, "error", {"message": _clean(verdict.reason), "type": verdict.outcome})
    elif verdict.blocks:
        ElementTree.SubElement(case, "failure", {"message": _clean(verdict.reason), "type": verdict.outcome})
    else:
        ElementTree.SubElement(case, "system-out").text = _clean(f"{verdict.outcome}: {verdict.reason}")


def _clean(text: str) -> str:
    """Text without characters that XML does not have."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
