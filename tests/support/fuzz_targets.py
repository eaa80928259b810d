"""What is fuzzed: files of every kind that Karat reads, good ones to be damaged, and what is done with each.

A target takes bytes and does all that Karat would do with them. A KaratError is right; anything else is a failure.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import runpy
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import polars as pl
import zstandard

import karat
from karat.results.evaluate import evaluate_all

RUN = {"q1": {"a#1": 2.0, "b#1": 1.0}, "q2": {"c#1": 1.0}}
GOLD = {"q1": {"a#1": 2, "b": 1}, "q2": {"c#1": 0}}
METRICS = [
    "recall@5",
    "ndcg@5",
    "precision",
    "map",
    "mrr",
    "bpref",
    "judged@5",
    "distinct_docs@5",
    "novelty@5",
    "latency",
]


def parquet(columns: dict[str, list[Any]]) -> bytes:
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


LOG = (
    '{"query_id":"q1","system":"s","topk":[{"rank":1,"chunk_id":"a#1","score":0.5,"text":"one two"},'
    '{"rank":2,"chunk_id":"b#1","score":0.25,"doc_id":"b"}],"latency_ms":{"all":3.5},"index_version":"v1"}\n'
    '{"query_id":"q2","system":"s","topk":["c#1",7],"k_raw":50,"chunker":{"size":9},"note":[1,null]}\n'
)
ENTRIES = (
    '{"dataset_version":"v1","as_of_range":["2025-01-01","2025-02-01"]}\n'
    '{"query_id":"q1","query":"why?","gold":{"a#1":2,"b":1},"k":3,"tags":{"topic":"x"},"as_of":"2025-01-01"}\n'
    '{"query_id":"q2","gold":["c#1",{"doc_id":"d","grade":0.5,"quote":"so"}],"evidence":["e"],"negatives":["n"]}\n'
    '{"query_id":"q3","no_answer":true,"level":1.5}\n'
)
YAML = (
    "dataset_version: v1\nname: x\nqueries:\n- query_id: q1\n  gold: {a#1: 2, b: 1}\n  as_of: 2025-01-01\n"
    "- query_id: q2\n  gold:\n  - c#1\n  - {doc_id: d, grade: 0.5}\n  tags: {topic: no}\n"
)
RUN_FILES: dict[str, bytes] = {
    "log": LOG.encode(),
    "log in a list": json.dumps([json.loads(line) for line in LOG.splitlines()]).encode(),
    "outputs": b'{"id":"q1","actualOutput":{"retrieved":[{"id":"a#1","text":"t"}]}}\n'
    b'{"id":"q2","actualOutput":"[\\"c\\"]"}\n',
    "dict": json.dumps(RUN).encode(),
    "dict of lists": b'{\n "q1": ["a#1", ["b#1", 0.5]],\n "q2": [{"chunk_id": "c#1"}]\n}',
    "trec": b"q1 Q0 a#1 1 2.5 tag\nq1 Q0 b#1 2 1e-3 tag\nq2 Q0 c#1 1 -1 tag\n",
    "csv": b'system,query_id,chunk_id,score,text\ns,q1,a#1,2,one\ns,q1,b#1,1,"t,w"\ns,q2,c#1,,x\n',
    "tsv": b"qid\tdocno\trank\tdoc_id\nq1\ta#1\t1\ta\nq1\tb#1\t2\tb\nq2\tc#1\t1\t\n",
    "parquet": parquet({"query_id": ["q1", "q2"], "chunk_id": ["a#1", "c#1"], "score": [1.0, None]}),
    "gzip": gzip.compress(LOG.encode(), mtime=0),
    "zstd": zstandard.compress(LOG.encode()),
}
GOLD_FILES: dict[str, bytes] = {
    "entries": ENTRIES.encode(),
    "entries in a list": json.dumps([json.loads(line) for line in ENTRIES.splitlines()[1:]], indent=1).encode(),
    "yaml": YAML.encode(),
    "samples": b'{"samples":[{"id":"q1","input":{"question":"?"},"expected_output":{"a#1":2},'
    b'"metadata":{"k":3,"l":"en"}}]}',
    "samples in yaml": b"samples:\n- id: q1\n  input: {question: why}\n  expected_output: [a#1, b]\n"
    b"  metadata: {k: 2}\n",
    "targets": b'{"query":"q1","source_recipe_id":"a#1"}\n{"query":"q2","target_id":["c",3]}\n',
    "dict": json.dumps(GOLD).encode(),
    "qrels": b"q1 0 a#1 2\nq1 0 b 1\nq2 0 c#1 -1\n",
    "csv": b"query_id,chunk_id,grade,language\nq1,a#1,2,en\nq1,b,1,en\nq2,c#1,0.5,pt\n",
    "parquet": parquet({"query_id": ["q1", "q2"], "doc_id": ["a", "c"], "grade": [1, 2]}),
    "gzip": gzip.compress(ENTRIES.encode(), mtime=0),
    "zstd": zstandard.compress(YAML.encode()),
}

TOKENS: list[bytes] = [
    *(c.encode() for c in "{}[]\",:\\'#&*!|>%@`?- \t\n\r"),
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1", b"0", b"1.5", b"null", b"true", b"nan", b"inf", b"1_0"),
    *(b"9" * 30, b"9" * 400, b"-" + b"9" * 400, b"0x1F", b"12:30", b"007", b"2025-01-01", b".inf", b"~", b"no"),
    *(b'"topk"', b'"gold"', b'"query_id"', b'"samples"', b'"actualOutput"', b'"k":0', b'"rank":0,', b'"score":null,'),
    *(
        b"samples:\n",
        b"queries:\n",
        b"gold:",
        b"&a ",
        b"*a",
        b"<<: ",
        b"!!binary ",
        b"!!set ",
        b"!!python/object:x ",
        b"---\n",
    ),
    *(
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xc2\xa0",
        b"\\ud800",
        b"\\u0000",
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"PAR1",
        b"\x85",
    ),
    *(
        b"q1 Q0 a 1 1 t\n",
        b"q1 0 a 1\n",
        b"q1,a,1\n",
        b'{"query_id":"q1","topk":[]}\n',
        b'{"query_id":"q1","gold":[]}\n',
        b"[" * 50,
    ),
]


RESULT = karat.evaluate(
    {f"q{i}": [f"a{i % 3}", "b"] for i in range(6)}, {f"q{i}": ["a0"] for i in range(6)}, METRICS[:4]
)
POOL = (
    b'{"query_id":"q1","chunk_id":"a","query":"why?","text":"so","origin":{"ranks":{"bm25":1}}}\n'
    b'{"query_id":"q1","chunk_id":"b","query":"why?","text":"no"}\n'
)
LABELS = (
    b'{"query_id":"q1","chunk_id":"a","grade":2,"annotator":"ann"}\n'
    b'{"query_id":"q1","chunk_id":"b","grade":0,"annotator":"m","kind":"judge","note":"x"}\n'
)
CORPUS = {
    "lines": b'{"id":"a","title":"t","text":"one two","language":"en"}\n'
    b'{"_id":"b","text":"x","doc_id":"d","start":0}\n',
    "csv": b"id,title,text\na,t,one\nb,,two\n",
    "yaml": b"- {id: a, text: one}\n- {chunk_id: b, text: two, language: pt-BR}\n",
    "parquet": parquet({"id": ["a", "b"], "text": ["one", "two"], "n": [1, 2]}),
}
CRITERIA = b"""gates:
- metric: recall@5
  threshold: 0.85
