"""What pages talk to: a model, and the dashboard that they start."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from chat_server import ChatServer

LOCAL_MODEL = "http://localhost:11434/v1"  # what pages call a server of one's own
DASHBOARD = "http://127.0.0.1:8765"


def model() -> ChatServer:
    """A model that grades by common words, and writes and rephrases queries."""
    server = ChatServer()
    server.answer = obliging
    return server


def obliging(body: dict[str, Any]) -> dict[str, Any]:
    rules, said = (message["content"] for message in body["messages"][:2])
    found = re.findall(r"<(query|passage)(?:_\d+)? \w+>\n(.*?)\n</", said, re.S)
    queries, passages = ([text for name, text in found if name == wanted] for wanted in ("query", "passage"))
    if "compare two queries" in rules:
        return {"same": True}
    if not passages:
        return {"query": f"{queries[0]} ({len(said)})"}
    quote = re.split(r"(?<=[.?!])\s", passages[0])[0]
    if "You answer queries" in rules:
        return {"answerable": True, "answer": quote, "quote": quote}
    if not queries:
        words = sorted(set(re.findall(r"\w{5,}", passages[0].lower())), key=len)
        return {"query": f"what applies to {', '.join(words[-3:])}?", "answer": quote, "quote": quote}
    words, asked = (set(re.findall(r"\w{4,}", text.lower())) for text in (passages[0], queries[0]))
    honest = queries[0].rstrip("?!. ") not in passages[0] and not re.search(r"grade|relevan|[{}]", passages[0])
    relevant = honest and len(words & asked) > 2
    return {"intent": "to know", "match": "?", "quote": quote if relevant else "", "grade": 2 if relevant else 0}


class Dashboard:
    """`karat serve` as a page types it, on a free port, and what `curl` gets from it."""

    def __init__(self, command: str) -> None:
        words = [*shlex.split(command, comments=True)[1:], "--port", "0"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "karat.cli.main", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            lines.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.url = address[0]
                return
        self.close()
        raise ValueError("".join(lines))

    def curl(self, command: str) -> tuple[int, str]:
        """
        Knows -s, -X, -H, -d and `> FILE`. An answer that is an error has exit code 22, as with `curl --fail`.
        """
        typed, _, target = command.partition(" > ")
        words = shlex.split(typed)[1:]
        url, method, headers, data = "", None, {}, None
        while words:
            word = words.pop(0)
            if word == "-X":
                method = words.pop(0)
            elif word == "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            elif word == "-d":
                data = words.pop(0).encode()
            elif word != "-s":
                url = word
        if not url.startswith(DASHBOARD):
            raise ValueError(f"not an address of the dashboard: {url}")
        asked = Request(url.replace(DASHBOARD, self.url), data, headers, method=method)
        try:
            with build_opener(ProxyHandler({})).open(asked, timeout=60) as answer:
                text = answer.read().decode()
        except HTTPError as error:
            return 22, error.read().decode()
        if target:
            Path(target).write_text(text, encoding="utf-8")
        return 0, "" if target else text

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)
