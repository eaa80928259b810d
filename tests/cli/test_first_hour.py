"""What trips a new user up: from the user's file to what the user sees."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import polars as pl
import pytest

import karat
from karat.errors import KaratError

Call = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
Rows = list[dict[str, Any]]

QUERIES = [f"q{n}" for n in range(20)]


def _list(at: int) -> list[str]:
    """The relevant item is one of the first three, or missing; the others are in no order."""
    drawn = random.Random(at).sample([f"d{n}" for n in range(100, 160)], 6)
    return drawn if at % 4 == 3 else [*drawn[: at % 4], f"d{at}", f"d{170 + at}", "d99", "d161", "d162"]


LISTS = {query: _list(at) for at, query in enumerate(QUERIES)}
GATE = ("--gate", "recall@5 >= 0.1")


def lines(name: str, records: list[Any]) -> str:
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return name


def rows(**more: Callable[[int], Any]) -> Rows:
    """A row for each hit, with other columns by place."""
    return [
        {"query_id": q, "chunk_id": item} | {name: of(at) for name, of in more.items()}
        for q, items in LISTS.items()
        for at, item in enumerate(items)
    ]


def table(name: str, records: Rows) -> str:
    frame = pl.DataFrame(records)
    frame.write_parquet(name) if name.endswith(".parquet") else frame.write_csv(name)
    return name


@pytest.fixture(autouse=True)
def gold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return lines("gold.jsonl", [{"query_id": q, "gold": [f"d{at}"]} for at, q in enumerate(QUERIES)])


def found(call: Call, run: str, *more: str) -> dict[str, Any]:
    code, out, err = call("eval", run, "--gold", "gold.jsonl", "-m", "recall@5,mrr", "--json", *more)
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def audited(result: dict[str, Any]) -> dict[str, int]:
    return {entry["code"]: entry["count"] for entry in result["audit"]}


def before_scores(call: Call, run: str, *more: str) -> str:
    """What stands before the first number."""
    code, out, _ = call("eval", run, "--gold", "gold.jsonl", *more)
    assert code == 0
    head, table, _ = out.partition("95 % interval")
    assert table
    return " ".join(head.split())


# Tables with neither rank nor score


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_rows_in_their_own_order_count_as_the_ranking_and_that_is_said(name: str, karat_command: Call) -> None:
    run = table(name, rows())
    result = found(karat_command, run)
    assert result["doubts"]["order"] == {"queries": 20, "of": 20, "why": "rows"}
    assert audited(result)["row_order"] == 20
    truth = karat.evaluate(LISTS, "gold.jsonl", ["recall@5", "mrr"])
    assert {q: s["mrr"] for q, s in result["scores"].items()} == dict(
        zip(QUERIES, truth.values["mrr"].tolist(), strict=True)
    )
    for more in ((), ("--brief",)):
        assert "neither rank nor score" in before_scores(karat_command, run, *more)
    code, out, _ = karat_command("gate", run, "--gold", "gold.jsonl", *GATE)
    assert (code, "neither rank nor score" in out) == (0, True)
    karat_command("eval", run, "--gold", "gold.jsonl", "-o", "page.html")
    assert "neither rank nor score" in Path("page.html").read_text()


def test_a_frame_says_the_same() -> None:
    result = karat.evaluate(pl.DataFrame(rows()), "gold.jsonl", ["mrr"])
    assert result.doubts.order is not None
    assert result.audit["row_order"] == 20


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
@pytest.mark.parametrize("why", ["by-id", "scattered"])
def test_rows_in_no_order_of_relevance_cannot_be_judged(name: str, why: str, karat_command: Call) -> None:
    every = rows()
    if why == "by-id":
        every.sort(key=lambda row: (row["query_id"], int(row["chunk_id"][1:])))
    else:
        random.Random(1).shuffle(every)
    run = table(name, every)
    result = found(karat_command, run)
    assert result["doubts"]["order"] == {"queries": 20, "of": 20, "why": why}
    assert {"row_order": 20, f"rows_{why.replace('-', '_')}": 20}.items() <= audited(result).items()
    assert [each["code"] for each in result["findings"]] == ["row_order"]
    assert result["bands"] == []
    assert "--scores as-listed" in before_scores(karat_command, run)
    gate = ("gate", run, "--gold", "gold.jsonl", *GATE)
    assert karat_command(*gate)[0] == 2
    assert karat_command(*gate, "--scores", "as-listed")[0] == 0
    said = found(karat_command, run, "--scores", "as-listed")
    assert said["scores"] == result["scores"]
    assert (said["doubts"]["order"], audited(said)["order_as_said"]) == (None, 20)


def test_a_few_short_lists_in_the_order_of_their_ids_prove_nothing(karat_command: Call) -> None:
    few = [{"query_id": q, "chunk_id": item} for q in QUERIES[:3] for item in ("d1", "d2")]
    assert found(karat_command, table("run.csv", few))["doubts"]["order"]["why"] == "rows"


def test_ranks_scores_and_lists_need_no_word(karat_command: Call) -> None:
    shuffled = rows(rank=lambda at: at + 1)
    random.Random(2).shuffle(shuffled)
    listed = lines("lists.jsonl", [{"query_id": q, "topk": items} for q, items in LISTS.items()])
    for run in (table("ranks.csv", shuffled), table("scores.csv", rows(score=lambda at: 1 / (at + 1))), listed):
        result = found(karat_command, run)
        assert result["doubts"] == {"ids": None, "near": None, "scores": None, "order": None}
        assert not {"row_order", "order_as_said"} & audited(result).keys()


def test_as_listed_overrules_scores(karat_command: Call) -> None:
    """Lists that a reranker put in order, with the scores from before."""
    stale = table("run.csv", rows(score=lambda at: at))
    assert found(karat_command, stale, "--scores", "as-listed")["scores"] == {
        query: {"recall@5": scores["recall@5"], "mrr": scores["mrr"]}
        for query, scores in found(karat_command, table("rows.csv", rows()))["scores"].items()
    }


@pytest.mark.parametrize("meaning", ["lower-is-better", "higher-is-better"])
def test_what_is_said_of_scores_needs_scores(meaning: str, karat_command: Call, karat_refuses: Refuses) -> None:
    error = karat_refuses("eval", table("run.csv", rows()), "--gold", "gold.jsonl", "--scores", meaning)
    assert (error.code, error.exit_code) == ("no-scores", 2)
    listed = lines("lists.jsonl", [{"query_id": q, "topk": items} for q, items in LISTS.items()])
    result = found(karat_command, listed, "--scores", meaning)
    assert (audited(result).get("scores_unused"), audited(result).get("turned_scores")) == (20, None)


# Distances by name


def far(name: str) -> Rows:
    """Rows with distances, in no order."""
    every = rows(**{name: lambda at: 0.1 + at})
    random.Random(3).shuffle(every)
    return sorted(every, key=lambda row: QUERIES.index(row["query_id"]))


@pytest.mark.parametrize(
    ("file", "name", "fields"),
    [
        ("run.csv", "distance", None),
        ("run.csv", "distance", "score=distance"),
        ("run.csv", "Vec Dist", "score=Vec Dist"),
        ("run.parquet", "l2_distance", "score=l2_distance"),
        ("rows.json", "dist", "score=dist"),
        ("lists.jsonl", "dist", "score=dist"),
    ],
)
def test_a_field_called_distance_is_doubted_until_it_is_said(
    file: str, name: str, fields: str | None, karat_command: Call
) -> None:
    every = far(name)
    if file == "lists.jsonl":
        hits = {
            q: [{n: v for n, v in row.items() if n != "query_id"} for row in every if row["query_id"] == q]
            for q in QUERIES
        }
        lines(file, [{"query_id": q, "topk": items} for q, items in hits.items()])
    elif file == "rows.json":
        Path(file).write_text(json.dumps(every))
    else:
        table(file, every)
    more = () if fields is None else ("--map", fields)
    result = found(karat_command, file, *more)
    assert result["doubts"]["scores"] == {"queries": 20, "of": 20, "field": name, "listed": False}
    assert audited(result)["distance_scores"] == 20
    assert "--scores lower-is-better" in before_scores(karat_command, file, *more)
    gate = ("gate", file, "--gold", "gold.jsonl", *GATE, *more)
    assert karat_command(*gate)[0] == 2
    assert karat_command(*gate, "--scores", "lower-is-better")[0] == 0
    near = found(karat_command, file, *more, "--scores", "lower-is-better")
    assert near["scores"] == found(karat_command, table("right.csv", rows()))["scores"]


def test_ranks_beside_distances_decide(karat_command: Call) -> None:
    run = table("run.csv", rows(rank=lambda at: at + 1, distance=lambda at: at))
    assert found(karat_command, run)["doubts"]["scores"] is None


# `karat check`


def kinds(call: Call, *arguments: str) -> dict[str, str]:
    code, out, _ = call("check", *arguments, "--json")
    assert code == 0
    return {one["file"]: one["kind"] for one in json.loads(out)}


def test_check_tells_bare_runs_from_gold(karat_command: Call) -> None:
    run = table("run.csv", rows())
    other = table("other.csv", [{"query_id": q, "chunk_id": f"d{at}"} for at, q in enumerate(QUERIES)])
    assert kinds(karat_command, run, "gold.jsonl") == {run: "run", "gold.jsonl": "gold"}
    assert kinds(karat_command, run, "--gold", other) == {run: "run", other: "gold"}
    assert kinds(karat_command, table("timed.csv", rows(latency_ms=lambda at: 5))) == {"timed.csv": "run"}
    named = table("named.csv", [{"req": row["query_id"], "passage": row["chunk_id"]} for row in rows()])
    fields = ("--map", "run.query_id=req,run.chunk_id=passage")
    assert kinds(karat_command, named, "gold.jsonl", *fields) == {named: "run", "gold.jsonl": "gold"}
    assert kinds(karat_command, other) == {other: "gold"}
    _, out, _ = karat_command("check", other, "--json")
    assert [entry["code"] for entry in json.loads(out)[0]["audit"]] == ["either_kind"]
    ranked = table("ranked.csv", rows(rank=lambda at: at + 1))
    by_map = ("--map", "gold.chunk_id=chunk_id")
    for more in ((ranked,), by_map):  # next to a run, or by name
        _, out, _ = karat_command("check", other, *more, "--json")
        assert (json.loads(out)[0]["kind"], json.loads(out)[0]["audit"]) == ("gold", [])


# Times in rows


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_rows_with_different_times_are_reported(name: str, karat_command: Call) -> None:
    result = found(
        karat_command, table(name, rows(rank=lambda at: at + 1, latency_ms=lambda at: 5 + at)), "-m", "latency_p50"
    )
    assert audited(result)["other_times"] == 20
    same = table(name, rows(rank=lambda at: at + 1, latency_ms=lambda at: 5))
    assert "other_times" not in audited(found(karat_command, same, "-m", "latency_p50"))


# Ids of queries


@pytest.mark.parametrize("other", [str.upper, lambda q: f" {q}", lambda q: f"faq/{q}"])
def test_ids_of_queries_are_normalized(
    other: Callable[[str], str], karat_command: Call, karat_refuses: Refuses
) -> None:
    truth = found(karat_command, lines("right.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()]))
    run = lines("run.jsonl", [{"query_id": other(q), "topk": items} for q, items in LISTS.items()])
    error = karat_refuses("eval", run, "--gold", "gold.jsonl")
    assert (error.code, "--normalize-ids" in str(error)) == ("no-overlap", True)
    code, out, _ = karat_command("check", run, "gold.jsonl")
    assert (code, "--normalize-ids" in out) == (2, True)
    result = found(karat_command, run, "--normalize-ids")
    assert result["scores"] == truth["scores"]
    assert audited(result)["queries_normalized"] == 20
    code, out, _ = karat_command("eval", "triage", "--explain", run, "--gold", "gold.jsonl", "--normalize-ids")
    assert (code, "d99" in out) == (0, True)  # lists are found again under the name that the run has for the query


def test_queries_of_another_set_are_other_queries(karat_refuses: Refuses) -> None:
    lines("gold.jsonl", [{"query_id": f"dev-{n}", "gold": ["d1"]} for n in range(20)])
    run = lines("run.jsonl", [{"query_id": f"test-{n}", "topk": ["d1"]} for n in range(20)])
    for more in ((), ("--normalize-ids",)):
        error = karat_refuses("eval", run, "--gold", "gold.jsonl", *more)
        assert (error.code, "--normalize-ids" in str(error)) == ("no-overlap", False)


def test_some_ids_of_queries_differ(karat_command: Call, karat_refuses: Refuses) -> None:
    half = [{"query_id": q.upper() if at % 2 else q, "topk": i} for at, (q, i) in enumerate(LISTS.items())]
    run = lines("run.jsonl", half)
    assert audited(found(karat_command, run))["near_queries"] == 10
    assert "--normalize-ids" in before_scores(karat_command, run)
    assert audited(found(karat_command, run, "--normalize-ids"))["queries_normalized"] == 10
    lines("run.jsonl", [*half, {"query_id": "q1", "topk": ["d1"]}])
    error = karat_refuses("eval", run, "--gold", "gold.jsonl", "--normalize-ids")
    assert error.code == "ids-collide"


# An outage


def test_an_outage_is_said_first_and_nothing_follows_from_it(karat_command: Call) -> None:
    down = [{"query_id": q, "topk": [], "error": "timeout after 30 s"} for q in QUERIES[1:]]
    run = lines("run.jsonl", [{"query_id": "q0", "topk": LISTS["q0"]}, *down])
    for more in ((), ("--brief",), ("--explain",)):
        said = before_scores(karat_command, run, *more)
        assert all(word in said for word in ("19 of 20", "timeout after 30 s", "--retry-failed"))
    _, out, _ = karat_command("eval", run, "--gold", "gold.jsonl", "--json")
    assert [each["code"] for each in json.loads(out)["findings"]] == ["lost_queries"]
    assert json.loads(out)["bands"] == []
    assert karat_command("gate", run, "--gold", "gold.jsonl", *GATE)[0] == 2
    one = lines("one.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items() if q != "q5"])
    assert "queries missing" not in before_scores(karat_command, one)  # 5 % are allowed


def test_many_runs_say_which_of_them_was_down(karat_command: Call) -> None:
    right = lines("right.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    down = lines("down.jsonl", [{"query_id": q, "topk": [], "error": "refused"} for q in QUERIES])
    code, out, _ = karat_command("eval", right, down, "--gold", "gold.jsonl", "-m", "recall@5", "--json")
    board = json.loads(out)
    assert code == 0
    assert any("refused" in note for note in board["notes"])
    assert [standing["metrics"][0]["beats"] for standing in board["systems"]] == ["", ""]


# Queries that failed, are missing or unknown, and are few


def test_every_command_says_what_was_lost(karat_command: Call) -> None:
    records = [{"query_id": q, "topk": i} for q, i in LISTS.items() if q != "q5"]
    right = lines("right.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    run = lines("run.jsonl", [*records[:-1], {**records[-1], "error": "refused"}, {"query_id": "other", "topk": []}])
    gold = ("--gold", "gold.jsonl")
    brief = before_scores(karat_command, run, "--brief")
    assert (brief.count("1 query"), "refused" in brief) == (3, True)  # missing, failed, unknown
    commands = (("eval", run), ("eval", right, run), ("compare", right, run), ("eval", "sweep", run))
    for command in (*commands, ("eval", "power", run)):
        code, out, _ = karat_command(*command, *gold)
        assert code == 0
        audit = out.partition("\nAudit")[2]
        assert all(word in audit for word in ("q5", "refused", "other")), command
    _, out, _ = karat_command("eval", right, run, *gold, "--brief")
    lines_about = " ".join(out.partition("\nAudit")[2].split())
    assert (lines_about.count("1 query"), "refused" in lines_about, "right:" in lines_about) == (3, True, False)
    code, out, _ = karat_command("gate", run, *gold, *GATE, "-o", "comment.md")
    for told in (out, Path("comment.md").read_text()):
        assert (code, told.count("1 query"), "refused" in told) == (0, 3, True)


# A retriever that finds nothing but by chance


def test_no_better_than_random_is_the_first_finding(karat_command: Call) -> None:
    items = [f"d{n}" for n in range(500)]
    draw = random.Random(3)
    gold = [{"query_id": f"q{n}", "query": "what?", "gold": [items[n]]} for n in range(400)]
    lines("gold.jsonl", gold)
    run = lines("run.jsonl", [{"query_id": f"q{n}", "topk": draw.sample(items, 10)} for n in range(400)])
    more = ("--gold", "gold.jsonl", "--corpus-size", "500")
    said = "This system is no better than drawing items at random."
    for shown in ((), ("--brief",)):
        code, out, _ = karat_command("eval", run, *more, *shown, "-o", "page.html")
        assert code == 0
        first = re.search(r"^(?:certain|strong|likely)\s+(.*?)\s*$", out, re.M)
        assert first is not None
        assert first[1] == said
    page = Path("page.html").read_text()
    assert page.index(said) < page.index("recall@10")


# A retriever that word search beats


def test_losing_to_word_search_is_the_first_finding(karat_command: Call) -> None:
    """The gold set and the corpus of the user, and a retriever that returns anything."""
    words = [
        "refund",
        "invoice",
        "printer",
        "toner",
        "holiday",
        "password",
        "laptop",
        "badge",
        "parking",
        "travel",
        "expense",
        "leave",
    ]
    texts = {f"d{n}": f"{words[n % 10]} {words[n // 10 % 10]} item{n}" for n in range(144)}
    lines("corpus.jsonl", [{"id": item, "text": text} for item, text in texts.items()])
    asked = {f"q{n}": f"d{n * 5}" for n in range(25)}
    lines("gold.jsonl", [{"query_id": q, "query": texts[item], "gold": [item]} for q, item in asked.items()])
    drawn = {q: random.Random(q).sample(sorted(texts), 8) for q in asked}
    run = lines("run.jsonl", [{"query_id": q, "topk": items} for q, items in drawn.items()])
    more = ("--gold", "gold.jsonl", "--corpus", "corpus.jsonl")
    _, out, _ = karat_command("eval", run, *more, "--json")
    first = json.loads(out)["findings"][0]
    assert first["code"] == "loses_to_bm25"
    for shown in ((), ("--brief",)):
        _, out, _ = karat_command("eval", run, *more, *shown, "-o", "page.html")
        assert first["title"] in out
    page = Path("page.html").read_text()
    assert page.index(first["title"]) < page.index("recall@10")


def test_losing_to_word_search_in_the_order_alone_is_the_first_finding(karat_command: Call) -> None:
    """Everything is among the first five of both, but word search has it first."""
    texts = {f"d{n}": f"subject{n} topic{n % 5}" for n in range(100)}
    lines("corpus.jsonl", [{"id": item, "text": text} for item, text in texts.items()])
    asked = {f"q{n}": f"d{n}" for n in range(30)}
    lines("gold.jsonl", [{"query_id": q, "query": texts[item], "gold": [item]} for q, item in asked.items()])
    found = [{"query_id": q, "topk": ["d97", "d98", item, "d99", "d96"]} for q, item in asked.items()]
    more = ("--gold", "gold.jsonl", "--corpus", "corpus.jsonl")
    _, out, _ = karat_command("eval", lines("run.jsonl", found), *more, "--json")
    first = json.loads(out)["findings"][0]
    assert (first["code"], first["sure"]) == ("loses_to_bm25", "strong")
    assert {number["name"] for number in first["numbers"] if "−" in number["name"]} == {
        "ndcg@5 of BM25 − ndcg@5",
        "mrr of BM25 − mrr",
    }
    _, out, _ = karat_command("eval", "run.jsonl", *more)
    assert first["title"] in out


# Gates that check nothing


def test_a_gate_without_a_baseline_has_no_tick(karat_command: Call) -> None:
    run = lines("run.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    gate = ("gate", run, "--gold", "gold.jsonl", "--gate", "recall@5 drop <= 0.02")
    code, out, _ = karat_command(*gate, "--gate", "recall@5 >= 0", "-o", "page.html", "-o", "comment.md")
    assert code == 0
    assert "– not checked  recall@5" in out
    assert out.count("✓") == 1
    assert "✅ not checked" not in Path("comment.md").read_text()
    assert 'class="verdict not-checked"' in Path("page.html").read_text()


def test_a_gate_that_checked_nothing_could_not_judge(karat_command: Call) -> None:
    run = lines("run.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    gate = ("gate", run, "--gold", "gold.jsonl", "--gate", "recall@5 drop <= 0.02")
    code, out, _ = karat_command(*gate, "-o", "page.html", "-o", "comment.md", "-o", "junit.xml", "-o", "annotations=-")
    assert code == 2
    assert "No check ran" in out
    assert "--baseline" in out
    assert "May ship" not in out
    assert "::error" in out
    assert "could not be judged" in Path("comment.md").read_text()
    assert 'errors="1"' in Path("junit.xml").read_text()
    found = karat.gate(run, "gold.jsonl", "recall@5 drop <= 0.02")
    assert (bool(found), found.outcome) == (False, "invalid")
    assert "baseline=" in found.verdicts[0].reason
    assert karat_command(*gate, "--baseline", run)[0] == 0


def test_limits_in_percent_in_a_criteria_file(karat_command: Call) -> None:
    """What the hint for `threshold: 60` says can be pasted."""
    run = lines("run.jsonl", [{"query_id": q, "topk": i, "latency_ms": {"all": 5}} for q, i in LISTS.items()])
    gate = ("gate", run, "--gold", "gold.jsonl", "--criteria", "criteria.yaml")
    written = "gates:\n- metric: {}\n  {}\n"
    Path("criteria.yaml").write_text(written.format("recall@5", "threshold: 60"))
    code, _, err = karat_command(*gate)
    assert (code, "0.6 or 60%" in err) == (2, True)
    for text, limit in (("60%", 0.6), ("'62.5 %'", 0.625), ("60pp", 0.6)):
        Path("criteria.yaml").write_text(written.format("recall@5", f"threshold: {text}"))
        found = json.loads(karat_command(*gate, "--json")[1])
        assert found["verdicts"][0]["limit"] == limit
    for metric, text in (("latency_p50", "max: 60%"), ("recall@5", "threshold: sixty%")):
        Path("criteria.yaml").write_text(written.format(metric, text))
        code, _, err = karat_command(*gate)
        assert (code, "criteria.yaml:3:" in err) == (2, True)


def test_a_gate_points_at_the_field_that_is_wrong(karat_command: Call) -> None:
    run = lines("run.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    Path("criteria.yaml").write_text("gates:\n- metric: recall@5\n  threshold: 0.5\n  each: langage\n")
    code, _, err = karat_command("gate", run, "--gold", "gold.jsonl", "--criteria", "criteria.yaml")
    assert (code, "criteria.yaml:4" in err) == (2, True)


def test_gate_takes_one_run(karat_command: Call) -> None:
    run = lines("run.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    code, _, err = karat_command("gate", run, run, "--gold", "gold.jsonl", "--gate", "recall@5 >= 0")
    assert (code, "karat compare" in err) == (2, True)


def test_a_k_beyond_the_lists_is_said_in_short_too(karat_command: Call) -> None:
    gold = [{"query_id": f"q{n}", "gold": [f"d{n}"]} for n in range(30)]
    lines("many.jsonl", gold)
    run = lines("run.jsonl", [{"query_id": g["query_id"], "topk": g["gold"] + ["x", "y"]} for g in gold])
    for command in (("gate", run, "--gate", "recall@50 >= 0.5"), ("eval", run, "-m", "recall@50", "--brief")):
        code, out, _ = karat_command(*command, "--gold", "many.jsonl")
        assert (code, "recall@50 equals recall@3" in out) == (0, True)


# Headers of tables


@pytest.mark.parametrize(
    "header",
    [
        "Question,Doc,Rank",
        "query,document,score",
        "user_query,retrievedDoc,position",
        "question_id,retrieved_chunk_id,similarity_score",
        "query_id,file,confidence",
        "qid,pid,rank",
        "Query,URL,Position",
        "test case,result id,cosine",
        "Frage,Dokument,Rang",
        "q,d,s",
    ],
)
def test_any_header_gets_a_map_that_works(header: str, karat_command: Call, karat_refuses: Refuses) -> None:
    ranked = any(word in header.lower() for word in ("rank", "rang", "position"))
    shuffled = [(q, item, at + 1 if ranked else 1 / (at + 1)) for q, i in LISTS.items() for at, item in enumerate(i)]
    first, *others = shuffled
    random.Random(5).shuffle(others)
    text = "\n".join([header, *(f"{q},{item},{number}" for q, item, number in [first, *others])])
    Path("run.csv").write_text(text + "\n")
    error = karat_refuses("eval", "run.csv", "--gold", "gold.jsonl")
    [pasted] = shlex.split(str(error.hint).partition("--map ")[2])
    truth = found(karat_command, lines("right.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()]))
    assert found(karat_command, "run.csv", "--map", pasted)["scores"] == truth["scores"]


@pytest.mark.parametrize("header", ["Question,Relevant Document", "prompt,expected_source,relevance", "Frage,Dokument"])
def test_any_header_of_a_gold_set_gets_a_map_that_works(
    header: str, karat_command: Call, karat_refuses: Refuses
) -> None:
    graded = header.count(",") == 2
    judged = [f"{q},d{at}" + ",1" * graded for at, q in enumerate(QUERIES)]
    Path("gold.csv").write_text("\n".join([header, *judged]) + "\n")
    run = lines("run.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    error = karat_refuses("eval", run, "--gold", "gold.csv")
    [pasted] = shlex.split(str(error.hint).partition("--map ")[2])
    code, out, _ = karat_command("eval", run, "--gold", "gold.csv", "-m", "recall@5,mrr", "--json", "--map", pasted)
    assert (code, json.loads(out)["scores"]) == (0, found(karat_command, run)["scores"])


@pytest.mark.parametrize("header", ["id,title,body", "name,mail,phone,city"])
def test_tables_of_something_else_get_no_map(header: str, karat_refuses: Refuses) -> None:
    Path("run.csv").write_text(f"{header}\n{','.join('abcd'[: header.count(',') + 1])}\n")
    assert "--map query_id=" not in str(karat_refuses("eval", "run.csv", "--gold", "gold.jsonl"))


def test_a_workbook_is_named_as_such(karat_refuses: Refuses) -> None:
    with ZipFile("run.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", "<workbook/>")
    error = karat_refuses("eval", "run.xlsx", "--gold", "gold.jsonl")
    assert (error.code, "CSV" in str(error.hint)) == ("binary-file", True)


# Records of a notebook


def notebook(at: int) -> dict[str, Any]:
    passage = f"Article {at} says that the refund takes {at + 2} working days."
    return {
        "user_input": f"how long does refund {at} take?",
        "retrieved_contexts": ["Printers take toner from building seven, ask there.", passage][at % 3 == 0 :],
        "reference_contexts": [passage],
        "reference": f"{at + 2} working days",
    }


@pytest.mark.parametrize("name", ["records.json", "records.jsonl"])
def test_a_notebook_of_questions_and_contexts(name: str, karat_command: Call) -> None:
    """One file holds what was retrieved and what should have been, and is both the run and the gold set."""
    records = [notebook(at) for at in range(20)]
    Path(name).write_text(json.dumps(records)) if name.endswith(".json") else lines(name, records)
    code, out, err = karat_command("eval", name, "--gold", name)
    assert code == 0, err
    text = " ".join(out.split())
    assert "evidence_recall" in text.partition("In short")[0]
    code, out, _ = karat_command("eval", name, "--gold", name, "-m", "evidence_mrr", "--json")
    assert json.loads(out)["summary"][0]["mean"] == pytest.approx((7 + 13 / 2) / 20)


def test_many_empty_lists_are_said_first(tmp_path: Path, karat_command: Any) -> None:
    """A retriever that was down and logged no error looks like one that finds nothing."""
    run, gold = tmp_path / "run.jsonl", tmp_path / "gold.jsonl"
    gold.write_text("".join(json.dumps({"query_id": f"q{i}", "gold": [f"d{i}"]}) + "\n" for i in range(60)))
    for empty, noticed in ((5, False), (20, True)):
        lists = ([] if i < empty else [f"d{i}"] for i in range(60))
        run.write_text("".join(json.dumps({"query_id": f"q{i}", "topk": hits}) + "\n" for i, hits in enumerate(lists)))
        for command in (("eval", "--brief"), ("gate", "--gate", "recall@5 >= 0.1")):
            _, printed, _ = karat_command(command[0], str(run), "--gold", str(gold), *command[1:])
            assert ("20 of 60" in printed) == noticed
        _, printed, _ = karat_command("eval", str(run), "--gold", str(gold), "--brief", "--min-score", "0")
        assert "20 of 60" not in printed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("karat eval run", "file,run"),
        ("karat eval r -m rec", "plain,recall@5"),
        ("karat lab", "plain,labels"),
        ("karat eval s", "plain,sweep"),
        ("karat eval s", "plain,some.jsonl"),
        ("karat eval ", "plain,triage"),
        ("karat gate self", "plain,selftest"),
        ("karat check s", "plain,schema"),
        ("karat serve u", "plain,users"),
        ("karat labels m", "plain,merge"),
        ("karat history p", "plain,push"),
        ("karat eval run.jsonl s", "file,s"),
        ("karat eval --gold s", "file,s"),
        ("karat eval sweep --ks", "plain,--ks"),
    ],
)
def test_shells_complete_files_metrics_and_commands(words: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").touch()
    place = str(len(words.split()) - (not words.endswith(" ")))
    environment = {**os.environ, "COMP_WORDS": words, "COMP_CWORD": place, "_KARAT_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'karat'; from karat.cli.main import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=tmp_path)
    assert expected in done.stdout.splitlines(), done.stderr


# Files of other people


def test_a_table_of_several_runs_is_loaded(karat_command: Call, karat_refuses: Refuses) -> None:
    """What `karat eval a b -o table.json` writes can be measured, compared and gated without the runs."""
    good = lines("good.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    bad = lines("bad.jsonl", [{"query_id": q, "topk": i[::-1]} for q, i in LISTS.items()])
    assert karat_command("eval", good, bad, "--gold", "gold.jsonl", "-o", "table.json")[0] == 0
    found = karat.load("table.json")
    assert isinstance(found, Mapping)
    assert list(found) == [good, bad]
    for name in found:
        assert found[name]["recall@2"].mean == karat.evaluate(name, "gold.jsonl")["recall@2"].mean
    assert karat_command("compare", "table.json")[0] == 0
    _, out, _ = karat_command("eval", good, bad, "--gold", "gold.jsonl", "--json")
    assert "results" not in json.loads(out)  # the table alone
    Path("old.json").write_text(out)
    error = karat_refuses("compare", "old.json")
    assert (error.code, "karat eval" in str(error.hint)) == ("not-a-result", True)


def test_several_runs_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    good = lines("good.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    bad = lines("bad.jsonl", [{"query_id": q, "topk": i[::-1]} for q, i in LISTS.items()])
    found = karat.evaluate([good, Path(bad)], "gold.jsonl", ["recall@1"])
    assert isinstance(found, Mapping)
    assert list(found) == [good, bad]
    assert found[good].means == karat.evaluate(good, "gold.jsonl", ["recall@1"]).means
    found.save("both.json")
    assert list(karat.load("both.json")) == [good, bad]
    rows = [{"query_id": q, "chunk_id": item, "rank": at} for q, i in LISTS.items() for at, item in enumerate(i, 1)]
    assert karat.evaluate(rows, "gold.jsonl", ["recall@1"]).means == found[good].means


def test_a_renamed_name_is_told_by_an_import() -> None:
    with pytest.raises(ImportError, match=r"karat\.evaluate"):
        from karat import evaluate_all  # noqa: F401
    with pytest.raises(AttributeError, match=r"karat\.evaluate"):
        _ = karat.evaluate_all
    assert not hasattr(karat, "evaluate_all")


def test_warnings_are_the_first_findings_in_python() -> None:
    down = [{"query_id": q, "topk": [], "error": "timeout after 30 s"} for q in QUERIES[1:]]
    lines("down.jsonl", [{"query_id": "q0", "topk": LISTS["q0"]}, *down])
    lines("named.jsonl", [{"query_id": q, "topk": [f"{i}.md" for i in items]} for q, items in LISTS.items()])
    for run, code, text in (("down.jsonl", "lost_queries", "19 of 20"), ("named.jsonl", "unmatched_ids", "d")):
        result = karat.evaluate(run, "gold.jsonl")
        first = result.findings[0]
        assert (first.code, text in first.evidence) == (code, True)
        assert first.what_to_try
        result.save("saved.json")
        loaded = karat.load("saved.json")
        assert isinstance(loaded, karat.Result)
        assert [each.code for each in loaded.findings] == [each.code for each in result.findings]
        assert result.to_polars("findings")["code"][0] == code
    said = [way for each in result.findings for way in (each.evidence, *each.what_to_try)]
    assert any("normalize_ids=True" in text for text in said)
    assert not any("--normalize-ids" in text for text in said)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"map": "query_id=id"}, "columns="),
        ({"confidence": 0.9}, "level="),
        ({"glod": "gold.jsonl"}, "gold"),
        ({"segment": "topic"}, "segments="),
        ({"normalise_ids": True}, "normalize_ids"),
    ],
)
def test_wrong_keywords_are_answered_in_python(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(TypeError) as caught:
        karat.evaluate("run.jsonl", **given)
    assert hint in str(caught.value).partition("hint: ")[2]


def test_errors_spell_options_as_the_caller_does(karat_refuses: Refuses) -> None:
    run = lines("run.jsonl", [{"id": q, "results": i} for q, i in LISTS.items()])
    with pytest.raises(karat.KaratError) as caught:
        karat.evaluate(run, "gold.jsonl")
    assert "columns='query_id=id,topk=results'" in str(caught.value)
    assert "--map" not in str(caught.value)
    assert "--map query_id=id,topk=results" in str(karat_refuses("eval", run, "--gold", "gold.jsonl"))
    with pytest.raises(karat.KaratError, match=r"gold="):
        karat.compare(lines("a.jsonl", [{"query_id": "q0", "topk": ["a"]}]), "a.jsonl", metrics=["recall@5"])
    upper = lines("run.jsonl", [{"query_id": q.upper(), "topk": i} for q, i in LISTS.items()])
    with pytest.raises(karat.KaratError, match="normalize_ids=True"):
        karat.evaluate(upper, "gold.jsonl")
    records = [{"id": q, "results": i} for q, i in LISTS.items()]
    with pytest.raises(karat.KaratError, match="columns='query_id=id,topk=results'"):
        karat.evaluate(records, "gold.jsonl")
    assert karat.evaluate(records, "gold.jsonl", columns="query_id=id,topk=results").queries == QUERIES


def test_a_gold_table_is_told_from_a_run(karat_command: Call) -> None:
    Path("labels.csv").write_text("question,doc,relevance\nwhat is a,d1,2\nwhat is b,d2,0\n")
    code, out, _ = karat_command("check", "labels.csv")
    text = " ".join(out.split())
    assert code == 2
    assert "--map query_id=question,query=question,chunk_id=doc,grade=relevance" in text
    assert "--map query_id=question,chunk_id=doc,score=relevance" in text
    assert "a grade above 0 is relevant" in text
    Path("logs.jsonl").write_text(json.dumps({"id": "q1", "found": [{"doc": "a", "similarity": 0.5}]}) + "\n")
    _, out, _ = karat_command("check", "logs.jsonl")
    assert "gold file" not in out.partition("hint")[2]  # nothing in it could be a grade


def test_both_files_are_told_at_once(karat_command: Call, karat_refuses: Refuses) -> None:
    Path("hits.csv").write_text("id;quelle;wert\n" + "".join(f"{q};d{n};0,5\n" for n, q in enumerate(QUERIES)))
    head = "id,question_id,question_text,answer_doc\n"
    rows = (f"row{n},{q},what is number {n},d{n}\n" for n, q in enumerate(QUERIES))
    Path("labels.csv").write_text(head + "".join(rows))
    error = karat_refuses("eval", "hits.csv", "--gold", "labels.csv")
    assert all(name in str(error) for name in ("hits.csv", "labels.csv"))
    pasted = str(error.hint).partition("--map ")[2].strip("'")
    assert "query=question_text" in pasted
    code, out, err = karat_command(
        "eval", "hits.csv", "--gold", "labels.csv", "--map", pasted, "-m", "recall@5", "--json"
    )
    assert (code, json.loads(out)["summary"][0]["mean"]) == (0, 1.0), err
    assert json.loads(out)["queries"]["q3"] == "what is number 3"
    Path("hits.csv").write_text("query_id,quelle,wert\nq0,d0,1\n")  # recognised, but without a column of items
    error = karat_refuses("eval", "hits.csv", "--gold", "labels.csv")
    assert all(name in str(error) for name in ("hits.csv", "labels.csv"))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas(separator: str, karat_command: Call, karat_refuses: Refuses) -> None:
    def table(values: list[str]) -> str:
        rows = [[q, item, v] for q, items in LISTS.items() for item, v in zip(items, values, strict=False)]
        Path("run.csv").write_text("\n".join(map(separator.join, [["query_id", "chunk_id", "score"], *rows])))
        return "run.csv"

    plain = found(karat_command, table(["0.900", "0.500", "0.100"]))["scores"]
    assert found(karat_command, table(["0,900", "0,500", "0,100"]))["scores"] == plain
    assert found(karat_command, table(["12,5", "3", "-1,25"]))["scores"] == plain
    error = karat_refuses("eval", table(["3,100", "2,100", "1,100"]), "--gold", "gold.jsonl")  # 3.1 or 3100?
    assert (error.code, error.line, error.got) == ("bad-value", 2, "3,100")
    assert "3.100 or 3100" in str(error.hint)
    error = karat_refuses("eval", table(["0,9", "0.5", "0,1"]), "--gold", "gold.jsonl")
    assert error.code == "bad-value"


def test_a_cutoff_beyond_the_lists_is_noted(karat_command: Call) -> None:
    run = lines("run.jsonl", [{"query_id": q, "topk": i} for q, i in LISTS.items()])
    longest = max(map(len, LISTS.values()))
    asked = ("-m", f"recall@{longest}", "-m", "recall@20", "-m", "ndcg@20")
    noted = json.loads(karat_command("eval", run, "--gold", "gold.jsonl", *asked, "--json")[1])
    [entry] = [entry for entry in noted["audit"] if entry["code"] == "beyond_lists"]
    assert (entry["count"], entry["examples"][0]) == (2, f"recall@20 equals recall@{longest}")
    scores = [row["mean"] for row in noted["summary"][:2]]
    assert scores[0] == scores[1]
    for few in (("-m", f"recall@{longest}"), ()):  # nobody asked for recall@10 by name
        assert "beyond_lists" not in karat_command("eval", run, "--gold", "gold.jsonl", *few, "--json")[1]


def test_check_shows_the_fields_of_a_file(karat_command: Call, karat_refuses: Refuses) -> None:
    run = lines("run.jsonl", [{"id": q, "response": {"hits": [{"doc": i[0]}]}} for q, i in LISTS.items()])
    wrong = ("--map", "query_id=id,topk=response.hits,chunk_id=document")
    assert "karat check" in str(karat_refuses("eval", run, "--gold", "gold.jsonl", *wrong).hint)
    Path("run.csv").write_text("frage;dokument\nq0;d1\n")
    code, out, _ = karat_command("check", run, "run.csv", "--json")
    shown = [each["fields"] for each in json.loads(out)]
    item = next(iter(LISTS.values()))[0]
    assert (code, shown) == (2, [{"id": "q0", "response.hits[].doc": item}, {"frage": "q0", "dokument": "d1"}])
    out = karat_command("check", run, "run.csv")[1]
    assert all(text in out for text in ("response.hits[].doc", "dokument"))


CORPUS = [
    {"chunk_id": f"m{n // 4}#s{n}", "doc_id": f"m{n // 4}", "text": f"Section {n} is about pumps."} for n in range(8)
]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_check_reads_a_corpus(tmp_path: Path, kind: str, karat_command: Call, karat_refuses: Refuses) -> None:
    file = tmp_path / f"corpus.{kind}"
    frame = pl.DataFrame(CORPUS)
    {"jsonl": frame.write_ndjson, "csv": frame.write_csv, "parquet": frame.write_parquet}[kind](file)
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"query_id": "q1", "gold": ["m0#s1"]}\n')
    for files in ([str(file)], [str(file), "--gold", str(gold)]):
        code, out, _ = karat_command("check", *files, "--json")
        found = json.loads(out)[0]
        assert (code, found["kind"], found["holds"]["chunks"], found["holds"]["documents"]) == (0, "corpus", 8, 2)
    error = karat_refuses("eval", str(gold), "--gold", str(file))
    assert "--corpus" in str(error)


@pytest.mark.parametrize(
    ("record", "is_corpus"),
    [
        ({"id": "1", "title": "Pumps", "text": "How to clean pumps", "topic": "care", "tags": ["a"]}, True),
        ({"_id": "1", "title": "", "text": "How to clean pumps"}, True),
        ({"_id": "1", "text": "how to clean pumps"}, False),  # queries of BEIR
        ({"id": "1", "text": "How do I clean it?", "doc": "d7"}, False),
        ({"id": "1", "text": "how to clean pumps", "results": [{"doc": "d1"}]}, False),
        ({"id": "1", "text": "how to clean pumps", "relevant": ["d1"]}, False),
        ({"id": "1", "text": "how to clean pumps", "doc": "d1", "label": 1}, False),
    ],
)
def test_what_is_a_corpus(tmp_path: Path, record: dict[str, Any], is_corpus: bool, karat_command: Call) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text(json.dumps(record) + "\n")
    code, out, _ = karat_command("check", str(file), "--json")
    assert (code, json.loads(out)[0]["kind"] == "corpus") == (0 if is_corpus else 2, is_corpus)


def test_check_knows_pools_and_labels(tmp_path: Path, karat_command: Call) -> None:
    """From the commands that write them."""
    run, gold, pool = (str(tmp_path / name) for name in ("run.jsonl", "gold.jsonl", "pool.jsonl"))
    Path(gold).write_text(
        "".join(f'{{"query_id": "q{n}", "query": "about {n}", "gold": ["d{n}"]}}\n' for n in range(5))
    )
    Path(run).write_text("".join(f'{{"query_id": "q{n}", "topk": ["d{n}", "e{n}", "f{n}"]}}\n' for n in range(5)))
    assert karat_command("labels", "pool", run, "--gold", gold, "-o", pool)[0] == 0
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"query_id": "q1", "chunk_id": "e1", "grade": 1, "annotator": "ann"}\n')
    for file, what, command in ((pool, "a pool", "karat labels label"), (str(labels), "a labels file", "labels merge")):
        code, out, _ = karat_command("check", file, "--json")
        [found] = json.loads(out)
        assert (code, what in found["error"], command in found["error"]) == (2, True, True)


def test_check_shows_no_field_of_a_binary_file(tmp_path: Path, karat_command: Call) -> None:
    file = tmp_path / "bin.jsonl"
    file.write_bytes(bytes(random.Random(1).choices(range(256), k=3000)))
    code, out, _ = karat_command("check", str(file), "--json")
    [found] = json.loads(out)
    assert (code, found["kind"], found["fields"]) == (2, "unusable", {})


def test_a_table_that_is_not_utf8_says_what_to_do(tmp_path: Path, karat_refuses: Refuses) -> None:
    run, gold = tmp_path / "run.jsonl", tmp_path / "gold.csv"
    run.write_text('{"query_id": "q1", "topk": ["a"]}\n')
    gold.write_bytes("query_id;question_text;chunk_id;grade\nq1;Wie öffne ich;a;1\n".encode("latin-1"))
    error = karat_refuses("eval", str(run), "--gold", str(gold))
    assert (error.line, "UTF-8" in (error.hint or "")) == (2, True)


def test_a_project_folder_is_not_a_table(tmp_path: Path, karat_refuses: Refuses, karat_command: Call) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"query_id": "q1", "gold": ["m0#s1"]}\n')
    pl.DataFrame(CORPUS).write_parquet(tmp_path / "corpus.parquet")
    error = karat_refuses("eval", str(tmp_path), "--gold", str(gold))
    assert (error.code, "--map" in str(error)) == ("is-a-folder", False)
    (tmp_path / "runs").mkdir()
    rows = pl.DataFrame({"query_id": ["q1"], "chunk_id": ["m0#s1"], "score": [1.0]})
    rows.write_parquet(tmp_path / "runs" / "part.parquet")
    assert karat_command("eval", str(tmp_path / "runs"), "--gold", str(gold))[0] == 0
