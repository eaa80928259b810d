"""`karat convert`: what is written reads back as the same, and nothing is lost without a word."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from files_of_tools import KEPT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.errors import KaratError
from karat.formats.convert import TARGETS, convert
from karat.formats.gold_writer import gold_entry
from karat.formats.run_writer import run_records

Command = Callable[..., tuple[int, str, str]]
NAMES = {"promptfoo": "out.yaml", "beir": "out", "parquet": "out.parquet"}
GOLD = (
    '{"dataset": {"version": "7"}}\n'
    '{"query_id": "q1", "query": "how to clean", "gold": [{"chunk_id": "a#1", "grade": 2}, {"doc_id": "b", "grade": 1}]'
    ', "tags": {"lang": "en"}, "evidence": ["Rinse it"], "answer": "Rinse"}\n'
    '{"query_id": "q2", "query": "cost", "gold": ["c#1"], "negatives": ["d"]}\n'
    '{"query_id": "q3", "query": "none", "no_answer": true}\n'
)
HITS = '[{"chunk_id": "a#1", "score": 2.5, "text": "Rinse it"}, {"chunk_id": "b#2", "score": 1.5, "text": "B"}]'
RUN = (
    f'{{"query_id": "q1", "query": "how to clean", "system": "s", "topk": {HITS},'
    ' "latency_ms": {"search": 2.0, "total": 3.5}, "TOP_K": 5}\n'
    '{"query_id": "q2", "system": "s", "topk": [{"chunk_id": "c#1", "score": 0.5, "text": "C"}],'
    ' "raw": ["c#1", "z#1"], "route": "web", "TOP_K": 5}\n'
)

ids = st.text("abcXYZ019é_-.", min_size=1, max_size=6)
words = st.text("abc defé'\"|,;\n=-é[]{}", min_size=1, max_size=20).map(lambda text: f"w{text.strip()}x")


@st.composite
def golds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Gold sets with all that every format holds: grades, texts of queries and, sometimes, more."""
    names = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    rich = draw(st.booleans())
    made: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        items = draw(st.dictionaries(ids, st.integers(0, 3), min_size=1, max_size=4))
        entry: dict[str, Any] = {"query_id": name, "query": f"{draw(words)} {at}", "gold": items}
        if rich:
            entry |= {"tags": {"language": draw(st.sampled_from(["en", "de"]))}, "answer": draw(words)}
            entry |= {"evidence": [draw(words)], "k": draw(st.integers(1, 9))}
        made.append(entry)
    return made


@st.composite
def runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    scored, texts = draw(st.booleans()), draw(st.booleans())
    made = []
    for name in names:
        found = draw(st.lists(ids, min_size=1, max_size=5, unique=True))
        scores = draw(st.lists(st.floats(-9, 9, width=32), min_size=len(found), max_size=len(found), unique=True))
        hits = [{"chunk_id": i, **({"score": s} if scored else {})} for i, s in zip(found, scores, strict=True)]
        hits = [{**hit, **({"text": f"text of {hit['chunk_id']}"} if texts else {})} for hit in hits]
        made.append({"query_id": name, "query": f"{name}?", "system": "s", "topk": hits})
    return made


def entries(path: Any) -> list[dict[str, Any]]:
    """A gold set in one form: items by id, and tags and fields side by side."""
    gold = karat.read_gold(path)
    made = []
    for at in range(len(gold.queries)):
        entry = gold_entry(gold, at, {})
        items = {str(next(i[n] for n in ("chunk_id", "id", "doc_id") if n in i)): i["grade"] for i in entry["gold"]}
        made.append({**entry, **entry.pop("tags", {}), "tags": {}, "gold": items})
    return made


def written(folder: Path, name: str, content: list[dict[str, Any]]) -> str:
    path = folder / name
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in content))
    return str(path)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(golds())
