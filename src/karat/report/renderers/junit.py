"""Verdicts as JUnit XML, which every CI server shows."""

from __future__ import annotations

from xml.etree import ElementTree

from karat.gates.verdicts import GateVerdict, Verdicts


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
