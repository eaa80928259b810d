"""No secret leaves Karat: not in a page, a message, a saved result, a history or a terminal, and no part of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Handler, Loopback

import karat
from karat.cli.scoring import command_line
from karat.errors import KaratError, shorten
from karat.errors.redaction import HIDDEN, VARIABLES, keep_secret, redact, redact_all
from karat.llm.chat import Chat, Request
from karat.net.hosts.base import HostClient
from karat.report.renderers.html import place

Command = Callable[..., tuple[int, str, str]]
KEY = "sk-Zx81&\"q7'Lm<-Vb20Qp"  # with everything that HTML, JSON and addresses write otherwise
PLAIN = "sk-Zx81q7LmVb20QpWd93"
PART = 6  # letters of a key that nobody may see


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql+psycopg://me:pw@h/db", f"postgresql+psycopg://me:{HIDDEN}@h/db"),
        ("POSTGRESQL://me:p@ss/w@h/db", f"POSTGRESQL://me:{HIDDEN}@h/db"),
        ("see https://me:pw@h/x, or https://h:80/y", f"see https://me:{HIDDEN}@h/x, or https://h:80/y"),
        ("'mysql://:pw@h'", f"'mysql://:{HIDDEN}@h'"),
        ("h/x?sslpassword=abc&b=1", f"h/x?sslpassword={HIDDEN}&b=1"),
        ("host=h password='a b' user=me", f"host=h password={HIDDEN} user=me"),
        ("https://h/x?api_key=abc&key=d#e", f"https://h/x?api_key={HIDDEN}&key={HIDDEN}#e"),
        ("Authorization: Bearer abcdefgh.ijk", f"Authorization: Bearer {HIDDEN}"),
        # and what is no secret stays
        ("recall@5 of http://host:8000/search?q=me@home", None),
        ("k=5, key points, a monkey=3, basic questions", None),
        ("postgresql://me@h/db", None),
    ],
)
def test_secrets_are_known_by_their_place(text: str, shown: str | None) -> None:
    assert redact(text) == (text if shown is None else shown)


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_that_hold_secrets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, KEY)
    assert redact(f"a{KEY}b") == f"a{HIDDEN}b"


def test_a_common_word_is_hidden_only_as_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "postgres")
    assert redact("postgresql is not postgres") == f"postgresql is not {HIDDEN}"


def test_every_way_of_writing_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    from html import escape
    from urllib.parse import quote

    monkeypatch.setenv("KARAT_LLM_KEY", KEY)
    for form in (KEY, escape(KEY), quote(KEY, safe=""), json.dumps(KEY), repr(KEY)):
        assert KEY[-PART:] not in redact(f"<{form}>"), form


def test_a_secret_is_taken_out_before_a_text_is_cut() -> None:
    keep_secret(PLAIN)
    for before in range(60, 81):
        assert PLAIN[:PART] not in shorten("x" * before + PLAIN)
        assert PLAIN[:PART] not in str(KaratError("w", got="x" * before + PLAIN))
        assert PLAIN[:PART] not in str(KaratError("w", got={"said": ["x" * (before - 12) + PLAIN]}))
    assert PLAIN[:PART] not in shorten("x" * 79 + PLAIN + "y" * 10**7), "also in a very long one"


PIECES = st.sampled_from(
    [
        *(
            "://",
            "me",
            ":",
            "pw",
            "@",
            "h",
            "/",
            "?",
            "&",
            ";",
            "=",
            " ",
            "\n",
            "\t",
            '"',
            "'",
            "\\",
            "<",
            "é",
            "\ud800",
        ),
        *("80", "password", "PassWord", "\u212aey", "key", "to\u212aen", "api-key", "sig", "ssl", "x" * 40),
        *("authorization", "Authorization: ", "Bearer ", "\x1f", KEY, PLAIN, "postgres"),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_is_hidden_in_a_text_is_hidden_inside_a_struct(text: str) -> None:
    from karat.report.blocks import Listing

    for secret in (KEY, PLAIN, "postgres"):
        keep_secret(secret)
    shown = redact_all([Listing(text, []), {text: [text]}])
    assert shown == [Listing(redact(text), []), {redact(text): [redact(text)]}]


def test_structs_are_redacted_whole_and_left_alone_otherwise() -> None:
    keep_secret(PLAIN)
    from karat.report.blocks import Line, Listing

    clean = Listing("a", [Line("1", "c", text="plain", marks=[(0, 2)])])
    assert redact_all(clean) is clean
    hidden = redact_all(Listing("a", [Line("1", PLAIN, facts={PLAIN: PLAIN}, text=f"x {PLAIN}", marks=[(0, 2)])]))
    assert PLAIN not in repr(hidden)
    assert hidden.lines[0].marks == ()


# Through every exit


def without_secret(folder: Path, *printed: str) -> None:
    """No file of a folder, and nothing that was printed, has any part of the key."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("in_")):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content = repr(pl.read_parquet(path).to_dicts()).encode()
        assert PLAIN[:PART].encode() not in content, path
        assert b"p4ssw0rd" not in content, path
    assert PLAIN[:PART] not in "".join(printed)
    assert "p4ssw0rd" not in "".join(printed)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run and a gold set that have a key and a password in every field that holds text and is no id."""
    monkeypatch.setenv("OPENAI_API_KEY", PLAIN)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    place = "postgresql+psycopg://me:p4ssw0rd@db/x"
    lines = [
        {
            "query_id": f"q{n}",
            "query": f"how {PLAIN} {n}?",
            "system": f"s {PLAIN}",
            "retriever": place,
            "index_version": PLAIN,
            "chunker": {"key": PLAIN, PLAIN: place},
            "code_version": f"v {PLAIN}",
            "anything": [PLAIN, place],
            "error": f"refused {PLAIN}" if n == 1 else None,
            "topk": [{"chunk_id": f"c{n}", "text": f"it is {PLAIN}", "score": 1.0, "source": f"s {PLAIN}"}],
        }
        for n in range(4)
    ]
    Path("in_run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    header = {"dataset": {"name": f"set {PLAIN}", "version": "1"}}
    gold = [
        {
            "query_id": f"q{n}",
            "query": f"how {PLAIN} {n}?",
            "gold": [f"c{n // 2}"],
            "evidence": [f"it is {PLAIN}"],
            "tags": {"kind": f"k {PLAIN}"},
            "answer": PLAIN,
        }
        for n in range(4)
    ]
    Path("in_gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [header, *gold]))
    return tmp_path


def test_an_evaluation(told: Path, karat_command: Command) -> None:
    names = (
        "summary=s.csv",
        "segments=g.csv",
        "segments=g.parquet",
        "made_from=m.csv",
        "made_from=m.parquet",
        "audit=a.csv",
    )
    outputs = [part for name in ("r.html", "r.json", "r.md", "result=r.parquet", *names) for part in ("-o", name)]
    call = ("eval", "in_run.jsonl", "--gold", "in_gold.jsonl", "--segment", "kind", "--save")
    printed = [*karat_command(*call, *outputs), *karat_command(*call, "--explain"), *karat_command(*call, "--json")]
    Path("in_more.jsonl").write_bytes(
        Path("in_run.jsonl").read_bytes().replace(b"s " + PLAIN.encode(), b"t_" + PLAIN.encode())
    )
    several = (
        "eval",
        "in_run.jsonl",
        "in_more.jsonl",
        "--gold",
        "in_gold.jsonl",
        "-o",
        "l.tex",
        "-o",
        "l.csv",
        "-o",
        "l.html",
    )
    printed += karat_command(*several)
    assert printed[::3] == [0, 0, 0, 0], printed
    assert all(HIDDEN in Path(name).read_text() for name in ("r.json", "m.csv", "g.csv", "l.csv"))
    without_secret(told, *map(str, printed))


def test_a_history_and_a_gate(told: Path, karat_command: Command) -> None:
    Path("in_base.jsonl").write_bytes(Path("in_run.jsonl").read_bytes())
    saved = karat_command("eval", "in_run.jsonl", "--gold", "in_gold.jsonl", "--save", "-o", "base.json")
    gate = (
        "gate",
        "in_run.jsonl",
        "--gold",
        "in_gold.jsonl",
        "--gate",
        "recall@5 >= 0.9",
        "--baseline",
        "in_base.jsonl",
    )
    outputs = [
        part for name in ("c.md", "junit.xml", "v.json", "g.html", "codequality=q.json") for part in ("-o", name)
    ]
    printed = [
        *saved,
        *karat_command(*gate, *outputs, "--save", "--baseline", "in_base.jsonl"),
        *karat_command("history", "show", "latest", "-o", "h.html"),
        *karat_command("history", "list", "-o", "list.html", "-o", "list.md"),
        *karat_command("history", "export", "--all", "-o", "in_runs.zip"),
        *karat_command("eval", "triage", "in_run.jsonl", "--gold", "in_gold.jsonl", "-o", "t.html", "-o", "t.json"),
        *karat_command("compare", "in_base.jsonl", "in_run.jsonl", "--gold", "in_gold.jsonl", "-o", "cmp.html"),
    ]
    assert any(b"karat/gates/1" in path.read_bytes() for path in Path(".karat").glob("history.db*"))  # the verdict too
    without_secret(told, *map(str, printed))


@pytest.mark.parametrize("known", ["always", "when saved", "when compared"])
def test_a_dataset_named_after_a_secret_matches_its_baseline(
    tmp_path: Path, karat_command: Command, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"gold.jsonl": f"helpdesk {KEY}", "other.jsonl": f"shop {KEY}"}
    for file, name in names.items():
        header = json.dumps({"dataset": {"name": name}})
        Path(file).write_text(f'{header}\n{{"query_id": "q1", "gold": ["a"]}}\n{{"query_id": "q2", "gold": ["b"]}}\n')
    Path("run.jsonl").write_text('{"query_id": "q1", "topk": ["a"]}\n{"query_id": "q2", "topk": ["c"]}\n')
    if known != "when compared":
        monkeypatch.setenv("KARAT_LLM_KEY", KEY)
    assert karat_command("eval", "run.jsonl", "--gold", "gold.jsonl", "-o", "base.json", "--save")[0] == 0
    monkeypatch.delenv("KARAT_LLM_KEY", raising=False)
    if known != "when saved":
        monkeypatch.setenv("KARAT_LLM_KEY", KEY)
    for baseline in ("base.json", "history:latest"):
        assert karat_command("compare", baseline, "run.jsonl", "--gold", "gold.jsonl")[0] == 0
        code, _, problem = karat_command("compare", baseline, "run.jsonl", "--gold", "other.jsonl")
        assert (code, "the dataset names are" in problem) == (2, True)


def test_the_command_on_a_page_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["karat", "eval", "sc://me:p4ssw0rd@host/;token=p4ssw0rd", "-o", "a b"])
    assert command_line() == f"karat eval 'sc://me:{HIDDEN}@host/;token={HIDDEN}' -o 'a b'"


def test_sections_of_the_dashboard_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    from karat.report.blocks import Section, Text

    monkeypatch.setenv("KARAT_TOKEN", PLAIN)
    assert PLAIN not in repr(place([Section("a", f"t {PLAIN}", [Text(f"x {PLAIN}")])]))


# From servers that repeat what they were told


class Echo(Loopback):
    """Answers with the key that it was sent, behind so many letters."""

    def __init__(self) -> None:
        self.status, self.before, self.shape = 200, 0, "text"
        super().__init__(self._handler())

    def _handler(outer) -> type[Handler]:
        class Echoing(Handler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                said = "x" * outer.before + self.headers["Authorization"].removeprefix("Bearer ")
                value: Any = {"error": said} if outer.shape == "object" else {"data": [{"x": said}], "results": said}
                content = said.encode() if outer.shape == "text" else json.dumps(value).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST

        return Echoing


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Echo]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("KARAT_LLM_KEY", PLAIN)
    monkeypatch.setenv("MY_KEY", PLAIN)
    server = Echo()
    yield server
    server.close()


def chat(url: str) -> Any:
    return Chat("m", url, retries=0).ask(Request([{"role": "user", "content": "x"}], 5))


def embed(url: str) -> Any:
    from karat.retrievers.dense import EmbeddingService

    return EmbeddingService("m", url, "MY_KEY").embed(["x"], timeout=5)


def retrieve(url: str) -> Any:
    from karat.data.question import Question
    from karat.retrievers.servers import HttpEndpoint

    found = HttpEndpoint(url, headers={"Authorization": "Bearer ${MY_KEY}"}, retries=0)
    return found.answer(Question("q", "x", timeout=5), 3)


def host(url: str) -> Any:
    return HostClient({"Authorization": f"Bearer {PLAIN}"}, PLAIN, 5).send("POST", url, {})


def push(url: str) -> Any:
    from karat.history.archive import push as send

    return send(url, b"x", PLAIN, 5)


@pytest.mark.parametrize("asked", [chat, embed, retrieve, host, push])
@pytest.mark.parametrize("shape", ["text", "object", "list"])
@pytest.mark.parametrize("status", [200, 400])
def test_what_a_server_repeats_is_hidden_before_it_is_cut(
    echo: Echo, asked: Callable[[str], Any], shape: str, status: int
) -> None:
    if asked is host and status == 200:
        pytest.skip("a good answer is not shown")
    echo.shape, echo.status = shape, status
    for before in (*range(40, 80, 3), *range(90, 210, 5), 280, 290, 295):
        echo.before = before
        with pytest.raises(KaratError) as refused:
            asked(echo.url)
        assert PLAIN[:PART] not in f"{refused.value} {refused.value.what}"


def test_a_run_log_holds_no_key(echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    echo.before = 195
    Path("in_q.jsonl").write_text(json.dumps({"query_id": "q", "query": "x"}) + "\n")
    options = {"headers": {"Authorization": "Bearer ${MY_KEY}"}, "retries": 0}
    karat.systems.run_retriever(echo.url, "in_q.jsonl", output="run.jsonl", options=options)
    assert "error" in json.loads(Path("run.jsonl").read_text())
    without_secret(tmp_path)
