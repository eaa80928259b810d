"""Files as people have them: under names of their own, in any format, from the file to what the user sees."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import karat
from karat.errors import KaratError
from karat.formats.corpus import read_corpus
from karat.formats.map_guess import suggested_map

Call = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]

# Four queries; what each returned, and what it should have returned.
LISTS = {
    "q1": [("a", 0.9), ("b", 0.5)],
    "q2": [("c", 0.8), ("b", 0.7)],
    "q3": [("a", 0.6)],
    "q4": [("d", 0.4), ("a", 0.1)],
}
GOLD = {"q1": "a", "q2": "b", "q3": "c", "q4": "a"}
MRR = {"q1": 1.0, "q2": 0.5, "q3": 0.0, "q4": 0.5}
TEXTS = {
    "a": "refunds arrive within five days",
    "b": "printers take toner from building seven",
    "c": "holidays are booked with the team calendar",
    "d": "passwords expire every ninety nights",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines("gold.jsonl", [{"query_id": q, "gold": [item]} for q, item in GOLD.items()])
    lines("run.jsonl", [{"query_id": q, "topk": [{"chunk_id": i, "score": s} for i, s in h]} for q, h in LISTS.items()])


def lines(name: str, records: list[Any]) -> None:
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))


def mrr(call: Call, run: str, gold: str, *more: str) -> dict[str, float]:
    code, out, err = call("eval", run, "--gold", gold, "-m", "mrr", "--json", *more)
    assert code == 0, err
    return {query: scores["mrr"] for query, scores in json.loads(out)["scores"].items()}


def kind_of(call: Call, file: str) -> str:
    code, out, _ = call("check", file, "--json")
    assert code == 0
    [found] = json.loads(out)
    return str(found["kind"])


def nested(q: str) -> dict[str, Any]:
    """As a search server answers."""
    hits = [{"_id": i, "_score": s, "_source": {"body": TEXTS[i]}} for i, s in LISTS[q]]
    return {"request": {"id": q}, "response": {"took": 7, "hits": {"hits": hits}}}


def flat(q: str) -> dict[str, Any]:
    return {
        "id": q,
        "results": [{"doc": i, "similarity": s, "content": TEXTS[i]} for i, s in LISTS[q]],
        "took_ms": 7,
    }


def beside(q: str) -> dict[str, Any]:
    return {"qid": q, "ids": [i for i, _ in LISTS[q]], "scores": [s for _, s in LISTS[q]]}


ROWS = [{"request": q, "passage": i, "sim": s} for q, hits in LISTS.items() for i, s in hits]
FLAT = "query_id=id,topk=results,chunk_id=doc,score=similarity,text=content,latency_ms=took_ms"
NESTED = "query_id=request.id,topk=response.hits.hits,chunk_id=_id,score=_score,text=_source.body"
BESIDE = "query_id=qid,chunk_id=ids,score=scores"
BY_ROW = "query_id=request,chunk_id=passage,score=sim"


def write_as(kind: str, records: list[dict[str, Any]]) -> str:
    """Records in a file of some format."""
    name = f"other.{kind}"
    if kind == "jsonl":
        lines(name, records)
    elif kind == "json":
        Path(name).write_text(json.dumps(records, indent=1))
    elif kind == "yaml":
        Path(name).write_text("".join(f"- {json.dumps(record)}\n" for record in records))
    elif kind == "parquet":
        pl.DataFrame(records).write_parquet(name)
    else:
        cells = [{k: json.dumps(v) if isinstance(v, (list, dict)) else v for k, v in r.items()} for r in records]
        pl.DataFrame(cells).write_csv(name, separator="\t" if kind == "tsv" else ",")
    return name


SHAPES = {
    "flat": ([flat(q) for q in LISTS], FLAT),
    "nested": ([nested(q) for q in LISTS], NESTED),
    "beside": ([beside(q) for q in LISTS], BESIDE),
    "rows": (ROWS, BY_ROW),
}
CASES = [(shape, kind) for shape in SHAPES for kind in ("jsonl", "json", "yaml", "parquet", "csv", "tsv")]
CASES = [case for case in CASES if case not in (("nested", "csv"), ("nested", "tsv"))]  # cells hold no objects


@pytest.mark.parametrize(("shape", "kind"), CASES)
def test_a_run_of_any_shape_in_any_format(shape: str, kind: str, karat_command: Call) -> None:
    records, fields = SHAPES[shape]
    run = write_as(kind, records)
    assert mrr(karat_command, run, "gold.jsonl", "--map", fields) == MRR
    Path("karat.yaml").write_text(f"map: {fields}\n")
    assert mrr(karat_command, run, "gold.jsonl") == MRR


def test_texts_and_times_come_through_a_map(karat_command: Call) -> None:
    run = write_as("jsonl", SHAPES["flat"][0])
    lines("texts.jsonl", [{"query_id": q, "evidence": [TEXTS[item]]} for q, item in GOLD.items()])
    asked = ("-m", "evidence_mrr@5,latency_p50", "--map", FLAT, "--json")
    found = json.loads(karat_command("eval", run, "--gold", "texts.jsonl", *asked)[1])
    assert {q: s["evidence_mrr@5"] for q, s in found["scores"].items()} == MRR
    assert {s["latency_p50"] for s in found["scores"].values()} == {7.0}


GOLDS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "lists": ([{"id": q, "relevant": [item]} for q, item in GOLD.items()], "query_id=id,gold=relevant"),
    "objects": (
        [{"id": q, "labels": [{"ref": {"uid": i}, "level": 1}]} for q, i in GOLD.items()],
        "query_id=id,gold=labels,chunk_id=ref.uid,grade=level",
    ),
    "one": ([{"id": q, "answer_doc": item} for q, item in GOLD.items()], "query_id=id,gold=answer_doc"),
    "rows": (
        [{"q": q, "d": i, "rel": int(i == item)} for q, item in GOLD.items() for i in "abcd"],
        "query_id=q,chunk_id=d,grade=rel",
    ),
}


@pytest.mark.parametrize("shape", GOLDS)
@pytest.mark.parametrize("kind", ["jsonl", "json", "yaml", "parquet", "csv"])
def test_a_gold_set_of_any_shape_in_any_format(shape: str, kind: str, karat_command: Call) -> None:
    records, fields = GOLDS[shape]
    gold = write_as(kind, records)
    assert mrr(karat_command, "run.jsonl", gold, "--map", fields) == MRR
    assert mrr(karat_command, "run.jsonl", gold, "--map", ",".join(f"gold.{one}" for one in fields.split(","))) == MRR


@pytest.mark.parametrize("kind", ["jsonl", "json", "yaml", "parquet", "csv"])
def test_a_corpus_and_queries_in_any_format(kind: str, karat_command: Call) -> None:
    corpus = write_as(kind, [{"uid": item, "body": text, "heading": item} for item, text in TEXTS.items()])
    fields = "chunk_id=uid,text=body,title=heading"
    assert read_corpus(corpus, columns=fields).texts == list(TEXTS.values())
    lines("asked.jsonl", [{"nr": q, "question": TEXTS[item]} for q, item in GOLD.items()])
    for command in ("run", "baseline"):
        given = ("-o", "made.jsonl", "bm25") if command == "run" else ("--json", "--retriever", "bm25")
        queries = "asked.jsonl" if command == "run" else "judged.jsonl"
        lines("judged.jsonl", [{"nr": q, "question": "text", "gold": [item]} for q, item in GOLD.items()])
        more = ("--queries", queries, "--corpus", corpus, "--map", f"{fields},query_id=nr,query=question")
        assert karat_command(command, *given, *more)[0] == 0
    assert mrr(karat_command, "made.jsonl", "gold.jsonl") == dict.fromkeys(GOLD, 1.0)


def test_columns_in_python() -> None:
    records, fields = SHAPES["nested"]
    as_dict = dict(pair.split("=") for pair in fields.split(","))
    run = write_as("json", records)
    for columns in (fields, as_dict):
        assert karat.evaluate(run, "gold.jsonl", ["mrr"], columns=columns).score("mrr") == MRR
        assert karat.evaluate(records, GOLD_LISTS, ["mrr"], columns=columns).score("mrr") == MRR
    assert karat.evaluate(karat.read_run(run, columns=fields), "gold.jsonl", ["mrr"]).score("mrr") == MRR
    judged, of_gold = GOLDS["objects"]
    assert karat.evaluate("run.jsonl", karat.read_gold(judged, columns=of_gold), ["mrr"]).score("mrr") == MRR
    frame = pl.DataFrame(ROWS)
    assert karat.evaluate(frame, "gold.jsonl", ["mrr"], columns=BY_ROW).score("mrr") == MRR


GOLD_LISTS = {q: [item] for q, item in GOLD.items()}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_unrecognised_run_gets_a_map_to_paste(shape: str, karat_command: Call, karat_refuses: Refuses) -> None:
    records, _ = SHAPES[shape]
    if shape == "beside":
        pytest.skip("lists beside each other look like many things")
    run = write_as("jsonl", records)
    hint = karat_refuses("eval", run, "--gold", "gold.jsonl").hint
    assert hint is not None
    pasted = hint.partition("--map ")[2]
    assert mrr(karat_command, run, "gold.jsonl", "--map", pasted) == MRR


def test_lists_in_the_cells_of_a_table_get_a_map_to_paste(karat_command: Call, karat_refuses: Refuses) -> None:
    Path("run.jsonl").write_text('{"query": "who is it?", "topk": ["b", "a"]}\n')
    Path("table.csv").write_text('question,notes,relevant_ids\nWho is it?,x,"[""a"", ""c""]"\n')
    hint = karat_refuses("eval", "run.jsonl", "--gold", "table.csv").hint
    assert hint is not None
    assert mrr(karat_command, "run.jsonl", "table.csv", "--map", hint.partition("--map ")[2]) == {"Who is it?": 0.5}


@pytest.mark.parametrize(
    ("kind", "record", "fields"),
    [
        ("gold", GOLDS["lists"][0][0], GOLDS["lists"][1]),
        ("corpus", {"uid": "a", "body": "x", "heading": "y"}, "chunk_id=uid,title=heading,text=body"),
        ("queries", {"nr": 1, "question": "x"}, "query=question"),
        ("run", {"query_id": "q", "topk": ["a"]}, None),
        ("run", {"a": 1}, None),
    ],
)
def test_suggested_maps(kind: Any, record: dict[str, Any], fields: str | None) -> None:
    assert suggested_map(kind, record) == fields


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ("query_id=id,topk=nowhere", "unmapped-field"),
        ("query=", "bad-map"),
        ("nothing", "bad-map"),
        ("quary_id=id", "unknown-column"),
        ("gold.score=id", "unknown-column"),
    ],
)
def test_maps_that_make_no_sense(fields: str, code: str, karat_refuses: Refuses) -> None:
    run = write_as("jsonl", [{"id": q, "topk": [i for i, _ in hits]} for q, hits in LISTS.items()])
    error = karat_refuses("eval", run, "--gold", "gold.jsonl", "--map", fields)
    assert (error.code, error.exit_code) == (code, 2)


def test_mistakes_in_a_mapped_file_name_the_line(karat_refuses: Refuses) -> None:
    records = [flat(q) for q in LISTS]
    records[2]["results"][0]["similarity"] = "high"
    error = karat_refuses("eval", write_as("jsonl", records), "--gold", "gold.jsonl", "--map", FLAT)
    assert (error.file, error.line, error.field) == ("other.jsonl", 3, "results[0].similarity")


def test_check_takes_a_map_and_knows_gold_from_runs(karat_command: Call) -> None:
    run, _ = write_as("jsonl", SHAPES["flat"][0]), None
    gold = write_as("json", GOLDS["lists"][0])
    code, out, _ = karat_command("check", run, gold, "--map", f"{FLAT},gold=relevant", "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["kind"] for one in found] == ["run", "gold"]
    assert found[0]["holds"][f"queries of {gold}"] == 4


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("names", [("query_id", "doc_id"), ("qid", "chunk_id"), ("query-id", "corpus-id")])
def test_two_columns_are_gold(separator: str, names: tuple[str, str], karat_command: Call) -> None:
    Path("two.csv").write_text("\n".join(separator.join(row) for row in [names, *GOLD.items()]) + "\n")
    assert kind_of(karat_command, "two.csv") == "gold"
    assert mrr(karat_command, "run.jsonl", "two.csv") == MRR
    Path("ranked.csv").write_text("query_id,chunk_id,score\nq1,a,1\n")
    assert kind_of(karat_command, "ranked.csv") == "run"


# What is taken without a map


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "rows.csv"])
def test_latency_as_one_number(kind: str, karat_command: Call, reader: str) -> None:
    times = {"q1": 10.0, "q2": 20.0, "q3": 30.0, "q4": 40.5}
    records = [{"query_id": q, "topk": [i for i, _ in hits], "latency_ms": times[q]} for q, hits in LISTS.items()]
    if kind == "rows.csv":
        rows = [{"query_id": q, "chunk_id": i, "score": s} for q, hits in LISTS.items() for i, s in hits]
        records = [{**row, "latency_ms": times[str(row["query_id"])]} for row in rows]
    run = write_as(kind.rpartition(".")[2], records)
    found = json.loads(karat_command("eval", run, "--gold", "gold.jsonl", "-m", "mrr,latency", "--json")[1])
    assert {q: s["latency"] for q, s in found["scores"].items()} == times


def test_a_json_array_of_records(karat_command: Call) -> None:
    records = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    for indent in (None, 1):
        Path("run.json").write_text(json.dumps(records, indent=indent))
        assert mrr(karat_command, "run.json", "gold.jsonl") == MRR
        assert kind_of(karat_command, "run.json") == "run"


@pytest.mark.parametrize("name", ["retrieved", "output", "actualOutput"])
def test_lines_with_id_and_what_was_retrieved(name: str, karat_command: Call) -> None:
    lines("outputs.jsonl", [{"id": q, name: [i for i, _ in hits]} for q, hits in LISTS.items()])
    assert mrr(karat_command, "outputs.jsonl", "gold.jsonl") == MRR


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_rows_without_an_item_for_queries_without_an_answer(kind: str, karat_command: Call) -> None:
    records = [{"query_id": q, "chunk_id": i, "grade": 1, "no_answer": None} for q, i in GOLD.items()]
    records.insert(2, {"query_id": "q5", "chunk_id": None, "grade": None, "no_answer": "true"})
    gold = write_as(kind, records)
    lines(
        "more.jsonl", [*map(json.loads, Path("run.jsonl").read_text().splitlines()), {"query_id": "q5", "topk": ["a"]}]
    )
    found = json.loads(karat_command("eval", "more.jsonl", "--gold", gold, "-m", "mrr,false_evidence@5", "--json")[1])
    assert {q: s["mrr"] for q, s in found["scores"].items()} == {**MRR, "q5": None}
    assert found["scores"]["q5"]["false_evidence@5"] == 1.0


def test_a_row_without_an_item_and_with_an_answer_is_refused(karat_refuses: Refuses) -> None:
    Path("gold.csv").write_text("query_id,chunk_id,grade,no_answer\nq1,a,1,\nq2,,1,false\n")
    error = karat_refuses("eval", "run.jsonl", "--gold", "gold.csv")
    assert (error.code, error.line, error.field) == ("missing-value", 3, "chunk_id")


def test_a_parquet_corpus_without_a_map(karat_command: Call) -> None:
    corpus = write_as("parquet", [{"id": item, "text": text} for item, text in TEXTS.items()])
    lines("texts.jsonl", [{"query_id": q, "evidence": [TEXTS[item]]} for q, item in GOLD.items()])
    asked = ("-m", "evidence_mrr@5", "--corpus", corpus, "--json")
    found = json.loads(karat_command("eval", "run.jsonl", "--gold", "texts.jsonl", *asked)[1])
    assert {q: s["evidence_mrr@5"] for q, s in found["scores"].items()} == MRR


def test_the_text_of_a_query_comes_from_the_run_where_gold_has_none(karat_command: Call) -> None:
    records = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    lines("asked.jsonl", [{**record, "query": TEXTS[GOLD[record["query_id"]]]} for record in records])
    corpus = write_as("jsonl", [{"id": item, "text": text} for item, text in TEXTS.items()])
    code, out, _ = karat_command(
        "eval", "asked.jsonl", "--gold", "gold.jsonl", "--corpus", corpus, "-m", "mrr", "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert found["queries"] == {q: TEXTS[item] for q, item in GOLD.items()}
    assert found["bm25"] == {"mrr": 1.0}
    gold = karat.read_gold("gold.jsonl")
    assert karat.evaluate("asked.jsonl", gold, ["mrr"]).gold.text(0) == TEXTS["a"]
    assert gold.text(0) is None  # another run may ask something else


@pytest.mark.parametrize("what", ["run", "gold"])
def test_a_last_line_that_is_cut_off(what: str, karat_refuses: Refuses, reader: str) -> None:
    whole = Path(f"{what}.jsonl").read_text()
    Path(f"{what}.jsonl").write_text(whole[:-12])
    error = karat_refuses("eval", "run.jsonl", "--gold", "gold.jsonl")
    assert (error.code, error.file, error.line) == ("cut-off", f"{what}.jsonl", 4)


def test_metrics_with_commas_and_other_names(karat_command: Call) -> None:
    found = [
        json.loads(karat_command("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", name, "--json")[1])["scores"]
        for name in ("hitrate@1,mrr", "hit_rate@1,mrr", "hit@1,mrr")
    ]
    assert found[0] == found[1] == found[2]
    assert {q: s["hit@1"] for q, s in found[0].items()} == {"q1": 1.0, "q2": 0.0, "q3": 0.0, "q4": 0.0}


@pytest.mark.parametrize(
    ("metric", "instead"), [("recall@5", "evidence_recall@5"), ("mrr", "evidence_mrr@5"), ("hit@3", "evidence_hit@3")]
)
def test_an_undefined_id_metric_points_to_the_evidence(metric: str, instead: str, karat_command: Call) -> None:
    lines("texts.jsonl", [{"query_id": q, "evidence": [TEXTS[item]]} for q, item in GOLD.items()])
    _, out, _ = karat_command("eval", "run.jsonl", "--gold", "texts.jsonl", "-m", metric, "--brief")
    assert f"-m {instead}" in " ".join(out.split())
    code, out, _ = karat_command("gate", "run.jsonl", "--gold", "texts.jsonl", "--gate", f"{metric} >= 0.5", "--json")
    assert code == 2
    assert instead in json.loads(out)["verdicts"][0]["reason"]
    _, out, _ = karat_command("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", metric, "--brief")
    assert "evidence" not in out


@pytest.mark.parametrize("name", ["context_recall", "faithfulness", "answer_relevancy", "context_precision"])
def test_names_of_ragas_get_an_answer(name: str, karat_refuses: Refuses) -> None:
    error = karat_refuses("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", name)
    assert error.exit_code == 2
    assert error.hint


def test_a_table_of_a_spreadsheet_gets_a_map_that_works(tmp_path: Path, karat_command: Any) -> None:
    """Titles with spaces and capitals, semicolons, a byte order mark: what a spreadsheet saves."""
    rows = "".join(f"q{i};d{(i + j) % 20};{j + 1};{0.9 - j / 10:.2f}\n" for i in range(20) for j in range(3))
    (tmp_path / "run.csv").write_text("\ufeffQuery ID;Document;Position;Similarity\n" + rows, encoding="utf-8")
    (tmp_path / "gold.csv").write_text("query_id,doc_id\n" + "".join(f"q{i},d{i}\n" for i in range(20)))
    asked = ("eval", str(tmp_path / "run.csv"), "--gold", str(tmp_path / "gold.csv"), "-m", "recall@1", "--json")
    code, _, said = karat_command(*asked)
    assert code == 2
    suggested = shlex.split(said.partition("--map ")[2])[0]
    assert suggested == "query_id=Query ID,chunk_id=Document,score=Similarity,rank=Position"
    code, printed, said = karat_command(*asked, "--map", suggested)
    assert code == 0, said
    assert json.loads(printed)["summary"][0]["mean"] == 1.0


def test_rows_without_an_answer_in_a_table_without_grades(tmp_path: Path, karat_command: Any) -> None:
    rows = "".join(f"q{i},d{i},\n" for i in range(15)) + "".join(f"n{i},,true\n" for i in range(5))
    (tmp_path / "gold.csv").write_text("query_id,chunk_id,no_answer\n" + rows)
    lines = [json.dumps({"query_id": f"{kind}{i}", "topk": [f"d{i}"]}) for kind in "qn" for i in range(15)]
    (tmp_path / "run.jsonl").write_text("\n".join(lines) + "\n")
    asked = ("--gold", str(tmp_path / "gold.csv"), "-m", "recall@5,false_evidence@5", "--json")
    code, printed, said = karat_command("eval", str(tmp_path / "run.jsonl"), *asked)
    assert code == 0, said
    assert [(row["n"], row["mean"]) for row in json.loads(printed)["summary"]] == [(15, 1.0), (5, 1.0)]


@pytest.mark.parametrize("around", ["{}", " {} ", " {}"])
def test_white_space_around_names_of_columns_does_not_matter(around: str, karat_command: Call) -> None:
    """Nobody sees it, and a map that was pasted has lost it, or not."""
    columns = ["Question ID", " Question ", " Expected Doc ", "Team"]
    rows = [f"{q},what is {q},{item},x\n" for q, item in GOLD.items()]
    Path("sheet.csv").write_text(",".join(columns) + "\n" + "".join(rows))
    fields = {"gold.query_id": "Question ID", "gold.query": "Question", "gold.chunk_id": "Expected Doc"}
    pasted = ",".join(f"{role}={around.format(name)}" for role, name in fields.items())
    assert mrr(karat_command, "run.jsonl", "sheet.csv", "--map", pasted) == MRR
    said = {role: around.format(name) for role, name in fields.items()}
    assert karat.evaluate("run.jsonl", "sheet.csv", ["mrr"], columns=said).score("mrr") == MRR


def test_the_suggested_map_works_where_a_header_has_white_space(karat_command: Call, karat_refuses: Refuses) -> None:
    rows = [f"{q},what is it,{item}\n" for q, item in GOLD.items()]
    Path("sheet.csv").write_text("Question ID, Question , Expected Doc \n" + "".join(rows))
    error = karat_refuses("eval", "run.jsonl", "-g", "sheet.csv")
    assert error.hint is not None
    suggested = shlex.split(error.hint)[-1]
    assert " ," not in suggested
    assert "= " not in suggested
    assert mrr(karat_command, "run.jsonl", "sheet.csv", "--map", suggested) == MRR
    _, out, _ = karat_command("check", "sheet.csv")
    assert f"--map {shlex.quote(suggested)}\n" in out  # on one line, so that it can be pasted


def test_white_space_around_fields_of_objects_and_of_parquet_columns() -> None:
    lines("spaced.jsonl", [{" id ": q, "docs ": [item]} for q, item in GOLD.items()])
    assert (
        karat.evaluate("run.jsonl", "spaced.jsonl", ["mrr"], columns="gold.query_id=id,gold=docs").means["mrr"] == 0.5
    )
    hits = [(q, item, score) for q, listed in LISTS.items() for item, score in listed]
    pl.DataFrame(hits, schema=["qid ", " doc", "score"], orient="row").write_parquet("run.parquet")
    run = karat.read_run("run.parquet", columns={"query_id": "qid", "chunk_id": "doc"})
    assert karat.evaluate(run, "gold.jsonl", ["mrr"]).score("mrr") == MRR


@pytest.mark.parametrize("failed", [{}, {"hits": None}, {"hits": []}])
def test_a_failed_search_needs_no_hits_under_a_map(failed: dict[str, Any], karat_command: Call) -> None:
    """As in a log under Karat's own names."""
    own = [{"id": q, "hits": [{"p": i} for i, _ in listed]} for q, listed in LISTS.items() if q != "q2"]
    lines("mine.jsonl", [*own, {"id": "q2", "error": "timeout", **failed}])
    found = mrr(karat_command, "mine.jsonl", "gold.jsonl", "--map", "run.query_id=id,topk=hits,chunk_id=p")
    assert found == {**MRR, "q2": 0.0}
    kept = karat.evaluate("mine.jsonl", "gold.jsonl", ["mrr"], columns="run.query_id=id,topk=hits,chunk_id=p")
    assert kept.audit["failed_queries"] == 1


def test_the_first_bad_line_is_reported_under_the_names_of_the_file(karat_refuses: Refuses) -> None:
    hits = [{"path": "a", "distance": 0.1}, {"path": "b", "distance": 0.2}]
    odd = [{"id": "q2", "hits": [{"distance": 0.1}]}, {"id": "q3", "hits": [hits[0], {"path": "b", "distance": "n/a"}]}]
    fields = ("--map", "run.query_id=id,topk=hits,chunk_id=path,score=distance")
    lines("mine.jsonl", [{"id": "q1", "hits": hits}, *odd])
    error = karat_refuses("eval", "mine.jsonl", "-g", "gold.jsonl", *fields)
    assert (error.code, error.line, error.field) == ("missing-field", 2, "hits[0].path")
    lines("mine.jsonl", [{"id": "q1", "hits": hits}, odd[1]])
    error = karat_refuses("eval", "mine.jsonl", "-g", "gold.jsonl", *fields)
    assert (error.code, error.line, error.field) == ("wrong-type", 2, "hits[1].distance")
