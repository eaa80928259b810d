"""Each rule with a run that it must speak of, and one on which it must be silent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from golden import check
from karat.data.corpus import Corpus
from karat.results.diagnosis import changes, rules
from karat.results.diagnosis.diagnose import diagnose
from karat.results.save import restore, saved_form

Ranks = Sequence[int | None]  # of each relevant item, None: not in the list


def make(
    ranks: Callable[[np.random.Generator, int], Ranks],
    *,
    n: int = 200,
    depth: int = 50,
    seed: int = 1,
    one_document: bool = False,
    wrong: int = 0,
    tags: Callable[[int], dict[str, Any]] | None = None,
    latency: Callable[[np.random.Generator, int], dict[str, float]] | None = None,
    newer: float = 0.0,
    as_of: str | None = None,
    apart: float | None = None,
    change: Callable[[int, list[str]], list[str]] | None = None,
    stages: Callable[[int, list[str]], dict[str, Any]] | None = None,
    source: Callable[[int], str] | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A run and its gold. `ranks`: where the relevant items of query i stand; `one_document`: what is not found is
    replaced by another chunk of its document; `wrong`: judged wrong items in the gold; `newer`: so many of
    the hits are newer than `as_of`; `apart`: half of the queries have no answer, and scores that lie so far below those
    of the others; `change`: the last word on the list of query i; `stages`: what else the log says of it (raw lists, a
    route); `source`: what it should ask."""
    rng = np.random.default_rng(seed)
    run, gold = [], []
    for i in range(n):
        places = ranks(rng, i)
        hits = [f"other{i}.{j}#p1" for j in range(depth)]
        for item, rank in enumerate(places):
            if rank is not None and rank <= depth:
                hits[rank - 1] = f"doc{i}.{item}#p1"
            elif one_document:
                hits[item] = f"doc{i}.{item}#p2"
        hits = change(i, hits) if change else hits
        grades = {f"doc{i}.{item}#p1": 1 for item in range(len(places))}
        grades |= {f"other{i}.{j}#p1": 0 for j in range(wrong)}
        entry: dict[str, Any] = {"query_id": f"q{i}", "system": "made", "topk": hits}
        said: dict[str, Any] = {
            "query_id": f"q{i}",
            "query": f"query {i}",
            "gold": grades,
            "tags": tags(i) if tags else {},
        }
        if as_of is not None:
            said["as_of"] = as_of
            drawn = np.where(rng.random(len(hits)) < newer, "2025-12-01", "2025-01-01").tolist()
            entry["topk"] = [{"chunk_id": h, "doc_version": v} for h, v in zip(hits, drawn, strict=True)]
        if apart is not None:
            top = rng.normal(0.0 if i % 2 else apart)
            entry["topk"] = [{"chunk_id": h, "score": top - place} for place, h in enumerate(hits)]
            if i % 2:
                said |= {"gold": {}, "no_answer": True}
        if latency:
            entry["latency_ms"] = latency(rng, i)
        run.append({**entry, **(stages(i, hits) if stages else {})})
        gold.append({**said, **({"source": source(i)} if source else {})})
    return run, gold


def single(**shares: float) -> Callable[[np.random.Generator, int], Ranks]:
    """One relevant item a query: `single(r1=0.3, r5=0.8)` stands first with chance 0.3, up to fifth with 0.8."""
    edges = sorted((int(name[1:]), share) for name, share in shares.items())

    def ranks(rng: np.random.Generator, i: int) -> Ranks:
        drawn, before = rng.random(), 0
        for k, share in edges:
            if drawn < share:
                return [int(rng.integers(before + 1, k + 1))]
            before = k
        return [None]

    return ranks


def fixed(*places: int | None) -> Callable[[np.random.Generator, int], Ranks]:
    return lambda rng, i: places


