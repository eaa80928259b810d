"""Verdicts in every form that a CI server shows, on the demo set and on data that means harm."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import karat
from golden import check
from karat.errors import KaratError, no_commands
from karat.gates.criteria import Gate
from karat.gates.verdict_form import GateVerdict, Verdicts
from karat.report.blocks import Column, Example, Report, Section, Table, Text
from karat.report.gate import LIMIT, comment, gate_report, render_annotations, render_code_quality, render_junit
from karat.report.renderers.markdown import render_markdown, safe
from karat.report.renderers.terminal import render_terminal
from karat.results.comparison.compare import Moved
from karat.results.save import saved_form
from karat.statistics.intervals import Sampling

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "image tag": "<img src=https://evil.example/x.png onerror=alert(1)>",
    "end of the fold": "</summary></details><h1>approved</h1>",
    "comment": "<!-- hidden --> <![CDATA[x]]> <?php x ?>",
    "table": "a | b || c |\n|---|---|\n| d |",
    "code": "`code` ``` fence\n```\n~~~",
    "link": "[click](javascript:alert(1)) [x]: https://evil.example",
    "image": "![pixel](https://evil.example/x.png)",
    "autolink": "<https://evil.example> https://evil.example http://evil.example ftp://evil.example",
    "www": "www.evil.example WWW.evil.example",
    "mail": "someone@evil.example mailto:a@evil.example <b@evil.example>",
    "mention": "@everyone @org/team x@y _@all_ (@all)",
    "reference": "#123 org/repo#123 GH-123 !45 $67 &8 ~bug %9.1",
    "entity": "&lt;script&gt; &#64;everyone &#35;123 &amp;",
    "emphasis": "**bold** __bold__ *it* _it_ ~~gone~~ $x$ $$y$$",
    "blocks": "# heading\n## [x]\n- item\n1. one\n> quote\n---\n    code",
    "escapes": "\\ \\\\ \\| \\` ends with \\",
    "control": "\x1b[31mred\x07\x00\x9b0m\u202egnp.exe\u2066x\u200bzero\ufeff\u2028next\r\nline",
    "commands": "x\n::error::y\n  ::add-mask::z\n##[error]w ##vso[task.complete]v %0A::error::u",
}
ALL = "\n".join(HOSTILE.values())


def demo() -> Verdicts:
    """The demo set's reranked run against its first stage, with gates of all outcomes."""
    criteria = [
        "recall@5 drop <= 0.02 in each language",
        "recall@5 >= 0.3 on bound",
        "ndcg@5 >= 0.48",
        "mrr drop <= 0.001 in topic=fees on bound",
        "latency_p90 <= 60 ms",
        "precision@5 >= 0.6",
        "recall@5 >= 0.2 in language=pt-br",
    ]
    found = karat.gate(DEMO / "bm25_rerank.jsonl", DEMO / "gold.jsonl", criteria, baseline=DEMO / "bm25.jsonl")
    placed = [msgspec.structs.replace(v, file="ship-criteria.yaml", line=i) for i, v in enumerate(found.verdicts, 3)]
    return msgspec.structs.replace(found, gold="gold.jsonl", verdicts=placed)


@pytest.fixture(scope="module")
def shown() -> Verdicts:
    return demo()


def terminal(report: Report, width: int = 100) -> str:
    return render_terminal(report, width)


def test_the_demo_set_has_every_outcome(shown: Verdicts) -> None:
    assert {v.outcome for v in shown.verdicts} == {"pass", "fail", "inconclusive", "invalid"}
    assert shown.exit_code == 2


def test_comment_of_the_demo_set(shown: Verdicts) -> None:
    check("gate_comment.md", comment(shown))


def test_terminal_of_the_demo_set(shown: Verdicts) -> None:
    text = terminal(gate_report(shown))
    assert max(map(len, text.splitlines())) <= 100
    check("gate.txt", text)


def test_junit_of_the_demo_set(shown: Verdicts) -> None:
    check("gate_junit.xml", render_junit(shown).decode())


def test_annotations_of_the_demo_set(shown: Verdicts) -> None:
    check("gate_annotations.txt", render_annotations(shown))


