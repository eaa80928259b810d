"""A run is read once: what will be asked is declared before, and everything later comes from what the pass kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import karat
from karat.data.audit import Audit
from karat.data.corpus import Corpus
from karat.data.hits import Hits, Run
from karat.data.ids import Ints
from karat.history.keep import keep_need, keep_result
from karat.labels.labelled_gold import read_labelling
from karat.report.build import brief_report, evaluation_report, full_report
from karat.results.analyses.base import Consumer, Lacking, Setup
from karat.results.evaluate import evaluate_all
from karat.results.pipeline import panel_need, with_panel
from karat.results.queries.changed import changed_queries, changes_need
from karat.results.queries.triage import triage, triage_need
from karat.results.save import save_need, saved_form
from karat.scoring.views import ORIGINAL, RAW, Need, View
from karat.statistics.sampling import Sampling

QUERIES = 30
QUICK = Sampling(resamples=100)
WORDS = ("refund", "card", "fee", "limit", "branch", "loan", "rate", "form", "desk", "office")


class CountedRun(Run):
    """Counts how often it is read, and how often a second look is taken at some queries."""

    def __init__(self, run: Run) -> None:
        self._run, self.label = run, run.label
        self.read = self.looked = 0

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        self.read += 1
        return self._run.slices(columns, audit, lists)

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        self.looked += 1
        return self._run.look(system, queries, places, columns)

    @property
    def can_look(self) -> bool:
        return self._run.can_look

    def lists(self, name: str) -> Run:
        raise AssertionError("other lists come along with the final ones")

    def grouped(self) -> Run:
        raise AssertionError("every query is on one line")

    def provenance(self) -> dict[str, Any]:
        return self._run.provenance()

    def opening(self) -> dict[str, Any]:
        return self._run.opening()


def text(chunk: int) -> str:
    return f"{WORDS[chunk % 10]} and {WORDS[chunk % 7]} of number {chunk}, as the {WORDS[chunk % 3]} says"


def hits(query: int, step: int) -> list[dict[str, Any]]:
    """Ten chunks of seven documents, the later the worse."""
    chunks = [(query + step * place) % 40 for place in range(10)]
    return [
        {
            "chunk_id": f"d{chunk // 2}#{chunk}",
            "score": 10.0 - place,
            "text": text(chunk),
            "doc_version": f"2025-{1 + chunk % 12:02}-01",
            "source": ("faq", "web")[chunk % 2],
        }
        for place, chunk in enumerate(chunks)
    ]


def records(**other: int) -> list[dict[str, Any]]:
    """Lines of a log with all that analyses look at; `other` names more lists, and the step of their chunks."""
    found = []
    for system, step in (("one", 3), ("two", 7)):
        for query in range(QUERIES):
            line = {"query_id": f"q{query}", "system": system, "topk": hits(query, step), "route": "faq"}
            line |= {name: hits(query, other_step) for name, other_step in other.items()}
            line |= {"query": f"what about {WORDS[query % 10]}", "rewritten_query": f"tell of {WORDS[query % 10]}"}
            line |= {"latency_ms": {"retrieve": 3.0 + query, "total": 9.0 + query}}
            line |= {"usage": [{"stage": "retrieve", "model": "m", "prompt_tokens": 10 + query}]}
            found.append(line)
    return found


def gold(**fields: Any) -> list[dict[str, Any]]:
    """Two relevant chunks and an irrelevant one each; three queries have no answer."""
    entries = []
    for query in range(QUERIES):
        wanted = [(query + 3) % 40, (query + 14) % 40]
        grades = {f"d{chunk // 2}#{chunk}": 1 + at for at, chunk in enumerate(wanted)} | {f"d{query % 20}#{query}": 0}
        entry = {"query_id": f"q{query}", "query": f"what about {WORDS[query % 10]}", "tags": {"kind": query % 3}}
        entry |= {"no_answer": True} if query % 10 == 9 else {"gold": grades}
        entries.append({**entry, **fields})
    return entries


def passages() -> list[dict[str, Any]]:
    """What is looked for are passages, which must be found in the texts of the hits or of a corpus."""
    entries = gold()
    for query, entry in enumerate(entries):
        chunks = [(query + 3) % 40, (query + 14) % 40]
        if "gold" in entry:
            entry["gold"] = [{"doc_id": f"d{chunk // 2}", "quote": text(chunk).partition(",")[0]} for chunk in chunks]
    return entries


CORPUS = Corpus(
    "corpus", [f"d{c // 2}#{c}" for c in range(40)], [""] * 40, [text(c) for c in range(40)], {"source": ["faq"] * 40}
)
PRICES = {"currency": "USD", "models": {"m": {"per_1k": {"prompt": 0.1, "completion": 0.3}}}}


def labelled(folder: Path) -> dict[str, Any]:
    """A judge's labels and people's, with bounds asked for."""
    sides: dict[str, list[dict[str, Any]]] = {"judge": [], "human": []}
    for line in records():
        for hit in line["topk"]:
            grade = int(hit["chunk_id"][-1] in "1357")
            label = {"query_id": line["query_id"], "chunk_id": hit["chunk_id"], "grade": grade}
            sides["judge"].append({**label, "annotator": "m", "kind": "judge"})
            sides["human"].append({**label, "annotator": "ann"})
    for name, labels in sides.items():
        unique = {(label["query_id"], label["chunk_id"]): json.dumps(label) for label in labels}
        (folder / name).write_text("\n".join(unique.values()) + "\n")
    return {"labelling": read_labelling([str(folder / "judge")], str(folder / "human"), bounds=True)}


WORLDS: dict[str, Callable[[Path], tuple[list[dict[str, Any]], Any, dict[str, Any]]]] = {
    "plain": lambda folder: (records(), gold(), {}),
    "raw lists": lambda folder: (records(raw=1), gold(source="faq"), {}),
    "lists of the original query": lambda folder: (records(topk_original=2), gold(), {}),
    "both, and a threshold": lambda folder: (records(raw=1, topk_original=2), gold(), {"min_score": 4.0}),
    "versions": lambda folder: (records(raw=1), gold(as_of="2025-06-15"), {}),
    "no newer hits": lambda folder: (records(raw=1), gold(as_of="2025-06-15"), {"no_future": True}),
    "labels and bounds": lambda folder: (records(), gold(), labelled(folder)),
    "a corpus": lambda folder: (records(raw=1), gold(), {"corpus": CORPUS}),
    "prices and segments": lambda folder: (records(), gold(), {"prices": PRICES, "segments": ["kind"]}),
    "evidence": lambda folder: (records(), gold(evidence=[text(5), text(8)], answer_span="number 8"), {}),
    "passages in hits": lambda folder: (records(raw=1), passages(), {}),
    "passages in a corpus": lambda folder: (records(raw=1), passages(), {"corpus": CORPUS}),
    "passages, labels and bounds": lambda folder: (records(), passages(), labelled(folder)),
}

Asked = Callable[[karat.Result], Any]
# What will be asked for → what has to be declared for it, and the question.
QUESTIONS: dict[str, tuple[list[Consumer], Asked]] = {
    "analyses": ([], lambda result: result.analyses),
    "findings": ([], lambda result: result.findings),
    "audit": ([], lambda result: list(result.audited)),
    "bm25": ([], lambda result: result.bm25),
    "segments": ([], lambda result: result.segment_by("query_length")),
    "sweep": ([], lambda result: result.sweep([1, 3, 5])),
    "metrics of ids": ([], lambda result: result.measure(["map", "bpref", "recall@7"]).means),
    "panel": ([panel_need], with_panel),
    "triage": ([triage_need], lambda result: triage(result, 5, brief=5)),
    "report": ([], evaluation_report),
    "brief report": ([], brief_report),
    "full report": ([triage_need], lambda result: full_report([result])),
    "saved form": ([save_need], saved_form),
    "history": ([keep_need], keep_result),
    "changes": ([changes_need], lambda result: changed_queries(result, result, result.metrics[0], 5, sample=5)),
    "open hits": ([lambda setup: Need(open_hits=True)], lambda result: result.unjudged_lists("chunk")),
}


def evaluated(
    run: Run, world: tuple[Any, Any, dict[str, Any]], consumers: list[Consumer], metrics: Any = None
) -> list[karat.Result]:
    _, gold_set, options = world
    found = evaluate_all(run, gold_set, metrics, sampling=QUICK, analyses=True, consumers=consumers, **options)
    return list(found.values())


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_run_is_read_once_whatever_it_is_asked(question: str, tmp_path: Path) -> None:
    world = WORLDS["both, and a threshold"](tmp_path)
    consumers, ask = QUESTIONS[question]
    run = CountedRun(karat.read_run(world[0]))
    results = evaluated(run, world, consumers)
    assert (run.read, run.looked) == (1, 0)
    for result in results:
        ask(result)
    assert (run.read, run.looked) == (1, 0)


@pytest.mark.parametrize("name", WORLDS)
def test_a_run_is_read_once_for_everything_together(name: str, tmp_path: Path) -> None:
    world = WORLDS[name](tmp_path)
    run = CountedRun(karat.read_run(world[0]))
    consumers = [consumer for needed, _ in QUESTIONS.values() for consumer in needed]
    results = evaluated(run, world, consumers)
    assert len(results) == 2
    assert (run.read, run.looked) == (1, 0)
    for result in results:
        for ask in (ask for _, ask in QUESTIONS.values()):
            ask(result)
    full_report(results)
    karat.compare(*results)
    assert (run.read, run.looked) == (1, 0)


@pytest.mark.parametrize("name", WORLDS)
def test_more_consumers_change_no_answer(name: str, tmp_path: Path) -> None:
    """What others need of the pass does not show in what one is told."""
    world = WORLDS[name](tmp_path)
    run = karat.read_run(world[0])
    everything = [consumer for needed, _ in QUESTIONS.values() for consumer in needed]
    alone, together = evaluated(run, world, []), evaluated(run, world, everything)
    for one, other in zip(alone, together, strict=True):
        assert one.means == other.means
        assert one.analyses == other.analyses
        assert one.findings == other.findings
        assert one.sweep() == other.sweep()
        assert list(one.audited) == list(other.audited)


def test_analyses_find_what_these_runs_are_made_for(tmp_path: Path) -> None:
    """Else the tests above would count what nobody looks at."""
    seen: set[str] = set()
    for make in WORLDS.values():
        world = make(tmp_path)
        for result in evaluated(karat.read_run(world[0]), world, []):
            seen |= result.analyses.found.keys()
    from karat.results.analyses.base import REGISTRY

    assert set(REGISTRY.everything()) - seen <= {
        *("entities", "quality"),
        *("context", "forbidden", "paraphrases", "searches"),  # their own tests have their data
    }


def test_named_metrics_alone_bring_nothing_that_analyses_need(tmp_path: Path) -> None:
    lines, gold_set, _ = WORLDS["raw lists"](tmp_path)
    run = CountedRun(karat.read_run(lines))
    result = evaluate_all(run, gold_set, ["recall@5"])["one"]
    assert (result.analyses.found, result.analyses.lacking) == ({}, {})
    assert list(result.data.tables) == [result.view]
    with pytest.raises(Lacking, match="`raw`"):
        result.measure(["recall@5"], View(lists=RAW))
    assert (run.read, run.looked) == (1, 0)


# Lists to show


def test_lists_that_nobody_declared_are_read_again(tmp_path: Path) -> None:
    lines, gold_set, _ = WORLDS["plain"](tmp_path)
    run = CountedRun(karat.read_run(lines))
    declared, other = ([lambda setup: Need(lists=10, texts=True)], [])
    kept = evaluate_all(run, gold_set, ["recall@5"], consumers=declared)["two"]
    looked_up = evaluate_all(run, gold_set, ["recall@5"], consumers=other)["two"]
    depths = {"q3": 10, "q7": 4}
    assert kept.lists is not None
    assert looked_up.lists is not None
    found = kept.lists.first(depths, texts=True)
    assert (run.read, run.looked) == (2, 0)
    assert looked_up.lists.first(depths, texts=True) == found
    assert run.looked == 1
    assert {query: len(listed) for query, listed in found.items()} == depths
    assert [hit.id for hit in found["q7"]] == [hit["chunk_id"] for hit in hits(7, 7)][:4]
    assert found["q3"][0].text == text(3)


def test_of_very_many_queries_the_few_that_are_shown_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("karat.results.evaluation.KEEP_LISTS", QUERIES - 1)
    world = WORLDS["plain"](tmp_path)
    run = CountedRun(karat.read_run(world[0]))
    (first, _) = evaluated(run, world, [triage_need])
    found = triage(first, 3)
    assert (run.read, run.looked) == (1, 1)
    monkeypatch.undo()
    (kept, _) = evaluated(karat.read_run(world[0]), world, [triage_need])
    assert triage(kept, 3) == found


@pytest.mark.parametrize("options", [{"min_score": 4.0}, {"top_k": 6}, {"no_future": True}])
def test_lists_are_shown_after_the_filters_either_way(options: dict[str, Any], tmp_path: Path) -> None:
    lines, gold_set = records(), gold(as_of="2025-06-15")
    ways = ([lambda setup: Need(lists=10)], [])
    sides = [evaluate_all(lines, gold_set, ["mrr"], consumers=way, **options)["one"] for way in ways]
    depths = dict.fromkeys(sides[0].queries, 10)
    one, other = (side.lists.first(depths) for side in sides if side.lists is not None)
    assert one == other
    assert sum(map(len, one.values())) == sides[0].depths.sum()


# Views


def test_views_are_those_that_were_needed(tmp_path: Path) -> None:
    world = WORLDS["both, and a threshold"](tmp_path)
    result = evaluated(karat.read_run(world[0]), world, [], ["recall@5"])[0]
    own = result.view
    assert own == View(min_score=4.0)
    lists = {view.lists for view in result.data.tables}
    assert lists == {own.lists, RAW, ORIGINAL}
    for view in (View(lists=RAW), View(lists=ORIGINAL), result.setup.unfiltered):
        assert result.measure(["recall@3"], view).metrics
    for view in (own.but(min_score=5.0), own.but(top_k=3), own.but(no_future=True), own.but(labels="judge")):
        with pytest.raises(Lacking):
            result.measure(["recall@3"], view)


def test_a_view_through_other_filters_is_what_an_evaluation_with_them_gives(tmp_path: Path) -> None:
    lines, gold_set = records(raw=1), gold(as_of="2025-06-15")
    asked = ["recall@5", "ndcg@5", "map", "distinct_docs@5"]
    filters: list[dict[str, Any]] = [{"min_score": 4.0}, {"top_k": 4}, {"no_future": True}]

    def needed(setup: Setup) -> Need:
        return Need(views={View(**given): asked for given in filters})

    result = evaluate_all(lines, gold_set, ["mrr"], consumers=[needed])["one"]
    for given in filters:
        direct = evaluate_all(lines, gold_set, asked, **given)["one"]
        through = result.measure(asked, View(**given))
        assert through.means == direct.means
        assert list(through.audit) == list(direct.audit)
        assert through.depths.tolist() == direct.depths.tolist()
        np.testing.assert_array_equal(through.places, direct.places)


def test_raw_lists_of_a_log_are_those_of_a_run_of_their_own(tmp_path: Path) -> None:
    lines = records(raw=1)
    alone = [{**line, "topk": line["raw"]} for line in lines]
    asked = ["recall@5", "ndcg@5", "map"]
    result = evaluate_all(lines, gold(), asked, analyses=True)["two"]
    assert result.measure(asked, View(lists=RAW)).means == evaluate_all(alone, gold(), asked)["two"].means
