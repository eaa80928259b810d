"""What `karat mcp` refuses, as an agent reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden import check
from karat.files.guarded_folder import GuardedFolder
from karat.web.agents import Tools
from wording import file, refusals

Case = Callable[[], object]
RUN = {"run": "run.jsonl", "gold": "gold.jsonl"}


def asked(name: str, arguments: dict[str, Any], *, writable: bool = False) -> Case:
    def call() -> object:
        file("run.jsonl", '{"query_id": "q", "topk": ["a"]}\n')
        file("gold.jsonl", '{"query_id": "q", "gold": ["a"]}\n')
        file("delta/_delta_log/0.json", "{}")
        file("many/1", "")
        file("page.html", "")
        file("many/2", "")
        os.mkfifo("pipe")
        return Tools(GuardedFolder(".", writable=writable)).answer(name, arguments)

    return call


CASES: dict[str, dict[str, Case]] = {
    "requests": {
        "a tool that is none": asked("delete", {}),
        "an argument that is none": asked("evaluate", {**RUN, "metric": "mrr"}),
        "an argument of another type": asked("evaluate", {**RUN, "metrics": 5}),
        "without a gold set": asked("evaluate", {"run": "run.jsonl"}),
        "an unknown metric": asked("evaluate", {**RUN, "metrics": ["recal@5"]}),
        "no criteria": asked("gate", RUN),
    },
    "paths": {
        "above": asked("evaluate", {**RUN, "run": "../run.jsonl"}),
        "elsewhere": asked("check", {"files": ["/etc/passwd"]}),
        "no file": asked("triage", {**RUN, "run": "runs/*.parquet"}),
        "no path": asked("evaluate", {**RUN, "run": "a\0b"}),
        "a pipe": asked("evaluate", {**RUN, "run": "pipe"}),
        "a Delta table": asked("evaluate", {**RUN, "run": "delta"}),
        "too many files": asked("evaluate", {**RUN, "corpus": "many"}),
        "a root that is none": lambda: GuardedFolder("none"),
        "a root that is a file": lambda: GuardedFolder(file("x", "")),
    },
    "reports": {
        "read-only": asked("evaluate", {**RUN, "report": "out.html"}),
        "another ending": asked("evaluate", {**RUN, "report": "out.py"}, writable=True),
        "a file that exists": asked("evaluate", {**RUN, "report": "x/../page.html"}, writable=True),
        "a folder that is missing": asked("evaluate", {**RUN, "report": "none/page.html"}, writable=True),
    },
}


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.files.guarded_folder._FILES", 1)
    check("wording/errors_agents.txt", refusals(CASES, tmp_path))