def test_a_gold_set_reads_back_from_every_format(
    tmp_path_factory: pytest.TempPathFactory, gold: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("gold")
    path = written(folder, "gold.jsonl", gold)
    before = entries(path)
    for name in (each for each, kinds in TARGETS.items() if "gold" in kinds):
        made = folder / name / NAMES.get(name, "out.jsonl")
        made.parent.mkdir()
        converted = convert(
            path, str(made), to=name, kind="gold", lossy=True, index="docs" if name == "rank-eval" else None
        )
        back = folder / f"{name}.jsonl"
        convert(str(made), str(back), kind="gold", lossy=True)
        after = entries(back)
        if not converted.lost:
            assert after == before, name
        if "grades" not in converted.lost and "query ids" not in converted.lost:
            assert [(e["query_id"], e["gold"]) for e in after] == [(e["query_id"], e["gold"]) for e in before], name
        assert name in ("trec-qrels", "ragas", "rank-eval", "quepid") or not converted.lost


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs())
def test_a_run_keeps_its_rankings_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, run: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    path = written(folder, "run.jsonl", run)
    before = list(run_records(karat.read_run(path)))
    ranked = {r["query_id"]: order(r) for r in before}
    for name in (each for each, kinds in TARGETS.items() if "run" in kinds):
        made = folder / name / NAMES.get(name, "out.jsonl")
        made.parent.mkdir()
        if name == "deepeval" and "text" not in before[0]["topk"][0]:
            with refused("missing-text"):
                convert(path, str(made), to=name, kind="run", lossy=True)
            continue
        converted = convert(path, str(made), to=name, kind="run", lossy=True)
        after = list(run_records(karat.read_run(made)))
        assert {r["query_id"]: order(r) for r in after} == ranked, name
        if not converted.lost:
            assert after == before, name
        assert name != "run-log" or not converted.lost


def order(record: dict[str, Any]) -> list[str]:
    hits = record["topk"]
    key = "rank" if "rank" in hits[0] else "score"
    if key in hits[0]:
        hits = sorted(hits, key=lambda hit: hit[key] if key == "rank" else -hit[key])
    return [hit["chunk_id"] for hit in hits]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gold.jsonl").write_text(GOLD)
    (tmp_path / "run.jsonl").write_text(RUN)
    return tmp_path


def test_a_run_log_and_a_gold_set_are_kept_whole(files: Path, karat_command: Command) -> None:
    for name in ("run.jsonl", "gold.jsonl"):
        code, out, err = karat_command("convert", name, "-")
        assert code == 0, err
        (files / "again.jsonl").write_text(out)
        code, again, _ = karat_command("convert", "again.jsonl", "-")
        assert (again, code) == (out, 0)
    assert karat.read_gold("gold.jsonl").dataset.version == karat.read_gold("again.jsonl").dataset.version == "7"
    record = json.loads(karat_command("convert", "run.jsonl", "-")[1].splitlines()[1])
    assert (record["route"], record["TOP_K"], [hit["chunk_id"] for hit in record["raw"]]) == ("web", 5, ["c#1", "z#1"])


def test_what_would_be_lost_is_named_and_nothing_is_written(
    files: Path, karat_refuses: Any, karat_command: Command
) -> None:
    error = karat_refuses("convert", "gold.jsonl", "gold.qrels")
    assert (error.code, "--lossy" in str(error.hint)) == ("lossy", True)
    assert not (files / "gold.qrels").exists()
    code, out, _ = karat_command("convert", "gold.jsonl", "gold.qrels", "--lossy", "--json")
    summary = json.loads(out)
    assert {"tags", "answers", "queries without an answer", "hard negatives"} <= set(summary["lost"])
    assert (code, summary["format"], summary["queries"], summary["items"]) == (0, "trec-qrels", 3, 3)
    assert (files / "gold.qrels").read_text() == "q1 0 a#1 2\nq1 0 b 1\nq2 0 c#1 1\n"
    (files / "run.trec").write_text("old\n")
    assert karat_refuses("convert", "run.jsonl", "run.trec").code == "lossy"
    assert (files / "run.trec").read_text() == "old\n"


