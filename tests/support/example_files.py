"""What the examples of the commands find besides the usual files: a history, a pool, code and a service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from doc_pages import typed_in
from loopback import Handler, Loopback
from usual_files import write_usual

SERVICE = "http://localhost:8000"  # what examples call a search service of one's own
RUN_ID = "3f9a1c"  # what examples call a saved run

_FILES = {
    "my_app.py": 'def search(query):\n    return ["doc_101#p1", "doc_107#p4"]\n\n\n'
    "def score(query, texts):\n    return [-len(text) for text in texts]\n",
    "my_judge.py": "def grade(query, passage):\n    return 0\n",
    "search.yaml": 'request: {q: "{query}"}\n',
    "negatives.jsonl": '{"query_id": "q_000101", "negatives": ["doc_123#p6"]}\n',
    "samples.jsonl": '{"user_input": "Can I return it?", "reference_contexts": ["Returns are free."]}\n',
    "data/questions.csv": "query_id,query,chunk_id,grade\nq_000101,Why is it slow?,doc_101#p1,2\n",
    "docs/returns.md": "# Returns\n\nYou can return a jacket within thirty days. The return is free of charge.\n",
}
_TYPED = (
    "karat eval old.jsonl --gold gold.jsonl --save",
    "karat history pin latest main",
    "karat history pin latest release --kind anchor",
    "karat eval new.jsonl --gold gold.jsonl --save",
    "karat history delete latest",
    "karat eval run.jsonl --gold gold.jsonl --save",
    "karat labels pool old.jsonl new.jsonl --gold gold.jsonl --corpus corpus.jsonl -o pool.jsonl",
)


def write_example_files() -> dict[str, str]:
    """Writes them into the current folder. Returns what stands in examples → what is meant here."""
    write_usual(Path())
    for name, text in _FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    for command in _TYPED:
        code, printed = typed_in(command)
        assert code == 0, f"{command}: {printed}"
    return {f"restore {RUN_ID}": f"restore {_id('karat history deleted')}", RUN_ID: _id("karat history list")}


def _id(command: str) -> str:
    found = re.search(r"\b[0-9a-f]{10}\b", typed_in(command)[1])
    assert found is not None, command
    return found[0]


def search_service() -> Loopback:
    """Answers every search with the same two hits."""

    class Answering(Handler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            found: dict[str, Any] = {"hits": [{"id": "doc_101#p1", "score": 2}, {"id": "doc_107#p4", "score": 1}]}
            content = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Loopback(Answering)
