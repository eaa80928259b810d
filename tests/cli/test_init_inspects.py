"""`karat init` looks at what the user has: gates that run on it at once, a workflow that fits the repository."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
import yaml
from commands import run_here
from refusals import refused

from karat.files.installed import checked, installed_from
from karat.gates.criteria import read_criteria

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PINNED = f"git+https://example.com/team/karat@{COMMIT}"
WORKFLOW = ".github/workflows/karat.yml"


def karat(*arguments: str, cwd: Path, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    done = run_here(*arguments, cwd=cwd, **variables)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def jsonl(file: Path, records: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def questions(n: int = 40, **fields: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [
        {"query_id": f"q{i}", "query": f"question {i}", **{name: make(i) for name, make in fields.items()}}
        for i in range(n)
    ]


def first_gold(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(gold=lambda i: [f"d{i}"]))


def graded(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(gold=lambda i: {f"d{i}": 2, f"e{i}": 1}))


def many_items(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(gold=lambda i: [f"d{i}", *(f"d{i}-{n}" for n in range(11))]))


def own_k(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(gold=lambda i: [f"d{i}"], k=lambda i: 3))


def languages(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(gold=lambda i: [f"d{i}"], tags=lambda i: {"language": ["en", "pt"][i % 2]}))


def thin_tags(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(gold=lambda i: [f"d{i}"], tags=lambda i: {"author": f"a{i}"}))


def unanswerable(folder: Path) -> None:
    some = questions(30, gold=lambda i: [f"d{i}"])
    jsonl(folder / "gold.jsonl", [*some, *({"query_id": f"n{i}", "query": "?", "no_answer": True} for i in range(10))])


def evidence_alone(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(evidence=lambda i: [f"the answer to question {i} is in here"]))


def evidence_and_ids(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(gold=lambda i: [f"d{i}"], evidence=lambda i: [f"question {i} is in here"]))


def answers_alone(folder: Path) -> None:
    jsonl(folder / "gold.jsonl", questions(answer_span=lambda i: f"question {i} is"))


def table(folder: Path) -> None:
    (folder / "data").mkdir()
    with (folder / "data" / "gold.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["query_id", "query", "chunk_id"])
        rows.writerows([f"q{i}", f"question {i}", f"d{i}"] for i in range(40))


def parquet(folder: Path) -> None:
    columns = {"query_id": [f"q{i}" for i in range(40)], "query": [f"question {i}" for i in range(40)]}
    polars.DataFrame({**columns, "chunk_id": [f"d{i}" for i in range(40)]}).write_parquet(folder / "gold.parquet")


def beir(folder: Path) -> None:
    (folder / "data" / "qrels").mkdir(parents=True)
    jsonl(folder / "data" / "queries.jsonl", [{"_id": f"q{i}", "text": f"question {i}"} for i in range(40)])
    rows = "".join(f"q{i}\td{i}\t1\n" for i in range(40))
    (folder / "data" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")


SHAPES: dict[Callable[[Path], None], list[str]] = {
    first_gold: ["recall@5", "mrr"],
    graded: ["recall@5", "ndcg@5"],
    many_items: ["recall@20", "mrr"],  # 12 items do not fit into 5 or 10 places
    own_k: ["recall", "mrr"],  # without a cutoff: the query's own
    languages: ["recall@5", "mrr", "recall@5"],
    thin_tags: ["recall@5", "mrr"],
    unanswerable: ["recall@5", "mrr", "false_evidence@5"],
    evidence_alone: ["evidence_recall@5"],
    evidence_and_ids: ["recall@5", "mrr"],  # a run without texts must be judged, too
    answers_alone: ["answer_containment@5"],
    table: ["recall@5", "mrr"],
    parquet: ["recall@5", "mrr"],
    beir: ["recall@5", "mrr"],
}

SEARCH = """
def search(query, k=10):
    n = query.split()[-1]
    text = f"the answer to question {n} is in here"
    names = enumerate([f"d{n}", f"e{n}", "x"], 1)
    return [{"chunk_id": name, "score": 1 / place, "text": text} for place, name in names]
