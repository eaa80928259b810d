"""Retrievers and example files against real servers: PostgreSQL with pgvector, Chroma, and Lucene."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from karat.systems import run_retriever

sys.path.insert(0, str(Path(__file__).parent))
import servers

DENSE, WORDS = 0.404, 0.42  # recall in the first ten hits, as in test_libraries.py
GOLD = [{"query_id": f"q{i}", "query": "refund a card payment", "gold": ["doc_101#p1"]} for i in range(3)]


def spec(file: str, server: str = "", **options: Any) -> dict[str, Any]:
    """An example file, with the server at another address."""
    found = yaml.safe_load((servers.ENGINES / file).read_text())
    if server:
        path = found["url"].split("/", 3)[3]
        found["url"] = f"{server}/{path}"
    return {**found, **options}


def errors(retriever: Any, **options: Any) -> list[str]:
    done = run_retriever(retriever, GOLD, **{"k": 5, "warm_up": 0, "timeout": 20, **options})
    assert len(done.run) == len(GOLD), "every query is logged"
    assert all(record["topk"] == [] for record in done.run)
    return [record["error"] for record in done.run]


def one_error(retriever: Any, **options: Any) -> str:
    (said,) = set(errors(retriever, **options))
    return said


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with servers.postgres() as url:
        yield url


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with servers.chroma(tmp_path_factory.mktemp("chroma")) as found:
        yield found


@pytest.fixture(scope="module")
def lucene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.lucene(tmp_path_factory.mktemp("lucene")) as url:
        yield url


@pytest.fixture(autouse=True)
def _own_address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    if "postgres" in request.fixturenames:
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("postgres"))
    if "chroma" in request.fixturenames:
        monkeypatch.setenv("CHROMA_COLLECTION_ID", request.getfixturevalue("chroma")[1])


# PostgreSQL


@pytest.mark.parametrize(("file", "floor"), [("postgres-fulltext.yaml", 0.34), ("pgvector.yaml", DENSE)])
def test_postgres_finds_what_it_should(
    postgres: str, file: str, floor: float, recall_of: Callable[..., float], tmp_path: Path
) -> None:
    assert recall_of(file, "--workers", "3") >= floor
    assert postgres not in (tmp_path / "run.jsonl").read_text(), "an address may have a password"
    record = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])
    assert record["retriever"]["url"] == "${DATABASE_URL}"
    scores = [hit["score"] for hit in record["topk"]]
    assert scores == sorted(scores, reverse=True)
    assert set(record["latency_ms"]) == ({"retrieve"} if "full" in file else {"embed", "retrieve"})


def test_values_are_never_part_of_the_statement(postgres: str) -> None:
    said = "x'); DROP TABLE docs; -- %s {k} \\ \" $1"
    gold = [{"query_id": "q", "query": said, "gold": ["a"], "tags": {"topic": "it's 100 %", "year": 2024}}]
    sql = (
        "SELECT {query} AS id, {topic}::text AS text, {year}::int AS score, '{k' || {k} AS source WHERE 'a%' LIKE 'a%'"
    )
    (record,) = run_retriever({"retriever": "postgres", "url": "${DATABASE_URL}", "sql": sql}, gold, warm_up=0, k=7).run
    (hit,) = record["topk"]
    assert (hit["chunk_id"], hit["text"], hit["score"], hit["source"]) == (said, "it's 100 %", 2024.0, "{k7")
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT count(*) FROM docs").fetchone() == (708,)


def test_a_statement_without_limit_costs_no_memory(postgres: str) -> None:
    sql = "SELECT n AS id, repeat('x', 1000) AS text FROM generate_series(1, 2000000) AS n"
    done = run_retriever({"retriever": "postgres", "url": "${DATABASE_URL}", "sql": sql}, GOLD, warm_up=0, k=5)
    assert (done.failed, [hit["chunk_id"] for hit in done.run[0]["topk"]]) == (0, ["1", "2", "3", "4", "5"])


FAULTS = {
    "SELECT id FROM nowhere": "nowhere",
    "SELECT id, nothing AS score FROM docs": "nothing",
    "DELETE FROM docs RETURNING id": "DELETE",
    "SELECT id FROM docs, pg_sleep(30)": " 1 s",
    "SELECT text FROM docs LIMIT {k}": "'text'",
    "SELECT id FROM docs WHERE language = {langauge}": "{langauge}",
    "SELECT id, 'nan'::float8 AS score FROM docs": "nan",
    "SELECT id FROM docs ORDER BY embedding <=> '[1,2,3]'": "dimensions",
    "SELECT id FROM docs; DELETE FROM docs": "multiple commands",
}


@pytest.mark.parametrize("sql", FAULTS)
def test_a_statement_that_fails_is_named(postgres: str, sql: str) -> None:
    wanted = {"retriever": "postgres", "url": "${DATABASE_URL}", "sql": sql}
    assert FAULTS[sql] in one_error(wanted, timeout=1 if "sleep" in sql else 20)
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT count(*) FROM docs").fetchone() == (708,)


def test_a_database_that_is_not_there(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELSEWHERE", "postgresql://me:pw1@127.0.0.1:9/docs")
    said = one_error({"retriever": "postgres", "url": "${ELSEWHERE}", "sql": "SELECT 1 AS id", "retries": 1})
    assert "refused" in said
    assert "pw1" not in said
    monkeypatch.setenv("ELSEWHERE", postgres.replace("/postgres?", "/nowhere?"))
    assert "nowhere" in one_error(
        {"retriever": "postgres", "url": "${ELSEWHERE}", "sql": "SELECT 1 AS id", "retries": 0}
    )


def test_a_lost_connection_is_opened_again(postgres: str) -> None:
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'karat'"
    from karat.data.question import Question
    from karat.retrievers.specs import make_retriever

    found = make_retriever(spec("pgvector.yaml"))
    assert len(found.answer(Question("q", "refund", timeout=30), 5).hits) == 5
    with psycopg.connect(postgres) as connection:
        assert connection.execute(ended).fetchall()
    assert len(found.answer(Question("q", "refund", timeout=30), 5).hits) == 5


def test_only_failed_queries_are_asked_again(
    postgres: str, tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of the database that fails for some queries, until it is mended."""
    monkeypatch.chdir(tmp_path)
    gold = [{"query_id": f"q{i}", "query": f"query {i}", "gold": ["a"], "tags": {"n": i}} for i in range(8)]
    Path("gold.jsonl").write_text("\n".join(map(json.dumps, gold)))
    Path("find.yaml").write_text("retriever: postgres\nurl: ${DATABASE_URL}\nsql: SELECT find({n}) AS id\n")
    arguments = ("run", "find.yaml", "-q", "gold.jsonl", "-o", "run.jsonl", "--warm-up", "0", "--json")

    def find(body: str) -> None:
        with psycopg.connect(postgres) as connection:
            connection.execute(f"CREATE OR REPLACE FUNCTION find(n int) RETURNS text LANGUAGE sql AS 'SELECT {body}'")

    find("(1 / (n % 4))::text")
    assert karat_command(*arguments)[0] == 2, "a quarter failed"
    records = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    assert [record["query_id"] for record in records] == [f"q{i}" for i in range(8)]
    assert [record["query_id"] for record in records if "error" in record] == ["q0", "q4"]
    find("$$mended$$")
    code, out, _ = karat_command(*arguments, "--retry-failed")
    assert (code, json.loads(out)["asked"]) == (0, 2)
    found = [json.loads(line)["topk"][0]["chunk_id"] for line in Path("run.jsonl").read_text().splitlines()]
    assert [query for query, item in enumerate(found) if item == "mended"] == [0, 4]