def test_code_quality_of_the_demo_set(shown: Verdicts) -> None:
    check("gate_codequality.json", render_code_quality(shown).decode())


def one(
    *,
    gate: str = "recall@5",
    segment: str | None = None,
    outcome: Any = "fail",
    blocks: bool = True,
    reason: str = "recall@5 dropped.",
    **more: Any,
) -> GateVerdict:
    return GateVerdict(gate, "recall@5", segment, "error", outcome, blocks, reason, 0.5, 0.4, 0.6, 10, "pp", [], **more)


OUTCOMES = ("pass", "fail", "inconclusive", "invalid")


def several(shown: Verdicts, verdicts: list[GateVerdict], **changes: Any) -> Verdicts:
    return msgspec.structs.replace(shown, verdicts=verdicts, comparison=None, segments=[], **changes)


# The comment says it in the right order


def test_the_verdict_comes_first_then_one_line_a_gate_and_what_blocks_first(shown: Verdicts) -> None:
    lines = comment(shown).splitlines()
    assert lines[0].startswith("## ⚠️ Karat: ")
    folded = next(i for i, line in enumerate(lines) if line.startswith("<details>"))
    rows = [line for line in lines[:folded] if line.startswith("| ")]
    assert len(rows) - 1 == len(shown.verdicts)
    blocking = ["blocks" in row for row in rows[1:]]
    assert blocking == sorted(blocking, reverse=True)
    heads = {outcome: comment(msgspec.structs.replace(shown, outcome=outcome)).splitlines()[0] for outcome in OUTCOMES}
    assert len(set(heads.values())) == len(OUTCOMES)


def test_hits_that_moved_have_columns_if_both_runs_have_hits(tmp_path: Path) -> None:
    """A saved baseline has none."""
    gold, run = {"q": ["a"]}, {"q": ["x", "a"]}
    karat.evaluate({"q": ["a"]}, gold, ["mrr"]).save(tmp_path / "old.json")
    for baseline, columns in (({"q": ["a"]}, 5), (tmp_path / "old.json", 3)):
        found = karat.gate(run, gold, "mrr drop <= 0.1", baseline=baseline, sampling=Sampling(resamples=200))
        (head,) = [line for line in comment(found).splitlines() if line.startswith("| query |")]
        assert head.count("|") == columns + 1


def test_a_metric_that_the_baseline_lacks_has_a_dash_in_the_breakdown(tmp_path: Path) -> None:
    gold = [{"query_id": f"q{i}", "gold": ["a"], "language": "ab"[i % 2]} for i in range(8)]
    run = {f"q{i}": ["a"] for i in range(8)}
    file = tmp_path / "baseline.json"
    saved = msgspec.structs.replace(saved_form(karat.evaluate(run, gold, ["recall@5"])), tables=None)
    file.write_bytes(msgspec.json.encode(saved))
    text = comment(karat.gate(run, gold, ["recall@5 drop <= 0.1", "mrr >= 0.5"], baseline=file))
    assert re.search(r"\| a \\\* \| 4 \| 0.00 \[?.*pp \| – \|", text.replace("\\[", "[").replace("\\]", "]"))


# Whatever the data, it fits


@pytest.mark.parametrize("character", ["x", "|", "#1", "字", "🐙", "\x00"])
def test_a_comment_fits_whatever_the_data(shown: Verdicts, character: str) -> None:
    long = character * 20_000
    verdicts = [one(gate=f"{i}{long}", segment=long, reason=long, blocks=i % 2 == 0) for i in range(60)]
    verdicts += [one(gate=f"g{i}", outcome="pass", blocks=False) for i in range(2_000)]
    assert shown.comparison is not None
    pair = shown.comparison.pairs[0]
    changes = [
        msgspec.structs.replace(
            c, query=long, query_id=long, fell_out=[Moved(long, 1, 1.0)] * 9, came_in=[Moved(long, 1, 1.0)] * 9
        )
        for c in pair.changes
    ]
    segments = [
        msgspec.structs.replace(g, segment=f"{i % 40}{long}", value=f"{i}{long}")
        for i, g in enumerate(pair.segments * 50)
    ]
    comparison = msgspec.structs.replace(
        shown.comparison, pairs=[msgspec.structs.replace(pair, changes=changes, segments=segments)]
    )
    whole = msgspec.structs.replace(
        shown, verdicts=verdicts, notes=[long] * 100, run=long, baseline=long, gold=long, comparison=comparison
    )
    text = comment(whole)
    size = len(text.encode())
    assert 5_000 < size <= LIMIT < 64_000
    assert text.startswith("## ⚠️ Karat: ")
    assert "❌ " in text
    assert re.search(r"[\d,]+ more", text)
    assert text.count("<details>") == text.count("</details>")
    assert len(comment(whole, limit=20_000).encode()) <= 20_000


