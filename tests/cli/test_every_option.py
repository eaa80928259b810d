"""A command offers only what it uses: each of its options changes what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from karat.cli.main import every_command
from karat.cli.options import ListedOption

Call = Callable[..., tuple[int, str, str]]

METRICS = [
    *("-m", "recall", "-m", "ndcg@10", "-m", "evidence_recall@5", "-m", "cost", "-m", "false_evidence@5"),
    *("-m", "latency_p50"),
]
GATES = ["--gate", "recall drop <= 0.1", "--gate", "evidence_recall@5 >= 0.5", "--gate", "cost <= 0.6"]
GATES += ["--gate", "false_evidence@5 <= 0.2", "--gate", "hit@1 >= 0.36 on bound"]
BASE: dict[str, list[str]] = {
    "eval": ["eval", "run.jsonl", "--gold", "gold.jsonl", "--prices", "prices.yaml", "--json"],
    "compare": [
        "compare",
        "old.jsonl",
        "run.jsonl",
        "--gold",
        "gold.jsonl",
        "--prices",
        "prices.yaml",
        *METRICS,
        "--json",
    ],
    "gate": [
        *("gate", "run.jsonl", "--gold", "gold.jsonl", "--baseline", "old.jsonl", "--prices", "prices.yaml", *GATES),
        *("--json", "-o", "page.html"),
    ],
    "selftest": [
        *(
            "gate",
            "selftest",
            "run.jsonl",
            "--gold",
            "gold.jsonl",
            "--baseline",
            "old.jsonl",
            "--prices",
            "prices.yaml",
        ),
        *(*GATES, "--rounds", "40", "--json"),
    ],
    "power": ["eval", "power", "run.jsonl", "--gold", "gold.jsonl", *METRICS, "--json"],
    "sweep": ["eval", "sweep", "run.jsonl", "--gold", "gold.jsonl", "--json"],
    "triage": ["eval", "triage", "run.jsonl", "--gold", "gold.jsonl", "--json"],
    "stress": [
        "stress",
        "run.jsonl",
        "--gold",
        "gold.jsonl",
        "--negatives",
        "negatives.jsonl",
        "--sample",
        "30",
        "--json",
    ],
    "baseline": [
        *("baseline", "--corpus", "corpus.jsonl", "--queries", "gold.jsonl", "--run", "run.jsonl"),
        *("--retriever", "random", "--retriever", "bm25", "--json"),
    ],
    "calibrate": [
        *("labels", "calibrate", "--labels", "judge.jsonl", "--human", "human.jsonl", "--gold", "gold.jsonl"),
        *("--run", "run.jsonl", "--json"),
    ],
    "agree": ["labels", "agree", "human.jsonl", "other.jsonl", "--json"],
    "merge": ["labels", "merge", "human.jsonl", "--gold", "gold.jsonl", "-o", "merged.jsonl", "--json"],
    "clicks": ["labels", "clicks", "log.jsonl", "--gold", "gold.jsonl", "-o", "clicks.jsonl", "--json"],
    "pool": ["labels", "pool", "run.jsonl", "--gold", "gold.jsonl", "--depth", "2", "-o", "pooled.jsonl", "--json"],
}
# What an option is given, and what must be said besides for it to matter.
GIVEN: dict[str, tuple[list[str], list[str]]] = {
    "segments": (["--segment", "language"], []),
    "k": (["--k", "3"], []),
    "missing": (["--missing", "skip"], []),
    "min_score": (["--min-score", "0.55"], []),
    "like": (["--like", "ragas"], []),
    "score_width": (["--score-width", "64"], []),
    "ties": (["--ties", "listed"], []),
    "scores": (["--scores", "lower-is-better"], []),
    "normalize_ids": (["--normalize-ids"], ["--gold", "shouted.jsonl"]),
    "no_relevant": (["--no-relevant", "zero"], []),
    "doc_of": (["--doc-of", "/"], []),
    "no_future": (["--no-future"], []),
    "forbid": (["--forbid", "source = faq"], []),
    "top_k": (["--top-k", "1"], []),
    "prices": (["--prices", "other.yaml"], []),
    "no_answer": (["--no-answer", "type=Null"], []),
    "fuzzy_threshold": (["--fuzzy-threshold", "0.95"], []),
    "corpus": (["--corpus", "corpus.jsonl"], ["--no-future"]),
    "corpus_size": (["--corpus-size", "50"], []),
    "bounds": (["--bounds"], []),
    "labels": (["--labels", "judge.jsonl"], []),
    "gold_labels": (["--gold-labels", "people.jsonl"], []),
    "calibration": (["--calibration", "human.jsonl"], ["--labels", "judge.jsonl"]),
    "borrow": (
        ["--borrow-error-rates"],
        ["--labels", "elsewhere.jsonl", "--calibration", "not_found.jsonl"],
    ),
    "pool": (["--pool", "pool.jsonl"], ["--bounds"]),
    "max_grade": (["--max-grade", "1"], []),
    "gold_scale": (["--gold-scale", "4"], ["--labels", "judge.jsonl"]),
    "bm25": (["--bm25", "old.jsonl"], []),
    "raw": (["--raw", "old.jsonl"], []),
    "rerank_depth": (["--rerank-depth", "1"], []),
    "original": (["--original", "old.jsonl"], []),
    "routes": (["--route", "faq=old.jsonl"], []),
    "quality": (["--quality", "quality.jsonl"], []),
    "context": (["--context", "1000tok"], []),
    "target_false_evidence": (["--target-false-evidence", "0.5"], []),
    "method": (["--interval", "strict"], []),
    "level": (["--confidence", "0.5"], []),
    "resamples": (["--resamples", "150"], []),
    "seed": (["--seed", "7"], []),
    "cluster": (["--cluster", "topic"], []),
    "columns": (["--map", "query_id=nowhere"], []),
    "run_format": (["--run-format", "trec-run"], []),
    "gold_format": (["--gold-format", "beir"], []),
    "target": (["--target", "second"], ["--gold", "target.jsonl"]),
    "split": (["--split", "dev"], ["--gold", "beir"]),
    "system": (["--system", "nobody"], []),
    "hits": (["--hits", "raw"], []),
    "query_from": (["--query-from", "root"], []),
    "engine": (["--engine", "nowhere"], []),
    "spark_master": (["--spark-master", "local[1]"], []),
    "run_columns": (["--run-columns", "columns.yaml"], []),
    "depth": (["--depth", "2"], ["--gold", "run:old.jsonl"]),
    "reference": (["--reference", "old.jsonl"], []),
}
BESIDES = {(command, "max_grade"): ["--labels", "judge.jsonl"] for command in ("eval", "compare")}
BESIDES |= {("pool", option): ["--labelled", "judge.jsonl"] for option in ("max_grade", "gold_scale")}
BY_JUDGE = ["--gate", "precision@5 >= 0.1 by judge", "--gate", "ndcg@10 >= 0.1"]
BESIDES["gate", "labels"] = BY_JUDGE
BESIDES["gate", "calibration"] = BESIDES["gate", "gold_scale"] = [*BY_JUDGE, "--labels", "judge.jsonl"]
BESIDES["compare", "forbid"], BESIDES["selftest", "forbid"] = ["-m", "forbidden@5"], ["--gate", "forbidden@5 <= 0.5"]
BESIDES["gate", "max_grade"] = ["--labels", "judge.jsonl"]
BESIDES["merge", "gold_scale"], BESIDES["merge", "doc_of"] = [], ["chunk.jsonl"]
BESIDES["merge", "target"] = ["--gold", "target.jsonl", "second.jsonl"]
BESIDES["eval", "corpus_size"] = ["--gold", "target.jsonl", "--target", "gold_chunk_id"]  # a document has no floor
BESIDES["compare", "reference"] = ["-m", "rbo@5"]
BESIDES["gate", "reference"] = ["--gold", "run:run.jsonl", "--gate", "rbo@5 >= 0.1"]
BESIDES["selftest", "reference"] = BESIDES["gate", "reference"]
SETTINGS = {"settings", "statistics", "seconds"}  # what was asked for, and not what came of it


def offered() -> Iterator[tuple[str, str]]:
    """Every option of the lists that a command has."""
    commands = {name.split()[-1]: command for name, command in every_command().items()}
    for name in BASE:
        yield from ((name, option.name or "") for option in commands[name].params if isinstance(option, ListedOption))


def lines(name: str, *records: Any) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and a gold set in which every option matters."""
    folder = tmp_path_factory.mktemp("options")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _write()
    return folder


