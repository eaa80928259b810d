"""Two or more retrievers asked the same questions at the same time, so that times can be compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from karat.data.corpus import Corpus
from karat.errors import ConfigError
from karat.formats.corpus import read_corpus
from karat.retrievers.specs import make_retriever
from karat.systems.run import Finished, Progress, Running, ask_all, check_settings, questions_of, title_of_system


def run_side_by_side(
    retrievers: Sequence[Any],
    queries: Any,
    *,
    systems: Sequence[str | None] = (),
    corpus: Any = None,
    split: str = "test",
    k: int = 50,
    keep: str | None = None,
    workers: int = 1,
    timeout: float | None = 30.0,
    warm_up: int = 3,
    overwrite: bool = False,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> list[Finished]:
    """Ask several retrievers the same questions in turn, with shared workers; one result per retriever.

    `systems`: their names (default: their specs). `keep`: a folder for the run logs, which are continued if they are
    there already. The other options are those of `run_retriever`.
    """
    check_settings(k, workers, timeout, warm_up, 1)
    if len(retrievers) < 2:
        raise ConfigError("two retrievers are needed", code="too-few-retrievers", got=len(retrievers))
    questions = questions_of(queries, split, timeout)
    searched = corpus if corpus is None or isinstance(corpus, Corpus) else read_corpus(corpus)
    if keep is not None:
        Path(keep).mkdir(parents=True, exist_ok=True)
    runs: list[Running] = []
    try:
        for at, retriever in enumerate(retrievers):
            found = make_retriever(retriever)
            named = (systems[at] if at < len(systems) else None) or title_of_system(retriever, found)
            name = _free(named, [other.system for other in runs])
            output = None if keep is None else Path(keep) / _file_name(name)
            run = Running(
                found,
                questions,
                corpus=searched,
                k=k,
                output=output,
                system=name,
                repeat=1,
                overwrite=overwrite,
                retry_failed=retry_failed,
            )
            runs.append(run)
    except BaseException:
        for run in runs:
            run.log.close()
        raise
    return ask_all(runs, workers, timeout, warm_up, progress)


def _free(name: str, taken: Sequence[str]) -> str:
    """Return a name that no other system has, also as the name of a file."""
    files = {_file_name(other) for other in taken}
    return next(n for i in range(1, 10**6) if _file_name(n := name if i == 1 else f"{name} #{i}") not in files)


def _file_name(system: str) -> str:
    return re.sub(r"[^\w.-]+", "_", system).strip("_") + ".jsonl"