- {metric: ndcg@5, regression_max: 0.02, segment: {language: en}, severity: warning}
- metric: latency
  max: 300
"""
CONFIG = b"store: .karat\nsave: true\n"
SIGNALS = {"csv": b"query_id,ctr\nq1,0.5\nq2,yes\n"}
MAPS = {"yaml": b"query_id: id\nchunk_id: doc\nscore: s\n"}
_HEAD = b"Host: localhost\nX-Karat: 1\nContent-Type: application/json\nCookie: karat_session=abc; a=b\n"
REQUESTS = {
    f"{line}": line.encode() + b"\n" + _HEAD + b"\n" + body
    for line, body in (
        ("GET /api/v1/runs?limit=5&system=bm25&after=x", b""),
        ("GET /api/v1/runs/n0/queries?order=worst&metric=recall@5&offset=1&text=q", b""),
        ("GET /api/v1/runs/n0/cases?offset=0&limit=2", b""),
        ("GET /api/v1/runs/n1/case?query_id=q6", b""),
        ("GET /api/v1/runs/n1/result", b""),
        ("GET /api/v1/runs/n1/document", b""),
        ("GET /api/v1/trend?metric=recall@5&segment=language&value=en", b""),
        ("GET /api/v1/side-by-side?run=n0&run=n1&metric=recall@5", b""),
        ("GET /api/v1/query?query_id=q1", b""),
        ("PUT /api/v1/pins/main", b'{"run":"n0","kind":"baseline"}'),
        ("PUT /api/v1/runs/n0/tags/new", b""),
        ("POST /login", b"name=ada&password=x&next=/runs"),
        ("GET /runs?system=bm25", b""),
        ("GET /runs/n0?offset=3", b""),
        ("GET /runs/n0/queries?order=best&metric=recall@5", b""),
        ("GET /runs/n0/triage", b""),
        ("GET /compare?run=n0&run=n1&metric=recall@5", b""),
        ("GET /trend?metric=recall@5", b""),
        ("GET /static/page.css", b""),
        ("GET /labels", b""),
    )
}


@dataclass(frozen=True)
class Target:
    """`seeds`: good inputs, by name. `open`: what takes bytes, as long as a block lasts, in a folder of its own."""

    seeds: dict[str, bytes]
    open: Callable[[Path], Any]


def of_file(name: str, use: Callable[[Path], object]) -> Callable[[Path], Any]:
    """A target that reads one file of this name."""

    @contextmanager
    def opened(folder: Path) -> Iterator[Callable[[bytes], None]]:
        def take(data: bytes) -> None:
            (folder / name).write_bytes(data)
            use(folder / name)

        yield take

    return opened


def shown(found: Any) -> None:
    """A result goes the whole way: it can be saved."""
    from karat.results.save import saved_form

    for result in found.values() if isinstance(found, dict) else [found]:
        msgspec.json.encode(saved_form(result))


def _run(path: Path) -> None:
    shown(evaluate_all(karat.read_run(path), GOLD, METRICS))


def _gold(path: Path) -> None:
    shown(karat.evaluate(RUN, karat.read_gold(path), METRICS))


def _loaded(path: Path) -> None:
    from karat.results.analyses.base import Lacking

    found = karat.load(path)
    for result in found.values() if isinstance(found, dict) else [found]:
        repr(result)
        with suppress(Lacking):  # a run that was kept without tables
            result.measure(["recall@3"])


def _searched(path: Path) -> None:
    from karat.formats.corpus import read_corpus
    from karat.retrievers.bm25 import BM25

    search = BM25()
    search.index(read_corpus(path))
    search.search("one", 3, language="en")


def _labelled(path: Path) -> None:
    from karat.labels.agreement import find_agreement
    from karat.labels.files import read_labels

    find_agreement(read_labels(str(path)))


def _read_with_map(path: Path) -> None:
    run = path.with_name("run.csv")
    run.write_bytes(b"id,doc,s\nq1,a#1,1\n")
    shown(karat.evaluate(karat.read_run(run, columns=str(path)), GOLD))


def _signalled(path: Path) -> None:
    from karat.formats.signals import with_signal

    with_signal(karat.read_gold(GOLD), str(path))


def _criteria(path: Path) -> None:
    from karat.gates.criteria import read_criteria

    read_criteria(path)


def _config(path: Path) -> None:
    from karat.settings import load_config

    load_config(path.parent)


def _pool(path: Path) -> None:
    from karat.labels.files import read_pool

    read_pool(str(path))


def _made_run(number: int) -> Any:
    return runpy.run_path(str(Path(__file__).parents[1] / "history" / "worker.py"))["made_run"](number)


def _filled(folder: Path) -> Any:
    from karat.history.folder import FolderStore

    store = FolderStore(folder / ".karat")
    for number in range(2):
        store.save(
            _made_run(number), branch="main", tags=[f"n{number}"], saved_at=f"2025-06-0{number + 1}T08:00:00.000000Z"
        )
    return store


@contextmanager
def _history_file(folder: Path) -> Iterator[Callable[[bytes], None]]:
    """The file of a run, damaged on the disk: everything that reads it."""
    from karat.errors import KaratError
    from karat.history import queries
    from karat.history.archive import pack

    with _filled(folder) as store:
        run, other = store.find("n0"), store.find("n1")
        looks: list[Callable[[], object]] = [
            lambda: store.kept(run).saved(),
            lambda: store.document(run),
            lambda: queries.scores_of(store, run, metric="recall@5", order="worst", text="q1"),
            lambda: queries.cases_of(store, run),
            lambda: queries.case_of(store, run, "q6"),
            lambda: queries.side_by_side(store, [other, run], "recall@5"),
            lambda: queries.query_over_time(store, "q1"),
            lambda: pack(store, [run]),
        ]

        def take(data: bytes) -> None:
            store.source(run).write_bytes(data)
            for look in looks:
                try:
                    look()
                except KaratError:
                    continue

        yield take


@contextmanager
def _catalogue(folder: Path) -> Iterator[Callable[[bytes], None]]:
    from karat.history.folder import FolderStore
    from karat.history.problems import CATALOGUE

    def take(data: bytes) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            (Path(place) / "runs").mkdir()
            (Path(place) / CATALOGUE).write_bytes(data)
            with FolderStore(Path(place)) as store:
                store.runs()
                store.pins()
                store.choices()

    yield take


@contextmanager
def _upload(folder: Path) -> Iterator[Callable[[bytes], None]]:
    from karat.history.archive import import_runs
    from karat.history.folder import FolderStore

    with FolderStore(folder / ".karat") as store:
        yield lambda data: import_runs(store, data, "upload") and None


class ServerError(Exception):
    """An answer that says that the server failed, or one without the headers that every answer has."""


@contextmanager
def _server(folder: Path) -> Iterator[Callable[[bytes], None]]:
    from karat.web.access import Access
    from karat.web.app import create_app

    # A thread of its own: in this one the loop of a browser may be running.
    with _filled(folder) as store, ThreadPoolExecutor(1) as own:
        app, runner = create_app(store, Access()), asyncio.Runner()
        yield lambda data: own.submit(runner.run, _ask(app, data)).result()
        own.submit(runner.close).result()


async def _ask(app: Any, data: bytes) -> None:
    """One request as a server would hand it over."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, address = first.partition(b" ")
    path, _, query = address.partition(b"?")
    pairs = (line.partition(b":") for line in lines)
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs if name.strip()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1") or "GET",
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    names = {name.lower() for name, _ in messages[0]["headers"]}
    if messages[0]["status"] >= 500 or not {b"content-security-policy", b"x-content-type-options"} <= names:
        raise ServerError(f"{messages[0]['status']} with {sorted(names)}")


