"""What is said where a model is asked: by the commands, and where the endpoint fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden import check
from karat.labels.judge.judge import Judging
from karat.llm.chat import Chat, Request
from karat.llm.client import ReplyCache
from wording import Transcript, file, refusals

Case = Callable[[], object]
ASKED = Request([{"role": "user", "content": "hello"}], 50)


@pytest.fixture
def endpoint(terminal: Transcript, server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server, asked from the folder of the terminal."""
    return server


def pool(count: int) -> str:
    pairs = [
        {"query_id": f"q{n}", "query": f"question {n}?", "chunk_id": f"c{n}", "text": f"so the answer to {n} is blue"}
        for n in range(count)
    ]
    return file("pool.jsonl", "".join(json.dumps(pair) + "\n" for pair in pairs))


def test_judge(endpoint: Any, terminal: Transcript) -> None:
    file("prices.yaml", "currency: USD\nmodels: {m: {per_1m: {prompt: 100, completion: 1000}}}\n")
    asked = ("labels", "judge", pool(10), "--model", "m", "--base-url", endpoint.url, "--workers", "1")
    terminal(*asked, "--prices", "prices.yaml", "--dry-run")
    terminal(*asked, "--prices", "prices.yaml")
    terminal(*asked, "--dry-run")
    endpoint.answer = lambda body: {"quote": "", "grade": 0}
    endpoint.faults = [None, "drop"]
    terminal(*asked, "-o", "zero.jsonl", "--fresh")
    endpoint.answer = lambda body: {"quote": "so the answer", "grade": 2}
    terminal(*asked, "-o", "two.jsonl", "--fresh")
    endpoint.answer = lambda body: "I would say that this is quite relevant."
    terminal(*asked, "-o", "prose.jsonl", "--fresh")
    endpoint.faults = [401]
    terminal(*asked, "--fresh")
    for answered in (0, 3):  # before the server fails for good
        endpoint.faults = [{"content": '{"grade_@code": 0, "quote": ""}'}] * answered + [500] * 200
        terminal(*asked, "--fresh", "--retries", "0")
    check("wording/judge.txt", terminal.text)


def test_why_there_is_no_grade(endpoint: Any, terminal: Transcript) -> None:
    """What a label says that has none."""
    cases = {
        "a refusal": {"content": None, "refusal": "I cannot help with that."},
        "a filter": {"content": "", "finish_reason": "content_filter"},
        "prose": {"content": "Certainly relevant!"},
        "a quote that is made up": {"content": '{"quote": "made up", "grade_@code": 2}'},
        "a bad request": (400, {"error": {"message": "too long"}}),
    }
    said = []
    for name, fault in cases.items():
        endpoint.faults = [fault] * 3
        done = Judging(pool(1), model="m", base_url=endpoint.url, canaries=0, fresh=True).run(f"{name}.jsonl")
        assert [label.grade for label in done.labels] == [None]
        said += [f"# {name}", *(str(label.reason) for label in done.labels), ""]
    check("wording/judge_reasons.txt", "\n".join(said).replace(endpoint.url, "…"))


TEXT = "The price of item {n} is {n} coins. It is kept in the old castle of our town, for all visitors to see."
CORPUS = [{"chunk_id": f"d{n}#p0", "text": TEXT.format(n=n)} for n in range(8)]


def test_synthesize(endpoint: Any, terminal: Transcript) -> None:
    corpus = file("corpus.jsonl", "".join(json.dumps(chunk) + "\n" for chunk in CORPUS))
    asked = ("synthesize", corpus, "-n", "3", "--no-answer-share", "0", "--workers", "1")
    asked += ("--model", "m", "--base-url", endpoint.url)
    terminal(*asked, "--dry-run")
    quote = "for all visitors"
    drafted = {"query": "who may see the items?", "answer": "all visitors", "quote": quote}
    endpoint.answer = lambda body: {**drafted, "answerable": True}
    terminal(*asked, "-o", "gold.jsonl")
    terminal(*asked, "-o", "gold.jsonl")
    endpoint.answer = lambda body: "Sure, here is a query!"
    terminal(*asked, "-o", "none.jsonl", "--fresh")
    endpoint.answer = lambda body: {**drafted, "answerable": False}
    terminal(*asked, "-o", "none.jsonl", "--fresh")
    other = {"answerable": True, "answer": "castle", "quote": "the old castle"}
    endpoint.answer = lambda body: other if "You answer" in body["messages"][0]["content"] else drafted
    terminal(*asked, "-o", "none.jsonl", "--fresh")
    tiny = file("tiny.jsonl", '{"chunk_id": "a", "text": "too short"}\n')
    terminal("synthesize", tiny, "--model", "m", "--base-url", endpoint.url)
    check("wording/synthesize.txt", terminal.text)


def test_errors_of_models(endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(*faults: Any) -> Case:
        def call() -> None:
            endpoint.faults = list(faults)
            Chat("m", endpoint.url, timeout=5, retries=1).ask(ASKED)

        return call

    def without_key(url: str | None = None, key: str | None = None) -> Case:
        def call() -> None:
            with monkeypatch.context() as patch:
                patch.delenv("KARAT_LLM_KEY")
                if key is not None:
                    patch.setenv("KARAT_LLM_KEY", key)
                Chat("m", url)

        return call

    def without_package() -> None:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "httpx2", None)
            Chat("m", endpoint.url).ask(ASKED)

    def settings(content: str | None = None, **options: Any) -> Case:
        def call() -> None:
            pairs = pool(2) if content is None else file("pool.jsonl", content)
            Judging(pairs, **{"model": "m", "base_url": endpoint.url, **options}).run("labels.jsonl")

        return call

    def function(body: str) -> Case:
        names: dict[str, Any] = {}
        exec(body, names)
        return settings(model=None, base_url=None, judge=names["judge"])

    groups: dict[str, dict[str, Case]] = {
        "Answers": {
            "a wrong key": answered(401),
            "a model that does not exist": answered((404, {"error": {"message": "no such model"}})),
            "no money left": answered((429, {"error": {"code": "insufficient_quota"}})),
            "a long wait": answered((429, {}, {"Retry-After": "3600"})),
            "a bad request": answered((400, {"error": {"message": "maximum context length is 8 tokens"}})),
            "a server that fails": answered(503, 503),
            "something else than an answer": answered((200, {"choices": []}), (200, {"choices": []})),
        },
        "Settings": {
            "no key": without_key(),
            "a key of two lines": without_key(endpoint.url, "of two\nlines"),
            "an address that is not one": lambda: Chat("m", "localhost:8000"),
            "a package that is missing": without_package,
            "a cache that is another file": lambda: ReplyCache(Path(file("c.sqlite", "something else " * 50))),
            "neither model nor function": settings(model=None, base_url=None),
            "a function with a prompt": settings(model=None, base_url=None, judge=str, prompt="p.txt"),
            "a function of one argument": function("def judge(query):\n    return 1\n"),
            "a prompt that is not there": settings(prompt="none.txt"),
            "an empty prompt": lambda: settings(prompt=file("empty.txt", " \n"))(),
            "a prompt that is not text": lambda: settings(prompt=file("binary.txt", b"\xff\xfe\x00"))(),
            "no time": settings(timeout=0),
            "an empty pool": settings("[]"),
            "pairs without text": settings('{"query_id": "q", "chunk_id": "c", "query": "why?"}'),
            "pairs without a query": settings('{"query_id": "q", "chunk_id": "c", "text": "so"}'),
        },
    }
    check("wording/errors_models.txt", refusals(groups, tmp_path))
