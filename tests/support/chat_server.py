"""A chat endpoint on loopback that answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopback import Handler, Loopback

KEY = "sk-s3cr3t-of-this-test"


def parts_of(body: dict[str, Any]) -> dict[str, str]:
    """What stands between the marks of a request, by name."""
    text = body["messages"][1]["content"]
    return {found[1]: found[3] for found in re.finditer(r"<(\w+) (\w{16})>\n(.*?)\n</\1 \2>", text, re.S)}


def code_of(body: dict[str, Any]) -> str:
    """The code that the answer has to carry."""
    return re.findall(r"</\w+ (\w{16})>\n\n", body["messages"][1]["content"])[0]


def bound(said: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """As a model says it that does what it is told: the deciding field has the code in its name."""
    deciding = ("grade", "query", "answerable", "same")
    return {f"{name}_{code_of(body)}" if name in deciding else name: value for name, value in said.items()}


def honest(body: dict[str, Any]) -> dict[str, Any]:
    """A good judge: in these tests a passage answers `question N` by `the answer to N is …`."""
    texts = parts_of(body)
    number = re.findall(r"\d+", texts["query"])[0]
    found = re.search(rf"the answer to {number} is \w+", texts["passage"])
    return {"intent": "to know", "match": "said", "quote": found[0] if found else "", "grade": 2 if found else 0}


class ChatServer(Loopback):
    """`answer` makes what the model says (a dict becomes JSON, bound to the request). `faults` are what the next
    requests meet instead: a status, (status, body, headers), `hang`, `drop`, `trickle`, or a whole message of the model
    as a dict, in which `@code` stands for the code of the request."""

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], Any] = honest
        self.faults: list[Any] = []
        self.usage: dict[str, int] | None = {"prompt_tokens": 100, "completion_tokens": 20}
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.answered = 0
        self.hold_after: int | None = None  # so many are answered; the rest wait until `over` is set
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        super().__init__(self._handler())
        self.url += "/v1"

    def _handler(outer) -> type[Handler]:
        class Answering(Handler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    outer.asked.append(body)
                    outer.headers.append(dict(self.headers))
                    outer.times.append(time.monotonic())
                    outer.at_once += 1
                    outer.most_at_once = max(outer.at_once, outer.most_at_once)
                    held = outer.hold_after is not None and len(outer.asked) > outer.hold_after
                    fault = outer.faults.pop(0) if outer.faults else None
                try:
                    if held:
                        outer.over.wait(120)
                    self.meet(fault, body)
                finally:
                    with outer._lock:
                        outer.at_once -= 1

            def meet(self, fault: Any, body: dict[str, Any]) -> None:
                if self.path != "/v1/chat/completions":
                    self.send(404, {"error": {"message": f"no such path {self.path}"}})
                elif fault == "hang":
                    outer.over.wait(60)
                elif fault == "drop":
                    self.close_connection = True
                elif fault == "trickle":
                    self.trickle()
                elif isinstance(fault, int):
                    self.send(fault, {"error": {"message": "scripted"}})
                elif isinstance(fault, tuple):
                    self.send(*fault)
                else:
                    said = outer.answer(body) if fault is None else None
                    text = said if isinstance(said, str) else json.dumps(bound(said, body) if said else said)
                    self.say({"content": text} if fault is None else fault, body)

            def say(self, message: dict[str, Any], body: dict[str, Any]) -> None:
                content = message.get("content")
                filled = content.replace("@code", code_of(body)) if content and "@code" in content else content
                said = {"role": "assistant", **message, "content": filled}
                finish = said.pop("finish_reason", "stop")
                choice = {"index": 0, "message": said, "finish_reason": finish}
                self.send(200, {"choices": [choice], **({"usage": outer.usage} if outer.usage else {})})
                with outer._lock:
                    outer.answered += 1

            def send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in {"Content-Length": str(len(content)), **(headers or {})}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(content)
                self.wfile.flush()

            def trickle(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                for _ in range(600):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    if outer.over.wait(0.1):
                        return

        return Answering


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def pool_of(queries: int, passages: int = 2) -> list[dict[str, Any]]:
    """For each query one passage that answers it, and others that do not."""
    return [
        {
            "query_id": f"q{n}",
            "query": f"question {n}?",
            "chunk_id": f"d{n}#p{p}",
            "text": f"In short, the answer to {n} is blue." if p == 0 else f"Nothing of use on page {p} for {n}00.",
        }
        for n in range(queries)
        for p in range(passages)
    ]