def evaluated(
    ranks: Callable[[np.random.Generator, int], Ranks],
    corpus_size: int | None = None,
    renamed: Callable[[int], str] | None = None,
    bm25: Any = None,
    **how: Any,
) -> Any:
    """`renamed`: the corpus has the gold's chunk of query i under another name. `bm25`: the ranks of word search."""
    run, gold = make(ranks, **how)
    corpus = None
    if renamed:
        ids = [renamed(i) for i in range(len(gold))]
        corpus = Corpus("corpus", ids, [""] * len(ids), [""] * len(ids))
    other = None if bm25 is None else make(bm25, **how)[0]
    return karat.evaluate(run, gold, corpus=corpus, corpus_size=corpus_size, bm25=other)


def codes(result: Any) -> list[str]:
    return [finding.code for finding in diagnose(result)]


GOOD = single(r1=0.7, r5=0.95, r50=0.97)


def times(usual: float, tail: float = 0.0, **stages: float) -> Any:
    """Stages that take `usual` ms each, or as given; every fifth query `tail` ms more."""

    def latency(rng: np.random.Generator, i: int) -> dict[str, float]:
        parts = stages or {"retrieve": usual}
        return {name: ms * rng.uniform(0.9, 1.1) + (tail if i % 5 == 0 else 0.0) for name, ms in parts.items()}

    return latency


def language(worse: float) -> dict[str, Any]:
    """Three languages, of which one finds less by `worse`."""

    def ranks(rng: np.random.Generator, i: int) -> list[int | None]:
        return [1 if rng.random() < 0.85 - (worse if i % 3 == 0 else 0.0) else None]

    return {"ranks": ranks, "n": 300, "tags": lambda i: {"language": ("pt-BR", "en", "es-AR")[i % 3]}}


def turned(share: float, back: int) -> Callable[[int, list[str]], list[str]]:
    """In so many queries the first hit goes back by some places."""
    return lambda i, hits: [*hits[1 : back + 1], hits[0], *hits[back + 1 :]] if i % 100 < share * 100 else hits


def reranked(before: Callable[[int, list[str]], list[str]]) -> Callable[[int, list[str]], dict[str, Any]]:
    return lambda i, hits: {"raw": before(i, hits)}


def rewritten(before: Callable[[int, list[str]], list[str]]) -> Callable[[int, list[str]], dict[str, Any]]:
    return lambda i, hits: {"topk_original": before(i, hits), "rewritten_query": f"other words for query {i}"}


def restored(i: int, hits: list[str]) -> list[str]:
    """As the list was before `turned(…, 3)`."""
    return [hits[3], *hits[:3], *hits[4:]] if i % 100 < 30 else hits


FIRES: dict[str, dict[str, Any]] = {
    "loses_to_bm25": {"ranks": single(r5=0.5, r50=0.97), "bm25": GOOD},
    "labels_gone": {"ranks": single(r50=0.05), "renamed": lambda i: f"doc{i}.0#{1 if i % 3 else 2}"},
    "worse_than_random": {"ranks": single(r5=0.05), "corpus_size": 20, "depth": 5},
    "no_better_than_random": {"ranks": single(r5=0.1, r50=0.1), "corpus_size": 50, "depth": 5, "n": 2000},
    "short_lists": {"ranks": GOOD, "change": lambda i, hits: hits[:2] if i % 5 == 0 else hits},
    "repeated_hits": {"ranks": GOOD, "change": lambda i, hits: [*hits, hits[0], hits[1]]},
    "unjudged": {"ranks": GOOD, "wrong": 2},
    "chunking": {"ranks": single(r50=0.3), "one_document": True},
    "not_found": {"ranks": single(r5=0.3, r50=0.4)},
    "too_far_down": {"ranks": single(r5=0.4, r50=0.95)},
    "buried": {"ranks": single(r1=0.1, r5=0.95)},
    "clutter": {"ranks": fixed(1, 4, 5)},
    "first_hit_only": {"ranks": fixed(1, 2, 3, None)},
    "same_documents": {
        "ranks": single(r5=0.5, r50=0.95),
        "change": lambda i, hits: [f"other#{j}" if hit.startswith("other") else hit for j, hit in enumerate(hits)],
    },
    "reranker_hurts": {"ranks": fixed(1), "change": turned(0.3, 3), "stages": reranked(restored)},
    "reranker_wins_little": {"ranks": fixed(4), "stages": reranked(lambda i, hits: turned(0.2, 5)(i, hits))},
    "misrouted": {
        "ranks": GOOD,
        "source": lambda i: "faq",
        "stages": lambda i, hits: {"route": "web" if i % 4 == 0 else "faq"},
    },
    "rewriting_harms": {"ranks": fixed(1), "change": turned(0.3, 3), "stages": rewritten(restored)},
    "weak_segment": language(0.4),
    "slow": {"ranks": GOOD, "latency": times(0, retrieve=40, rerank=200)},
    "slow_tail": {"ranks": GOOD, "latency": times(50, tail=400)},
    "from_the_future": {"ranks": GOOD, "newer": 0.2, "as_of": "2025-06-01"},
    "scores_do_not_tell": {"ranks": GOOD, "apart": 0.0},
    "no_threshold": {"ranks": GOOD, "apart": 2.0},
}