# Text from data is text


class Tags(HTMLParser):
    """Tags with their links and pictures, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = self.code = self.live = ""  # all of it, that in code, and that which hosts look at for links
        self._inside = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._inside = tag == "code"
        self.tags.append(tag + "".join(f" {name}" for name, _ in attrs if name in ("href", "src", "onerror")))

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._inside:
            self.code += data
        self.live += "" if self._inside else data


def rendered(text: str) -> list[Tags]:
    """By every Markdown renderer that is there; GitHub's own belongs to the test dependencies."""
    pages = [MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)]
    try:
        import cmarkgfm
        from cmarkgfm.cmark import Options
    except ImportError:
        assert not os.environ.get("CI"), "CI installs the test dependencies"
    else:
        pages.append(cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE))
    found = []
    for page in pages:
        tags = Tags()
        tags.feed(page)
        found.append(tags)
    return found


ALLOWED = {"h1", "h2", "p", "strong", "em", "table", "thead", "tbody", "tr", "th", "td"}
ALLOWED |= {"details", "summary", "ul", "li", "blockquote", "code"}
MENTION = re.compile(r"(?:^|[^\w`])@\w|\w@[\w.-]*[a-z]", re.I)
REFERENCE = re.compile(r"[#!$&]\d|\bGH-\d|~\w|%\w", re.I)
LINK = re.compile(r"https?://|ftp://|\bwww\.|mailto:", re.I)


def hostile_verdicts() -> Verdicts:
    """All that a stranger can write, everywhere where it can stand."""
    names = [f"{i} {text}" for i, text in enumerate(HOSTILE.values())]
    gold = [
        {
            "query_id": f"q{i} {ALL}",
            "query": ALL,
            "gold": [f"a{ALL}"],
            "tags": {ALL: names[i % 4], "plain": ALL[i % 3 :]},
        }
        for i in range(40)
    ]
    run, before = (
        [
            {"query_id": entry["query_id"], "system": ALL, "topk": [entry["gold"][0] if good(i) else f"b{ALL}"]}
            for i, entry in enumerate(gold)
        ]
        for good in (lambda i: i % 3 > 0, lambda i: i % 5 > 0)
    )
    asked = [Gate(name=f"{name} recall", metric="recall@5", threshold=0.9, regression_max=0.01) for name in names]
    asked += [Gate(metric="recall@5", threshold=0.9, each=ALL)]
    asked += [Gate(metric="recall@5", threshold=0.9, segment={"plain": ALL}, name=ALL)]
    return karat.gate(run, gold, asked, baseline=before, sampling=Sampling(resamples=200))


@pytest.fixture(scope="module")
def hostile() -> Verdicts:
    found = hostile_verdicts()
    return msgspec.structs.replace(found, notes=[*found.notes, *HOSTILE.values()], gold=ALL)


def test_data_makes_no_tag_no_link_and_no_mention_in_a_comment(hostile: Verdicts) -> None:
    text = comment(hostile)
    assert text.count("<details>") > 2
    for page in rendered(text):
        assert {tag.split()[0] for tag in page.tags} <= ALLOWED
        assert not [tag for tag in page.tags if " " in tag]
        assert page.tags.count("details") == text.count("<details>")
        assert page.tags.count("h2") == 1
        assert page.tags.count("h1") == 0
        for pattern in (MENTION, REFERENCE, LINK):
            assert not pattern.search(page.live.replace("recall@5", "recall")), pattern.search(page.live)
        assert "alert(1)" in page.text  # it is shown, as text


