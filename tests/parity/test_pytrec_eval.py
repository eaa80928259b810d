"""Karat equals trec_eval (through pytrec_eval) on runs and gold made by hypothesis."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import pytrec_eval
from hypothesis import example, given, settings
from hypothesis import strategies as st

import karat

pytestmark = pytest.mark.usefixtures("reader")

Gold = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

CUTOFFS = (1, 2, 3, 5, 10, 100)

# Karat's name → trec_eval's; the relevance level stands in the place of {rel}.
ANY_LEVEL = {
    "map{rel}": "map",
    "mrr{rel}": "recip_rank",
    "rprecision{rel}": "Rprec",
    "bpref{rel}": "bpref",
    **{f"recall{{rel}}@{k}": f"recall_{k}" for k in CUTOFFS},
    **{f"precision{{rel}}@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"map{{rel}}@{k}": f"map_cut_{k}" for k in CUTOFFS},
    **{f"hit{{rel}}@{k}": f"success_{k}" for k in CUTOFFS},
}
# trec_eval's ndcg gains by grade and does not look at the relevance level.
NO_LEVEL = {f"ndcg(gain=linear)@{k}": f"ndcg_cut_{k}" for k in CUTOFFS}
MEASURES = sorted({*ANY_LEVEL.values(), *NO_LEVEL.values()})


def names(level: int) -> dict[str, str]:
    rel = "" if level == 1 else f"(rel={level})"
    return {**{name.format(rel=rel): theirs for name, theirs in ANY_LEVEL.items()}, **NO_LEVEL}


class World(NamedTuple):
    """One run and one gold set."""

    run: Run
    gold: Gold


# Every id that fits into a column of a TREC file, in the shapes that people have.
LETTERS = st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="#")
IDS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=6),
    st.integers(0, 120).map(str),
    st.integers(0, 99).map(lambda i: f"FR{i:06d}-0-00{i:03d}"),
    st.integers(0, 99).map(lambda i: f"https://example.org/wiki/Café_{i}?v={i}"),
    st.uuids().map(str),
)
# Few and exact in float32: most runs have ties, and no rounding decides about them.
SCORES = st.sampled_from([-1024.5, -0.0, 0.0, 0.25, 1.0, 1.5, 3.0, 2.0**20])
GRADES = st.sampled_from([-2, -1, 0, 0, 1, 1, 2, 3])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    pool = st.sampled_from(draw(st.lists(IDS, min_size=1, max_size=16, unique=True)))
    scored = st.dictionaries(pool, SCORES, max_size=16)
    graded = st.dictionaries(pool, GRADES, min_size=1, max_size=8)
    queries = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
    run: Run = {}
    gold: Gold = {}
    for place, query in enumerate(queries):
        # The first query stands on both sides, for a run that shares no query with the gold is refused.
        where = "both" if place == 0 else draw(st.sampled_from(["both", "run", "gold"]))
        if where != "gold":
            run[query] = draw(st.dictionaries(pool, SCORES, min_size=1, max_size=16) if place == 0 else scored)
        if where != "run":
            gold[query] = draw(graded)
    return World(run, gold)


TIES = World(
    run={"q": {"a": 1.0, "ä": 1.0, "z": 1.0, "10": 1.0, "9": 1.0, "日本": 1.0, "😀": 1.0, "￮": 1.0}},
    gold={"q": {"z": 1, "10": 2, "日本": 3, "a": 0, "lost": 1}},
)
BOTH_SIDES = World(
    run={"both": {"a": 2.0, "b": 1.0}, "run only": {"a": 1.0}, "empty": {}, "useless": {"a": 1.0}},
    gold={"both": {"b": 1}, "gold only": {"a": 1}, "empty": {"a": 1}, "useless": {"a": 0}, "bare": {"a": -1}},
)
HOLES = World(
    run={"q": {"n1": 9.0, "?": 8.0, "r1": 7.0, "n2": 6.0, "n3": 5.0, "r2": 4.0, "-": 3.0, "r3": 2.0}},
    gold={"q": {"n1": 0, "n2": 0, "n3": 0, "r1": 1, "r2": 2, "r3": 3, "r4": 1, "-": -1}},
)


def ask_pytrec_eval(world: World, level: int = 1) -> dict[str, dict[str, float]]:
    """Query → measure → value, for the queries that stand on both sides.

    An empty list of hits, or gold with negative grades only, makes pytrec_eval write outside of its memory:
    such queries are kept from it.
    """
    run = {query: hits for query, hits in world.run.items() if hits}
    gold = {query: grades for query, grades in world.gold.items() if max(grades.values()) >= 0}
    return pytrec_eval.RelevanceEvaluator(gold, MEASURES, relevance_level=level).evaluate(run)


def check(world: World, level: int, result: karat.Result) -> None:
    """Every value of every query, also where pytrec_eval has none or another convention."""
    theirs = ask_pytrec_eval(world, level)
    assert set(result.queries) == set(world.gold)
    for name, measure in names(level).items():
        ours = result.score(name)
        lowest = level if "rel=" in name else 1
        for query, grades in world.gold.items():
            if max(grades.values()) < lowest:
                # Nothing to find: trec_eval says 0, Karat says that the question makes no sense.
                assert ours[query] is None, (name, query)
                assert theirs.get(query, {}).get(measure, 0.0) == 0.0, (name, query)
            elif not world.run.get(query):
                assert ours[query] == 0.0, (name, query)
            else:
                assert ours[query] == pytest.approx(theirs[query][measure], abs=1e-12), (name, query)


@pytest.mark.parametrize("level", [1, 2])
@settings(max_examples=50)
@given(world=worlds())
@example(world=TIES)
@example(world=BOTH_SIDES)
@example(world=HOLES)
def test_dicts(level: int, world: World) -> None:
    check(world, level, karat.evaluate(world.run, world.gold, names(level)))


def test_undefined_and_missing() -> None:
    """The cases in which the two differ, written out."""
    theirs = ask_pytrec_eval(BOTH_SIDES)
    assert {query: values["map"] for query, values in theirs.items()} == {"both": 0.5, "useless": 0.0}
    result = karat.evaluate(BOTH_SIDES.run, BOTH_SIDES.gold, ["map"])
    assert result.score("map") == {"both": 0.5, "gold only": 0.0, "empty": 0.0, "useless": None, "bare": None}
    assert result.means["map"] == pytest.approx(0.5 / 3)
    assert result.audit["missing_queries"] == 2
    assert result.audit["empty_results"] == 1
    assert result.audit["unknown_queries"] == 1
    assert result.audit["no_relevant_gold"] == 2
    assert result.audit["negative_grades"] == 1


def test_skipping_missing_queries_gives_their_average() -> None:
    """As docs/comparability.md says: without -c trec_eval averages over the queries that the run has."""
    gold = {**BOTH_SIDES.gold, "other": {"a": 1, "b": 1}}
    world = World(
        {**BOTH_SIDES.run, "other": {"a": 2.0}},
        {q: items for q, items in gold.items() if any(i > 0 for i in items.values())},
    )
    theirs = [values["map"] for values in ask_pytrec_eval(world).values()]
    assert len(theirs) < len(world.gold)
    ours = karat.evaluate({q: hits for q, hits in world.run.items() if hits}, world.gold, ["map"], missing="skip")
    assert ours.means["map"] == pytest.approx(sum(theirs) / len(theirs))


def test_ties_by_bytes() -> None:
    """By the bytes of the id from the highest down: 😀 ￮ 日本 ä z a 9 10."""
    result = karat.evaluate(TIES.run, TIES.gold, ["mrr", "mrr(rel=3)", "recall@5", "recall@7", "bpref"])
    assert result.audit["score_ties"] == 1
    assert result.means == {
        "mrr": 1 / 3,
        "mrr(rel=3)": 1 / 3,
        "recall@5": 0.5,
        "recall@7": 0.5,
        "bpref": 0.5,  # of four relevant ones 日本 and z stand above a, 10 below it, and one is lost
    }


# The same world through files. Each writer gives back a run and a gold set that Karat reads.


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def write_qrels(folder: Path, world: World, chance: Random) -> Gold:
    lines = [f"{query} 0 {item} {grade}" for query, items in world.gold.items() for item, grade in items.items()]
    chance.shuffle(lines)
    return karat.read_gold(write_lines(folder / "qrels", lines), format="trec-qrels")


def write_trec(folder: Path, world: World, chance: Random, *, grouped: bool = False) -> Run:
    """Lines in any order, with ranks that contradict the scores: the score decides."""
    queries = list(world.run)
    chance.shuffle(queries)
    lines = []
    for query in queries:
        hits = list(world.run[query].items())
        chance.shuffle(hits)
        lines += [f"{query}\tQ0\t{item}\t{chance.randint(0, 99)}\t{score!r}\trun" for item, score in hits]
    if not grouped:
        chance.shuffle(lines)
    return karat.read_run(write_lines(folder / "run", lines), format="trec-run")


def write_grouped_trec(folder: Path, world: World, chance: Random) -> Run:
    return write_trec(folder, world, chance, grouped=True)


def write_run_log(folder: Path, world: World, chance: Random) -> Run:
    """Hits with a score and no rank, in any order."""
    lines = []
    for query, hits in world.run.items():
        topk = [{"chunk_id": item, "score": score} for item, score in hits.items()]
        chance.shuffle(topk)
        lines.append(json.dumps({"query_id": query, "topk": topk}, ensure_ascii=False))
    chance.shuffle(lines)
    return karat.read_run(write_lines(folder / "run.jsonl", lines), format="run-log")


def write_gold_file(folder: Path, world: World, chance: Random) -> Gold:
    lines = [json.dumps({"query_id": query, "gold": items}) for query, items in world.gold.items()]
    chance.shuffle(lines)
    return karat.read_gold(write_lines(folder / "gold.jsonl", lines), format="gold")


@contextmanager
def as_if_large() -> Iterator[None]:
    """Readers treat every file as if it were too large to be read whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karat.formats.trec._SMALL", 0)
        patch.setattr("karat.formats.trec._BLOCK", 40)
        patch.setattr("karat.formats.run_log._SLICE_HITS", 1)
        patch.setattr("karat.formats.records._BATCH_BYTES", 40)
        yield


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