# As near to the case as a rule must tell apart.
SILENT: dict[str, dict[str, Any]] = {
    "loses_to_bm25": {"ranks": GOOD, "bm25": single(r5=0.93, r50=0.97)},  # the run is ahead
    "labels_gone": {"ranks": single(r50=0.05), "renamed": lambda i: f"{'gone' if i % 3 else 'doc'}{i}.0#p1"},
    "worse_than_random": {"ranks": single(r50=0.05), "depth": 5},  # how large the corpus is, is not known
    "no_better_than_random": {"ranks": single(r5=0.2, r50=0.2), "corpus_size": 50, "depth": 5, "n": 2000},
    "short_lists": {"ranks": single(r1=0.9), "depth": 3},  # three hits are all that was asked for
    "repeated_hits": {"ranks": GOOD},
    "unjudged": {"ranks": GOOD},  # the gold lists what is relevant, and nothing else was judged
    "chunking": {"ranks": single(r50=0.3)},  # the document is not found either
    "not_found": {"ranks": single(r5=0.4, r50=0.95)},
    "too_far_down": {"ranks": single(r5=0.4, r50=0.42)},
    "buried": {"ranks": single(r1=0.7, r5=0.95)},
    "clutter": {"ranks": single(r1=0.9, r5=0.95)},  # precision@5 is 0.19, and cannot be more than 0.2
    "first_hit_only": {"ranks": fixed(1, 2)},
    "same_documents": {"ranks": single(r5=0.5, r50=0.95)},
    # The final lists are the raw ones; that these could stand better is no fault of a reranker.
    "reranker_hurts": {"ranks": fixed(1), "change": turned(0.3, 3), "stages": reranked(lambda i, hits: hits)},
    "reranker_wins_little": {"ranks": fixed(1), "stages": reranked(turned(0.3, 3))},  # it wins all
    "misrouted": {
        "ranks": GOOD,
        "source": lambda i: "faq",
        "stages": lambda i, hits: {"route": ["web", "faq"] if i % 4 == 0 else "web" if i % 20 == 1 else "faq"},
    },
    "rewriting_harms": {"ranks": fixed(1), "stages": rewritten(turned(0.3, 3))},  # it helps
    "weak_segment": language(0.0),
    "slow": {"ranks": GOOD, "latency": times(0, retrieve=20, rerank=40)},
    "slow_tail": {"ranks": GOOD, "latency": times(50, tail=40)},
    "from_the_future": {"ranks": GOOD, "newer": 0.2, "as_of": "2026-01-01"},  # the question was asked later
    "scores_do_not_tell": {"ranks": GOOD, "apart": 2.0},
    "no_threshold": {"ranks": GOOD, "apart": 0.0},
}


def test_every_rule_is_here() -> None:
    names = [rule.code for rule in rules.TABLE]
    assert names == list(FIRES) == list(SILENT)