def test_two_engines_side_by_side(
    postgres: str, karat_command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(servers.ENGINES)
    asked = ("compare", "--live", "postgres-fulltext.yaml", "pgvector.yaml", "--queries", "../helpdesk/gold.jsonl")
    code, out, errors = karat_command(*asked, "-m", "recall@10", "-m", "latency_p50", "--workers", "2", "--json")
    assert code == 0, errors
    (pair,) = json.loads(out)["pairs"]
    assert {d["metric"] for d in pair["differences"]} == {"recall@10", "latency_p50"}


# Chroma


def test_chroma_finds_what_it_should(chroma: tuple[str, str], recall_of: Callable[..., float], tmp_path: Path) -> None:
    file = tmp_path / "chroma.yaml"
    file.write_text(yaml.safe_dump(spec("chroma.yaml", chroma[0])))
    assert recall_of(str(file), "--workers", "3") >= DENSE - 0.01, "its index is approximate"
    record = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])
    scores = [hit["score"] for hit in record["topk"]]
    assert scores == sorted(scores, reverse=True)
    assert all(score <= 0 and hit["text"] for score, hit in zip(scores, record["topk"], strict=True))


def test_what_chroma_refuses_is_named(chroma: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = spec("chroma.yaml", chroma[0])
    small = {**whole["request"], "query_embeddings": [[0.1, 0.2, 0.3]]}
    del whole["model"]
    assert "dimension" in one_error({**whole, "request": small})
    without = {**spec("chroma.yaml", chroma[0])["request"], "include": ["documents"]}
    assert "'distances[0]'" in one_error(spec("chroma.yaml", chroma[0], request=without))
    monkeypatch.setenv("CHROMA_COLLECTION_ID", "00000000-0000-0000-0000-000000000000")
    assert "404" in one_error(spec("chroma.yaml", chroma[0]))
    assert "3 attempts" in one_error(spec("chroma.yaml", "http://127.0.0.1:9"))


# Lucene


def test_lucene_finds_what_it_should(lucene: str, recall_of: Callable[..., float], tmp_path: Path) -> None:
    file = tmp_path / "lucene.yaml"
    file.write_text(yaml.safe_dump(spec("lucene.yaml", lucene)))
    assert recall_of(str(file), "--workers", "3") >= WORDS
    assert "nowhere" in one_error(spec("lucene.yaml", url=f"{lucene}/v1/nowhere/search"))