FILES: dict[str, tuple[Callable[..., Run], Callable[..., Gold], Callable[[], Any]]] = {
    "trec": (write_trec, write_qrels, as_it_is),
    "trec, large": (write_grouped_trec, write_qrels, as_if_large),
    "trec, large, scattered": (write_trec, write_qrels, as_if_large),
    "run log": (write_run_log, write_gold_file, as_it_is),
    "run log, large": (write_run_log, write_gold_file, as_if_large),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples, each of which writes its files anew."""
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=30)
@given(world=worlds(), chance=st.randoms(use_true_random=False))
@example(world=TIES, chance=Random(1))
@example(world=HOLES, chance=Random(2))
def test_files(folder: Path, kind: str, world: World, chance: Random) -> None:
    """Any order of lines, any reader: the values of the dicts, to the last bit, and so trec_eval's."""
    write_run, write_gold, reading = FILES[kind]
    with reading():
        result = karat.evaluate(write_run(folder, world, chance), write_gold(folder, world, chance), names(1))
    check(world, 1, result)
    dicts = karat.evaluate(world.run, world.gold, names(1))
    for name in names(1):
        assert result.score(name) == dicts.score(name), name


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u0085"])
@pytest.mark.parametrize("reading", [as_it_is, as_if_large])
def test_only_ascii_white_space_parts_columns(tmp_path: Path, space: str, reading: Callable[[], Any]) -> None:
    """trec_eval splits lines at blanks and tabs; a no-break space is a letter of an id like any other."""
    world = World({"q": {f"a{space}b": 2.0, "c": 1.0}}, {"q": {f"a{space}b": 1}})
    with reading():
        run, gold = write_trec(tmp_path, world, Random(0)), write_qrels(tmp_path, world, Random(0))
        check(world, 1, karat.evaluate(run, gold, names(1)))
