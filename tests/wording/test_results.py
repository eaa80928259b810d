"""What is said of results: settings that cannot be, what comparisons note, and analyses that few runs have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import karat
from golden import check
from karat.data.corpus import Corpus
from karat.data.prices import read_prices
from karat.report.blocks import Table, Text
from karat.report.build import evaluation_report
from karat.report.cells import write_cell
from karat.report.export import to_json
from karat.results.comparison.compare import compare_results
from karat.results.comparison.drift import drift_between
from karat.results.diagnosis.diagnose import diagnose
from karat.results.power import plan
from karat.results.queries.triage import triage
from karat.results.saved import read_result
from karat.scoring.engines.find import find_engine
from karat.statistics.calibration import rogan_gladen
from karat.statistics.sampling import Sampling
from wording import file, refusals

Case = Callable[[], object]
RUN, GOLD = {"q1": ["a", "b"]}, {"q1": ["a"]}
QUICK = Sampling(resamples=200)
LABEL = {"grade": 1, "annotator": "judge"}
OLD = {"schema": "karat/result/1", "tables": None}  # as Karat 0.1 saved a result


def evaluate(run: Any = RUN, gold: Any = GOLD, metrics: Any = ("mrr",), **options: Any) -> Case:
    return lambda: karat.evaluate(run, gold, list(metrics), **options)


def lines(name: str, *records: Any) -> str:
    return file(name, "".join(json.dumps(record) + "\n" for record in records))


def metric(name: str) -> Case:
    return lambda: karat.Metric.parse(name)


def prices(content: str) -> Case:
    return lambda: read_prices(file("prices.yaml", content))


def saved(name: str, result: karat.Result, **changes: Any) -> str:
    content = json.loads(to_json([result]))
    content.update({key: {**content[key], **new} if isinstance(new, dict) else new for key, new in changes.items()})
    return file(name, json.dumps(content))


def _one_down() -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, list[str]]]:
    names = [f"q{i}" for i in range(20)]
    good = [{"query_id": q, "topk": ["a"]} for q in names]
    return good, [{"query_id": q, "topk": [], "error": "timeout"} for q in names], {q: ["a"] for q in names}


def compared(**changes: Any) -> Case:
    one = karat.evaluate(RUN, GOLD, ["mrr"], sampling=QUICK)
    return lambda: karat.compare(
        saved("a.json", one, dataset={"version": "1", "name": "helpdesk"}), saved("b.json", one, **changes)
    )


def planned(**options: Any) -> Case:
    return lambda: plan(karat.evaluate(RUN, GOLD, ["recall@1"], sampling=QUICK), **options)


def dated(version: str | None, as_of: str | None) -> Case:
    run = [{"query_id": "q", "topk": [{"chunk_id": "a", "doc_version": version}]}]
    return lambda: karat.evaluate(run, [{"query_id": "q", "gold": ["a"], "as_of": as_of}], no_future=True)


SETTINGS: dict[str, Case] = {
    "a cutoff of 0": evaluate(k=0),
    "no hit": evaluate(top_k=0),
    "an empty corpus": evaluate(corpus_size=0),
    "a threshold that is not a number": evaluate(min_score=float("nan")),
    "a threshold for hits without scores": evaluate(run={"q1": ["a"]}, min_score=0.5),
    "a threshold of likeness over 1": evaluate(fuzzy_threshold=2),
    "a target that is not a share": evaluate(target_false_evidence=1.0),
    "another word for missing": evaluate(missing="ignore"),
    "a method that is not there": lambda: Sampling(method="magic"),  # type: ignore[arg-type]
    "a level of 95": lambda: Sampling(level=95),
    "no resample": lambda: Sampling(resamples=0),
    "a negative seed": lambda: Sampling(seed=-1),
    "an unknown cluster": evaluate(gold=[{"query_id": "q1", "gold": ["a"], "topic": "x"}], cluster="topics"),
    "an unknown segment": evaluate(segments=["topic"]),
    "lengths of queries without texts": evaluate(segments=["query_length"]),
    "a segment by a column with several values for one query": evaluate(
        gold=pl.DataFrame({"query_id": ["q1", "q1"], "chunk_id": ["a", "b"], "team": ["infra", "billing"]}),
        segments=["team"],
    ),
    "a segment that cannot be read": evaluate(segments=["language×"]),
    "a rule without a value": evaluate(no_answer="type"),
    "a rule about forbidden hits without an operator": evaluate(forbid=["tenant"]),
    "a rule with two numbers": evaluate(forbid=["level > 1, 2"]),
    **{
        f"a rule about {what}": evaluate(
            [{"query_id": "q1", "topk": [{"chunk_id": "a", **hit}]}], [{"query_id": "q1", "gold": ["a"]}], forbid=[rule]
        )
        for what, rule, hit in (
            ("a misspelled field", "tenannt = acme", {"tenant": "acme"}),
            ("a field that no hit has", "tenant = acme", {}),
            ("texts that are not numbers", "level > 3", {"metadata": {"level": "high"}}),
        )
    },
    "a rule that fits nothing": evaluate(gold=[{"query_id": "q1", "gold": ["a"], "type": "x"}], no_answer="type=Null"),
    "a rule that contradicts gold": evaluate(gold=[{"query_id": "q1", "gold": ["a"], "type": "x"}], no_answer="type=x"),
    "a variant of an unknown query": evaluate(
        gold=[{"query_id": "q1", "gold": ["a"]}, {"query_id": "q2", "variant_of": "q3"}]
    ),
    "two queries that are variants of each other": evaluate(
        gold=[{"query_id": a, "gold": ["a"], "variant_of": b} for a, b in (("q1", "q2"), ("q2", "q1"))]
    ),
    "a drift of one run": lambda: drift_between([karat.evaluate({"q1": ["a"]}, {"q1": ["a"]})], ["topic"]),
    "an engine that is not there": lambda: find_engine("proceses"),
    "an engine that is not one": lambda: find_engine(5),
    "documents by a pattern without a group": evaluate(doc_of="(?:x)"),
    "documents by a pattern that is not one": evaluate(doc_of="("),
    "two queries that are one": evaluate({"q1": ["a"], "Q1": ["a"]}, normalize_ids=True),
    "scores that mean something else": evaluate(scores="ascending"),
    "segments by a version that nobody says": evaluate(segments=["doc_version"]),
}

METRICS: dict[str, Case] = {
    name: metric(name)
    for name in (
        *("recal@5", "recall@0", "recall@x", "recall(rel=high)@5", "recall(real=1)@5", "recall(rel=1,rel=2)@5"),
        *(
            "recall(rel)@5",
            "ndcg(gain=cubic)@5",
            "auc_recall@5tok",
            "latency@5",
            "map@k",
            "zzz",
            "context_recall",
            "faithfulness",
        ),
    )
}

TIMES: dict[str, Case] = {
    "a version that is not one": dated("2025-14-01", "2025-02-01"),
    "a version against a date": dated("v3", "2025-02-01"),
    "no time": dated("2025-02-01", None),
    "no version": dated(None, "2025-02-01"),
    "tokens that are not a number": evaluate(
        [{"query_id": "q1", "topk": [{"chunk_id": "a", "tokens": -1}]}], metrics=["recall@2000tok"]
    ),
}

PRICES: dict[str, Case] = {
    "a negative price": prices("currency: USD\nmodels:\n  a: {per_call: -1}\n"),
    "text in place of a number": prices("currency: USD\nmodels: {a: {per_call: $0.1}}\n"),
    "an unknown field": prices("currency: USD\nmodels:\n  a: {per_1M: 2}\n"),
    "no currency": prices("models: {a: {per_call: 1}}\n"),
    "a bare number": prices("currency: USD\nmodels: {emb: 0.5}\n"),
    "no price at all": prices("currency: USD\n"),
    "two prices of a model": prices("currency: USD\nmodels:\n  a: {per_1k: 1, per_1m: 2}\n"),
    "a model without a price": prices("currency: USD\nmodels:\n  a: {}\n"),
    "a one-off cost without an amount": prices("currency: USD\none_off:\n  - name: storage\n"),
    "a one-off cost of an unknown model": prices(
        "currency: USD\nmodels: {embed: {per_1k: 1}}\none_off:\n  - {name: x, model: embd, tokens: 5}\n"
    ),
    "a one-off cost without a size": prices(
        "currency: USD\nmodels: {embed: {per_1k: 1}}\none_off:\n  - {name: x, model: embed}\n"
    ),
    "calls of what is paid by the token": prices(
        "currency: USD\nmodels: {embed: {per_1k: 1}}\none_off:\n  - {name: x, model: embed, calls: 3}\n"
    ),
    "a list": prices("- a\n"),
    "a file that is not there": lambda: read_prices("none.yaml"),
}


def torn() -> None:
    read_result(file("torn.json", '{"schema": "karat/result/1"'))


def two_results() -> None:
    one = karat.evaluate(RUN, GOLD, ["mrr"])
    read_result(file("two.json", to_json([one, one])))


def unknown_candidate() -> None:
    first, *others = (karat.evaluate([{"query_id": "q1", "system": s, "topk": ["a"]}], GOLD, ["mrr"]) for s in "abc")
    diagnose(first, karat.compare(first, others[0], others=others[1:]))


COMPARISONS: dict[str, Case] = {
    "no gold": lambda: karat.compare(RUN, RUN, metrics=["recall@5"]),
    "no gold for one of two sides": lambda: karat.compare(karat.evaluate(RUN, GOLD, ["mrr"]), RUN),
    "no reference": evaluate(metrics=["rbo@5"]),
    "a reference with other queries": evaluate(metrics=["jaccard@5"], reference={"other": ["a"]}),
    "a depth for a gold set": evaluate(depth=5),
    "a depth of 0": lambda: karat.evaluate(RUN, karat.read_run(RUN), depth=0),
    "a run as gold that is not there": lambda: karat.evaluate(RUN, "run:none.jsonl"),
    "a run as gold without hits": lambda: karat.evaluate(RUN, karat.read_run([{"query_id": "q1", "topk": []}])),
    "a run as gold with two systems": lambda: karat.evaluate(
        RUN, karat.read_run([{"query_id": "q1", "system": system, "topk": ["a"]} for system in ("hnsw", "exact")])
    ),
    "a context that is no size": evaluate(context="4k"),
    "a metric that was left out": lambda: karat.compare(*_one_down(), ["mrr"])["mrr"],
    "one run": lambda: compare_results([karat.evaluate(RUN, GOLD, ["mrr"])]),
    "no query in common": lambda: karat.compare({"p": ["a"]}, {"q": ["a"]}, {"p": ["a"], "q": ["a"]}, missing="skip"),
    "no metric in common": lambda: karat.compare(
        karat.evaluate(RUN, GOLD, ["mrr"]), karat.evaluate(RUN, GOLD, ["recall@1"])
    ),
    "a metric that Karat 0.1 did not save": lambda: karat.compare(
        *(saved(name, karat.evaluate(RUN, GOLD, ["mrr"]), **OLD) for name in ("a.json", "b.json")), None, ["map"]
    ),
    "another version": compared(dataset={"version": "2"}),
    "another name": compared(dataset={"version": "1", "name": "other"}),
    "another definition": compared(dataset={"version": "1"}, definitions={"mrr": 99}),
    "another setting": compared(dataset={"version": "1"}, settings={"k": 7}),
    "two results in a file": two_results,
    "a result that is cut off": torn,
    "a power over 1": planned(power=1.5),
    "a difference of 0": planned(detect=0),
    "a correlation over 1": planned(correlation=1.5),
    "no share to plan": lambda: plan(
        karat.evaluate([{"query_id": "q1", "topk": ["a"], "latency_ms": {"all": 1}}], GOLD, ["latency"])
    ),
    "depths that are none": lambda: karat.evaluate(RUN, GOLD, ["mrr"]).sweep([0]),
    "no query to look at": lambda: triage(karat.evaluate(RUN, GOLD, ["mrr"]), most=0),
    "an unknown candidate": unknown_candidate,
    "a judge that tells nothing": lambda: rogan_gladen(0.4, 0.5, 0.65),
    "an inverted judge": lambda: rogan_gladen(0.4, 0.2, 0.3),
}


def test_errors_of_results(tmp_path: Path) -> None:
    groups = {
        "Settings": SETTINGS,
        "Metrics": METRICS,
        "Times and tokens": TIMES,
        "Prices": PRICES,
        "Comparisons and plans": COMPARISONS,
    }
    check("wording/errors_results.txt", refusals(groups, tmp_path))


def told(result: karat.Result, *names: str) -> str:
    """The words and tables of some sections, a line each."""
    lines: list[str] = []
    for section in evaluation_report(result).sections:
        for block in section.blocks if section.name in names else ():
            if isinstance(block, Text):
                lines.append(block.text)
            elif isinstance(block, Table):
                lines.append(" | ".join(column.title for column in block.columns))
                lines += [" | ".join(write_cell(cell, "text") for cell in row) for row in block.rows]
                lines += [block.note] if block.note else []
    return "\n".join(lines)


def corpus(*ids: str, text: str = "text of {}") -> Corpus:
    return Corpus("corpus", list(ids), [""] * len(ids), [text.format(i) for i in ids])


def test_sections(tmp_path: Path, monkeypatch: Any) -> None:
    """Of analyses that the demo set has no data for."""
    monkeypatch.chdir(tmp_path)
    queries = range(6)
    gold = [
        {
            "query_id": f"q{i}",
            "query": f"question {i}",
            "gold": ["r"],
            "source": ["faq", "web"][i % 2],
            "entities": ["e"],
        }
        for i in queries
    ]
    usage = [{"stage": "rerank", "model": "cross", "calls": 2}, {"stage": "answer", "model": "gpt-x"}]
    run = [
        {
            "query_id": f"q{i}",
            "topk": ["r", "x"] if i % 3 else ["x", "y"],
            "topk_original": ["x", "r"] if i else ["r", "x"],
            "raw": ["x", "r", "y"],
            "rewritten_query": f"rewritten {i}",
            "route": None if i == 5 else "faq",
            "entities": ["e"] if i % 2 else ["f"],
            "usage": usage if i else [],
        }
        for i in queries
    ]
    table = {
        "currency": "USD",
        "models": {"cross": {"per_call": 0.25}},
        "one_off": [{"name": "disk", "amount": 7, "per": "month"}],
    }
    result = karat.evaluate(run, gold, prices=table, sampling=QUICK)
    chunks = [f"d{i}#1" for i in range(10)]
    labelled = [{"query_id": f"q{i}", "gold": [c]} for i, c in enumerate(chunks)]
    found = {f"q{i}": [c] for i, c in enumerate(chunks)}
    quoted = [
        {"query_id": f"q{i}", "gold": [{"chunk_id": c, "doc_id": c[:-2], "quote": f"text of {c}"}]}
        for i, c in enumerate(chunks)
    ]

    def health(gold: Any, corpus: Corpus) -> str:
        asked = {"corpus": corpus, "sampling": QUICK, "analyses": True}
        return told(karat.evaluate(found, gold, ["recall@5"], **asked), "label_health")

    one_order = [{"query_id": "q", "topk": ["x", "r"], "raw": ["r", "x"]}]
    same_order = [{"query_id": "q", "topk": ["r", "x"], "raw": ["r", "x"]}, {"query_id": "p", "topk": ["r"]}]
    tokens = [{"query_id": "q", "topk": [{"chunk_id": c, "tokens": 600} for c in "rxyz"]}]
    evidence = [{"query_id": "q", "evidence": ["Cards ship.", "a text that is longer than all of the chunks"]}]
    seen = [{"query_id": "q", "topk": [{"chunk_id": "a", "text": "Cards ship."}, {"chunk_id": "b"}]}]
    judge = lines("judge.jsonl", *({**LABEL, "query_id": f"q{i}", "chunk_id": "x"} for i in queries))
    bounded = karat.evaluate(run, gold, sampling=QUICK, labelling=karat.labels.read_labelling([judge], bounds=True))
    mute = karat.evaluate(found, labelled, ["recall@1"], corpus=corpus(*chunks), sampling=QUICK, analyses=True)
    sections = {
        "routing": told(result, "router"),
        "rewriting": told(result, "rewriter"),
        "entities": told(result, "entities"),
        "cost": told(result, "cost"),
        "label health: all is well": health(labelled, corpus(*chunks)),
        "label health: other chunks": health(labelled, corpus(*(f"d{i}#a" for i in range(10)))),
        "label health: other documents": health(labelled, corpus("x#1", *chunks[:4])),
        "label health: other texts": health(quoted, corpus(*chunks, text="cut in another way")),
        "reranker: nothing to win": told(karat.evaluate(one_order, {"q": ["r"]}, sampling=QUICK), "reranker"),
        "reranker: none": told(karat.evaluate(same_order, {"q": ["r"], "p": ["r"]}, sampling=QUICK), "reranker"),
        "losses in tokens": told(
            karat.evaluate(tokens, {"q": ["r", "x", "z", "w"]}, ["recall@1000tok"], sampling=QUICK, analyses=True),
            "waterfall",
        ),
        "evidence": told(karat.evaluate(seen, evidence, sampling=QUICK), "evidence"),
        "labels and bounds": told(bounded, "bounds"),
        "no word search": told(mute, "panel"),
        "not measured": told(karat.evaluate(RUN, GOLD, sampling=QUICK), "not_measured"),
    }
    check("wording/sections.txt", "\n".join(f"# {name}\n{text}\n" for name, text in sections.items()))


def test_lacking() -> None:
    """What a metric and what an analysis need, where run and gold do not have it."""

    def lacks(metric: str, hit: Any = "a", corpus: Corpus | None = None, **gold: Any) -> str:
        run, labels = [{"query_id": "q", "topk": [hit]}], [{"query_id": "q", "gold": ["a"], **gold}]
        result = karat.evaluate(run, labels, [metric], corpus=corpus, sampling=QUICK)
        return "\n".join(example for entry in result.audit if entry.code == "no_data" for example in entry.examples)

    def needs(analysis: str, hit: Any = "a", **gold: Any) -> str:
        run, labels = [{"query_id": "q", "topk": [hit]}], [{"query_id": "q", "gold": ["a"], **gold}]
        return karat.evaluate(run, labels, ["mrr"], sampling=QUICK, analyses=True).analyses.lacking[analysis]

    def hit(version: str) -> dict[str, Any]:
        return {"chunk_id": "a", "doc_version": version}

    place = {"doc_id": "d", "start": 0, "end": 5}
    said = [
        lacks("route_accuracy", source="faq"),
        lacks("route_accuracy"),
        lacks("evidence_hit@3"),
        lacks("evidence_hit@3", evidence=["words"]),
        lacks("freshness@5", hit("2025-01")),
        lacks("freshness@5", as_of="2025-01"),
        lacks("span_recall@1", corpus=corpus("a")),
        lacks("span_recall@1", "d#1", corpus("d#1"), gold=[{"doc_id": "d", "quote": "text"}]),
        lacks("span_recall@1", "d#1", corpus("d#1"), gold=[place]),
        needs("freshness", as_of="2025-01"),
        needs("freshness", hit("newest"), as_of="2025-01"),
        needs("freshness", hit("v3"), as_of="2025-01"),
        needs("router", source="faq"),
        needs("label_health", gold=[], no_answer=True),
        needs("waterfall", gold=[], evidence=["words"]),
        needs("evidence", evidence=["words"]),
    ]
    check("wording/lacking.txt", "\n".join(said) + "\n")


def test_notes_of_comparisons(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    gold = {f"q{i}": ["a"] for i in range(30)}
    good, bad = {q: ["a"] for q in gold}, {q: ["x"] for q in gold}
    some = {q: hits for q, hits in good.items() if q not in ("q0", "q1")}
    one = karat.evaluate(good, gold, ["mrr"], sampling=QUICK)
    with_recall = karat.evaluate(good, gold, ["mrr", "recall@1"], sampling=QUICK)
    parts = {f"q{i}": "A" if i < 100 else "B" if i < 140 else "C" for i in range(180)}
    groups = [{"query_id": query, "gold": ["a"], "group": part} for query, part in parts.items()]
    before = {query: ["x"] if part == "A" else ["a"] for query, part in parts.items()}
    after = {query: ["a"] if part == "A" or int(query[1:]) % 3 == 0 else ["x"] for query, part in parts.items()}
    cases = {
        "some queries": karat.compare(good, some, gold, ["mrr"], missing="skip", sampling=QUICK),
        "missing queries": karat.compare(some, {**good, "q2": ["x"]}, gold, ["mrr"], sampling=QUICK),
        "metrics of one side": karat.compare(one, with_recall),
        "by force": karat.compare(
            saved("a.json", one, dataset={"version": "1"}), saved("b.json", one, dataset={"version": "2"}), force=True
        ),
        "other content": karat.compare(
            saved("c.json", one, dataset={"hash": "one"}), saved("d.json", one, dataset={"hash": "other"})
        ),
        "segments that turn": karat.compare(before, after, groups, ["recall@1"], segments=["group"], sampling=QUICK),
        "bounds of saved results": karat.compare(saved("e.json", one), saved("f.json", one), bounds=True),
        "the gold knows one better": karat.compare(bad, good, gold, ["hit@1"], sampling=QUICK),
    }
    judge = karat.labels.read_labelling(
        [lines("judge.jsonl", *({**LABEL, "query_id": q, "chunk_id": "x"} for q in gold))]
    )
    cases |= {
        "labels for recall alone": karat.compare(good, bad, gold, ["recall@1"], labelling=judge, sampling=QUICK),
        "labels for one side": karat.compare(
            saved("g.json", one), good, gold, ["mrr", "ndcg@5"], labelling=judge, force=True
        ),
    }
    said = []
    for name, found in cases.items():
        (pair,) = found.pairs
        warning = [pair.judged.warning] if pair.judged is not None and pair.judged.warning else []
        said.append("\n".join([f"# {name}", *pair.notes, *warning, ""]))
    check("wording/comparison_notes.txt", "\n".join(said))


def test_audit() -> None:
    """What is counted and told of odd data, beyond what the demo has."""
    run = [
        {"query_id": "q1", "topk": [{"chunk_id": i, "score": 1} for i in "3993"]},
        {
            "query_id": "q2",
            "topk": [{"chunk_id": "7", "rank": 4, "score": 1}, {"chunk_id": "8", "rank": 2, "score": 0.5}],
        },
        {"query_id": "q3", "topk": [], "error": "timeout"},
        {"query_id": "unknown", "topk": ["a"]},
    ]
    gold = [
        {"query_id": "q1", "gold": {"3": 1, "n": -1}},
        {"query_id": "q2", "gold": ["7", "7"]},
        {"query_id": "q3", "gold": ["a"]},
        {"query_id": "q4", "gold": ["a"]},
        {"query_id": "q5", "no_answer": True},
        {"query_id": "q6", "gold": {"a": 0}},
    ]
    metrics = ["recall@5", "latency(stage=rernk)", "novelty@5"]
    result = karat.evaluate(run, gold, metrics, sampling=QUICK)
    text = "The first sentence is here. Cards ship in two weeks. The end is near."
    passages = Corpus("corpus", ["d#1"], [""], [text], {"start": [0], "end": [len(text)]})
    lost = [
        {"doc_id": "d", "quote": "nobody wrote this"},
        {"doc_id": "d", "start": 400, "end": 500},
        {"doc_id": "unknown", "quote": "cards ship"},
        {"doc_id": "d", "start": 20, "end": 900},
        {"doc_id": "d", "quote": "cards ship", "start": 0, "end": 9},
    ]
    found = karat.evaluate(
        {"q": ["d#1"]}, [{"query_id": "q", "gold": lost}], ["recall@5"], corpus=passages, sampling=QUICK
    )
    said = [told(one, "audit") for one in (result, found)]
    check("wording/audit.txt", "\n\n".join(said) + "\n")