"""


def next_commands(said: str) -> list[list[str]]:
    lines = said.partition("\nnext")[2].splitlines()[1:]
    return [line.split()[2:] for line in lines]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_gates_run_on_what_is_there(tmp_path: Path, shape: Callable[[Path], None]) -> None:
    """From the user's gold set to a verdict, by nothing but the commands that `karat init` prints."""
    shape(tmp_path)
    (tmp_path / "my_app.py").write_text(SEARCH)
    said = karat("init", "--install", PINNED, cwd=tmp_path)
    criteria = read_criteria(tmp_path / "ship-criteria.yaml")
    assert [gate.metric for gate in criteria.gates] == SHAPES[shape]
    asked, measured, judged = next_commands(said.stderr)
    assert (asked[0], measured[0], judged[0]) == ("run", "eval", "gate")
    karat(*asked, cwd=tmp_path)
    karat(*measured, cwd=tmp_path)
    verdicts = run_here(*judged, "--json", cwd=tmp_path)
    assert verdicts.returncode in (0, 1), verdicts.stderr
    found = json.loads(verdicts.stdout)["verdicts"]
    assert {v["outcome"] for v in found} <= {"pass", "fail"}
    assert {v["metric"].partition("@")[0] for v in found} == {name.partition("@")[0] for name in SHAPES[shape]}


@pytest.mark.parametrize("shape", [graded, unanswerable, evidence_and_ids], ids=lambda shape: shape.__name__)
def test_floors_follow_a_run_that_is_there(tmp_path: Path, shape: Callable[[Path], None]) -> None:
    shape(tmp_path)
    found = 'return [] if n.endswith(("3", "6", "?")) else ['
    (tmp_path / "my_app.py").write_text(SEARCH.replace("return [", found))
    karat("run", "my_app:search", "--queries", "gold.jsonl", cwd=tmp_path)
    karat("init", "--install", PINNED, cwd=tmp_path)
    reached = json.loads(
        karat(
            "eval", "run.jsonl", "-g", "gold.jsonl", "--criteria", "ship-criteria.yaml", "--json", cwd=tmp_path
        ).stdout
    )
    means = {row["metric"]: row for row in reached["summary"]}
    for gate in read_criteria(tmp_path / "ship-criteria.yaml").gates:
        row = means[str(gate.parsed)]
        if gate.threshold is not None:
            assert row["low"] - 0.01 < gate.threshold <= row["low"]
        if gate.max is not None:
            assert row["high"] <= gate.max < row["high"] + 0.01
    karat("gate", "run.jsonl", "-g", "gold.jsonl", cwd=tmp_path)  # it passes its own floors
    if shape is evidence_and_ids:  # the run has texts
        assert "evidence_recall@5" in {g.metric for g in read_criteria(tmp_path / "ship-criteria.yaml").gates}


def test_floors_do_not_follow_a_run_in_doubt(tmp_path: Path) -> None:
    """Ids that do not match give 0, and a floor of 0 would hold for ever."""
    first_gold(tmp_path)
    jsonl(tmp_path / "run.jsonl", [{"query_id": f"q{i}", "topk": [f"kb/{i}.md"]} for i in range(40)])
    said = karat("init", "--install", PINNED, cwd=tmp_path)
    assert "warning: " in said.stderr
    assert [g.threshold for g in read_criteria(tmp_path / "ship-criteria.yaml").gates] == [0.8, 0.6]


@pytest.mark.parametrize(
    ("content", "code"),
    [("", 2), ("not: [closed", 2), ('{"id": 1, "question": "how?", "expected": ["a"]}\n', 2)],
)
def test_a_gold_set_that_cannot_be_read_stops_it(tmp_path: Path, content: str, code: int) -> None:
    """Gates for it would be a guess, so nothing is written."""
    (tmp_path / "gold.jsonl").write_text(content)
    said = karat("init", cwd=tmp_path, code=code)
    assert "gold.jsonl" in said.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["gold.jsonl"]


def test_fields_under_other_names_are_mapped_once_and_for_all(tmp_path: Path) -> None:
    jsonl(tmp_path / "gold.jsonl", [{"id": f"q{i}", "question": f"question {i}", "want": [f"d{i}"]} for i in range(40)])
    (tmp_path / "my_app.py").write_text(SEARCH)
    said = karat("init", "--map", "query_id=id,query=question,gold=want", "--install", PINNED, cwd=tmp_path)
    assert "wrote karat.yaml" in said.stdout.splitlines()
    for command in next_commands(said.stderr):
        karat(*command, cwd=tmp_path)  # without --map