def test_samples_have_both_sides(files: Path, karat_command: Command) -> None:
    code, _, err = karat_command("convert", "run.jsonl", "s.jsonl", "--to", "ragas", "--gold", "gold.jsonl", "--lossy")
    assert code == 0, err
    assert "does not have: 1" in err  # q3
    mine = karat.evaluate("run.jsonl", "gold.jsonl", ["mrr"]).score("mrr")
    theirs = karat.evaluate("s.jsonl", "s.jsonl", ["mrr"]).score("mrr")
    assert {q: theirs[q] for q in mine if mine[q] is not None} == {q: v for q, v in mine.items() if v is not None}
    code, _, err = karat_command("convert", "s.jsonl", "cases.json", "--to", "deepeval", "--lossy")
    assert code == 0, err
    cases = json.loads((files / "cases.json").read_text())
    assert (cases[0]["retrieval_context"], cases[0]["context"]) == (["Rinse it", "B"], ["Rinse it"])


def test_texts_come_from_a_corpus(files: Path, karat_command: Command) -> None:
    (files / "bare.jsonl").write_text('{"query_id": "q", "topk": ["a", "b"]}\n')
    (files / "corpus.jsonl").write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n')
    options = ("--to", "deepeval", "--corpus", "corpus.jsonl")
    assert karat_command("convert", "bare.jsonl", "cases.json", *options)[0] == 0
    assert json.loads((files / "cases.json").read_text())[0]["retrieval_context"] == ["one", "two"]
    (files / "small.jsonl").write_text('{"query_id": "q", "query": "who", "gold": {"a": 1}}\n')
    assert karat_command("convert", "small.jsonl", "set/", "--corpus", "corpus.jsonl")[0] == 0
    assert karat.evaluate("bare.jsonl", "set", ["mrr"], corpus="set").means["mrr"] == 1


@pytest.mark.parametrize("name", ["ragas.csv", "deepeval.json", "langsmith.jsonl", "mlflow.json", "mteb"])
def test_files_of_tools_become_gold(name: str, tmp_path: Path) -> None:
    convert(str(KEPT / name), str(tmp_path / "gold.jsonl"), kind="gold")
    assert entries(tmp_path / "gold.jsonl") == entries(KEPT / name)


def test_rows_in_any_order_are_grouped(files: Path) -> None:
    rows = pl.DataFrame({"query_id": ["a", "b", "a"], "chunk_id": ["x", "y", "z"], "score": [3.0, 2.0, 1.0]})
    rows.write_parquet("run.parquet")
    made = convert("run.parquet", "run.trec")
    assert (made.queries, made.items) == (2, 3)
    assert Path("run.trec").read_text() == "a Q0 x 1 3.0 run\na Q0 z 2 1.0 run\nb Q0 y 1 2.0 run\n"


def test_distances_stay_distances(files: Path) -> None:
    Path("near.jsonl").write_text(
        '{"query_id": "q", "score_order": "lower-is-better", "topk": [{"chunk_id": "a", "score": 0.1},'
        ' {"chunk_id": "b", "score": 0.2}]}\n'
    )
    convert("near.jsonl", "again.jsonl")
    assert json.loads(Path("again.jsonl").read_text())["topk"][0] == {"chunk_id": "a", "score": 0.1}
    convert("near.jsonl", "near.trec")
    assert Path("near.trec").read_text().splitlines()[0] == "q Q0 a 1 -0.1 run"


