"""A pool of the demo: pairs that two of its runs found and nobody has judged, to try labelling on."""

from __future__ import annotations

from pathlib import Path

from karat.demo.helpdesk import read_helpdesk
from karat.demo.searching import run_log
from karat.demo.story import STORY
from karat.labels.pool_file import write_pool
from karat.labels.pooling import make_pool

_PAIRS = 40  # an hour's work would frighten everybody away


def write_demo_pool(folder: Path) -> tuple[str, str]:
    """The pool, and where its labels go."""
    helpdesk = read_helpdesk()
    runs = [run_log(helpdesk, step) for step in (STORY[0], STORY[-1])]
    pool = make_pool(runs, helpdesk.gold, corpus=helpdesk.corpus, sample=_PAIRS)
    write_pool(str(folder / "pool.jsonl"), pool.entries)
    return str(folder / "pool.jsonl"), str(folder / "labels.jsonl")