def test_a_saved_map_serves_every_command(tmp_path: Path, corpus_and_app: None) -> None:
    """The map is for the log and the gold set. Other files are in Karat's own format, and no command may mind."""
    fields = "run.query_id=request,topk=retrieved,run.chunk_id=passage,score=similarity,latency_ms=took_ms"
    fields += ",gold.query_id=Query_ID,query=question_text,gold.chunk_id=Chunk,grade=Relevance"
    said = karat(
        "init", "--gold", "gold.csv", "--run", "logs.jsonl", "--map", fields, "--install", PINNED, cwd=tmp_path
    )
    log = (tmp_path / "logs.jsonl").read_bytes()
    karat("eval", "logs.jsonl", "--gold", "gold.csv", cwd=tmp_path)
    karat("run", "my_app:search", "--queries", "gold.csv", "-o", "run.jsonl", cwd=tmp_path)
    for command in next_commands(said.stderr)[1:]:
        karat(*command, cwd=tmp_path)
    karat("run", "bm25", "--queries", "gold.csv", "--corpus", "corpus.jsonl", "-o", "bm25.jsonl", cwd=tmp_path)
    for files in (["gold.csv"], ["logs.jsonl"], ["run.jsonl"], ["run.jsonl", "gold.csv"], ["logs.jsonl", "gold.csv"]):
        karat("check", *files, cwd=tmp_path)
    jsonl(tmp_path / "labels.jsonl", [{"query_id": "q1", "chunk_id": "d2", "grade": 1, "annotator": "ann"}])
    karat("labels", "merge", "labels.jsonl", "--gold", "gold.csv", "-o", "gold2.jsonl", cwd=tmp_path)
    karat("eval", "run.jsonl", "--gold", "gold2.jsonl", cwd=tmp_path)
    karat("labels", "pool", "run.jsonl", "bm25.jsonl", "--gold", "gold.csv", "-o", "pool.jsonl", cwd=tmp_path)
    assert "-o logs.jsonl" not in said.stderr
    assert (tmp_path / "logs.jsonl").read_bytes() == log


def test_a_typo_in_a_saved_map_is_found(tmp_path: Path, corpus_and_app: None) -> None:
    """The run has the other fields, so its score is named wrongly. On the command line, every field must exist."""
    fields = "run.query_id=request,topk=retrieved,run.chunk_id=passage,score=similarty"
    gold = "gold.query_id=Query_ID,query=question_text,gold.chunk_id=Chunk,grade=Relevance"
    (tmp_path / "karat.yaml").write_text(f"map: {fields},{gold}\n")
    said = karat("eval", "logs.jsonl", "--gold", "gold.csv", cwd=tmp_path, code=2)
    assert "karat.yaml" in said.stderr
    assert "'similarty'" in said.stderr
    shown = karat("check", "logs.jsonl", cwd=tmp_path, code=2)
    assert "similarity" in shown.stdout  # what the hint promises
    karat("check", "gold.csv", cwd=tmp_path)
    karat("check", "gold.csv", "--map", f"{fields},{gold}", cwd=tmp_path, code=2)


@pytest.fixture
def corpus_and_app(tmp_path: Path) -> None:
    """Files under names of their own, and a retriever."""
    rows = "".join(f"q{i};question {i};d{i};2,0\n" for i in range(40))
    (tmp_path / "gold.csv").write_text("Query_ID;question_text;Chunk;Relevance\n" + rows, encoding="utf-8-sig")
    hits = [{"passage": "d1", "similarity": 0.9}, {"passage": "d3", "similarity": 0.8}]
    jsonl(tmp_path / "logs.jsonl", [{"request": f"q{i}", "retrieved": hits, "took_ms": 30} for i in range(40)])
    jsonl(tmp_path / "corpus.jsonl", [{"chunk_id": f"d{i}", "text": f"answer to question {i}"} for i in range(40)])
    (tmp_path / "my_app.py").write_text(SEARCH)


def test_another_gold_set_by_name(tmp_path: Path) -> None:
    first_gold(tmp_path)
    (tmp_path / "gold.jsonl").rename(tmp_path / "questions.jsonl")
    karat("init", "--gold", "questions.jsonl", cwd=tmp_path)
    variables = yaml.safe_load((tmp_path / WORKFLOW).read_text())["env"]
    assert (variables["GOLD"], variables["QUERIES"]) == ("questions.jsonl", "questions.jsonl")
    assert not (tmp_path / "gold.yaml").exists()
    (tmp_path / "top").mkdir()
    outside = karat("init", "top", "--gold", "questions.jsonl", cwd=tmp_path, code=2)
    assert "questions.jsonl" in outside.stderr
    assert list((tmp_path / "top").iterdir()) == []


