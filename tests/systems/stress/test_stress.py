"""Hard negatives put into the lists of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.cli.main import karat_command
from karat.data.audit import Audit
from karat.data.hits import Run, Ungrouped
from karat.report.systems import stress_report
from karat.schemas import schema_text
from karat.statistics.sampling import Sampling
from karat.systems.stress.lists import insert

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"
RUN, GOLD, CORPUS = DEMO / "bm25_rerank.jsonl", DEMO / "gold.jsonl", DEMO / "corpus.jsonl"


def entry(query: str = "q", gold: Any = ("r",), negatives: Any = ("n1", "n2"), **more: Any) -> dict[str, Any]:
    return {"query_id": query, "query": f"text of {query}", "gold": list(gold), "negatives": list(negatives), **more}


def line(query: str = "q", hits: Any = ("r", "a", "b", "c"), **more: Any) -> dict[str, Any]:
    return {"query_id": query, "topk": list(hits), **more}


def by_text(query: str, hits: list[dict[str, Any]]) -> list[str]:
    """A perfect reranker: what is right comes first."""
    return sorted((hit["chunk_id"] for hit in hits), key=lambda item: item != "r")


# Putting in


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["chunk_id"] for hit in hits]


def as_hits(*names: str, scores: bool = False) -> list[dict[str, Any]]:
    return [{"chunk_id": name, **({"score": 10.0 - i} if scores else {})} for i, name in enumerate(names)]


@pytest.mark.parametrize(
    ("hits", "negatives", "at", "after"),
    [
        ("abc", "n", [1], "nabc"),
        ("abc", "nm", [1, 2], "nmabc"),
        ("abc", "nm", [1, 3], "nambc"),
        ("abc", "n", [1, 2], "nabc"),  # fewer negatives than ranks
        ("abc", "n", [9], "abcn"),  # the list ends before
        ("abc", "b", [1], "bac"),  # moved up
        ("abc", "a", [3], "bca"),  # moved down
        ("", "n", [2], "n"),
    ],
)
def test_insert(hits: str, negatives: str, at: list[int], after: str) -> None:
    found = insert(as_hits(*hits), as_hits(*negatives), at)
    assert "".join(ids(found)) == after
    assert [hit["rank"] for hit in found] == list(range(1, len(found) + 1))


def test_a_negative_has_the_score_of_the_hit_whose_place_it_takes() -> None:
    found = insert(as_hits("a", "b", scores=True), [{"chunk_id": "n", "text": "a trap"}], [2])
    assert found[1] == {"chunk_id": "n", "text": "a trap", "score": 9.0, "rank": 2}
    assert insert(as_hits("a", "b", scores=True), as_hits("n"), [9])[2]["score"] == 9.0
    assert "score" not in insert(as_hits("a"), as_hits("n"), [1])[0]


@given(
    hits=st.lists(st.sampled_from("abcdefgh"), unique=True),
    negatives=st.lists(st.sampled_from("abcxyz"), unique=True, max_size=3),
    at=st.lists(st.integers(1, 8), unique=True, min_size=3, max_size=3).map(sorted),
)
def test_nothing_is_lost_and_the_others_keep_their_order(hits: list[str], negatives: list[str], at: list[int]) -> None:
    found = ids(insert(as_hits(*hits), as_hits(*negatives), at))
    assert sorted(found) == sorted({*hits, *negatives})
    assert [h for h in found if h not in negatives] == [h for h in hits if h not in negatives]
    others = len(set(hits) - set(negatives))
    for before, (negative, rank) in enumerate(zip(negatives, at, strict=False)):
        if rank <= others + before + 1:
            assert found[rank - 1] == negative


# What is measured


def test_the_drop_of_each_rank_and_of_all() -> None:
    found = karat.systems.stress_test([line()], [entry()], at=[1, 2])
    drops = {tuple(row.at): row.change for row in found.rows}
    assert drops[1,].baseline == 1.0
    assert drops[1,].candidate == pytest.approx(1 / math.log2(3))
    assert drops[2,].candidate == 1.0
    assert drops[1, 2].candidate == pytest.approx(1 / 2)
    assert (found.lists, found.reranker, found.rows[0].unranked) == ("topk", None, None)
    assert found.worst[0].query_id == "q"


def test_a_reranker_makes_it_good() -> None:
    run = [line(raw=["a", "r", "b"])]
    found = karat.systems.stress_test(run, [entry()], at=[1], reranker=by_text)
    (row,) = found.rows
    assert (found.lists, found.reranker) == ("raw", "by_text")
    assert (row.change.baseline, row.change.candidate) == (1.0, 1.0)
    assert row.unranked is not None
    assert row.unranked.baseline == pytest.approx(1 / math.log2(3))
    assert row.unranked.candidate == pytest.approx(1 / 2)


def test_without_raw_lists_the_final_ones_are_reranked() -> None:
    assert karat.systems.stress_test([line()], [entry()], reranker=by_text).lists == "topk"
    assert karat.systems.stress_test({"q": {"r": 1.0, "a": 0.5}}, [entry()], reranker=by_text).lists == "topk"


def test_the_lists_may_be_named() -> None:
    run = [line(raw=["a", "r"])]
    assert karat.systems.stress_test(run, [entry()], hits="raw").rows[0].change.baseline == pytest.approx(
        1 / math.log2(3)
    )
    assert karat.systems.stress_test(run, [entry()], hits="topk", reranker=by_text).lists == "topk"


def test_the_lists_of_a_run_that_was_read_before() -> None:
    run = karat.read_run([line(raw=["a", "r"])])
    assert karat.systems.stress_test(run, [entry()], hits="raw").lists == "raw"
    assert karat.systems.stress_test(run, [entry()]).rows[0].change.baseline == 1.0
    for without in (karat.read_run([line()]), karat.read_run({"q": ["r"]})):
        with refused("no-such-lists"):
            karat.systems.stress_test(without, [entry()], hits="raw")


class Scattered(Run):
    """A run whose queries must be brought together first."""

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Any:
        yield from karat.read_run({"q": ["x"]}).slices(columns, audit, lists)
        raise Ungrouped

    def grouped(self) -> Run:
        return karat.read_run([line()])


def test_a_run_that_must_be_grouped_first() -> None:
    assert karat.systems.stress_test(Scattered(), [entry()]).rows[0].change.baseline == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        lambda hits: by_text("", hits),
        lambda hits: tuple(by_text("", hits)),
        lambda hits: np.array(by_text("", hits)),
        lambda hits: [(item, 0.5) for item in by_text("", hits)],
        lambda hits: [{"chunk_id": item} for item in by_text("", hits)],
        lambda hits: (item for item in by_text("", hits)),
        lambda hits: [float(hit["chunk_id"] == "r") for hit in hits],
        lambda hits: np.array([float(hit["chunk_id"] == "r") for hit in hits]),
        lambda hits: {hit["chunk_id"]: float(hit["chunk_id"] == "r") for hit in hits},
        lambda hits: by_text("", hits)[:5],  # a reranker may keep the best only
    ],
)
def test_what_a_reranker_may_give(answer: Callable[[list[dict[str, Any]]], Any]) -> None:
    run = [line(hits=["a", "b", "c", "d", "e", "r", "f"])]
    found = karat.systems.stress_test(run, [entry()], reranker=lambda query, hits: answer(hits))
    assert found.rows[0].change.candidate == 1.0


def test_what_a_reranker_gets() -> None:
    seen: list[tuple[str, list[dict[str, Any]]]] = []

    def look(query: str, hits: list[dict[str, Any]]) -> list[str]:
        seen.append((query, hits))
        return [hit.pop("chunk_id") for hit in hits]  # it may do with them what it likes

    hits = [{"chunk_id": "d#1", "score": 3.0}, {"chunk_id": "e#2", "score": 2.0, "text": "own words"}]
    corpus = karat_corpus({"d#1": "one", "e#2": "two", "n": "three"})
    karat.systems.stress_test(
        [line(hits=hits)], [entry(gold=["e#2"], negatives=["n"])], at=[2], reranker=look, corpus=corpus
    )
    plain, stressed = seen
    assert plain[0] == "text of q"
    assert [hit.get("text") for hit in plain[1]] == ["one", "own words"]
    assert [hit.get("text") for hit in stressed[1]] == ["one", "three", "own words"]
    assert [(hit["rank"], hit["score"]) for hit in stressed[1]] == [(1, 3.0), (2, 2.0), (3, 2.0)]


def karat_corpus(texts: dict[str, str]) -> Any:
    from karat.data.corpus import Corpus

    return Corpus("corpus", list(texts), [""] * len(texts), list(texts.values()))


# Which queries


def test_queries_that_cannot_be_used_are_counted() -> None:
    gold = [
        entry("used"),
        entry("no gold", gold=[]),
        entry("no answer", gold=[], no_answer=True),
        entry("nothing", negatives=[]),
        entry("missing"),
        entry("empty"),
        {"query_id": "mute", "gold": ["r"], "negatives": ["n1"]},
    ]
    run = [line(name) for name in ("used", "no gold", "no answer", "nothing", "mute")] + [line("empty", [])]
    found = karat.systems.stress_test(run, gold, reranker=by_text)
    assert (found.queries, found.drawn_from) == (1, 1)
    assert found.left_out == {
        "no relevant gold": 2,
        "no negatives": 1,
        "no hits in the run": 2,
        "no text of the query": 1,
    }
    assert karat.systems.stress_test(run, gold).queries == 2  # without a reranker nobody needs the text


def test_the_sample_hangs_on_the_seed_and_not_on_the_order() -> None:
    names = [f"q{i}" for i in range(50)]
    run, gold = [line(name) for name in names], [entry(name) for name in names]

    def used(seed: int, *, backwards: bool = False) -> set[str]:
        seen: set[str] = set()

        def look(query: str, hits: list[dict[str, Any]]) -> list[str]:
            seen.add(query)
            return ids(hits)

        step = -1 if backwards else 1
        sampling = Sampling(seed=seed)
        found = karat.systems.stress_test(run[::step], gold[::step], queries=10, reranker=look, sampling=sampling)
        assert (found.queries, found.drawn_from) == (10, 50)
        return seen

    assert used(0) == used(0, backwards=True)
    assert used(0) != used(1)


def test_what_had_to_be_settled_is_counted() -> None:
    negatives = {"q": ["n1", "r"]}
    found = karat.systems.stress_test([line(hits=["a", "n1", "r"])], [entry()], at=[1, 9], negatives=negatives)
    assert (found.moved, found.relevant_negatives, found.fewer_negatives, found.short_lists) == (1, 1, 1, 1)


def test_a_chunk_of_a_relevant_document_is_no_negative() -> None:
    gold = [entry(gold=["d"], negatives=["d#7", "e#1"])]
    assert karat.systems.stress_test([line(hits=["d#1", "x#1"])], gold).relevant_negatives == 1


def test_negatives_of_a_file(tmp_path: Path) -> None:
    gold = [{"query_id": "q", "gold": ["r"]}]
    forms = {
        "n.jsonl": '{"query_id": "q", "negatives": ["n"], "note": 1}\n{"query_id": "p", "negatives": []}\n',
        "n.json": '{"q": ["n"], "p": []}',
        "list.json": '[{"query_id": "q", "negatives": ["n"]}]',
        "n.yaml": "q: [n]\n",
        "list.yaml": "- query_id: q\n  negatives: [n]\n",
    }
    for name, text in forms.items():
        (tmp_path / name).write_text(text)
        found = karat.systems.stress_test([line()], gold, at=[1], negatives=tmp_path / name)
        assert found.rows[0].change.candidate == pytest.approx(1 / math.log2(3)), name
    assert karat.systems.stress_test([line()], gold, at=[1], negatives={"q": ["n"]}).queries == 1


# What is refused


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"at": [0]}, "bad-setting"),
        ({"at": []}, "bad-setting"),
        ({"at": [2, 1, 2]}, "duplicate-value"),
        ({"queries": 0}, "bad-setting"),
        ({"k": 0}, "bad-setting"),
        ({"negatives": {"q": "n"}}, "wrong-type"),
        ({"negatives": {"q": [None]}}, "wrong-type"),
        ({"negatives": {"other": ["n"]}}, "no-usable-queries"),
        ({"reranker": "no_colon"}, "bad-callable"),
        ({"reranker": "no_such_module:f"}, "not-importable"),
        ({"reranker": "math:sqroot"}, "unknown-callable"),
        ({"reranker": "math:pi"}, "bad-callable"),
    ],
)
def test_bad_options(options: dict[str, Any], code: str) -> None:
    with refused(code):
        karat.systems.stress_test([line()], [entry()], **options)


def broken(query: str, hits: list[dict[str, Any]]) -> list[str]:
    raise ValueError("no model")


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (broken, "ValueError: no model"),
        (lambda query, hits, more: [], "TypeError"),
        (lambda query, hits: ["r", "made up"], "made up"),
        (lambda query, hits: ["r"], "got 1"),
        (lambda query, hits: [], "got 0"),
        (lambda query, hits: ["r", "r", "a", "b"], "got r"),
        (lambda query, hits: [0.5], "got 1"),
        (lambda query, hits: [0.5, 1.0, math.nan, 2.0], "got nan"),
        (lambda query, hits: [3, 1, 2, 0], "3, 1, 2, 0"),
        (lambda query, hits: None, "ids"),
        (lambda query, hits: [None] * 4, "ids"),
        (lambda query, hits: {"r": "high"}, "got high"),
    ],
)
def test_a_reranker_that_misbehaves(call: Any, named: str) -> None:
    with refused("bad-answer", query="q") as caught:
        karat.systems.stress_test([line()], [entry()], reranker=call)
    assert named in str(caught.value)


def test_gold_without_negatives() -> None:
    with refused("no-negatives") as caught:
        karat.systems.stress_test([line()], {"q": ["r"]})
    assert "`negatives`" in caught.value.hint


def test_several_systems() -> None:
    with refused("several-systems"):
        karat.systems.stress_test([line(system="a"), line(system="b")], [entry()])
    assert karat.systems.stress_test([line(system="a"), line(system="b")], [entry()], system="b").system == "b"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ('{"query_id": "q", "negatives": "n"}', "wrong-type", 1),
        ('{"query_id": "q", "negatives": [[1]]}', "wrong-type", 1),
        ('{"negatives": ["n"]}', "missing-field", 1),
        ('{"query_id": "q", "negatives": ["n"]}\n{"query_id": "q"}', "duplicate-query", 2),
        ('{"query_id": "q"}', "unrecognised", None),
        ('{"q": "n"}', "wrong-type", None),
        ('["n1", "n2"]', "wrong-type", None),
        ("", "empty-file", None),
    ],
)
def test_a_file_of_the_wrong_shape(text: str, code: str, line: int | None, tmp_path: Path) -> None:
    file = tmp_path / "negatives.jsonl"
    file.write_text(text)
    with refused(code, file=file, line=line):
        karat.systems.stress_test([{"query_id": "q", "topk": ["r"]}], [entry()], negatives=file)


# The command, and the real reranker of the demo


def run_command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(karat_command, ["stress", *map(str, arguments)])


def test_the_demo_with_the_reranker_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without negatives it gives the very lists of the log; with them it loses far less than the raw lists do."""
    monkeypatch.chdir(DEMO)
    done = run_command("bm25_rerank.jsonl", "-g", "gold.jsonl", "--reranker", "make_runs:rerank", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads(schema_text("stress")))
    assert (found["lists"], found["queries"], found["drawn_from"]) == ("raw", 100, 259)
    final = karat.systems.stress_test(RUN, GOLD)
    *_, together = found["rows"]
    assert together["at"] == [1, 2, 3]
    assert together["change"]["baseline"] == pytest.approx(final.rows[0].change.baseline)
    assert together["unranked"]["delta"] < 2 * together["change"]["delta"] < 0
    assert together["change"]["high"] < 0