def test_rows_keep_their_number_of_cells(hostile: Verdicts) -> None:
    for page in re.findall(r"(?:^\|.*\n)+", comment(hostile), re.M):
        cells = {len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))) for line in page.splitlines()}
        assert len(cells) == 1


@pytest.mark.parametrize("kind", HOSTILE)
def test_each_kind_of_harm_is_shown_as_it_was_written(kind: str) -> None:
    text = HOSTILE[kind]
    expected = "".join(c if c.isprintable() else " " for c in text)
    for page in rendered(f"before {safe(text)} after"):
        assert {*page.tags} <= {"p", "code"}
        assert re.fullmatch(r"([\w./:-]+#\d[\w./:#-]*)?", page.code)
        shown = page.text.strip().replace("\u200b", "")
        assert re.sub(r"\s+", " ", shown) == re.sub(r"\s+", " ", f"before {expected} after").strip()


@pytest.mark.parametrize("item", ["doc_1#12", "a/b.md#0-120", "d1#1", "x:y#3#4", "guide-1#007"])
def test_ids_can_be_copied(item: str) -> None:
    """Nothing invisible is put into them, wherever they stand."""
    texts = [item, f"{item}, {item} (relevant)", f"q1: {item}"]
    blocks = [Text(texts[2]), Table([Column("hit")], [[text] for text in texts]), Example(item, item, {"hit": item})]
    for page in rendered(render_markdown(Report("ids", [Section("all", "all", blocks)]))):
        assert "\u200b" not in page.text
        assert page.text.count(item) >= 7
        assert not REFERENCE.search(page.live)


@given(
    st.text(alphabet=st.one_of(st.sampled_from("<>&|`*_[]()#!@:/\\~$%.-+={}'\"\n w1a"), st.characters()), max_size=40)
)
def test_any_text_is_inert_in_markdown(text: str) -> None:
    for page in rendered(f"| a | b |\n|---|---|\n| x{safe(text)} | y |\n"):
        assert {*page.tags} <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
        assert page.tags.count("td") == 2
        assert page.tags.count("tr") == 2


def test_a_report_in_markdown_is_inert_too() -> None:
    blocks = [Text(ALL), Table([Column(ALL)], [[ALL]], note=ALL), Example(ALL, ALL, {ALL: ALL})]
    for page in rendered(render_markdown(Report(ALL, [Section("all", ALL, blocks)]))):
        assert {tag.split()[0] for tag in page.tags} <= ALLOWED
        assert not [tag for tag in page.tags if " " in tag]


# What CI prints is not obeyed

COMMAND = re.compile(r"^\s*::|##\w*\[", re.M)


@pytest.mark.parametrize("width", [20, 40, 100])
def test_the_terminal_report_holds_no_workflow_command(hostile: Verdicts, width: int) -> None:
    """Also where a line is folded right before one."""
    text = terminal(gate_report(hostile), width)
    assert not COMMAND.search(text)
    assert "\x1b" not in text
    filler = "".join(f"{'x' * n} ::error::y " for n in range(width)) + "x" * (width - 3) + "::error::"
    blocks = [
        Text(filler),
        Text(ALL),
        Table([Column("a"), Column(filler)], [[filler, "::error::"], ["::error::", filler]]),
    ]
    assert not COMMAND.search(terminal(Report(ALL, [Section("all", "::error::", blocks)]), width))


def test_error_messages_hold_no_workflow_command() -> None:
    text = no_commands(str(KaratError("x", file=ALL, got=ALL, hint=ALL, query=ALL, field=ALL)))
    assert not COMMAND.search(text)
    assert no_commands("std::vector in a#b[0] is left alone") == "std::vector in a#b[0] is left alone"


def test_annotations_are_commands_of_ours_only(hostile: Verdicts) -> None:
    placed = [
        msgspec.structs.replace(v, gate=text, segment=text, reason=text, file=f"a,b:{text}", line=i)
        for i, (v, text) in enumerate(zip(hostile.verdicts, HOSTILE.values(), strict=False))
    ]
    lines = render_annotations(several(hostile, placed)).split("\n")
    assert lines[-1] == ""
    for line in lines[:-1]:
        found = re.fullmatch(r"::(error|warning) (?:[a-z]+=[^,:\n]*,?)+::([^\n\r]*)", line)
        assert found, line
        assert not re.search(r"%(?!25|0A|0D|3A|2C)", line)