def test_what_the_rules_say() -> None:
    said = []
    for code, how in FIRES.items():
        (found, *_) = [f for f in diagnose(evaluated(**how)) if f.code == code]
        said.append(f"# {code}\n{found.title}\n{found.evidence}\n" + "".join(f"- {t}\n" for t in found.what_to_try))
    check("wording/findings.txt", "\n".join(said))


@pytest.mark.parametrize("code", FIRES)
def test_the_rule_speaks(code: str) -> None:
    found = [f for f in diagnose(evaluated(**FIRES[code])) if f.code == code]
    assert len(found) == 1
    assert found[0].evidence
    assert found[0].what_to_try
    assert found[0].numbers
    assert found[0].sure in ("strong", "likely")
    assert "{" not in found[0].title + "".join(found[0].what_to_try)


@pytest.mark.parametrize("code", SILENT)
def test_the_rule_is_silent(code: str) -> None:
    assert code not in codes(evaluated(**SILENT[code]))


@pytest.mark.parametrize("code", [c for c in FIRES if c not in ("labels_gone", "repeated_hits")])
def test_nothing_is_said_of_a_few_queries(code: str) -> None:
    """The same system on 19 queries: only what is certain may be said, and a count is."""
    how = {**FIRES[code], "n": 19}
    assert set(codes(evaluated(**how))) <= {"worse_than_random"}


def test_credit_for_documents_that_did_not_exist_is_named() -> None:
    """Few hits are newer, but they are the right ones: what was earned with them is gone without them."""
    run, gold = make(single(r1=0.9), as_of="2025-06-01")
    for entry in run[:20]:
        entry["topk"][0]["doc_version"] = "2025-12-01"
    (found,) = [f for f in diagnose(karat.evaluate(run, gold)) if f.code == "from_the_future"]
    numbers = {number.name: number.value for number in found.numbers}
    assert numbers["newer than as_of, top 5"] == pytest.approx(0.02)
    assert numbers["recall@5 earned with newer hits"] > 0.05
    assert numbers["relevant gold items newer than as_of"] == numbers["recall@5 earned with newer hits"] * 200
    assert "as_of" in found.evidence


def test_the_threshold_is_suggested_with_what_it_costs() -> None:
    result = evaluated(**FIRES["no_threshold"])
    (found,) = [f for f in diagnose(result) if f.code == "no_threshold"]
    threshold = result.analyses.found["no_answer"].chosen.threshold
    assert f"--min-score {threshold}" in found.what_to_try[0]
    assert len(found.what_to_try) > 1


def test_where_queries_without_an_answer_get_no_hits_scores_need_not_tell() -> None:
    run, gold = make(GOOD, apart=0.0)
    for entry in run[1::2]:
        entry["topk"] = []
    assert {"scores_do_not_tell", "no_threshold"}.isdisjoint(codes(karat.evaluate(run, gold)))


def test_labels_that_are_gone_are_not_blamed_on_the_retriever() -> None:
    """Right documents and wrong passages: so it looks where the gold names chunks of another cut."""
    found = diagnose(evaluated(**FIRES["labels_gone"], one_document=True))
    assert [f.code for f in found if f.code in ("chunking", "not_found", "worse_than_random")] == []
    assert re.findall(r"\b200\b|doc0\.0#p1", found[0].evidence)[:3] == ["200", "200", "doc0.0#p1"]


def test_a_good_system_has_no_findings() -> None:
    assert codes(evaluated(GOOD)) == []


def test_what_was_not_looked_at_is_not_said_to_be_missing() -> None:
    """Few hits per query: more may be further down, and the finding says after how many hits the lists end."""
    for depth in (10, 8):
        found = diagnose(evaluated(single(r5=0.2, r10=0.4, r50=0.95), depth=depth))
        (shallow,) = [f for f in found if f.code == "not_found"]
        assert shallow.sure == "likely"
        assert f" {depth} hits" in shallow.evidence
        assert "raw" in shallow.what_to_try[0]
        assert all("@50" not in number.name for number in shallow.numbers)
    assert "not_found" not in codes(evaluated(single(r10=0.4, r50=0.95), depth=50))


