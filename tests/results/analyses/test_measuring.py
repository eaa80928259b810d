"""One run measured again in another way, and what a corpus lends to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.errors import InputError
from karat.report.export import export
from karat.results.analyses.base import REGISTRY, Lacking, pair
from karat.results.save import restore
from karat.results.saved import read_result
from karat.scoring.views import ORIGINAL, RAW, Need, View

GOLD = {"q": ["a"], "r": ["a"], "s": ["a"]}
RUN: list[dict[str, Any]] = [
    {"query_id": "q", "topk": ["a", "b"], "raw": ["b", "a", "c"], "route": "faq"},
    {"query_id": "r", "topk": ["b", "a"], "raw": ["a", "b", "c"]},
    {"query_id": "s", "topk": ["a"]},
]


def result(run: Any = RUN, **options: Any) -> karat.Result:
    return karat.evaluate(run, GOLD, ["mrr"], **options, analyses=True)


def test_other_lists_are_measured_on_the_queries_that_have_them() -> None:
    raw = result().measure(["mrr", "hit@1"], View(lists=RAW))
    assert raw.score("mrr") == {"q": 0.5, "r": 1.0}
    assert raw.depths.tolist() == [3, 3]


def test_a_query_without_raw_hits_says_nothing_about_reranking() -> None:
    final = result()
    paired, rows = pair(final.measure(["mrr"], View(lists=RAW)), final, ["mrr"])
    assert rows.tolist() == [0, 1]
    assert paired.deltas(final.metrics[0]).tolist() == [0.5, -0.5]


def test_a_log_without_such_lists_says_which_field_it_lacks() -> None:
    with pytest.raises(Lacking, match="`topk_original`"):
        result().measure(["mrr"], View(lists=ORIGINAL))
    with pytest.raises(Lacking, match="`raw`"):
        karat.evaluate({"q": ["a"]}, GOLD, ["mrr"], analyses=True).measure(["mrr"], View(lists=RAW))


def test_what_is_there_already_is_not_measured_again() -> None:
    first, raw = result(), View(lists=RAW)
    assert first.measure(["mrr"], raw) is first.measure(["mrr"], raw)
    assert first.facts("route") == ["faq", None, None]
    assert first.facts("never logged") == [None, None, None]


def test_a_view_exists_where_somebody_needed_it() -> None:
    run = [{"query_id": "q", "topk": [{"chunk_id": "b", "score": 1}, {"chunk_id": "a", "score": 2}]}]
    strict = View(min_score=1.5)
    first = karat.evaluate(run, {"q": ["b"]}, ["mrr"], consumers=[lambda setup: Need(views={strict: ["mrr"]})])
    assert first.measure(["mrr"], strict).means == {"mrr": 0.0}
    assert first.measure(["recall@1"], strict).means == {"recall@1": 0.0}  # any metric that asks for ids only
    assert first.means == {"mrr": 0.5}
    with pytest.raises(Lacking):
        first.measure(["mrr"], View(min_score=1.2))
    with pytest.raises(Lacking, match="coverage@5"):
        first.measure(["coverage@5"])


def test_a_saved_result_keeps_its_analyses(tmp_path: Path) -> None:
    first = result()
    export([first], str(tmp_path / "out.json"))
    saved = read_result(tmp_path / "out.json")
    again = restore(saved).analyses
    assert again.found == first.analyses.found
    assert again.found["reranker"].rescued == 0
    assert again.lacking == first.analyses.lacking
    saved.analyses["reranker"]["k"] = "five"
    with refused("damaged-result", InputError) as caught:
        restore(saved)
    assert "'reranker'" in caught.value.what


def test_every_analysis_has_a_title_and_a_section_of_its_name() -> None:
    from karat.report.build import REGISTRY as SECTIONS

    sections = SECTIONS.everything()
    for name, analysis in REGISTRY.everything().items():
        assert analysis.title
        assert name in sections, f"nothing shows the analysis {name}"


# --- a corpus


CORPUS = Corpus(
    "c", ["a", "b"], ["", ""], ["text of a", "text of b"], {"version": ["v1", None], "source": ["faq", "x"]}
)


def columns(run: Any, *names: str) -> dict[str, list[Any]]:
    from karat.data.audit import Audit
    from karat.data.corpus import DescribedRun
    from karat.data.ids import DocRule
    from karat.formats.read import read_run

    (hits,) = DescribedRun(read_run(run), lambda system: CORPUS, DocRule("#")).slices(frozenset(names), Audit())
    return hits.columns


def test_hits_take_from_the_corpus_what_they_do_not_say() -> None:
    own = [{"query_id": "q", "topk": [{"chunk_id": "a", "text": "own"}, {"chunk_id": "b"}, {"chunk_id": "z"}]}]
    assert columns(own, "text") == {"text": ["own", "text of b", None]}
    assert columns(own, "doc_version") == {"doc_version": ["v1", None, None]}
    assert columns({"q": ["b", "a"]}, "text", "source") == {
        "text": ["text of b", "text of a"],
        "source": ["x", "faq"],
    }
    assert columns({"q": ["b"]}) == {}


def test_a_corpus_is_a_file_too_and_gives_the_floor(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text("".join(json.dumps({"id": i, "text": "x"}) + "\n" for i in "abcd"))
    found = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["recall@1"], corpus=file)
    assert (found.rules.corpus_size, found.summary_rows[0].floor) == (4, 0.25)
    found = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["recall@1"], corpus=file, corpus_size=10)
    assert found.rules.corpus_size == 10