def test_annotations_come_back_as_they_were(shown: Verdicts) -> None:
    text = "100% of a,b: c\r\nnext %0A"
    (line,) = render_annotations(several(shown, [one(gate=text, reason=text, file="a.yaml", line=3)])).splitlines()
    head, data = re.fullmatch(r"::error (.*?)::(.*)", line).groups()  # type: ignore[union-attr]
    properties = dict(part.split("=", 1) for part in head.split(","))
    assert properties["file"] == "a.yaml"
    assert properties["line"] == "3"
    undo = {"%2C": ",", "%3A": ":", "%0A": "\n", "%0D": "\r", "%25": "%"}
    assert _undone(properties["title"], undo) == f"Karat: {text}"
    assert _undone(data, undo) == text


def _undone(text: str, undo: dict[str, str]) -> str:
    return re.sub("|".join(undo), lambda found: undo[found[0]], text)


def test_annotations_say_how_many_are_not_shown(shown: Verdicts) -> None:
    for count, lines, last in ((10, 10, None), (11, 10, "2 more checks"), (1000, 10, "991 more checks")):
        shown_ = render_annotations(several(shown, [one(gate=f"g{i}") for i in range(count)])).splitlines()
        assert len(shown_) == lines
        if last:
            assert shown_[-1].endswith(last)
    told = [one(blocks=False), one(outcome="inconclusive", blocks=False), one(outcome="pass", blocks=False)]
    assert [line.split()[0] for line in render_annotations(several(shown, told)).splitlines()] == ["::warning"] * 2
    assert render_annotations(several(shown, [one(outcome="pass", blocks=False)])) == ""


# JUnit and code quality


def test_junit_counts_what_it_holds(shown: Verdicts) -> None:
    root = ElementTree.fromstring(render_junit(shown))
    (suite,) = root
    cases = list(suite)
    found = [[child.tag for child in case] for case in cases]
    assert (root.tag, suite.tag, {case.tag for case in cases}) == ("testsuites", "testsuite", {"testcase"})
    assert suite.attrib["tests"] == str(len(cases)) == str(len(shown.verdicts))
    assert suite.attrib["failures"] == str(found.count(["failure"]))
    assert suite.attrib["errors"] == str(found.count(["error"]))
    assert all(len(children) == 1 and children[0] in ("failure", "error", "system-out") for children in found)
    assert all({"name", "classname", "time"} <= set(case.attrib) for case in cases)
    assert root.attrib["failures"] == suite.attrib["failures"]


@given(st.text(), st.text(), st.sampled_from(["pass", "fail", "inconclusive", "invalid"]))
def test_junit_is_xml_for_any_text(name: str, reason: str, outcome: str) -> None:
    found = Verdicts(
        karat="0",
        outcome="fail",
        exit_code=1,
        run=name,
        baseline=None,
        gold=name,
        dataset=karat.evaluate({"q": ["a"]}, {"q": ["a"]}).gold.dataset,
        statistics={},
        queries=1,
        verdicts=[one(gate=name, segment=name or None, reason=reason, outcome=outcome, blocks=outcome != "pass")],
        notes=[],
    )
    (case,) = ElementTree.fromstring(render_junit(found)).iter("testcase")

    def kept(text: str) -> str:
        return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)

    assert case.attrib["name"] == kept(name + (f" [{name}]" if name else ""))
    (child,) = case
    assert (child.attrib.get("message") or child.text or "").endswith(kept(reason))


def test_code_quality_has_gitlabs_fields(shown: Verdicts) -> None:
    twice = [*shown.verdicts, one(), one(), one(reason="another")]
    issues = json.loads(render_code_quality(several(shown, twice)))
    assert len(issues) == sum(v.outcome != "pass" for v in twice)
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"]["path"]
        assert issue["location"]["lines"]["begin"] >= 1
        assert re.fullmatch("[0-9a-f]{32}", issue["fingerprint"])
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert json.loads(render_code_quality(several(shown, [one(outcome="pass", blocks=False)]))) == []