def test_the_command_tells_and_writes(tmp_path: Path) -> None:
    out = tmp_path / "stress.json"
    done = run_command(RUN, "-g", GOLD, "--at", "1,3", "--sample", "30", "-o", out, "-o", tmp_path / "stress.md")
    assert done.exit_code == 0, done.output
    assert all(number in done.stdout for number in ("30", "259", "1, 3"))
    saved = msgspec.json.decode(out.read_bytes(), type=karat.systems.Stress)
    assert saved == karat.systems.stress_test(RUN, GOLD, at=[1, 3], queries=30)
    assert (tmp_path / "stress.md").read_text().startswith("# ")


def test_the_report_fits_a_line_and_tells_everything() -> None:
    gold, negatives = [entry(), entry("none")], {"q": ["n1", "r"]}
    run = [line(hits=["a", "n1", "r"])]
    report = stress_report(karat.systems.stress_test(run, gold, at=[1, 9], reranker=by_text, negatives=negatives))
    said = "\n".join(getattr(block, "text", "") for section in report.sections for block in section.blocks)
    assert said.count("1 query ") == 3  # left out; with fewer negatives than ranks; with a shorter list
    assert said.count(": 1.") == 2  # moved; not used
    assert "rank 9" in said


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--at", "one"), "bad-setting"),
        (("--at", "0,1"), "bad-setting"),
        (("--at", "1,1"), "duplicate-value"),
        (("--negatives", "no_such_file"), "no-such-file"),
        (("-o", "x.csv"), "unnamed-table"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], code: str) -> None:
    done = run_command(RUN, "-g", GOLD, *arguments)
    assert isinstance(done.exception, karat.KaratError)
    assert done.exception.code == code
