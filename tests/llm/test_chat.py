"""A chat endpoint with every fault that one has, over real HTTP."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from refusals import refused

from karat.errors import ConfigError
from karat.llm.chat import Chat, Halt, NoReply, Request

KEY = "sk-s3cr3t-of-this-test"
ASKED = Request([{"role": "system", "content": "rules"}, {"role": "user", "content": "hello"}], 50)


@pytest.fixture
def chat(server: Any) -> Chat:
    server.answer = lambda body: "hello yourself"
    return Chat("m", server.url, timeout=30)


def test_what_is_sent_and_what_comes_back(server: Any, chat: Chat) -> None:
    reply = chat.ask(ASKED)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("hello yourself", 100, 20)
    assert server.asked == [{"model": "m", "messages": ASKED.messages, "temperature": 0, "max_tokens": 50}]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "faults",
    [[429], [500], [502, 503], [529], [408], ["drop"], [(429, {}, {"Retry-After": "0.05"})], [500, "drop", 429]],
)
def test_passing_faults_are_tried_again(server: Any, chat: Chat, faults: list[Any]) -> None:
    server.faults = list(faults)
    assert chat.ask(ASKED).text == "hello yourself"
    assert len(server.asked) == len(faults) + 1


@pytest.mark.parametrize("fault", ["hang", "trickle"])
def test_a_server_that_takes_too_long_is_tried_again(server: Any, fault: str) -> None:
    server.answer = lambda body: "at last"
    server.faults = [fault]
    started = time.monotonic()
    assert Chat("m", server.url, timeout=0.4).ask(ASKED).text == "at last"
    assert 0.4 <= time.monotonic() - started < 30


def test_a_fault_that_stays_is_told(server: Any, chat: Chat) -> None:
    chat.retries = 2
    server.faults = [503] * 9
    with refused("no-reply", NoReply, lost=True) as caught:
        chat.ask(ASKED)
    assert "503" in caught.value.what
    assert len(server.asked) == 3


def test_waiting_is_as_long_as_asked_and_for_all(server: Any, chat: Chat) -> None:
    server.faults = [(429, {}, {"Retry-After": "0.6"})]
    first = threading.Thread(target=chat.ask, args=(ASKED,))
    first.start()
    while not chat._not_before:
        time.sleep(0.01)
    chat.ask(ASKED)  # another thread, which nobody told
    first.join()
    assert min(server.times[1:]) - server.times[0] >= 0.6


def test_waiting_until_a_date(server: Any, chat: Chat) -> None:
    until = datetime.now(UTC) + timedelta(seconds=2)  # which a header rounds down to a whole second
    server.faults = [(429, {}, {"Retry-After": format_datetime(until, True)})]
    chat.ask(ASKED)
    assert len(server.asked) == 2
    assert datetime.now(UTC) >= until.replace(microsecond=0)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (401, "401"),
        (403, "403"),
        ((404, {"error": {"message": "no such model"}}), "no such model"),
        (405, "405"),
        ((429, {"error": {"code": "insufficient_quota"}}), "insufficient_quota"),
        ((429, {}, {"Retry-After": "3600"}), "3,600 s"),
    ],
)
def test_what_no_other_try_mends_ends_it_at_once(server: Any, chat: Chat, fault: Any, words: str) -> None:
    server.faults = [fault]
    with refused("halted", Halt) as caught:
        chat.ask(ASKED)
    assert words in caught.value.what
    assert caught.value.hint
    assert len(server.asked) == 1


def test_no_key_stands_in_a_message(server: Any, chat: Chat) -> None:
    server.faults = [(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})]
    with pytest.raises(Halt) as caught:
        chat.ask(ASKED)
    assert KEY not in str(caught.value)
    assert "***" in str(caught.value)
    assert KEY not in repr(caught.value)


def test_a_bad_request_is_lost_alone(server: Any, chat: Chat) -> None:
    server.faults = [(400, {"error": {"message": "maximum context length is 8 tokens, max_tokens included"}})]
    with refused("no-reply", NoReply, lost=False):
        chat.ask(ASKED)
    assert chat.ask(ASKED).text == "hello yourself"
    assert "max_tokens" in server.asked[-1]


def test_models_that_want_other_settings_get_them(server: Any, chat: Chat) -> None:
    other = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    none = "Unsupported value: 'temperature' does not support 0 with this model."
    server.faults = [(400, {"error": {"message": other}}), (400, {"error": {"message": none}})]
    chat.ask(ASKED)
    chat.ask(ASKED)
    assert len(server.asked) == 4
    for body in server.asked[2:]:
        assert body == {"model": "m", "messages": ASKED.messages, "max_completion_tokens": 50}


def test_dialects(server: Any, chat: Chat) -> None:
    server.faults = [
        {"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]},
        {"content": None, "refusal": "I will not."},
        {"content": "", "finish_reason": "content_filter"},
        {"content": "cut o", "finish_reason": "length"},
    ]
    replies = [chat.ask(ASKED) for _ in range(4)]
    assert [r.text for r in replies] == ["in parts", None, None, "cut o"]
    assert [r.refusal for r in replies] == [None, "I will not.", "the provider's content filter", None]
    assert [r.is_cut for r in replies] == [False, False, False, True]


@pytest.mark.parametrize("odd", [{"error": {"message": "upstream is busy"}}, [], {"choices": []}, {"choices": [{}]}, 7])
def test_an_answer_that_is_none_is_tried_again(server: Any, chat: Chat, odd: Any) -> None:
    server.faults = [(200, odd)]
    assert chat.ask(ASKED).text == "hello yourself"


def test_tokens_that_nobody_counted_are_estimated(server: Any, chat: Chat) -> None:
    server.usage = None
    reply = chat.ask(ASKED)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.estimated) == (4, 4, True)


def test_the_key_comes_from_the_environment_only(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer = lambda body: "x"
    monkeypatch.delenv("KARAT_LLM_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", " other-key \n")
    Chat("m", server.url).ask(ASKED)
    assert server.headers[0]["Authorization"] == "Bearer other-key"
    monkeypatch.delenv("OPENAI_API_KEY")
    Chat("m", server.url).ask(ASKED)
    assert "Authorization" not in server.headers[1], "a server on this machine may go without"
    with refused("no-key", ConfigError):
        Chat("m")
    with refused("no-key", ConfigError):
        Chat("m", "http://10.0.0.1/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "of two\nlines")
    with refused("bad-key", ConfigError) as caught:
        Chat("m", server.url)
    assert "lines" not in str(caught.value)


@pytest.mark.parametrize("url", ["ftp://x/v1", "localhost:8000", "http://", "http://me:pw@host/v1"])
def test_addresses_that_are_none(server: Any, url: str) -> None:
    with refused("bad-address", ConfigError) as caught:
        Chat("m", url)
    assert "--base-url" in str(caught.value.hint)
    assert "pw" not in str(caught.value)