def test_gold_without_texts_asks_for_queries(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(40)))
    said = karat("init", "--install", PINNED, "--retriever", "my_app:search", cwd=tmp_path)
    (open_,) = [line for line in said.stderr.splitlines() if line.startswith("fill in: ")]
    assert "QUERIES" in open_
    assert "--queries QUERIES" in said.stderr
    jsonl(tmp_path / "queries.jsonl", [{"query_id": f"q{i}", "query": f"question {i}"} for i in range(40)])
    (tmp_path / WORKFLOW).unlink()
    said = karat("init", "--install", PINNED, "--retriever", "my_app:search", cwd=tmp_path)
    assert "fill in" not in said.stderr
    assert yaml.safe_load((tmp_path / WORKFLOW).read_text())["env"]["QUERIES"] == "queries.jsonl"


def test_texts_under_another_name_are_proposed(tmp_path: Path) -> None:
    """`eval`, `run` and `init` say how to name the field, and the commands that `init` prints work."""
    records = [{"query_id": f"q{i}", "question_text": f"question {i}", "gold": [f"d{i}"]} for i in range(40)]
    jsonl(tmp_path / "gold.jsonl", records)
    jsonl(tmp_path / "corpus.jsonl", [{"chunk_id": f"d{i}", "text": f"the answer to question {i}"} for i in range(40)])
    (tmp_path / "my_app.py").write_text(SEARCH)
    said = karat("init", "--install", PINNED, "--retriever", "my_app:search", cwd=tmp_path).stderr
    assert "karat init --map query=question_text" in said
    for command in next_commands(said):
        karat(*command, cwd=tmp_path)
    jsonl(tmp_path / "log.jsonl", [{"query_id": f"q{i}", "topk": [f"d{i}", f"d{i + 1}"]} for i in range(39)])
    shown = karat("eval", "log.jsonl", "--gold", "gold.jsonl", "--corpus", "corpus.jsonl", "--explain", cwd=tmp_path)
    assert "--map query=question_text" in shown.stdout
    refused = karat("run", "my_app:search", "-q", "gold.jsonl", "-o", "new.jsonl", cwd=tmp_path, code=2)
    assert "--map query=question_text" in refused.stderr
    karat("init", "--map", "query=question_text", cwd=tmp_path)
    karat("run", "my_app:search", "-q", "gold.jsonl", "-o", "new.jsonl", cwd=tmp_path)


# The workflow


def written(folder: Path, *arguments: str) -> dict[str, Any]:
    karat("init", *arguments, cwd=folder)
    found: dict[str, Any] = yaml.safe_load((folder / WORKFLOW).read_text())
    return {**found, "on": found[True]}


def test_the_default_branch_is_that_of_the_repository(tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "release/next")
    first_gold(origin)
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "gold")
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    git(clone, "switch", "-q", "-c", "my-change")
    assert written(clone)["on"]["push"]["branches"] == ["release/next"]
    (clone / WORKFLOW).unlink()
    assert written(clone, "--branch", "stable")["on"]["push"]["branches"] == ["stable"]