def test_where_the_log_keeps_raw_lists_they_decide_whether_anything_is_lost() -> None:
    """Ten final hits hold 40%: the 50 raw ones hold nearly all, or not much more."""
    for deep, codes_there in ((0.95, set()), (0.5, {"not_found"})):
        run, gold = make(single(r10=0.4, r50=deep))
        cut = [{**entry, "raw": entry["topk"], "topk": entry["topk"][:10]} for entry in run]
        findings = [f for f in karat.evaluate(cut, gold).findings if f.code == "not_found"]
        assert {f.code for f in findings} == codes_there
        assert all(" 50 hits" in f.evidence for f in findings)


def test_lists_that_are_deeper_than_what_was_asked_for_are_no_short_lists() -> None:
    run, gold = make(single(r1=0.2, r5=0.3, r50=0.9))
    assert karat.evaluate(run, gold, ["recall@5"], analyses=True).findings == []


def test_a_passage_may_stand_below_the_end_of_a_short_list() -> None:
    """Right documents in ten hits, and not their passages: these could be the eleventh."""
    (found,) = [f for f in diagnose(evaluated(**FIRES["chunking"], depth=10)) if f.code == "chunking"]
    assert found.sure == "likely"
    assert " 10 hits" in found.evidence


def test_the_ceiling_is_allowed_for() -> None:
    """Ten relevant items and five places: half is all that can be found, and the order is right."""
    result = evaluated(fixed(*range(1, 11)))
    assert result.means["recall@5"] == 0.5
    assert codes(result) == []


def test_a_better_order_is_worth_what_five_places_can_hold() -> None:
    """Nine relevant items, three of them in the first five, six below: the best order fills two places more."""
    (found,) = [f for f in diagnose(evaluated(fixed(1, 2, 3, *range(6, 12)))) if f.code == "too_far_down"]
    numbers = {number.name: number.value for number in found.numbers}
    assert numbers["recall@5 / ceiling"] == pytest.approx(0.6)
    assert numbers["best order − now"] == pytest.approx(0.4)


def test_slow_names_the_stage() -> None:
    (found,) = diagnose(evaluated(**FIRES["slow"]))
    assert "rerank" in found.title
    assert "83%" in found.evidence
    (found,) = diagnose(evaluated(GOOD, latency=times(200)))
    assert (found.code, "rerank" in found.title) == ("slow", False)


def test_weak_segments_are_named_with_advice_for_languages() -> None:
    (found,) = [f for f in diagnose(evaluated(**FIRES["weak_segment"])) if f.code == "weak_segment"]
    assert "language" in found.title
    assert "pt-BR" in found.title
    assert found.sure == "strong"
    assert "accents" in found.what_to_try[0]


def test_queries_of_one_conversation_are_not_taken_for_proof() -> None:
    """Twenty queries that are all one conversation are one observation."""
    run, gold = make(single(r5=0.3, r50=0.4), n=100)
    for i, entry in enumerate(gold):
        entry["conversation_id"] = f"c{i // 50}"
    assert "not_found" not in codes(karat.evaluate(run, gold))
    assert "not_found" in codes(karat.evaluate(run, gold, cluster="none"))


def compared(before: Any, after: Any) -> tuple[Any, Any]:
    (first, gold), (second, _) = make(before), make(after)
    candidate = karat.evaluate(second, gold)
    return candidate, karat.compare(karat.evaluate(first, gold), candidate)


def test_a_worse_order_with_the_same_recall() -> None:
    candidate, comparison = compared(GOOD, lambda rng, i: [(5 if r == 1 else r) for r in GOOD(rng, i)])
    assert [f.code for f in comparison.pairs[0].findings] == ["order_got_worse"]
    assert diagnose(candidate, comparison) == [*candidate.findings, *comparison.pairs[0].findings]


