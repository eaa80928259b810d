"""Where findings go: the demo's own words, saved results, reports, the documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import karat
from golden import check
from karat.report.build import evaluation_report
from karat.report.export import to_json
from karat.report.sections.findings import NOTHING
from karat.results.diagnosis import changes, rules
from karat.results.diagnosis.diagnose import diagnose, reference
from karat.results.diagnosis.finding import Finding
from karat.results.save import restore, saved_form
from karat.results.saved import read_result
from karat.schemas import schema_text

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "examples" / "helpdesk"
RUNS = ("bm25", "bm25_rerank")


@pytest.fixture(scope="module")
def demo() -> dict[str, karat.Result]:
    return {name: karat.evaluate(DEMO / f"{name}.jsonl", DEMO / "gold.jsonl", corpus_size=708) for name in RUNS}


def written(findings: list[Finding]) -> str:
    parts = [f"{f.sure}: {f.title}\n  {f.evidence}\n" + "".join(f"  - {t}\n" for t in f.what_to_try) for f in findings]
    return "\n".join(parts)


@pytest.mark.parametrize("name", RUNS)
def test_what_is_said_of_the_demo(name: str, demo: dict[str, karat.Result]) -> None:
    """Read the file aloud when it changes."""
    check(f"findings_{name}.txt", written(demo[name].findings))


def test_findings_are_saved_and_come_back(demo: dict[str, karat.Result], tmp_path: Path) -> None:
    result, file = demo["bm25"], tmp_path / "result.json"
    file.write_bytes(to_json([result]))
    jsonschema.validate(json.loads(file.read_bytes()), json.loads(schema_text("result")))
    assert result.findings
    assert read_result(file).findings == result.findings
    assert diagnose(restore(read_result(file))) == result.findings


def test_a_result_of_an_older_version_has_none(demo: dict[str, karat.Result], tmp_path: Path) -> None:
    saved = json.loads(to_json([demo["bm25"]]))
    del saved["findings"], saved["bands"]
    (tmp_path / "old.json").write_text(json.dumps(saved))
    assert read_result(tmp_path / "old.json").findings == []


def test_they_are_the_last_words_before_where_it_came_from(demo: dict[str, karat.Result]) -> None:
    names = [section.name for section in evaluation_report(demo["bm25"]).sections]
    assert names[-2:] == ["findings", "artifacts"]


def test_silence_is_said_aloud() -> None:
    fine = {f"q{i}": ["a", "b", "c", "d", "e"] for i in range(30)}
    few = {query: fine[query] for query in list(fine)[:5]}
    for run, numbers in ((fine, []), (few, ["5", "20"])):  # how many there are, and how many it takes
        report = evaluation_report(karat.evaluate(run, {query: ["a"] for query in run}))
        (blocks,) = [section.blocks for section in report.sections if section.name == "findings"]
        assert [re.findall(r"\d+", block.text) for block in blocks] == [numbers]
        assert (blocks[0].text == NOTHING) == (run is fine)


def test_metrics_that_were_asked_for_by_name_cost_nothing_more() -> None:
    result = karat.evaluate(DEMO / "bm25.jsonl", DEMO / "gold.jsonl", ["ndcg@5"])
    assert result.background == ()
    assert "findings" not in [section.name for section in evaluation_report(result).sections]


def test_the_background_is_never_shown(demo: dict[str, karat.Result]) -> None:
    result = demo["bm25"]
    assert {"recall@50", "recall(level=doc)@10"} <= set(result.background)
    shown = {row.metric for row in result.summary_rows} | set(result.values) | set(saved_form(result).definitions)
    assert shown.isdisjoint(result.background)


def test_the_same_findings_in_any_order_of_the_queries() -> None:
    lines = (DEMO / "bm25.jsonl").read_text().splitlines()
    gold = [json.loads(line) for line in (DEMO / "gold.jsonl").read_text().splitlines()]
    found = []
    for seed in (0, 1):
        order = np.random.default_rng(seed).permutation(len(lines))
        run = [json.loads(lines[i]) for i in order]
        found.append(karat.evaluate(run, gold).findings)
    assert found[0] == found[1]


def test_text_from_data_stands_in_a_title_as_it_is() -> None:
    """Braces in a tag are no place-holders, and a long value is cut."""
    name, value = "{0}", "{title}" + "x" * 100
    run = {f"q{i}": ["a" if i % 2 else "b", "c", "d", "e", "f"] for i in range(200)}
    gold = [{"query_id": q, "gold": ["a"], "tags": {name: value if run[q][0] == "b" else "y"}} for q in run]
    (found,) = [f for f in karat.evaluate(run, gold).findings if f.code == "weak_segment"]
    assert found.title.startswith("Queries whose {0} is {title}xxx")
    assert len(found.title) < 120


def test_every_rule_says_when_it_fires() -> None:
    entries = [*rules.TABLE, *changes.TABLE]
    assert len({rule.code for rule in entries}) == len(entries)
    assert all(rule.when.endswith((".", ")")) and rule.what_to_try for rule in entries)
    told = [rule.code for rule in rules.TABLE]
    for place, rule in enumerate(rules.TABLE):
        assert rule.unless <= set(told[:place]), "`unless` names a rule that comes later or not at all"


def test_the_page_has_the_table_of_the_code() -> None:
    page = (ROOT / "docs" / "diagnosis.md").read_text()
    assert page.partition("<!-- rules -->\n")[2].partition("<!-- /rules -->")[0] == reference(), "run `make docs`"
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", page)
    assert [t for t in targets if not (ROOT / "docs" / t).exists()] == []