def test_the_branch_of_a_repository_without_a_remote(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    assert written(tmp_path)["on"]["push"]["branches"] == ["trunk"]


def test_paths_name_what_moves_the_result(tmp_path: Path) -> None:
    table(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "ship-criteria.yaml").write_text("gates: [{metric: mrr, threshold: 0.1}]")
    on = written(tmp_path)["on"]
    assert on["push"]["paths"] == on["pull_request"]["paths"]
    assert {"**/*.py", "data/gold.csv", "config/ship-criteria.yaml", WORKFLOW, "karat.yaml"} <= set(on["push"]["paths"])


def test_a_retriever_of_karats_own_comes_with_its_extra_and_its_corpus(tmp_path: Path) -> None:
    first_gold(tmp_path)
    jsonl(tmp_path / "corpus.jsonl", [{"chunk_id": "d1", "text": "one"}])
    variables = written(tmp_path, "--retriever", "bm25", "--install", PINNED)["env"]
    assert (variables["CORPUS"], variables["KARAT"]) == ("corpus.jsonl", f"karat[baselines] @ {PINNED}")


@pytest.mark.parametrize("host", ["github", "gitlab"])
@pytest.mark.parametrize(("listed", "flag"), [("my_app:search", True), ("{retriever: bm25, k1: 2}", False)])
def test_a_workflow_says_where_it_trusts_karat_yaml(tmp_path: Path, listed: str, flag: bool, host: str) -> None:
    """Only where the retriever is one that karat.yaml names, and runs code or asks a server."""
    (tmp_path / "karat.yaml").write_text(f"retrievers: {{mine: {listed}}}\n")
    karat("init", *(["--gitlab"] if host == "gitlab" else []), cwd=tmp_path)
    text = (tmp_path / (".gitlab-ci.karat.yml" if host == "gitlab" else WORKFLOW)).read_text()
    assert text.count("--trust-config") == text.count("karat --trust-config run ") == flag


@pytest.mark.parametrize("name", ['a"b', "$(touch hacked)", "a: b # c", "é\\n", "{{ x }}"])
def test_odd_names_are_text_to_the_workflow(tmp_path: Path, name: str) -> None:
    first_gold(tmp_path)
    (tmp_path / "gold.jsonl").rename(tmp_path / name)
    found = written(tmp_path, "--gold", name, "--branch", name)
    assert found["env"]["GOLD"] == name
    assert found["on"]["push"]["branches"] == [name.replace("\\", "\\\\")]


@pytest.mark.parametrize(
    "package",
    [
        PINNED,
        f"karat[http] @ {PINNED}",
        "git+https://example.com/team/karat@v0.3.1",
        f"git+ssh://git@example.com/team/karat.git@{COMMIT}",
        "https://example.com/karat-0.2-py3-none-any.whl#sha256=" + "0" * 64,
        "./vendor/karat",
        "vendor/karat-0.2-py3-none-any.whl",
    ],
)
def test_what_is_pinned_is_taken(package: str) -> None:
    assert checked(package) == package


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("karat", "not-pinned"),
        ("karat==0.2.0", "not-pinned"),
        ("karat[http]>=0.2", "not-pinned"),
        ("git+https://example.com/team/karat", "not-pinned"),
        ("git+https://example.com/team/karat@main", "not-pinned"),
        (f"git+https://example.com/team/karat@{COMMIT[:8]}", "not-pinned"),
        ("http://example.com/karat.whl", "not-pinned"),
        ("--index-url=https://example.com/x", "not-pinned"),
        ("-r requirements/x.txt", "not-pinned"),
        ("", "not-pinned"),
        (f"git+https://token@example.com/team/karat@{COMMIT}", "secret-in-address"),
        (f"git+https://me:secret@example.com/team/karat@{COMMIT}", "secret-in-address"),
    ],
)
def test_what_could_change_or_leak_is_refused(package: str, code: str) -> None:
    with refused(code, field="--install"):
        checked(package)


def installed(folder: Path, direct_url: Any, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """As an installer leaves it behind."""
    info = folder / "karat-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: karat\nVersion: 9.9\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    monkeypatch.syspath_prepend(str(folder))
    return installed_from()


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, None),
        ({"url": "https://example.com/team/karat.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, f"git+https://example.com/team/karat.git@{COMMIT}"),
        ({"url": "https://me:secret@example.com/team/karat", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, PINNED),
        ({"url": "https://example.com/karat-9.whl", "archive_info": {"hashes": {"sha256": "ab"}}}, "karat @ https://example.com/karat-9.whl#sha256=ab"),
        ({"url": "file:///wheels/karat-9.whl", "archive_info": {"hashes": {"sha256": "ab"}}}, None),
        ({"url": "file:///there/is/no/such/folder", "dir_info": {}}, None),
        ({"nothing": "known"}, None),
    ],
)  # fmt: skip
def test_the_same_karat_is_installed_again(
    tmp_path: Path, direct_url: Any, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed(tmp_path, direct_url, monkeypatch) == expected


@pytest.mark.parametrize("pushed", [True, False])
def test_a_checkout_is_pinned_once_its_commit_is_pushed(
    tmp_path: Path, pushed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(origin))
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    git(clone, "commit", "-q", "--allow-empty", "-m", "first")
    if pushed:
        git(clone, "push", "-q", "origin", "HEAD:main")
    git(clone, "remote", "set-url", "origin", "git@example.com:team/karat.git")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True, check=True).stdout
    found = installed(tmp_path, {"url": clone.as_uri(), "dir_info": {"editable": True}}, monkeypatch)
    assert found == (f"git+https://example.com/team/karat.git@{head.strip()}" if pushed else None)


def test_a_workflow_without_a_package_says_what_to_fill_in(tmp_path: Path) -> None:
    """From a checkout of this machine that no remote is known to have."""
    first_gold(tmp_path)
    info = tmp_path / "site" / "karat-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: karat\nVersion: 9.9\n")
    said = karat("init", cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert yaml.safe_load((tmp_path / WORKFLOW).read_text())["env"]["KARAT"] == ""
    assert {line.split()[2] for line in said.stderr.splitlines() if line.startswith("fill in: ")} == {
        "KARAT",
        "RETRIEVER",
    }
