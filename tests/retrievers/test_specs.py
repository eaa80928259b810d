"""Retrievers from text and from YAML."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from karat.errors import KaratError
from karat.retrievers.base import REGISTRY, Retriever
from karat.retrievers.specs import make_retriever, parse
from karat.systems.run import run_retriever


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("bm25", "bm25", {"field": "all"}),
        ("bm25:title", "bm25", {"field": "title"}),
        (" bm25 ( title , k1 = 2 ) ".replace(" (", "("), "bm25", {"field": "title", "k1": 2.0}),
        ("random:7", "random", {"seed": 7}),
        ("hybrid(bm25:title, random(seed=3), prefetch=9)", "hybrid", {"prefetch": 9}),
        ("rerank(hybrid(bm25, random), os.path:basename, top_n=3)", "rerank", {"reranker": "os.path:basename"}),
        ("http://localhost:1/search?x=(1,2)", "http", {"url": "http://localhost:1/search?x=(1,2)"}),
        ("os.path:basename", "function", {"target": "os.path:basename"}),
        ("elasticsearch:http://localhost:9200/docs", "elasticsearch", {"url": "http://localhost:9200/docs"}),
    ],
)
def test_text(text: str, name: str, options: dict[str, Any]) -> None:
    settings = make_retriever(text).settings()
    assert settings["name"] == name
    assert {option: settings[option] for option in options} == options


def test_parts_may_be_nested() -> None:
    found = make_retriever("hybrid(bm25:title(k1=2), hybrid(random, bm25))").settings()
    assert (found["first"]["k1"], found["second"]["second"]["name"]) == (2.0, "bm25")


def test_yaml(tmp_path: Path) -> None:
    file = tmp_path / "hybrid.yaml"
    file.write_text("retriever: hybrid\nprefetch: 20\nfirst: bm25:title\nsecond: {retriever: random, seed: 5}\n")
    found = make_retriever(str(file)).settings()
    assert (found["prefetch"], found["first"]["field"], found["second"]["seed"]) == (20, "title", 5)
    assert make_retriever(str(file), {"prefetch": 30}).settings()["prefetch"] == 30, "the command line wins"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("bm52", "unknown-retriever"),
        ("my_search", "unknown-retriever"),
        ("", "bad-retriever"),
        ("two words", "bad-retriever"),
        ("hybrid(bm25", "bad-retriever"),
        ("hybrid(bm25))", "bad-retriever"),
        ("hybrid(bm25,)", "bad-retriever"),
        ("bm25(k2=1)", "unknown-option"),
        ("bm25(k1=high)", "wrong-type"),
        ("bm25:titel", "wrong-type"),
        ("bm25:title(field=text)", "duplicate-option"),
        ("random(1, 2)", "too-many-options"),
        ("bm25(b=2)", "bad-setting"),
        ("hybrid(prefetch=0)", "bad-setting"),
        ("rerank(top_n=0)", "bad-setting"),
        ("http", "missing-option"),
        ("http://user:secret@host/x", "bad-address"),
        ("elasticsearch:http://localhost:9200", "bad-address"),
        ("qdrant:http://localhost:6333", "bad-address"),
        ("no_such_module_at_all:search", "not-importable"),
        ("os.path:basenam", "unknown-callable"),
        ("os.path:", "bad-callable"),
        ("os:sep", "bad-callable"),
        ("nowhere.yaml", "unreadable"),
        ({"k1": 2}, "bad-retriever"),
        (7, "bad-callable"),
    ],
)
def test_what_makes_no_sense_is_refused(spec: Any, code: str) -> None:
    with refused(code) as caught:
        make_retriever(spec)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("spec", ["langchain:os:path", "haystack:os:path", "llama_index:os:path"])
def test_a_module_is_no_retriever(spec: str) -> None:
    with refused("bad-callable"):
        make_retriever(spec)


@pytest.mark.parametrize("prefix", ["", "langchain:", "haystack:", "llama_index:"])
def test_code_that_cannot_make_its_retriever_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    """Such as one that imports what is not installed."""
    (tmp_path / "not_made.py").write_text("def make():\n    import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    with refused("not-made") as caught:
        make_retriever(f"{prefix}not_made:make")
    assert "no_such_package" in str(caught.value)


@pytest.mark.parametrize("text", ["- a\n", "a: 1\na: 2\n", "a: [\n"])
def test_yaml_that_is_none_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(text)
    with pytest.raises(KaratError, match=r"r\.yaml"):
        make_retriever(str(file))


def test_options_come_in_as_their_types() -> None:
    assert parse("x:y(k=1)") == ("function", ["x:y"], {"k": "1"})
    with refused("unknown-option"):
        make_retriever("os.path:basename(k=1)")


def test_every_retriever_tells_what_it_is_and_keeps_its_options() -> None:
    for name, kind in REGISTRY.builtin().items():
        assert kind.__doc__, name
        assert issubclass(kind, Retriever)
    page = (Path(__file__).parents[2] / "docs" / "retrievers.md").read_text()
    assert [name for name in REGISTRY.builtin() if f"`{name}" not in page] == []


def test_the_code_and_the_yaml_of_the_page_about_retrievers_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "retrievers.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    (record,) = run_retriever(names["search"], [{"query_id": "q", "query": "refund?", "gold": ["a"]}]).run
    assert record["topk"][0] == {"rank": 1, "chunk_id": "doc_123#p6", "score": 18.4}
    monkeypatch.setenv("SEARCH_KEY", "x")
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/docs")
    found = []
    for text in re.findall(r"```yaml\n(.*?)```", page, re.S):
        (tmp_path / "search.yaml").write_text(text)
        found.append(make_retriever(str(tmp_path / "search.yaml")).settings())
    http, postgres = found
    assert (http["name"], http["hits"], http["method"]) == ("http", "response.docs", "POST")
    assert (postgres["name"], postgres["url"], postgres["model"]) == ("postgres", "${DATABASE_URL}", "static")


PLUGIN = """
from karat.retrievers.base import Retriever
class Echo(Retriever):
    name = "echo"
    searches_corpus = False
    def __init__(self, times: int = 1):
        self.times = times
    def search(self, query, k, *, language=None):
        return [f"{query}-{n}" for n in range(self.times)]
"""


def test_a_retriever_of_another_package_comes_in_through_the_same_door(tmp_path: Path) -> None:
    (tmp_path / "karat_echo.py").write_text(PLUGIN)
    info = tmp_path / "karat_echo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: karat-echo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[karat.retrievers]\necho = karat_echo:Echo\n")
    (tmp_path / "gold.jsonl").write_text('{"query_id": "q1", "query": "hello", "gold": ["hello-1"]}\n')
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "karat.cli.main", "run", "echo(times=2)", "-q", "gold.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    line = (tmp_path / "run.jsonl").read_text()
    assert '"hello-0"' in line
    assert '"retriever":{"name":"echo","times":2}' in line