def test_options_of_reading(files: Path, karat_command: Command) -> None:
    """--map, --system, --split, --target and --from mean the same as elsewhere."""
    Path("own.jsonl").write_text('{"id": "q", "results": [{"doc": "a"}], "system": "s"}\n')
    code, out, err = karat_command("convert", "own.jsonl", "-", "--map", "query_id=id,topk=results,chunk_id=doc")
    assert (code, json.loads(out)["topk"]) == (0, [{"chunk_id": "a"}]), err
    Path("two.jsonl").write_text(RUN + RUN.replace('"system": "s"', '"system": "t"'))
    assert karat_command("convert", "two.jsonl", "-", "--system", "t")[1].count('"system":"t"') == 2
    Path("one.jsonl").write_text('{"query_id": "q", "right": "x", "wrong": "y"}\n')
    assert '"x"' in karat_command("convert", "one.jsonl", "-", "--from", "gold", "--target", "right")[1]
    (files / "set" / "qrels").mkdir(parents=True)
    Path("set/qrels/dev.tsv").write_text("q\ta\t1\n")
    assert '"a"' in karat_command("convert", "set", "-", "--split", "dev")[1]
    code, _, _ = karat_command("convert", "own.jsonl", "no.jsonl", "--map", "query_id=id,topk=results,chunk_id=no")
    assert (code, Path("no.jsonl").exists()) == (2, False)


REFUSED = {
    "run.jsonl out.csv": "no-format",
    "gold.jsonl out.trec": "no-format",
    "run.jsonl out.jsonl --to csv": "unknown-format",
    "run.jsonl out.jsonl --to gold": "swapped",
    "run.jsonl out.qrels --to trec-qrels --as run": "bad-setting",
    "run.jsonl run.jsonl": "would-overwrite",
    "run.jsonl none/out.jsonl": "not-writable",
    "run.jsonl out.jsonl.gz": "bad-path",
    "gold.jsonl - --to beir": "bad-path",
    "gold.jsonl . --to beir": "folder-not-empty",
    "gold.jsonl out.json --to rank-eval --lossy": "missing-option",
    "gold.jsonl out.jsonl --index docs": "no-such-option",
    "gold.jsonl out.jsonl --gold gold.jsonl": "no-such-option",
    "gold.jsonl out.jsonl --corpus gold.jsonl": "no-such-option",
    "spaces.jsonl out.trec --lossy": "unwritable-id",
    "tabs.jsonl out/ --lossy": "unwritable-id",
    "twins.jsonl out.csv --to quepid --lossy": "duplicate-query",
    "two.jsonl out.jsonl --to ragas --lossy": "several-systems",
    "order.jsonl out.trec": "lossy",
    "varied.jsonl out.jsonl": "lossy",
    "no.jsonl out.jsonl": "no-such-file",
}


@pytest.mark.parametrize(("typed", "code"), REFUSED.items())
def test_what_is_refused(typed: str, code: str, files: Path, karat_refuses: Any) -> None:
    Path("spaces.jsonl").write_text('{"query_id": "q", "topk": ["a b"]}\n')
    Path("tabs.jsonl").write_text('{"query_id": "q", "gold": ["a\\tb"]}\n')
    Path("twins.jsonl").write_text(
        '{"query_id": "1", "query": "x", "gold": ["a"]}\n{"query_id": "2", "query": "x", "gold": ["b"]}\n'
    )
    Path("two.jsonl").write_text(RUN + RUN.replace('"system": "s"', '"system": "t"'))
    Path("order.jsonl").write_text(
        '{"query_id": "q", "topk": [{"chunk_id": "a", "rank": 1, "score": 1},'
        ' {"chunk_id": "b", "rank": 2, "score": 2}]}\n'
    )
    Path("varied.jsonl").write_text(
        '{"query_id": "q", "topk": ["a"], "seed": 1}\n{"query_id": "r", "topk": [], "seed": 2}\n'
    )
    before = sorted(files.iterdir())
    error: KaratError = karat_refuses("convert", *shlex.split(typed))
    assert error.code == code
    assert sorted(files.iterdir()) == before


