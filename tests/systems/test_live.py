"""Retrievers that are asked one question at a time: what they answer, what fails, and what takes too long."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from refusals import refused

from karat.data.corpus import Corpus
from karat.errors import ConfigError, KaratError
from karat.systems.live import LiveRetrievers

CORPUS = Corpus("corpus", ["a#1", "b#1"], ["", ""], ["A refund takes five days.", "Cards ship in two weeks."])


def listed(query: str, k: int) -> list[Any]:
    return [{"id": "b#1", "score": 2.5}, {"id": "x", "text": "y" * 5000}, "c"][:k]


def failing(query: str, k: int) -> list[Any]:
    raise ValueError("the index\nis gone")


def test_two_retrievers_answer_one_question() -> None:
    live = LiveRetrievers({"words": "bm25", "mine": listed, "broken": failing, "wrong": lambda query, k: 7}, CORPUS)
    live.index()
    words, mine = live.ask(["words", "mine"], "how long does a refund take", 2)
    assert [(hit.rank, hit.id, hit.text) for hit in words.hits] == [(1, "a#1", CORPUS.texts[0])]
    assert [(hit.id, hit.score, len(hit.text or "")) for hit in mine.hits] == [
        ("b#1", 2.5, len(CORPUS.texts[1])),
        ("x", None, 2000),
    ]
    for one in live.ask(["broken", "wrong"], "?"):
        assert one.error
        assert (one.hits, "\n" in one.error) == ([], False)


def test_what_is_refused() -> None:
    with refused("no-corpus", ConfigError):
        LiveRetrievers({"words": "bm25"})
    live = LiveRetrievers({"mine": listed})
    for names, text, k in ((["other"], "?", 1), (["mine"], " ", 1), (["mine"], "?" * 2001, 1), (["mine"], "?", 51)):
        with pytest.raises(KaratError):
            live.ask(names, text, k)


def test_what_hangs_is_abandoned_and_never_piles_up() -> None:
    go, asked = threading.Event(), threading.Semaphore(0)

    def hanging(query: str, k: int) -> list[Any]:
        asked.release()
        go.wait(60)
        return ["a"]

    live = LiveRetrievers({"slow": hanging, "mine": listed}, timeout=0.05)
    for _ in range(4):
        slow, mine = live.ask(["slow", "mine"], "?")
        assert (bool(slow.error), len(mine.hits)) == (True, 3)
    assert sum(asked.acquire(blocking=False) for _ in range(9)) == 4
    assert live.ask(["slow"], "?")[0].error
    assert not asked.acquire(blocking=False), "a fifth question is not even asked"
    go.set()
    for _ in range(200):
        if live.ask(["slow"], "?")[0].hits:
            return
        time.sleep(0.01)
    pytest.fail("it was never asked again")
