"""Ids that do not match, ids that nearly do, and distances: from the user's files to what the user sees."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.data.id_forms import normal_id
from karat.data.ids import DocRule
from karat.errors import KaratError
from karat.scoring.views import View

Call = Callable[..., tuple[int, str, str]]
Lists = dict[str, list[tuple[str, float]]]
Labels = dict[str, dict[str, float]]


def lines(path: Path, records: list[Any]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def labels_of(folder: Path) -> Labels:
    labels: Labels = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, item, grade = line.split("\t")
        labels.setdefault(query, {})[item] = float(grade)
    return labels


def lists_of(folder: Path, depth: int = 10) -> Lists:
    lists: Lists = {}
    for line in (folder / "bm25.run").read_text().splitlines():
        query, _, item, _, score, _ = line.split()
        lists.setdefault(query, []).append((item, float(score)))
    return {query: hits[:depth] for query, hits in lists.items()}


def corpus_of(folder: Path) -> list[str]:
    return [json.loads(line)["_id"] for line in (folder / "corpus.jsonl").read_text().splitlines()]


def write_run(path: Path, lists: Lists, name: Callable[[str], str] = str, **more: Any) -> str:
    return lines(
        path,
        [
            {"query_id": q, "topk": [{"chunk_id": name(i), "score": s} for i, s in hits], "latency_ms": {"all": 5}}
            | more
            for q, hits in lists.items()
        ],
    )


def write_gold(path: Path, labels: Labels, name: Callable[[str], str] = str) -> str:
    records = [
        {"query_id": q, "gold": [{"chunk_id": name(i), "grade": g} for i, g in items.items()]}
        for q, items in labels.items()
    ]
    return lines(path, records)


@pytest.fixture
def adi(shared_data: Path) -> tuple[Lists, Labels]:
    return lists_of(shared_data / "adi"), labels_of(shared_data / "adi")


def doubts(call: Call, run: str, gold: str, *more: str) -> dict[str, Any]:
    code, out, _ = call("eval", run, "--gold", gold, "--json", *more)
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


# Ids that do not match


@pytest.mark.parametrize("other", [lambda item: f"{item}-part", lambda item: str(7_000 + int(item))])
def test_other_names_are_said_first_and_nothing_follows_from_them(
    adi: tuple[Lists, Labels], other: Callable[[str], str], tmp_path: Path, karat_command: Call
) -> None:
    run, gold = write_run(tmp_path / "run.jsonl", adi[0], other), write_gold(tmp_path / "gold.jsonl", adi[1])
    found = doubts(karat_command, run, gold)
    assert found["doubts"]["ids"]["sure"]
    assert found["doubts"]["ids"]["run_id"] == other(next(iter(adi[0].values()))[0][0])
    assert found["doubts"]["ids"]["gold_id"] in next(iter(adi[1].values()))
    assert found["bands"] == []
    [only] = found["findings"]
    assert (only["code"], only["sure"]) == ("unmatched_ids", "strong")
    assert only["evidence"] in " ".join(karat_command("eval", run, "--gold", gold)[1].split())
    for more in ((), ("--brief",)):
        code, out, _ = karat_command("eval", run, "--gold", gold, *more)
        assert code == 0
        text = " ".join(out.split())
        assert text.index(found["doubts"]["ids"]["run_id"]) < text.index("recall@1")
        assert "embedding model" not in text
        assert all(way in text for way in ("--doc-of", "--map", "quote", "karat synthesize", "--corpus"))


def test_scores_of_matching_ids_are_not_doubted(adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call) -> None:
    run, gold = write_run(tmp_path / "run.jsonl", adi[0]), write_gold(tmp_path / "gold.jsonl", adi[1])
    found = doubts(karat_command, run, gold)
    assert found["doubts"] == {"ids": None, "near": None, "scores": None, "order": None}
    assert found["bands"]


@pytest.mark.parametrize(("name", "seed"), list(product(("adi", "cranfield", "lihua_world", "mtrag_un"), range(5))))
def test_a_random_retriever_is_merely_bad(
    shared_data: Path, name: str, seed: int, tmp_path: Path, karat_command: Call
) -> None:
    labels, items, chance = labels_of(shared_data / name), corpus_of(shared_data / name), random.Random(seed)
    drawn = {query: [(item, 1 / n) for n, item in enumerate(chance.sample(items, 10), 1)] for query in labels}
    run, gold = write_run(tmp_path / "run.jsonl", drawn), write_gold(tmp_path / "gold.jsonl", labels)
    assert doubts(karat_command, run, gold, "-m", "recall@5")["doubts"]["ids"] is None


def test_a_corpus_tells_bad_from_misnamed(shared_data: Path, tmp_path: Path, karat_command: Call) -> None:
    """Lists without a single gold item: with the corpus it is known that they are named alike."""
    folder = shared_data / "cranfield"
    labels, items, chance = labels_of(folder), corpus_of(folder), random.Random(1)
    wanted = {item for graded in labels.values() for item, grade in graded.items() if grade > 0}
    wrong = [item for item in items if item not in wanted]
    lists = {query: [(item, 1 / n) for n, item in enumerate(chance.sample(wrong, 10), 1)] for query in labels}
    gold = write_gold(tmp_path / "gold.jsonl", labels)
    run = write_run(tmp_path / "run.jsonl", lists)
    corpus = ("--corpus", str(folder), "-m", "recall@5")
    assert doubts(karat_command, run, gold, *corpus)["doubts"]["ids"] is None
    assert karat_command("gate", run, "--gold", gold, "--gate", "recall@5 >= 0.5", *corpus[:2])[0] == 1
    misnamed = write_run(tmp_path / "misnamed.jsonl", lists, lambda item: str(90_000 + int(item)))
    found = doubts(karat_command, misnamed, gold, *corpus)["doubts"]["ids"]
    assert (found["sure"], found["why"], found["corpus"]) == (True, "corpus-run", True)
    elsewhere = write_gold(tmp_path / "elsewhere.jsonl", labels, lambda item: str(90_000 + int(item)))
    assert doubts(karat_command, run, elsewhere, *corpus)["doubts"]["ids"]["why"] == "corpus-gold"


def test_one_list_for_all_queries_proves_nothing(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    """An index that is down may return the same ten items, none of them gold: too little to say that names differ."""
    same = {query: [(str(9_000 + n), -float(n)) for n in range(10)] for query in adi[1]}
    run, gold = write_run(tmp_path / "run.jsonl", same), write_gold(tmp_path / "gold.jsonl", adi[1])
    assert not doubts(karat_command, run, gold)["doubts"]["ids"]["sure"]
    assert karat_command("gate", run, "--gold", gold, "--gate", "recall@5 >= 0.5")[0] == 1


def test_gates_by_id_are_invalid_and_others_are_judged(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    run = write_run(tmp_path / "run.jsonl", adi[0], "{}-part".format)
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    gates = ("--gate", "recall@5 >= 0.1", "--gate", "latency_p50 <= 100", "--gate", "recall(level=doc)@5 >= 0.1")
    code, out, _ = karat_command("gate", run, "--gold", gold, *gates, "--json")
    outcomes = {v["metric"]: v["outcome"] for v in json.loads(out)["verdicts"]}
    assert code == 2
    assert outcomes == {"recall@5": "invalid", "latency_p50": "pass", "recall(level=doc)@5": "invalid"}
    assert karat_command("gate", run, "--gold", gold, "--gate", "latency_p50 <= 100")[0] == 0
    baseline = write_run(tmp_path / "baseline.jsonl", adi[0])
    drop = ("--gate", "recall@5 drop <= 0.9", "--baseline")
    assert karat_command("gate", baseline, "--gold", gold, *drop, run)[0] == 2  # the baseline is misnamed
    assert karat_command("gate", baseline, "--gold", gold, *drop, baseline)[0] == 0


def test_evidence_is_judged_whatever_ids_say(tmp_path: Path, karat_command: Call) -> None:
    texts = [f"the fee of product number {n} is {n * 3} euro a month" for n in range(30)]
    gold = lines(
        tmp_path / "gold.jsonl",
        [{"query_id": f"q{n}", "gold": [f"doc{n}"], "evidence": [text]} for n, text in enumerate(texts)],
    )
    run = lines(
        tmp_path / "run.jsonl",
        [{"query_id": f"q{n}", "topk": [{"chunk_id": f"0b-{n}", "text": t}]} for n, t in enumerate(texts)],
    )
    gates = ("--gate", "evidence_recall@5 >= 0.9", "--gate", "recall@5 >= 0.9")
    code, out, _ = karat_command("gate", run, "--gold", gold, *gates, "--json")
    assert [v["outcome"] for v in json.loads(out)["verdicts"]] == ["pass", "invalid"]
    assert code == 2
    assert karat_command("gate", run, "--gold", gold, *gates[:2])[0] == 0


def test_other_chunks_of_the_same_documents_are_scored_by_document(tmp_path: Path, karat_command: Call) -> None:
    gold = lines(tmp_path / "gold.jsonl", [{"query_id": f"q{n}", "gold": [f"guide{n}#p2"]} for n in range(40)])
    run = lines(
        tmp_path / "run.jsonl",
        [{"query_id": f"q{n}", "topk": [f"guide{n}#c{n + 3}", f"guide{n}#c{n + 4}"]} for n in range(40)],
    )
    found = doubts(karat_command, run, gold)["doubts"]["ids"]
    assert (found["sure"], found["documents"]) == (True, True)
    gates = ("--gate", "recall@5 >= 0.9", "--gate", "recall(level=doc)@5 >= 0.9")
    _, out, _ = karat_command("gate", run, "--gold", gold, *gates, "--json")
    assert [v["outcome"] for v in json.loads(out)["verdicts"]] == ["invalid", "pass"]


def test_chunks_that_the_gold_set_calls_documents(tmp_path: Path, karat_command: Call) -> None:
    run = lines(tmp_path / "run.jsonl", [{"query_id": f"q{at}", "topk": [f"d{at}#p1"]} for at in range(5)])
    records = [{"query_id": f"q{at}", "gold": [{"doc_id": f"d{at}#p1"}]} for at in range(5)]
    gold = lines(tmp_path / "gold.jsonl", records)
    _, out, _ = karat_command("eval", run, "--gold", gold, "--json")
    doubt = json.loads(out)["doubts"]["ids"]
    assert (doubt["why"], doubt["sure"], doubt["gold_id"]) == ("kinds", True, "d0#p1")
    code, out, _ = karat_command("gate", run, "--gold", gold, "--gate", "recall@5 >= 0.5")
    assert code == 2
    assert "d0#p1" in out


def test_comparisons_by_id_are_invalid(adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call) -> None:
    good = write_run(tmp_path / "good.jsonl", adi[0])
    bad = write_run(tmp_path / "bad.jsonl", adi[0], "{}-part".format)
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    asked = ("-m", "recall@5,latency_p50")
    for sides in ((good, bad), (bad, good), (bad, bad)):
        code, out, _ = karat_command("compare", *sides, "--gold", gold, *asked, "--json")
        [pair] = json.loads(out)["pairs"]
        assert code == 2
        assert pair["invalid"] == ["recall@5"]
        assert [d["metric"] for d in pair["differences"]] == ["latency_p50"]
    assert karat_command("compare", good, good, "--gold", gold, *asked)[0] == 0
    code, out, _ = karat_command("compare", good, bad, "--gold", gold, *asked, "--force", "--json")
    assert (code, len(json.loads(out)["pairs"][0]["differences"])) == (0, 2)
    code, out, _ = karat_command("eval", good, bad, "--gold", gold, *asked, "--json")
    board = {line["run"]: {m["metric"]: m["value"] for m in line["metrics"]} for line in json.loads(out)["systems"]}
    assert board[bad]["recall@5"] is None
    assert board[bad]["latency_p50"] == 5


def test_a_saved_result_and_a_page_keep_the_doubt(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    run = write_run(tmp_path / "run.jsonl", adi[0], "{}-part".format)
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    saved, page = (str(tmp_path / name) for name in ("result.json", "page.html"))
    assert karat_command("eval", run, "--gold", gold, "-o", saved, "-o", page)[0] == 0
    assert karat_command("gate", saved, "--gate", "recall@5 >= 0.1")[0] == 2
    assert karat_command("gate", saved, "--gate", "latency_p50 <= 100")[0] == 0
    assert karat_command("compare", saved, saved)[0] == 2
    text = re.sub(r"<[^>]+>", " ", Path(page).read_text())
    assert "-part" in text.split("recall@1")[0]
    assert karat_command("gate", run, "--gold", gold, "--gate", "recall@5 >= 0.1", "-o", page)[0] == 2
    assert "different ids" in Path(page).read_text()


def test_workers_see_the_same(adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call) -> None:
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    for name in ("{}-part".format, str):
        run = write_run(tmp_path / "run.jsonl", adi[0], name)
        alone, shared = (doubts(karat_command, run, gold, "--engine", e)["doubts"] for e in ("local", "processes"))
        assert alone == shared


# Ids that nearly match

WAYS: dict[str, Callable[[str], str]] = {
    "case": lambda item: f"guide-{item}.md",
    "white space": lambda item: f" Guide-{item}.md",
    "Unicode form": lambda item: f"Ｇuide-{item}.md",
    "file extension": lambda item: f"Guide-{item}",
    "prefix": lambda item: f"kb/v2/Guide-{item}.md",
}


@pytest.mark.parametrize("way", WAYS)
def test_near_misses_are_told_and_normalized(
    adi: tuple[Lists, Labels], way: str, tmp_path: Path, karat_command: Call
) -> None:
    gold = write_gold(tmp_path / "gold.jsonl", adi[1], "Guide-{}.md".format)
    right = write_run(tmp_path / "right.jsonl", adi[0], "Guide-{}.md".format)
    run = write_run(tmp_path / "run.jsonl", adi[0], WAYS[way])
    found = doubts(karat_command, run, gold, "-m", "recall@5")
    hits = {(q, item) for q, listed in adi[0].items() for item, _ in listed}
    near = sum((q, item) in hits for q, graded in adi[1].items() for item, grade in graded.items() if grade > 0)
    assert found["doubts"]["near"]["count"] == near
    assert found["doubts"]["ids"]["why"] == "near"
    assert {entry["code"]: entry["count"] for entry in found["audit"]}["near_ids"] == near
    _, out, _ = karat_command("eval", run, "--gold", gold, "--brief")
    assert "--normalize-ids" in out
    fixed = doubts(karat_command, run, gold, "-m", "recall@5", "--normalize-ids")
    truth = doubts(karat_command, right, gold, "-m", "recall@5")
    assert fixed["scores"] == truth["scores"]
    assert fixed["doubts"]["ids"] is None
    assert fixed["doubts"]["near"] is None


def test_half_of_the_ids_in_another_spelling_cannot_be_judged(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    gold = write_gold(tmp_path / "gold.jsonl", adi[1], "Guide-{}.md".format)
    right = write_run(tmp_path / "right.jsonl", adi[0], "Guide-{}.md".format)
    mixed = write_run(tmp_path / "run.jsonl", adi[0], lambda i: f"Guide-{i}.md" if int(i) % 2 else f"guide-{i}")
    found = doubts(karat_command, mixed, gold, "-m", "recall@5")
    assert found["doubts"]["ids"] is None
    assert found["doubts"]["near"]["share"] > 0.1
    assert [each["code"] for each in found["findings"]] == ["near_ids"]
    assert found["bands"] == []
    gates = ("--gate", "recall@5 >= 0.01", "--gate", "recall(level=doc)@5 >= 0.01", "--gate", "latency_p50 <= 100")
    code, out, _ = karat_command("gate", mixed, "--gold", gold, *gates, "--json")
    verdicts = json.loads(out)["verdicts"]
    assert (code, [v["outcome"] for v in verdicts]) == (2, ["invalid", "invalid", "pass"])
    assert "--normalize-ids" in verdicts[0]["reason"]
    assert karat_command("gate", mixed, "--gold", gold, *gates, "--normalize-ids")[0] == 0
    drop = ("--gate", "recall@5 drop <= 0.9", "--baseline")
    assert karat_command("gate", right, "--gold", gold, *drop, mixed)[0] == 2
    for sides in ((right, mixed), (mixed, right)):
        code, out, _ = karat_command("compare", *sides, "--gold", gold, "-m", "recall@5,latency_p50", "--json")
        [pair] = json.loads(out)["pairs"]
        assert (code, pair["invalid"]) == (2, ["recall@5"])
        assert "--normalize-ids" in pair["notes"][0]
        assert karat_command("compare", *sides, "--gold", gold, "--normalize-ids")[0] == 0
    _, out, _ = karat_command("eval", right, mixed, "--gold", gold, "-m", "recall@5", "--json")
    assert [line["metrics"][0]["value"] is None for line in json.loads(out)["systems"]] == [False, True]
    Path(tmp_path / "gates.yaml").write_text("max_missing: 1.0\ngates: [{metric: recall@5, threshold: 0.01}]\n")
    code, out, _ = karat_command("gate", mixed, "--gold", gold, "--criteria", str(tmp_path / "gates.yaml"), "--json")
    assert (code, "--normalize-ids" in json.loads(out)["notes"][0]) == (0, True)


def test_few_near_misses_are_a_warning(tmp_path: Path, karat_command: Call) -> None:
    """Up to 10 % of the queries, as with missing ones."""
    labels = {f"q{n}": {f"doc_{n}": 1.0} for n in range(40)}
    gold = write_gold(tmp_path / "gold.jsonl", labels)
    for wrong, exit_code in ((4, 0), (5, 2)):
        lists = {f"q{n}": [(f"doc_{n}.md" if n < wrong else f"doc_{n}", 1.0)] for n in range(40)}
        run = write_run(tmp_path / "run.jsonl", lists)
        code, out, _ = karat_command("gate", run, "--gold", gold, "--gate", "recall@5 >= 0.5", "--json")
        assert code == exit_code
        said = json.loads(out)["notes"] + [verdict["reason"] for verdict in json.loads(out)["verdicts"]]
        assert any("--normalize-ids" in text for text in said)


def test_only_chunks_in_another_spelling_leave_documents_valid(tmp_path: Path, karat_command: Call) -> None:
    gold = write_gold(tmp_path / "gold.jsonl", {f"q{n}": {f"doc_{n}#p1": 1.0} for n in range(40)})
    lists = {f"q{n}": [(f"doc_{n}#P1" if n % 2 else f"doc_{n}#p1", 1.0)] for n in range(40)}
    run = write_run(tmp_path / "run.jsonl", lists)
    gates = ("--gate", "recall@5 >= 0.4", "--gate", "recall(level=doc)@5 >= 0.4")
    _, out, _ = karat_command("gate", run, "--gold", gold, *gates, "--json")
    assert [v["outcome"] for v in json.loads(out)["verdicts"]] == ["invalid", "pass"]


NAMES = ("alpha", "beta", "gamma", "delta", "eps")


def test_case_separator_and_extension_together(tmp_path: Path, karat_command: Call) -> None:
    """`DOC-107.md` and `doc_107`: proposed, and treated as the same."""
    gold = write_gold(tmp_path / "gold.jsonl", {f"q{n}": {f"{NAMES[n % 5]}_{n}": 1.0} for n in range(40)})
    lists = {f"q{n}": [(f"{NAMES[n % 5].upper()}-{n}.md", 1.0), (f"OTHER-{n}.md", 0.5)] for n in range(40)}
    run = write_run(tmp_path / "run.jsonl", lists)
    assert doubts(karat_command, run, gold)["doubts"]["near"]["count"] == 40
    assert "--normalize-ids" in karat_command("eval", run, "--gold", gold)[1]
    found = doubts(karat_command, run, gold, "-m", "recall@1", "--normalize-ids")
    assert found["summary"][0]["mean"] == 1.0


def test_an_extension_at_the_end_of_a_chunk_id(tmp_path: Path, karat_command: Call) -> None:
    """`manual-3#s0.md` and `Manual-3#s0`: proposed by `eval` and `gate`, and treated as the same."""
    gold = write_gold(tmp_path / "gold.jsonl", {f"q{n}": {f"Manual-{n}#s0": 1.0} for n in range(40)})
    lists = {f"q{n}": [(f"manual-{n}#s0.md", 1.0), (f"manual-{n}#s1.md", 0.5)] for n in range(40)}
    run = write_run(tmp_path / "run.jsonl", lists)
    assert doubts(karat_command, run, gold)["doubts"]["near"]["count"] == 40
    code, shown, _ = karat_command("gate", run, "--gold", gold, "--gate", "recall@5 >= 0.5")
    assert (code, "--normalize-ids" in shown) == (2, True)
    for passing in (["-m", "recall@1"], ["-m", "recall@1", "--doc-of", "#"]):
        assert doubts(karat_command, run, gold, *passing, "--normalize-ids")["summary"][0]["mean"] == 1.0
    assert karat_command("gate", run, "--gold", gold, "--gate", "recall@5 >= 0.5", "--normalize-ids")[0] == 0
    both = write_gold(tmp_path / "both.jsonl", {"q1": {"Manual-1#s0": 2.0, "manual-1#s0.md": 1.0}})
    assert audit_of(doubts(karat_command, run, both, "--normalize-ids"))["ids_kept_apart"] == 1


def test_separators_that_tell_ids_apart_are_kept(
    tmp_path: Path, karat_command: Call, karat_refuses: Callable[..., KaratError]
) -> None:
    """`a-1` and `a_1` in one gold set are two items."""
    labels = {f"q{n}": {f"{NAMES[n % 5]}_{n}": 1.0} for n in range(40)} | {"other": {"alpha-0": 1.0}}
    gold = write_gold(tmp_path / "gold.jsonl", labels)
    lists = {f"q{n}": [(f"{NAMES[n % 5].upper()}-{n}.md", 1.0)] for n in range(40)}
    run = write_run(tmp_path / "run.jsonl", lists)
    found = doubts(karat_command, run, gold)["doubts"]
    assert (found["near"], found["ids"]["sure"]) == (None, True)
    shown = " ".join(karat_command("eval", run, "--gold", gold)[1].split())
    assert all(text in shown for text in ("'ALPHA-0.md'", "'alpha_0'", "--map chunk_id=FIELD", "--doc-of"))
    both = lists | {"q0": [("ALPHA-0.md", 1.0), ("alpha_0", 0.5)]}  # or in the run
    run = write_run(tmp_path / "run.jsonl", both)
    found = doubts(karat_command, run, write_gold(tmp_path / "gold.jsonl", dict(list(labels.items())[:40])))
    assert found["summary"][0]["mean"] < 1


def test_a_run_in_list_order_with_distances(tmp_path: Path, karat_command: Call) -> None:
    """Hits with `distance` and no score: list order counts. It is right if distances rise in it."""
    gold = write_gold(tmp_path / "gold.jsonl", {f"q{n}": {f"d{n}": 1.0} for n in range(30)})
    near = {f"q{n}": [{"chunk_id": f"d{n + at}", "distance": 0.1 * (at + 1)} for at in range(3)] for n in range(30)}
    rising = lines(tmp_path / "rising.jsonl", [{"query_id": q, "topk": hits} for q, hits in near.items()])
    falling = lines(tmp_path / "falling.jsonl", [{"query_id": q, "topk": hits[::-1]} for q, hits in near.items()])
    gate = ("--gold", gold, "--gate", "recall@1 >= 0.9")
    found = doubts(karat_command, rising, gold)
    assert (found["doubts"]["scores"], audit_of(found)["listed_distances"]) == (None, 30)
    assert karat_command("gate", rising, *gate)[0] == 0
    found = doubts(karat_command, falling, gold)
    assert found["doubts"]["scores"] == {"queries": 30, "of": 30, "field": "distance", "listed": True}
    assert [each["code"] for each in found["findings"]] == ["distances"]
    code, out, _ = karat_command("gate", falling, *gate)
    assert (code, "--map score=distance" in " ".join(out.split())) == (2, True)
    assert karat_command("gate", falling, *gate, "--map", "score=distance", "--scores", "lower-is-better")[0] == 0
    assert karat_command("gate", falling, *gate, "--scores", "as-listed")[0] == 1


def audit_of(found: dict[str, Any]) -> dict[str, int]:
    return {entry["code"]: entry["count"] for entry in found["audit"]}


def test_a_comparison_with_a_run_that_was_down_is_invalid(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    good = write_run(tmp_path / "good.jsonl", adi[0])
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    some = dict(list(adi[0].items())[:5])
    part = write_run(tmp_path / "part.jsonl", some)
    failed = [{"query_id": q, "topk": [], "error": "timeout"} for q in adi[0] if q not in some]
    down = lines(tmp_path / "down.jsonl", [*map(json.loads, Path(part).read_text().splitlines()), *failed])
    asked = ("--gold", gold, "-m", "recall@5,latency_p50")
    for sides, way in (((good, down), "--retry-failed"), ((down, good), "--retry-failed"), ((good, part), "skip")):
        code, out, _ = karat_command("compare", *sides, *asked, "--json")
        [pair] = json.loads(out)["pairs"]
        assert (code, pair["invalid"]) == (2, ["recall@5"])
        assert way in pair["notes"][0]
        assert karat_command("compare", *sides, *asked, "--force")[0] == 0
    assert karat_command("compare", good, part, *asked, "--missing", "skip")[0] == 0
    assert karat_command("compare", part, good, *asked)[0] == 0  # queries that a baseline lacks are left out


def test_items_that_are_not_near_are_left_alone(adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call) -> None:
    """Numbers that end alike are no near misses unless one prefix explains several of them."""
    labels = {"q1": {"1": 1.0}, "q2": {"2": 1.0}}
    run = write_run(tmp_path / "run.jsonl", {"q1": [("a-1", 1.0)], "q2": [("b-2", 1.0)]})
    assert doubts(karat_command, run, write_gold(tmp_path / "gold.jsonl", labels))["doubts"]["near"] is None


@pytest.mark.parametrize(
    ("hits", "gold", "ranks", "apart"),
    [
        (["x.docx", "z", "x.pdf"], ["x.pdf"], [3], 0),  # an equal id counts, not a similar one
        (["x.docx", "x.pdf"], ["x"], [], 1),  # either could be meant
        (["z", "x"], ["x.pdf", "x.docx"], [], 2),
        (["z", "a", "b.md"], ["A", "a", "B"], [2, 3], 1),
        (["A-1", "a_1"], ["a_1.md"], [2], 0),  # found before `-` and `_` are ignored
        (["KB/a.md", "KB/b.md"], ["b", "c"], [2], 0),
        (["Guide.md#P 1", "guide.docx#p1"], ["guide.md#p1"], [1], 0),
        (["x.pdf#1", "x.docx#1", "KB y.md#1"], ["x", "kby"], [3], 1),  # the gold set names documents
    ],
)
def test_different_ids_of_one_file_never_become_one(
    hits: list[str], gold: list[str], ranks: list[int], apart: int
) -> None:
    result = karat.evaluate({"q": hits}, {"q": gold}, ["recall@9", "mrr"], normalize_ids=True)
    assert result.means == pytest.approx({"recall@9": len(ranks) / len(gold), "mrr": 1 / ranks[0] if ranks else 0})
    assert (result.audit["ids_kept_apart"], result.audit["duplicate_hits"]) == (apart, 0)
    documents = {hit.partition("#")[0] for hit in hits}
    assert sum(item in {*hits, *documents} for item in result.gold.ids) == len(ranks)  # as the run spells them


def mixed_case(n: int, top: str = "kb") -> str:
    return f"{top.upper() if n % 3 == 0 else top}/{n % 7}.md"


@pytest.mark.parametrize("gold_id", ["kb/{}.md", "  kb/{}.md ", "Kb/{}.md", "{}.md"])
def test_a_run_that_spells_documents_in_two_ways(tmp_path: Path, karat_command: Call, gold_id: str) -> None:
    """`KB/1.md` in some lists and `kb/1.md` in others are one document, with and without spaces in the gold table."""
    gold = tmp_path / "gold.csv"
    gold.write_text("query_id,chunk_id\n" + "".join(f"q{n},{gold_id.format(n % 7)}\n" for n in range(60)))
    lists = {f"q{n}": [(mixed_case(n), 1.0), (f"kb/other-{n}.md", 0.5)] for n in range(60)}
    run = write_run(tmp_path / "run.jsonl", lists)
    lower = write_run(tmp_path / "lower.jsonl", {q: [(i.lower(), s) for i, s in hits] for q, hits in lists.items()})
    gate = ("--gold", str(gold), "--gate", "recall@5 >= 0.9")
    assert karat_command("gate", run, *gate)[0] == 2
    assert karat_command("gate", run, *gate, "--normalize-ids")[0] == 0
    found = doubts(karat_command, run, str(gold), "-m", "recall@5", "--normalize-ids")
    assert (found["summary"][0]["mean"], found["doubts"]["near"], audit_of(found)["spellings_joined"]) == (1.0, None, 7)
    _, out, _ = karat_command("check", run, str(gold), "--normalize-ids", "--json")
    assert "spellings_joined" in {entry["code"] for entry in json.loads(out)[0]["audit"]}
    _, out, _ = karat_command("compare", run, lower, "--gold", str(gold), "-m", "recall@5", "--normalize-ids", "--json")
    [pair] = json.loads(out)["pairs"]
    assert (pair["invalid"], pair["identical"]) == ([], True)


@pytest.mark.parametrize(
    ("lists", "gold", "recall"),
    [
        ([["KB/a.md"], ["kb/a.md"], ["KB/a.md", "kb/a.md"]], [["kb/a.md"]] * 3, 2 / 3),  # both in one list
        ([["KB/a.md"], ["kb/a.md"]], [["kb/a.md"], ["kb/a.md", "Kb/a.md"]], 0.25),  # two items of the gold set
        ([["KB/a.md#1"], ["kb/a.md#1"], ["KB/a.md#2", "kb/a.md#3"]], [["kb/a.md#1"]] * 2 + [["b"]], 1 / 3),
        ([["x.md"], ["x"]], [["x"]] * 2, 0.5),  # either may be another file
        ([["x.docx"], ["x.html"]], [["x.pdf"]] * 2, 0),  # it is unclear which of them is meant
    ],
)
def test_spellings_that_stay_apart_are_doubted(
    tmp_path: Path, karat_command: Call, lists: list[list[str]], gold: list[list[str]], recall: float
) -> None:
    """The verdict is not a plain failure, and the way out is not an option that is already used."""
    run = {f"q{n}": hits for n, hits in enumerate(lists)}
    labels = {f"q{n}": items for n, items in enumerate(gold)}
    result = karat.evaluate(run, labels, ["recall@5"], normalize_ids=True)
    assert result.means["recall@5"] == pytest.approx(recall)
    near = result.doubts.near
    assert near is not None
    assert (near.normalized, near.share > 0.1, result.audit["near_ids_apart"]) == (True, True, near.count)
    files = [
        write_run(tmp_path / "run.jsonl", {q: [(item, -at) for at, item in enumerate(ids)] for q, ids in run.items()}),
        "--gold",
        write_gold(tmp_path / "gold.jsonl", {q: dict.fromkeys(ids, 1.0) for q, ids in labels.items()}),
    ]
    code, out, _ = karat_command("gate", *files, "--gate", "recall@5 >= 0.9", "--normalize-ids", "--json")
    [verdict] = json.loads(out)["verdicts"]
    assert (code, verdict["outcome"]) == (2, "invalid")
    assert karat_command("compare", files[0], files[0], *files[1:], "-m", "recall@5", "--normalize-ids")[0] == 2


def test_other_files_of_a_document_are_not_doubted() -> None:
    """The run has both `x.pdf` and `x.docx`, so `x.docx` is a wrong hit if the gold set says `x.pdf`."""
    run = {"q0": ["x.docx"], "q1": ["x.pdf"]}
    result = karat.evaluate(run, {"q0": ["x.pdf"], "q1": ["x.pdf"]}, ["recall@5"], normalize_ids=True)
    assert (result.means["recall@5"], result.doubts.near) == (0.5, None)


def test_documents_in_two_spellings_are_one_document() -> None:
    """The gold set names documents; chunks of one document are in lists of different spelling."""
    run = {"q0": ["KB/a.md#1", "kb/c.md#1"], "q1": ["kb/a.md#2"], "q2": ["kb/c.md#2"]}
    result = karat.evaluate(run, {q: ["kb/a.md"] for q in run}, ["recall@5"], normalize_ids=True)
    assert result.means["recall@5"] == pytest.approx(2 / 3)


def test_a_corpus_with_both_spellings_keeps_them_apart(tmp_path: Path) -> None:
    corpus = lines(tmp_path / "corpus.jsonl", [{"id": "KB/a", "text": "x"}, {"id": "kb/a", "text": "y"}])
    run, gold = {"q0": ["KB/a"], "q1": ["kb/a"]}, {"q0": ["kb/a"], "q1": ["kb/a"]}
    assert karat.evaluate(run, gold, ["recall@5"], normalize_ids=True).means["recall@5"] == 1
    assert karat.evaluate(run, gold, ["recall@5"], corpus=corpus, normalize_ids=True).means["recall@5"] == 0.5


def test_the_number_of_near_misses_is_an_estimate_for_the_whole_run(tmp_path: Path, karat_command: Call) -> None:
    """About 300 queries are searched. Count and share are about all queries, as those of `karat check`, which searches
    all of them."""
    queries = 3_000
    gold = write_gold(tmp_path / "gold.jsonl", {f"q{n}": {f"kb/{n}": 1.0} for n in range(queries)})
    run = write_run(
        tmp_path / "run.jsonl", {f"q{n}": [(f"{'KB' if n % 5 == 0 else 'kb'}/{n}", 1.0)] for n in range(queries)}
    )
    found = doubts(karat_command, run, gold, "-m", "recall@5")
    near = found["doubts"]["near"]
    assert near["count"] == pytest.approx(queries / 5, rel=0.4)
    assert near["count"] == pytest.approx(near["share"] * queries)
    assert 200 < near["searched"] < 400
    assert audit_of(found)["near_ids"] == near["count"]
    assert audit_of(found)["near_ids_searched"] == near["searched"]
    _, out, _ = karat_command("check", run, gold, "--json")
    checked = {entry["code"]: entry["count"] for entry in json.loads(out)[0]["audit"]}
    assert (checked["near_ids"], "near_ids_searched" in checked) == (queries / 5, False)


def test_corpora_and_other_lists_are_found_under_the_ids_of_the_run(tmp_path: Path) -> None:
    corpus = lines(tmp_path / "corpus.jsonl", [{"id": "a.md", "text": "x"}, {"id": "A.docx", "text": "y"}])
    run, raw = {"q": ["KB/A.md", "KB/c.md"]}, {"q": ["c", "a", "d"]}
    gold = {"q": {"a.md": 1, "D": 1}}
    result = karat.evaluate(run, gold, ["recall@9"], raw=raw, corpus=corpus, normalize_ids=True, analyses=True)
    assert result.means["recall@9"] == 0.5
    assert result.measure(["recall@9"], View(lists="raw")).means["recall@9"] == 1
    assert result.corpus is not None
    assert result.corpus.ids == ["KB/A.md", "A.docx"]


@pytest.mark.parametrize(
    ("item", "normal"),
    [
        ("Doc.PDF", "doc"),
        ("doc.v2", "doc.v2"),
        (".md", ".md"),
        ("a b\u200b", "ab"),
        ("ﬁle#P1", "file#p1"),
        (" ", " "),
        ("a#s0.5", "a#s0.5"),
    ],
)
def test_normal_form(item: str, normal: str) -> None:
    assert normal_id(item, DocRule()) == normal


# Distances


@pytest.mark.parametrize("name", ["adi", "cranfield", "mtrag_un"])
def test_distances_are_told_and_turned(shared_data: Path, name: str, tmp_path: Path, karat_command: Call) -> None:
    lists, labels = lists_of(shared_data / name), labels_of(shared_data / name)
    gold, right = write_gold(tmp_path / "gold.jsonl", labels), write_run(tmp_path / "right.jsonl", lists)
    far = {query: [(item, 1000 - score) for item, score in hits] for query, hits in lists.items()}
    run = write_run(tmp_path / "run.jsonl", far)
    several = [q for q, hits in far.items() if q in labels and len({s for _, s in hits}) > 1]
    found = doubts(karat_command, run, gold)
    assert found["doubts"]["scores"] == {"queries": len(several), "of": len(several), "field": None, "listed": False}
    assert [each["code"] for each in found["findings"]] == ["distances"]
    assert found["bands"] == []
    truth = doubts(karat_command, right, gold, "-m", "recall@5,mrr")
    for option in ("lower-is-better", "higher-is-better"):
        said = doubts(karat_command, run, gold, "-m", "recall@5,mrr", "--scores", option)
        assert said["doubts"]["scores"] is None
        assert (said["scores"] == truth["scores"]) == (option == "lower-is-better")
    logged = write_run(tmp_path / "logged.jsonl", far, score_order="lower-is-better")
    assert doubts(karat_command, logged, gold, "-m", "recall@5,mrr")["scores"] == truth["scores"]
    assert doubts(karat_command, logged, gold)["doubts"]["scores"] is None
    gate = ("--gold", gold, "--gate", "recall@5 >= 0.05")
    assert karat_command("gate", run, *gate)[0] == 2
    assert karat_command("gate", run, *gate, "--scores", "lower-is-better")[0] == 0
    assert karat_command("gate", logged, *gate)[0] == 0


def test_falling_scores_ranks_and_short_lists_are_no_distances(
    adi: tuple[Lists, Labels], shared_data: Path, tmp_path: Path, karat_command: Call
) -> None:
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    shuffled = {q: random.Random(q).sample(hits, len(hits)) for q, hits in adi[0].items()}
    pairs = {q: sorted(hits[:2], key=lambda hit: hit[1]) for q, hits in list(adi[0].items())[:3]}
    for lists in (adi[0], shuffled, pairs):
        run = write_run(tmp_path / "run.jsonl", lists)
        assert doubts(karat_command, run, gold, "-m", "mrr")["doubts"]["scores"] is None
    far = {q: [(item, -score) for item, score in hits] for q, hits in adi[0].items()}
    ranked = [
        {"query_id": q, "topk": [{"chunk_id": i, "score": s, "rank": n} for n, (i, s) in enumerate(hits, 1)]}
        for q, hits in far.items()
    ]
    assert doubts(karat_command, lines(tmp_path / "r.jsonl", ranked), gold, "-m", "mrr")["doubts"]["scores"] is None
    official = shared_data / "trec_covid_r1"
    for trec in sorted((official / "runs").iterdir()):
        found = doubts(karat_command, str(trec), str(official / "qrels-rnd1.txt"), "-m", "map")
        assert found["doubts"] == {"ids": None, "near": None, "scores": None, "order": None}


def test_distances_in_a_compressed_run_show_the_nearest_hits(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    """Lists of a run that cannot be read again are kept during the pass: the first of them are the nearest."""
    far = {q: [(f"x{n}", 500.0 - n) for n in range(200)] + [(adi[0][q][0][0], 1.0)] for q in adi[0]}
    plain = write_run(tmp_path / "run.jsonl", far)
    packed = tmp_path / "run.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(plain).read_bytes()))
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    found = [
        json.loads(
            karat_command("eval", "triage", str(run), "--gold", gold, "--scores", "lower-is-better", "--json")[1]
        )
        for run in (plain, packed)
    ]
    shown = [{case["query_id"]: case["hits"] for case in one["cases"]} for one in found]
    assert shown[0] == shown[1]
    assert all(hits[0]["id"] == adi[0][q][0][0] for q, hits in shown[0].items())


def test_scores_that_mean_two_things_are_refused(tmp_path: Path, karat_refuses: Callable[..., KaratError]) -> None:
    hits = [{"chunk_id": "a", "score": 1.0}]
    records = [{"query_id": "q1", "topk": hits, "score_order": "lower-is-better"}, {"query_id": "q2", "topk": hits}]
    run = lines(tmp_path / "run.jsonl", records)
    gold = write_gold(tmp_path / "gold.jsonl", {"q1": {"a": 1.0}, "q2": {"a": 1.0}})
    error = karat_refuses("eval", run, "--gold", gold)
    assert (error.code, error.line, error.field) == ("contradiction", 2, "score_order")


def test_triage_begins_with_what_is_wrong_with_the_run(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    good = write_run(tmp_path / "good.jsonl", adi[0])
    named = write_run(tmp_path / "named.jsonl", adi[0], "item-{}.md".format)
    down = lines(tmp_path / "down.jsonl", [{"query_id": q, "topk": [], "error": "timeout"} for q in adi[0]])
    far = {q: [(item, -score) for item, score in hits] for q, hits in adi[0].items()}
    distances = write_run(tmp_path / "distances.jsonl", far)
    for run, code in ((named, "unmatched_ids"), (down, "lost_queries"), (distances, "distances")):
        asked = ("eval", "triage", run, "--gold", gold)
        found, *_ = json.loads(karat_command(*asked, "--json")[1])["warnings"]
        assert found["code"] == code
        page = tmp_path / f"{code}.html"
        for more in ((), ("--explain",), ("-n", "1"), ("-o", str(page))):
            text = " ".join(karat_command(*asked, *more)[1].split())
            assert text.index(found["evidence"]) < text.index("Where it fails")
        assert "Read this first" in page.read_text()
    assert "Read this first" not in karat_command("eval", "triage", good, "--gold", gold)[1]


def test_a_comparison_that_left_all_scores_out_says_nothing_about_them(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    """The same latency on every query does not mean that both score the same."""
    good = write_run(tmp_path / "good.jsonl", adi[0])
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    records = list(map(json.loads, Path(good).read_text().splitlines()))
    failed = [{**record, "topk": [], "error": "timeout"} for record in records[5:]]
    down = lines(tmp_path / "down.jsonl", [*records[:5], *failed])
    page = tmp_path / "page.html"
    for metrics in ("recall@5,latency_p50", "recall@5"):
        code, out, _ = karat_command("compare", good, down, "--gold", gold, "-m", metrics, "-o", str(page))
        assert code == 2
        assert "not compared: recall@5." in out
        for shown in (out, page.read_text()):
            assert "score the same" not in shown
    assert "reading" not in out
    found = karat.compare(good, down, gold, ["recall@5"])
    with pytest.raises(KaratError) as caught:
        found["recall@5"]
    assert caught.value.code == "not-compared"
    assert "failed" in str(caught.value.hint)


def test_a_table_of_systems_leaves_out_a_run_that_was_down(
    adi: tuple[Lists, Labels], tmp_path: Path, karat_command: Call
) -> None:
    good = write_run(tmp_path / "good.jsonl", adi[0], system="good")
    turned = {query: hits[::-1] for query, hits in adi[0].items()}
    other = write_run(tmp_path / "other.jsonl", turned, system="other", score_order="lower-is-better")
    gold = write_gold(tmp_path / "gold.jsonl", adi[1])
    failed = [{"query_id": q, "system": "down", "topk": [], "error": "timeout"} for q in list(adi[0])[5:]]
    some = [{"query_id": q, "system": "down", "topk": [i for i, _ in adi[0][q]]} for q in list(adi[0])[:5]]
    down = lines(tmp_path / "down.jsonl", [*some, *failed])
    _, out, _ = karat_command("eval", good, other, down, "--gold", gold, "--json")
    found = json.loads(out)
    assert found["tests"] == 1
    assert [row["value"] for row in found["systems"][2]["metrics"]] == [None] * len(found["metrics"])
    assert found["notes"][0].startswith("down: ")
    _, out, _ = karat_command("eval", good, other, down, "--gold", gold)
    assert "over 1 comparison per metric" in " ".join(out.split())