COUNT = 60
QUERIES = range(COUNT + 3)
TEXT = "refunds are paid within five days of the request"
CLOSE = "refunds are paid within nine days of a request"


def _gold(i: int) -> dict[str, Any]:
    tags = {"language": "en" if i % 2 else "de", "topic": str(i // 3), "type": "Null" if i >= COUNT else "fact"}
    entry = {"query_id": f"q{i}", "query": f"refund number {i}", "tags": tags, "as_of": "2025-06-01"}
    if i >= COUNT:  # without an answer: one that says so, one that does not, one that the run lacks
        return {**entry, **({"no_answer": True} if i == COUNT else {"gold": {"z": 0}})}
    return {**entry, "gold": {f"d{i}": 2, "b#1": 1, "c#1": 1}, "evidence": [TEXT], "source": "faq"}


def _hit(name: str, score: float, **more: Any) -> dict[str, Any]:
    return {"chunk_id": name, "score": round(score, 3), **more}


def _list(i: int, shift: int) -> list[dict[str, Any]]:
    ids = [f"d{i}#1", "b#1", "x#1", "c#1", "y#1", "v#1"]
    turn = (i * 5 + shift) % 6
    ids = ids[turn:] + ids[:turn]
    more = {name: {"doc_version": "2025-01-01"} for name in ids}
    more |= {"b#1": {"doc_version": "2026-01-01"}, "c#1": {}, "x#1": {**more["x#1"], "text": CLOSE}}
    hits = [_hit(name, 0.95 - 0.1 * j - 0.001 * i, **more[name]) for j, name in enumerate(ids)]
    for first, second in pairwise(hits[1:]):
        if (first["chunk_id"], second["chunk_id"]) == ("b#1", "x#1"):  # equal in 32 bits, where the id puts x first
            second["score"] = first["score"] - 1e-10
    return hits


def _line(i: int, shift: int, system: str) -> dict[str, Any]:
    timed = {"latency_ms": {"total": 10.0 + i, "rerank": 3.0}, "usage": [{"model": "m", "calls": 1 + i % 3}]}
    raw = _list(i, shift + 3)
    return {
        "query_id": f"q{i}",
        "system": system,
        "topk": _list(i, shift),
        "raw": raw,
        "topk_original": raw[:3],
        "route": ["faq"] if i % 4 else ["web"],
        **timed,
    }


def _write() -> None:
    lines("gold.jsonl", *map(_gold, QUERIES))
    others = (
        {**one, "gold": {item.upper(): g for item, g in one.get("gold", {}).items()}} for one in map(_gold, QUERIES)
    )
    lines("shouted.jsonl", *others)
    lines("run.jsonl", *(_line(i, 0, "new") for i in QUERIES if i not in (4, COUNT + 2)))
    lines("traces.jsonl", *(span for i in QUERIES for span in _trace(i)))
    lines("old.jsonl", *(_line(i, 2, "old") for i in QUERIES if i != COUNT + 2))
    asked = [{"query_id": f"q{i}", "query": f"refund number {i}"} for i in range(COUNT)]
    lines("target.jsonl", *({**one, "gold_chunk_id": "b#1", "second": "w#1"} for one in asked))
    lines("negatives.jsonl", *({"query_id": one["query_id"], "negatives": ["n#1", "n#2", "n#3"]} for one in asked))
    queries = [{"_id": one["query_id"], "text": one["query"]} for one in asked]
    lines("beir/queries.jsonl", *queries)
    for split, name in (("test", "b#1"), ("dev", "c#1")):
        Path("beir/qrels").mkdir(exist_ok=True)
        rows = "".join(f"q{i}\t{name}\t1\n" for i in range(COUNT))
        Path(f"beir/qrels/{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    words = {"b#1": "refund of an order", "c#1": TEXT, "x#1": CLOSE, "y#1": "opening hours", "v#1": TEXT, "n#1": "no"}
    words |= {"n#2": "nothing", "n#3": "none", **{f"d{i}#1": f"refund number {i}" for i in range(COUNT)}}
    lines(
        "corpus.jsonl", *({"chunk_id": name, "text": text, "doc_version": "2026-01-01"} for name, text in words.items())
    )
    for name, price in (("prices", 0.25), ("other", 0.5)):
        Path(f"{name}.yaml").write_text(f"currency: USD\nmodels: {{m: {{per_call: {price}}}}}\n")
    Path("columns.yaml").write_text("query_id: request_id\n")
    pairs = [(f"q{i}", name) for i in range(10) for name in ("x#1", "y#1", "v#1")]
    label = [{"query_id": q, "chunk_id": c, "annotator": "judge", "kind": "judge"} for q, c in pairs]
    lines("judge.jsonl", *({**one, "grade": j % 3} for j, one in enumerate(label)))
    human = [{**one, "annotator": "ann", "kind": "human"} for one in label]
    lines("human.jsonl", *({**one, "grade": (j + j % 2) % 3} for j, one in enumerate(human[:20])))
    lines("other.jsonl", *({**one, "annotator": "ben", "grade": (j + j % 5) % 3} for j, one in enumerate(human[:20])))
    said = {"annotator": "judge", "kind": "judge"}
    by_document = [{"query_id": q, "doc_id": c[0], "grade": j % 3, **said} for j, (q, c) in enumerate(pairs)]
    found_by_none = [{"query_id": q, "doc_id": c, "grade": j % 2, **said} for j, (q, c) in enumerate(pairs)]
    lines("elsewhere.jsonl", *by_document, *found_by_none)
    lines("not_found.jsonl", *({**one, "annotator": "ann", "kind": "human"} for one in found_by_none))
    turns = [["b#1", "x#1", "c#1"], ["x#1", "b#1", "c#1"]]
    clicks = ({"query_id": f"q{i % 5}", "shown": turns[i % 2], "clicked": turns[i % 2][:1]} for i in range(60))
    lines("log.jsonl", *clicks)
    lines("chunk.jsonl", {"query_id": "q1", "chunk_id": "d1#2", "annotator": "ann", "grade": 1})
    lines("second.jsonl", {"query_id": "q1", "chunk_id": "w#1", "annotator": "ann", "grade": 0})
    lines("quality.jsonl", *({"query_id": f"q{i}", "thumb": i % 3 > 0} for i in range(COUNT)))
    lines("people.jsonl", *({**one, "grade": 2} for one in human))
    lines("pool.jsonl", *({"query_id": q, "chunk_id": "w#1", "query": "refund?", "text": "w"} for q, _ in pairs[::3]))


def _trace(i: int) -> list[dict[str, Any]]:
    """Spans in which the question of the root is not that of the retriever."""
    documents = [{"id": one["chunk_id"], "metadata": {"score": one["score"]}} for one in _list(i, 0)]
    root = {"id": f"r{i}", "trace_id": f"t{i}", "run_type": "chain", "inputs": {"question": f"refund number {i + 1}"}}
    found = {"run_type": "retriever", "inputs": f"refund number {i}", "outputs": {"documents": documents}}
    times = {"start_time": f"2026-01-01T00:00:{i % 60:02}", "end_time": f"2026-01-01T00:01:{i % 60:02}"}
    return [{**root, **times}, {"id": f"s{i}", "trace_id": f"t{i}", "parent_run_id": f"r{i}", **found, **times}]


def _told(text: str) -> Any:
    """What a command says, without what it was asked."""
    try:
        return _without(json.loads(text))
    except ValueError:
        return text


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(inner) for name, inner in value.items() if name not in SETTINGS}
    return [_without(inner) for inner in value] if isinstance(value, list) else value


Said = tuple[int, Any, str, str]  # exit code, output, error, page


@pytest.fixture
def say(files: Path, karat_command: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    monkeypatch.chdir(files)
    monkeypatch.setattr("karat.cli.scoring.command_line", lambda: "karat")

    def call(*arguments: str) -> Said:
        if arguments not in _SAID:
            Path("page.html").unlink(missing_ok=True)
            code, out, err = karat_command(*arguments)
            page = Path("page.html").read_text() if Path("page.html").exists() else ""
            _SAID[arguments] = code, _told(out), err.partition("rror: ")[2], page
        return _SAID[arguments]

    return call


_SAID: dict[tuple[str, ...], Said] = {}


OFFERED = list(offered())
# Rough intervals change as well as exact ones.
FEW = {command: ["--resamples", "200"] for command, option in OFFERED if option == "resamples"}


@pytest.mark.parametrize(("command", "option"), OFFERED)
def test_each_option_of_a_command_changes_what_it_says(say: Callable[..., Said], command: str, option: str) -> None:
    given, besides = GIVEN[option]
    besides = BESIDES.get((command, option), besides)
    asked = [*BASE[command], *FEW.get(command, []), *besides]
    if option == "query_from":
        asked = ["traces.jsonl" if word == "run.jsonl" else word for word in asked]
    before = say(*asked)
    assert not before[2]
    after = say(*asked, *given)
    assert "o such option" not in after[2]
    assert after != before


def test_every_command_with_listed_options_is_looked_at() -> None:
    """`judge` and `synthesize` hand theirs to `Judging` and `Synthesizing`, `tune` has
    tests of its own; the others have a few for reading."""
    elsewhere = {"judge", "synthesize", "label", "serve", "run", "check", "convert", "init", "tune"}
    options = {name.split()[-1]: command.params for name, command in every_command().items()}
    listed = {name for name, params in options.items() if any(isinstance(each, ListedOption) for each in params)}
    assert listed == {*BASE, *elsewhere}