def _kept_seeds() -> dict[str, bytes]:
    from karat.results.kept_run import keep
    from karat.results.save import saved_form

    return {"made": _made_run(0).to_parquet(), "kept": keep(saved_form(RESULT)).to_parquet()}


def _archives() -> dict[str, bytes]:
    from karat.history.archive import pack

    with tempfile.TemporaryDirectory() as folder, _filled(Path(folder)) as store:
        return {"archive": pack(store, [store.find("n0"), store.find("n1")]), **_kept_seeds()}


def _catalogues() -> dict[str, bytes]:
    from karat.history.problems import CATALOGUE

    with tempfile.TemporaryDirectory() as folder:
        _filled(Path(folder)).close()
        return {"catalogue": (Path(folder) / ".karat" / CATALOGUE).read_bytes()}


def _results() -> dict[str, bytes]:
    from karat.results.save import saved_form
    from karat.results.saved import saved_text

    text = saved_text(saved_form(RESULT))
    return {"plain": text, "gzip": gzip.compress(text, mtime=0)}


# Made when they are asked for: some of them take time.
TARGETS: dict[str, Callable[[], Target]] = {
    "run": lambda: Target(RUN_FILES, of_file("file", lambda p: shown(evaluate_all(karat.read_run(p), GOLD, METRICS)))),
    "gold": lambda: Target(
        GOLD_FILES, of_file("file", lambda p: shown(karat.evaluate(RUN, karat.read_gold(p), METRICS)))
    ),
    "parquet": lambda: Target(
        {name: text for name, text in RUN_FILES.items() if name == "parquet"},
        of_file("run.parquet", _run),
    ),
    "corpus": lambda: Target(CORPUS, of_file("corpus", _searched)),
    "labels": lambda: Target({"lines": LABELS}, of_file("labels.jsonl", _labelled)),
    "pool": lambda: Target({"lines": POOL}, of_file("pool.jsonl", _pool)),
    "result": lambda: Target(_results(), of_file("result.json", _loaded)),
    "kept": lambda: Target(_kept_seeds(), of_file("result.parquet", _loaded)),
    "signals": lambda: Target(SIGNALS, of_file("signals.csv", _signalled)),
    "map": lambda: Target(MAPS, of_file("columns.yaml", _read_with_map)),
    "criteria": lambda: Target({"yaml": CRITERIA}, of_file("ship-criteria.yaml", _criteria)),
    "config": lambda: Target({"yaml": CONFIG}, of_file("karat.yaml", _config)),
    "history": lambda: Target(_kept_seeds(), _history_file),
    "catalogue": lambda: Target(_catalogues(), _catalogue),
    "upload": lambda: Target(_archives(), _upload),
    "http": lambda: Target(REQUESTS, _server),
}
