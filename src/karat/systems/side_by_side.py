"""Two or more retrievers asked the same questions at the same time, so that times can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.corpus import Corpus
from karat.data.saved import SavedObject
from karat.errors import ConfigError
from karat.formats.corpus import read_corpus
from karat.retrievers.specs import make_retriever
from karat.systems.run import Finished, Progress, Running, ask_all, check_settings, questions_of, title_of_system


class Asked(msgspec.Struct, frozen=True):
    """How one system answered. `different` and `different_first` count queries, compared with the first system."""

    system: str
    failed: int
    latency_p50: float | None  # milliseconds; of the queries that did not fail
    latency_p90: float | None
    different: int | None = None  # lists of which both answered, with other hits or in another order
    different_first: int | None = None


class SideBySide(SavedObject, frozen=True, kw_only=True):
    """What `karat compare --live` knows without gold: errors, times, and how many lists differ."""

    schema: Literal["karat/side-by-side/1"] = "karat/side-by-side/1"
    queries: int
    k: int
    systems: list[Asked]


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


def side_by_side(runs: Iterable[Any], k: int) -> SideBySide:
    """Compare runs without gold, as `run_side_by_side` returns them; the first is compared with all others."""
    listed = [_records(run) if isinstance(run, str) else run for run in runs]
    first = {record["query_id"]: record for record in listed[0]}
    systems = [_asked(records, first if records is not listed[0] else None) for records in listed]
    return SideBySide(karat=__version__, queries=len(first), k=k, systems=systems)


def _records(log: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in Path(log).read_bytes().splitlines()]


def _asked(records: list[dict[str, Any]], first: dict[str, dict[str, Any]] | None) -> Asked:
    answered = [record for record in records if "error" not in record]
    stages = [record["latency_ms"] for record in answered if record.get("latency_ms")]
    times = [ms["total"] if "total" in ms else sum(ms.values()) for ms in stages]
    p50, p90 = (float(np.percentile(times, share)) if times else None for share in (50, 90))
    found = Asked(records[0]["system"], len(records) - len(answered), p50, p90)
    if first is None:
        return found
    both = [(_ids(first[r["query_id"]]), _ids(r)) for r in answered if "error" not in first[r["query_id"]]]
    return msgspec.structs.replace(
        found,
        different=sum(one != other for one, other in both),
        different_first=sum(one[:1] != other[:1] for one, other in both),
    )


def _ids(record: dict[str, Any]) -> list[str]:
    return [hit["chunk_id"] for hit in record["topk"]]