STEPS = (
    '{"query_id": "q1", "system": "s", "steps": [{"query": "clean", "topk": [{"chunk_id": "a#1", "score": 2.0}],'
    ' "latency_ms": 4.5, "name": "web", "usage": [{"stage": "embed", "model": "m", "prompt_tokens": 3}]},'
    ' {"query": "rinse", "topk": ["b#2", "a#1"]}]}\n'
    '{"query_id": "q2", "system": "s", "topk": ["c#1"]}\n'
    '{"query_id": "q3", "system": "s", "step": 1, "topk": ["d#1"]}\n'
    '{"query_id": "q3", "system": "s", "step": 2, "topk": ["e#1"]}\n'
)


def test_steps_of_a_run_log_are_kept(tmp_path: Path, karat_command: Command) -> None:
    run, out, again = tmp_path / "run.jsonl", tmp_path / "out.jsonl", tmp_path / "again.jsonl"
    run.write_text(STEPS)
    assert karat_command("convert", str(run), str(out))[0] == 0
    first, second, third = map(json.loads, out.read_text().splitlines())
    said = json.loads(STEPS.splitlines()[0])["steps"]
    assert [step.get("query") for step in first["steps"]] == ["clean", "rinse"]
    assert [[hit["chunk_id"] for hit in step["topk"]] for step in first["steps"]] == [["a#1"], ["b#2", "a#1"]]
    assert {name: first["steps"][0][name] for name in ("latency_ms", "name")} == {"latency_ms": 4.5, "name": "web"}
    assert first["steps"][0]["usage"][0].items() >= said[0]["usage"][0].items()
    assert "steps" not in second
    assert [[hit["chunk_id"] for hit in step["topk"]] for step in third["steps"]] == [["d#1"], ["e#1"]]
    assert karat_command("convert", str(out), str(again))[0] == 0
    assert again.read_text() == out.read_text()
    code, printed, _ = karat_command("convert", str(run), str(tmp_path / "run.trec"), "--lossy", "--json")
    assert (code, "steps" in json.loads(printed)["lost"]) == (0, True)


@pytest.fixture
def traced(tmp_path: Path) -> tuple[str, str]:
    """Traces without ids of queries, and a gold set."""
    gold, traces = tmp_path / "gold.jsonl", tmp_path / "traces.jsonl"
    gold.write_text(GOLD)
    hits = {"retrieval.documents": [{"document": {"id": "a#1", "content": "Rinse it"}}]}
    spans = [
        {
            "context": {"trace_id": f"t{at}", "span_id": f"s{at}"},
            "span_kind": "RETRIEVER",
            "attributes": {"input.value": text, **hits},
        }
        for at, text in enumerate(["How to  CLEAN", "cost", "something else"])
    ]
    traces.write_text("".join(json.dumps(span) + "\n" for span in spans))
    return str(traces), str(gold)


@pytest.mark.parametrize("name", ["run.jsonl", "run.parquet", "samples.jsonl", "cases.json"])
def test_converted_traces_score_as_the_traces_do(
    name: str, traced: tuple[str, str], tmp_path: Path, karat_command: Command
) -> None:
    traces, gold = traced
    to = {"samples.jsonl": ("--to", "ragas"), "cases.json": ("--to", "deepeval")}.get(name, ())
    scores = []
    for more in ((), ("--gold", gold)):
        out = str(tmp_path / name)
        if name == "run.parquet" and not more:
            continue  # a table has no texts of queries
        code, printed, _ = karat_command("convert", traces, out, *to, *more, "--lossy", "--json")
        assert code == 0
        assert json.loads(printed)["queries"] == (4 if more and to else 3)  # with q3, which no trace asks
        for run in (traces, out):
            _, result, _ = karat_command("eval", run, "--gold", gold, "-m", "recall@5", "--json")
            scores.append(json.loads(result)["scores"]["q1"]["recall@5"])
    assert set(scores) == {0.5}