def test_less_found_is_no_matter_of_order() -> None:
    worse = single(r1=0.4, r5=0.6, r50=0.7)
    assert compared(GOOD, worse)[1].pairs[0].findings == []
    assert compared(GOOD, GOOD)[1].pairs[0].findings == []


@pytest.mark.parametrize(("ms", "slower"), [(80, True), (51, False)])
def test_a_slower_change(ms: float, slower: bool) -> None:
    (first, gold), (second, _) = make(GOOD, latency=times(50)), make(GOOD, latency=times(ms))
    found = karat.compare(first, second, gold).pairs[0].findings
    assert [f.code for f in found] == (["got_slower"] if slower else [])


@pytest.mark.parametrize("saved", [0, 1, 2])
@pytest.mark.parametrize("stage", ["rerank", "an odd, (stage) name", None])
def test_a_slower_change_names_the_stage(stage: str | None, saved: int) -> None:
    """Only one stage got slower; where the whole time alone was logged, none can be named."""
    run, gold = make(GOOD)
    sides = []
    for slow in (0.0, 40.0):
        logged = [{"retrieve": 30.0 + i % 9, stage: 20.0 + slow + i % 7} for i in range(len(run))]
        if stage is None:
            logged = [{"total": sum(times.values())} for times in logged]
        sides.append([{**entry, "latency_ms": times} for entry, times in zip(run, logged, strict=True)])
    results = [karat.evaluate(side, gold) for side in sides]
    results[:saved] = [restore(saved_form(result)) for result in results[:saved]]
    (found,) = karat.compare(*results).pairs[0].findings
    named = {n.name: n.value for n in found.numbers if "(stage=" in n.name}
    assert found.code == "got_slower"
    assert named == ({} if stage is None else {f"latency_p90(stage={stage}), difference": pytest.approx(40.0)})


@pytest.mark.parametrize(("tokens", "dearer"), [(130, True), (105, False), (100, False), (80, False)])
def test_a_dearer_change(tokens: int, dearer: bool) -> None:
    run, gold = make(GOOD)
    sides = [
        [{**entry, "usage": [{"model": "m", "prompt_tokens": n + i % 7}]} for i, entry in enumerate(run)]
        for n in (100, tokens)
    ]
    prices = {"currency": "EUR", "models": {"m": {"per_1m": 0.5}}}
    found = karat.compare(*sides, gold, prices=prices).pairs[0].findings
    assert [f.code for f in found] == (["got_dearer"] if dearer else [])
    if dearer:
        assert re.findall(r"0\.0\d+", found[0].evidence)[:3] == ["0.0000515", "0.0000665", "0.0000150"]


def test_every_rule_over_two_runs_is_tested() -> None:
    assert [rule.code for rule in changes.TABLE] == ["order_got_worse", "got_slower", "got_dearer"]


def test_an_unknown_candidate_is_an_error() -> None:
    run, gold = make(GOOD, n=30)
    sides = [karat.evaluate([{**entry, "system": name} for entry in run], gold) for name in "abc"]
    comparison = karat.compare(*sides[:2], others=[sides[2]])
    assert diagnose(sides[1], comparison) == sides[1].findings
    with refused("unknown-candidate"):
        diagnose(sides[0], comparison)


@pytest.mark.parametrize(("ours", "theirs", "fires"), [(0.5, 0.8, True), (0.8, 0.5, False), (0.6, 0.6, False)])
def test_losing_to_bm25_is_the_first_finding(ours: float, theirs: float, fires: bool) -> None:
    """Query by query, beyond noise; a run that is ahead, or level, hears nothing of it."""
    gold = {f"q{i}": ["a"] for i in range(200)}
    rng = np.random.default_rng(3)
    runs = [{q: ["a"] if rng.random() < share else ["b"] for q in gold} for share in (ours, theirs)]
    found = codes(karat.evaluate(runs[0], gold, bm25=runs[1]))
    assert (found[:1] == ["loses_to_bm25"]) == fires
    assert ("loses_to_bm25" in found) == fires
