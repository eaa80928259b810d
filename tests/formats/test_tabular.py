"""Tables: CSV, TSV, Parquet, and polars, pandas or Arrow frames; a row a hit or a judgement."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from refusals import refused

import karat
from karat.data.audit import Audit
from karat.data.gold import BARE, CHUNK, DOC
from karat.errors import InputError, KaratError
from karat.results.evaluate import evaluate_all

GOLD = {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}}
HITS = {
    "query_id": ["q1", "q1", "q2", "q1"],
    "chunk_id": ["x", "a", "c", "b"],
    "score": [3.0, 2.5, 9.0, 0.1],
}
SCORES = {"q1": 0.5, "q2": 1.0}


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def mrr(run: Any, **options: Any) -> dict[str, float | None]:
    return karat.evaluate(run, GOLD, ["mrr"], **options).score("mrr")


@pytest.mark.parametrize(
    "text",
    [
        "query_id,chunk_id,score\nq1,x,3\nq1,a,2.5\nq2,c,9\n",
        "query_id\tchunk_id\tscore\nq1\tx\t3\nq1\ta\t2.5\nq2\tc\t9\n",
        "query_id;chunk_id;score\nq1;x;3\nq1;a;2.5\nq2;c;9\n",
        '"query_id","chunk_id","score"\n"q1","x","3"\n"q1","a"," 2.5"\n"q2","c","9"\n',
        "Query_ID,Chunk_ID,Score\nq1,x,3\nq1,a,2.5\nq2,c,9",
        "qid,docno,sim\nq1,a,2.5\nq2,c,9\nq1,x,3\n",
        "topic,rank,docid\nq1,2,a\nq1,1,x\nq2,1,c\n",
        "query-id,corpus-id\nq1,x\nq1,a\nq2,c\n",
        "score,note,query_id,doc_id\n3,n,q1,x\n2.5,n,q1,a\n9,n,q2,c\n",
    ],
    ids=["csv", "tsv", "semicolons", "quoted", "capitals", "other names", "ranks", "positions", "doc_id"],
)
def test_every_way_to_write_hits(tmp_path: Path, text: str) -> None:
    assert mrr(write(tmp_path / "run", text)) == SCORES


def test_quoted_fields_hold_anything(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", 'query_id,chunk_id,score\nq1,"x, ""y""\nz",3\nq1,a,2\nq2,c,1\n')
    assert mrr(path) == SCORES


@pytest.mark.parametrize(
    "make",
    [
        pl.DataFrame,
        lambda hits: pl.DataFrame(hits).lazy(),
        pd.DataFrame,
        pa.table,
        lambda hits: pa.RecordBatch.from_pydict(hits),
        lambda hits: pl.DataFrame(hits).with_columns(pl.col("query_id").cast(pl.Categorical)),
        lambda hits: pl.DataFrame(hits).with_columns(pl.col("score").cast(pl.Float32)),
        lambda hits: pl.DataFrame(hits).with_columns(pl.col("score").cast(pl.String)),
        lambda hits: pd.DataFrame(hits, index=[9, 8, 7, 6]),
        lambda hits: pa.table(hits).cast(
            pa.schema([("query_id", pa.large_string()), ("chunk_id", pa.string()), ("score", pa.float32())])
        ),
    ],
    ids=["polars", "lazy", "pandas", "arrow", "batch", "categorical", "float32", "text", "index", "large"],
)
def test_frames_of_every_library(make: Any) -> None:
    result = karat.evaluate(make(HITS), GOLD, ["mrr", "recall@3"])
    assert result.score("mrr") == SCORES
    assert result.score("recall@3") == {"q1": 1.0, "q2": 1.0}


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "run.bin"  # recognised by its content
    pl.DataFrame(HITS).write_parquet(path)
    assert mrr(path) == SCORES


def test_parquet_gold(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    pl.DataFrame({"query_id": ["q1", "q1", "q2"], "chunk_id": ["a", "b", "c"], "grade": [2, 1, 1]}).write_parquet(path)
    assert karat.evaluate({"q1": ["x", "a"], "q2": ["c"]}, path, ["mrr"]).score("mrr") == SCORES


def test_whole_number_ids_that_pandas_made_floats() -> None:
    frame = pd.DataFrame({"query_id": [1.0, 1.0], "chunk_id": [7, 3], "score": [2, 1]})
    assert karat.evaluate(frame, {"1": ["3"]}, ["mrr"]).score("mrr") == {"1": 0.5}


def test_ids_of_a_csv_are_text() -> None:
    """007 is an id, not the number 7."""
    frame_gold = pl.DataFrame({"query_id": ["01"], "chunk_id": ["007"]})
    assert (karat.read_gold(frame_gold).queries, karat.read_gold(frame_gold).ids) == (["01"], ["007"])


def test_ids_of_a_csv_file_are_text(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", "query_id,chunk_id,score\n01,007,2\n01,7,1\n")
    assert karat.evaluate(path, {"01": ["7"]}, ["mrr"]).score("mrr") == {"01": 0.5}


def test_rank_wins_over_score(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", "query_id,chunk_id,score,rank\nq1,a,9,2\nq1,x,1,1\nq2,c,1,1\n")
    result = karat.evaluate(path, GOLD, ["mrr"])
    assert result.score("mrr") == SCORES
    assert result.audit["rank_against_score"] == 1


def test_rows_of_a_query_may_be_scattered_and_queries_unsorted() -> None:
    frame = pl.DataFrame(
        {"query_id": ["q2", "q1", "q9", "q1", "q2"], "chunk_id": ["y", "a", "z", "x", "c"], "score": [1, 2, 3, 4, 5]}
    )
    result = karat.evaluate(frame, GOLD, ["mrr"])
    assert result.score("mrr") == SCORES
    assert result.audit["unknown_queries"] == 1


def test_several_systems_in_one_table(tmp_path: Path) -> None:
    path = write(
        tmp_path / "run.csv",
        "system,query_id,chunk_id,rank\nA,q1,x,1\nB,q1,a,1\nA,q1,a,2\nA,q2,c,1\nB,q2,x,1\n",
    )
    results = evaluate_all(path, GOLD, ["mrr"])
    assert {s: r.score("mrr") for s, r in results.items()} == {
        "A": {"q1": 0.5, "q2": 1.0},
        "B": {"q1": 1.0, "q2": 0.0},
    }
    assert mrr(path, system="B") == {"q1": 1.0, "q2": 0.0}


@pytest.mark.parametrize("head", ["system,", ""], ids=["other systems", "no systems"])
def test_a_system_that_is_not_there_is_refused_by_name(tmp_path: Path, head: str) -> None:
    path = write(tmp_path / "run.csv", f"{head}query_id,chunk_id\n{'A,' if head else ''}q1,a\n")
    with pytest.raises(KaratError, match="colbert"):
        mrr(path, system="colbert")


def test_the_document_and_text_of_a_hit(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", "query_id,chunk_id,doc_id,text\nq1,c1,d1,one\nq1,c2,d1,two\nq1,c3,,three\n")
    hits = next(karat.read_run(path).slices(frozenset({"text"}), Audit()))
    assert list(hits.docs) == ["d1", "d1", ""]
    assert hits.columns == {"text": ["one", "two", "three"]}
    assert karat.evaluate(path, {"q1": ["c1"]}, ["distinct_docs@3"]).means == {"distinct_docs@3": 2.0}
    by_document = karat.evaluate(path, [{"query_id": "q1", "gold": [{"doc_id": "d1"}]}], ["recall@2", "precision@2"])
    assert by_document.means == {"recall@2": 1.0, "precision@2": 1.0}


# Gold


@pytest.mark.parametrize(
    "text",
    [
        "query_id,chunk_id,grade\nq1,a,2\nq2,c,1\nq1,b,0.5\n",
        "qid\tdocno\trel\nq1\ta\t2\nq1\tb\t0.5\nq2\tc\t1\n",
        "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0.5\nq2\tc\t1\n",
        "query_id,iteration,docid,relevance\nq1,0,a,2\nq1,0,b,0.5\nq2,0,c,1\n",
    ],
    ids=["ours", "short names", "beir names", "iteration"],
)
def test_every_way_to_write_judgements(tmp_path: Path, text: str) -> None:
    gold = karat.read_gold(write(tmp_path / "gold", text))
    assert (gold.queries, gold.ids, gold.grades.tolist()) == (["q1", "q2"], ["a", "b", "c"], [2.0, 0.5, 1.0])


def test_without_a_grade_all_rows_are_relevant(tmp_path: Path) -> None:
    assert karat.read_gold(write(tmp_path / "gold", "query_id,chunk_id\nq1,a\nq1,b\n")).grades.tolist() == [1.0, 1.0]


def test_columns_with_one_value_a_query_are_tags() -> None:
    frame = pl.DataFrame(
        {
            "query_id": ["q1", "q1", "q2"],
            "chunk_id": ["a", "b", "c"],
            "language": ["en", "en", "pt"],
            "query": ["one?", "one?", "two?"],
            "judge": ["x", "y", "x"],
        }
    )
    gold = karat.read_gold(frame)
    assert gold.tags == {"language": ["en", "pt"]}
    assert gold.fields == {"query": ["one?", "two?"]}


def mixed_teams(queries: int, mixed: int) -> str:
    """A gold table in which the first queries have a second row with another team."""
    rows = [f"q{n},d{n},{'infra' if n % 2 else 'billing'}\n" for n in range(queries)]
    return "query_id,chunk_id,Team\n" + "".join(rows) + "".join(f"q{n},d{n},other\n" for n in range(mixed))


def test_a_tag_with_several_values_for_few_queries_is_kept_for_the_others(
    tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    path = write(tmp_path / "gold.csv", mixed_teams(20, 2))
    gold = karat.read_gold(path)
    assert gold.tags["Team"] == [None, None, *["billing", "infra"] * 9]
    [entry] = [entry for entry in gold.audit if entry.code == "mixed_values"]
    assert (entry.count, entry.examples) == (2, ("Team of q0: 'billing' and 'other'",))
    result = karat.evaluate({f"q{n}": [f"d{n}"] for n in range(20)}, gold, ["recall@5"], segments=["Team"])
    assert result.audit["mixed_values"] == 2
    _, out, _ = karat_command("check", str(path), "--json")
    assert "mixed_values" in {entry["code"] for entry in json.loads(out)[0]["audit"]}


def test_a_column_with_several_values_for_many_queries_is_no_tag(
    tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    """A gate on such a segment is refused; it does not vanish."""
    path = write(tmp_path / "gold.csv", mixed_teams(20, 3))
    gold = karat.read_gold(path)
    assert (gold.tags, gold.audit["mixed_columns"], gold.audit["mixed_values"]) == ({}, 1, 0)
    run = {f"q{n}": [f"d{n}"] for n in range(20)}
    with refused("several-values", file=path, got="Team of q0: 'billing' and 'other'"):
        karat.evaluate(run, gold, ["recall@5"], segments=["Team"])
    write(tmp_path / "run.json", json.dumps(run))
    for scope in ("each: Team", "segment: {Team: infra}"):
        write(tmp_path / "gates.yaml", f"gates: [{{metric: recall@5, threshold: 0.5, {scope}}}]")
        files = ("--gold", str(path), "--criteria", str(tmp_path / "gates.yaml"))
        code, _, error = karat_command("gate", str(tmp_path / "run.json"), *files)
        assert (code, "several-values" in error) == (2, True)


def test_lists_with_several_values_for_few_queries() -> None:
    topics = [["a"], ["b"], ["a", "b"], *[["c"]] * 10]
    queries = ["q0", "q0", *(f"q{n}" for n in range(1, 12))]
    gold = karat.read_gold(pl.DataFrame({"query_id": queries, "chunk_id": list("abcdefghijklm"), "topic": topics}))
    assert gold.tags["topic"] == [None, *topics[2:]]


CUTOFFS = """query_id,chunk_id,grade,k,no_answer
q1,a,1,2,
q2,x,0,,true
q1,b,1,2,
q3,c,1,1,false
q4,d,2,,
"""
RANKED = {"q1": ["z", "a", "b", "y"], "q2": ["x", "y"], "q3": ["y", "c"], "q4": ["y", "x", "w", "v", "d", "u"]}


def naive_recall(entries: Iterable[tuple[str, list[str], int]]) -> dict[str, float]:
    """Of the first k hits, where k is that of the query, else 5."""
    return {query: len({*RANKED[query][: k or 5]} & {*items}) / len(items) for query, items, k in entries}


EXPECTED_RECALL = naive_recall([("q1", ["a", "b"], 2), ("q3", ["c"], 1), ("q4", ["d"], 0)])


@pytest.mark.parametrize(
    "make",
    [
        pl.read_csv,
        pd.read_csv,
        lambda text: pl.read_csv(text).with_columns(pl.col("k").cast(pl.Float64)),
        lambda text: pl.read_csv(text).with_columns(pl.col("k").cast(pl.String), no_answer=pl.col("grade") == 0),
        lambda text: pl.read_csv(text).to_arrow(),
        lambda text: pl.read_csv(text).rename({"k": " K "}),
    ],
    ids=["polars", "pandas", "floats", "texts", "arrow", "title"],
)
def test_a_cutoff_per_query_in_frames(make: Any) -> None:
    result = karat.evaluate(RANKED, make(io.StringIO(CUTOFFS)), ["recall"])
    assert result.score("recall") == EXPECTED_RECALL | {"q2": None}
    assert EXPECTED_RECALL == {"q1": 0.5, "q3": 0.0, "q4": 1.0}


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_cutoff_per_query_in_files(
    tmp_path: Path, kind: str, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    gold, run = tmp_path / f"gold.{kind}", tmp_path / "run.json"
    run.write_text(json.dumps(RANKED))
    if kind == "parquet":
        pl.read_csv(io.StringIO(CUTOFFS)).write_parquet(gold)
    else:
        gold.write_text(CUTOFFS.replace(",", "," if kind == "csv" else "\t"))
    read = karat.read_gold(gold)
    assert dict(zip(read.queries, read.k.tolist(), strict=True)) == {"q1": 2, "q2": 0, "q3": 1, "q4": 0}
    assert dict(zip(read.queries, read.no_answer.tolist(), strict=True)) == {"q1": 0, "q2": 1, "q3": 0, "q4": 0}
    assert read.tags == {}
    code, printed, _ = karat_command("eval", str(run), "--gold", str(gold), "-m", "recall", "--json")
    scores = {query: row["recall@k"] for query, row in json.loads(printed)["scores"].items()}
    assert (code, scores) == (0, EXPECTED_RECALL | {"q2": None})


@pytest.mark.parametrize(("grades", "line"), [("2,0 1,0 hoch 0,5", 4), ("1,500 2,250 hoch", 4), ("1,500 2,250", 2)])
def test_the_wrong_grade_is_named_among_decimal_commas(
    tmp_path: Path, karat_refuses: Callable[..., KaratError], grades: str, line: int
) -> None:
    rows = "".join(f"q{n};a;{grade}\n" for n, grade in enumerate(grades.split()))
    gold = write(tmp_path / "gold.csv", f"query_id;chunk_id;grade\n{rows}")
    run = write(tmp_path / "run.json", json.dumps(RANKED))
    error = karat_refuses("eval", str(run), "--gold", str(gold))
    assert (error.code, error.line, error.got) == ("bad-value", line, grades.split()[line - 2])


@pytest.mark.parametrize(
    ("rows", "code", "line", "field"),
    [
        ("q1,a,1,2,\nq1,b,1,3,\n", "contradiction", 3, "k"),
        ("q1,a,1,2,\nq2,b,1,1,\nq1,c,1,,\n", "contradiction", 4, "k"),
        ("q1,a,1,0,\n", "bad-value", 2, "k"),
        ("q1,a,1,2.5,\n", "bad-value", 2, "k"),
        ("q1,a,1,ten,\n", "bad-value", 2, "k"),
        ("q1,a,0,,perhaps\n", "bad-value", 2, "no_answer"),
        ("q2,a,0,,1\nq1,a,0,,1\nq1,b,1,,1\n", "contradiction", 4, "no_answer"),
    ],
)
def test_cutoffs_that_cannot_be_are_named_by_their_line(
    tmp_path: Path, rows: str, code: str, line: int, field: str
) -> None:
    path = write(tmp_path / "gold.csv", "query_id,chunk_id,grade,k,no_answer\n" + rows)
    with refused(code, file=path, line=line, field=field):
        karat.read_gold(path)


@pytest.mark.parametrize("cell", ["a; b", "a | b", "a,b", '["a", "b"]', "a\nb", "c, a, b"])
def test_several_ids_in_one_cell_of_gold_are_refused(tmp_path: Path, cell: str) -> None:
    """It would be one item, which no run returns."""
    table = pl.DataFrame({"query_id": ["q1", "q2", "q3", "q4"], "doc_id": ["a", "b", "c", cell]})
    table.write_csv(tmp_path / "gold.csv")
    with refused("several-ids", file=tmp_path / "gold.csv", line=5, field="doc_id", got=cell):
        karat.read_gold(tmp_path / "gold.csv")


@pytest.mark.parametrize("cell", ["a, the first", "a|3", "one; two", "a,", "[a]"])
def test_ids_with_commas_are_ids(tmp_path: Path, cell: str) -> None:
    table = pl.DataFrame({"query_id": ["q1", "q2", "q3"], "doc_id": ["a", "b", cell]})
    table.write_csv(tmp_path / "gold.csv")
    assert karat.read_gold(tmp_path / "gold.csv").ids[2] == cell


def test_lists_in_a_column_say_what_they_say_in_a_gold_file(tmp_path: Path) -> None:
    columns = {
        "query_id": ["q1", "q2", "q1"],
        "chunk_id": ["a", "b", "c"],
        "evidence": [["x", "y"], ["z"], ["x", "y"]],
        "negatives": [["n1"], None, ["n1"]],
        "differs": [["n1"], None, ["n2"]],
    }
    pl.DataFrame(columns).write_parquet(tmp_path / "gold.parquet")
    entries = [
        {"query_id": "q1", "gold": ["a", "c"], "evidence": ["x", "y"], "negatives": ["n1"]},
        {"query_id": "q2", "gold": ["b"], "evidence": ["z"]},
    ]
    assert karat.read_gold(tmp_path / "gold.parquet").fields == karat.read_gold(entries).fields
    single = pl.DataFrame({"query_id": ["q1"], "chunk_id": ["a"], "negatives": ["n1"]})
    assert karat.read_gold(single).fields == {"negatives": [["n1"]]}


@pytest.mark.parametrize(
    ("column", "item", "kind"),
    [("chunk_id", "a", CHUNK), ("doc_id", "a", DOC), ("docid", "a", BARE), ("doc_id", "a#1", BARE), ("id", "a", BARE)],
)
def test_the_name_of_the_column_says_what_an_id_names(column: str, item: str, kind: int) -> None:
    assert karat.read_gold(pl.DataFrame({"query_id": ["q1"], column: [item]})).kinds.tolist() == [kind]


def test_a_named_target_column() -> None:
    frame = pd.DataFrame({"query": ["one?", "two?"], "recipe": [1, 2], "target_id": [8, 9]})
    assert karat.read_gold(frame, target="recipe").ids == ["1", "2"]
    assert karat.read_gold(frame).ids == ["8", "9"]


def test_a_named_target_column_that_is_missing() -> None:
    with refused("missing-column", InputError, field="recipy", got="query, recipe"):
        karat.read_gold(pd.DataFrame({"query": ["one?"], "recipe": [1]}), target="recipy")


# Mistakes


@pytest.mark.parametrize(
    ("text", "line", "code", "field", "got"),
    [
        ("query_id,chunk_id,score\nq1,a,1\nq1,b,high\n", 3, "bad-value", "score", "high"),
        ("query_id,chunk_id,score\nq1,a,1\nq1,b,nan\n", 3, "bad-value", "score", "nan"),
        ("query_id,chunk_id,score\nq1,a,1\nq1,b,-inf\n", 3, "bad-value", "score", "-inf"),
        ("query_id,chunk_id,score\nq1,a,1\nq1,b,1e999\n", 3, "bad-value", "score", "1e999"),
        ("query_id,chunk_id,rank\nq1,a,1\nq1,b,first\n", 3, "bad-value", "rank", "first"),
        ("query_id,chunk_id,score\nq1,a,1\n,b,2\n", 3, "missing-value", "query_id", None),
        ("query_id,chunk_id,score\nq1,a,1\nq1,,2\n", 3, "missing-value", "chunk_id", None),
        (
            "system,query_id,chunk_id,score\nA,q1,a,1\nB,q1,a,2\nA,q1,b,1\nB,q1,b,high\n",
            *(5, "bad-value", "score", "high"),
        ),
        (
            "system,query_id,chunk_id,score\nA,q1,a,1\nB,q1,a,2\nA,q1,b,1\nB,,b,1\n",
            *(5, "missing-value", "query_id", None),
        ),
        ("query_id,chunk_id,score\nq1,a,1\nq1,b,1,2,3\n", 3, "bad-row", None, None),
    ],
    ids=[
        "word",
        "nan",
        "infinite",
        "too large",
        "rank",
        "no query",
        "no id",
        "word in the second system",
        "no query in the second system",
        "too many fields",
    ],
)
def test_a_bad_row_is_named_by_its_line(
    tmp_path: Path, text: str, line: int, code: str, field: str | None, got: str | None
) -> None:
    path = write(tmp_path / "run.csv", text)
    with refused(code, InputError, file=path, line=line, field=field, got=got):
        evaluate_all(path, GOLD, ["mrr"])


def test_a_bad_grade_is_named_by_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.csv", "query_id,chunk_id,grade\nq1,a,1\nq1,b,good\n")
    with refused("bad-value", InputError, file=path, line=3, field="grade", got="good"):
        karat.read_gold(path)


def test_an_empty_grade_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.csv", "query_id,chunk_id,grade\nq1,a,1\nq1,b,\n")
    with refused("missing-value", InputError, file=path, line=3, field="grade"):
        karat.read_gold(path)


def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", 'query_id,chunk_id,score\nq1,a,1\nq1,"b,1\nq2,c,1\n')
    with refused("bad-row", InputError, file=path, line=3):
        mrr(path)


@pytest.mark.parametrize("rows", ["q1,x\n\nq1,a\nq2,c\n", "q1,x\nq1,a\nq2,c\n\n\n"], ids=["middle", "end"])
def test_blank_lines_are_passed_over(tmp_path: Path, rows: str) -> None:
    assert mrr(write(tmp_path / "run.csv", "query_id,chunk_id\n" + rows)) == SCORES


def test_a_row_that_is_too_short_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", "query_id,chunk_id,score\nq1,x,1\nq1,a\nq2,c,1\n")
    result = karat.evaluate(path, GOLD, ["mrr"])
    assert result.score("mrr") == SCORES
    assert result.audit["partial_order"] == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"chunk_id": [["a"]]},
        {"query_id": [["q1"]]},
        {"chunk_id": [b"\xff"]},
        {"chunk_id": pl.Series([object()], dtype=pl.Object)},
        {"chunk_id": [{"id": "a"}]},
        {"chunk_id": [None]},
        {"score": [[1.0]]},
        {"score": [{"value": 1.0}]},
        {"score": [float("nan")]},
        {"score": [float("inf")]},
        {"rank": [[1]]},
        {"doc_id": [["d"]]},
        {"text": [["t"]]},
        {"text": [b"t"]},
    ],
    ids=lambda c: "-".join(f"{k}={type(v[0]).__name__}" for k, v in c.items()),
)
def test_columns_of_other_types_are_refused_by_name(columns: dict[str, Any]) -> None:
    frame = pl.DataFrame({"query_id": ["q1"], "chunk_id": ["a"], **columns})
    with pytest.raises(InputError, match=next(iter(columns))):
        karat.evaluate(frame, {"q1": ["a"]}, ["mrr", "novelty@5"])


def test_texts_that_are_numbers_are_texts() -> None:
    frame = pl.DataFrame({"query_id": ["q1", "q1"], "chunk_id": ["a", "b"], "text": [5, 5]})
    assert karat.evaluate(frame, {"q1": ["a"]}, ["novelty@2"]).means == {"novelty@2": 0.5}


@pytest.mark.parametrize("item", [1e300, 9.3e18, 0.5, float("nan")])
def test_ids_that_are_odd_numbers_are_text_or_refused(item: float) -> None:
    frame = pl.DataFrame({"query_id": ["q1", "q1"], "chunk_id": [3.0, item]})
    with contextlib.suppress(KaratError):
        assert karat.evaluate(frame, {"q1": ["x"]}, ["mrr"]).means == {"mrr": 0.0}


def test_a_damaged_parquet_file_is_refused_or_read(tmp_path: Path) -> None:
    """Wherever the damage is: polars answers some of it with a panic, which is no Exception."""
    path = tmp_path / "run.parquet"
    pl.DataFrame(HITS).write_parquet(path)
    whole = path.read_bytes()
    outcomes = set()
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        outcomes.add(outcome(path))
    assert outcomes == {"read", "refused"}


def outcome(path: Path) -> str:
    try:
        karat.evaluate(path, GOLD, ["mrr"])
    except KaratError:
        return "refused"
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__} instead of a KaratError") from error
    return "read"


@pytest.mark.parametrize(
    "columns",
    [{"chunk_id": [["a"]]}, {"query_id": [["q1"]]}, {"grade": [[1.0]]}, {"grade": [None]}, {"chunk_id": [None]}],
    ids=lambda c: "-".join(f"{k}={type(v[0]).__name__}" for k, v in c.items()),
)
def test_columns_of_other_types_are_refused_in_gold_too(columns: dict[str, Any]) -> None:
    frame = pl.DataFrame({"query_id": ["q1", "q1"], "chunk_id": ["a", "b"], "grade": [1.0, 2.0]})
    bad = pl.DataFrame({"query_id": ["q1"], "chunk_id": ["c"], "grade": [1.0], **columns})
    odd = bad if frame.schema != bad.schema else pl.concat([frame, bad])
    with pytest.raises(InputError, match=next(iter(columns))):
        karat.read_gold(odd)


@pytest.mark.parametrize(
    "thing",
    [
        pd.Series(["a"], name="chunk_id"),
        pl.Series(["a"]),
        pa.array(["a"]),
        pd.DataFrame([["q1", "a", "b"]], columns=["query_id", "chunk_id", "chunk_id"]),
        pd.DataFrame({"query_id": [], "chunk_id": []}),
        pl.DataFrame({"query_id": [], "chunk_id": []}),
        pl.DataFrame(),
        pa.table({}),
    ],
    ids=[
        "pandas series",
        "polars series",
        "arrow array",
        "same name twice",
        "no rows",
        "no rows",
        "nothing",
        "nothing",
    ],
)
def test_things_that_are_no_table_of_hits_are_refused(thing: Any) -> None:
    with pytest.raises(KaratError):
        karat.evaluate(thing, {"q1": ["a"]}, ["mrr"])
    with pytest.raises(KaratError):
        karat.evaluate({"q1": ["a"]}, thing, ["mrr"])


def test_a_file_with_a_header_only_is_refused(tmp_path: Path) -> None:
    with refused("no-rows", InputError):
        mrr(write(tmp_path / "run.csv", "query_id,chunk_id,score\n"))


@pytest.mark.parametrize(
    ("text", "role"), [("question_no,chunk_id\nq1,a\n", "query_id"), ("query_id,passage\nq1,a\n", "chunk_id")]
)
def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path, text: str, role: str) -> None:
    path = write(tmp_path / "run.csv", text)
    with refused("missing-column", InputError, file=path) as caught:
        karat.evaluate(karat.read_run(path, format="table"), GOLD)
    assert role in caught.value.what
    assert caught.value.got.split(", ") == text.partition("\n")[0].split(",")
    assert caught.value.hint
