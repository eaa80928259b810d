"""A chat endpoint on loopback, and a pool to be judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import KEY, ChatServer, pool_of, write_lines


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    """The endpoint, with a key in the environment, in a folder of its own; nobody waits long for another try."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("KARAT_LLM_KEY", KEY)
    monkeypatch.setattr("karat.llm.chat._FIRST_WAIT", 0.02)
    monkeypatch.chdir(tmp_path)
    found = ChatServer()
    yield found
    found.close()


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "pool.jsonl", pool_of(10))
