"""The first hits of each query as a table of short hashes, to compare the lists of two runs without their hits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.hits import Hits, Run, Ungrouped
from karat.data.ids import Bools, Hashes, Ints, take
from karat.data.score_order import compared
from karat.errors import ConfigError, shorten
from karat.scoring.judge import judge
from karat.scoring.judged import Judged, Rules
from karat.scoring.list_hashes import stable_hashes
from karat.scoring.ranking import score_decides
from karat.statistics.rank_overlap import Rankings

TOP = 10  # hits of each query that results keep
_SPREAD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_COUNT = "count"  # name of the column with the number of hits (plus 1) and the ties

_T = TypeVar("_T")


def top_lists(judged: Judged, depth: int) -> Rankings:
    """The first hits of each judged query. Hits are tied if their scores decide the order and are equal."""
    hits = judged.hits
    assert hits is not None
    query, rows = judged.top(depth)
    found = no_lists(judged.n, depth)
    length = np.minimum(judged.depth, depth)
    if len(rows):
        filled = np.arange(depth) < length[:, None]
        found.ids[filled] = _short(_hashed(hits, rows))
        found.tied[filled] = tied_hits(judged, query, rows)
    return found._replace(length=length)


def tied_hits(judged: Judged, query: Ints, rows: Ints) -> Bools:
    """For hits in ranking order, whether each has the same score as the one before it."""
    tied, hits = np.zeros(len(rows), np.bool_), judged.hits
    if hits is not None and hits.score is not None and len(rows) and (decides := score_decides(hits)).any():
        score = compared(hits.score[rows], judged.score_width)
        tied[1:] = (score[1:] == score[:-1]) & (query[1:] == query[:-1]) & decides[query[1:]]
    return tied


def no_lists(size: int, depth: int) -> Rankings:
    return Rankings(np.zeros((size, depth), np.uint32), np.zeros((size, depth), np.bool_), np.full(size, -1))


def _hashed(hits: Hits, rows: Ints) -> Hashes:
    if isinstance(hits.ids, np.ndarray) and hits.hashed is not None:
        return hits.hashed[rows]
    return stable_hashes(take(hits.ids, rows))


def _short(hashed: Hashes) -> Any:
    return ((hashed * _SPREAD) >> _HALF).astype(np.uint32)


def plain_rules(rules: Rules) -> Rules:
    """The same rules without the filters, which apply to the run that is evaluated only."""
    return rules.replace(min_score=None, top_k=None, no_future=False)


def reference_lists(run: Run, gold: Gold, rules: Rules, depth: int) -> Rankings:
    """The first hits of another run, for each query of the gold set."""
    found, own = no_lists(len(gold.queries), depth), replace(gold, equals=None)
    for hits in one_system(run):
        judged = judge(hits, own, plain_rules(rules), Audit(), depth)
        found.fill(judged.queries, top_lists(judged, depth))
    return found


def lists_hash(lists: Rankings) -> str:
    """Identifies the lists of a reference run."""
    import hashlib  # loads OpenSSL, and few runs have a reference

    content = hashlib.sha256()
    for part in lists:
        content.update(np.ascontiguousarray(part).tobytes())
    return f"sha256:{content.hexdigest()[:16]}"


def in_order(run: Run, read: Callable[[Run], _T]) -> _T:
    """Read a run, grouped first if the hits of a query are not together."""
    try:
        return read(run)
    except Ungrouped:
        return read(run.grouped())


def one_system(run: Run, columns: frozenset[str] = frozenset()) -> Iterator[Hits]:
    """The slices of a run with one system. Queries that come back are grouped first."""
    seen: set[str] = set()
    system: str | None = None
    for hits in run.slices(columns, Audit()):
        system = hits.system if system is None else system
        if hits.system != system:
            names = f"{shorten(system, 40)!r} and {shorten(hits.system, 40)!r}"
            hint = f"name one of them: {run.label}#{system}"
            raise ConfigError(
                f"the run has several systems: {names}", code="several-systems", file=run.label, hint=hint
            )
        if not seen.isdisjoint(hits.queries):
            raise Ungrouped
        seen.update(hits.queries)
        yield hits


def saved_columns(lists: Rankings, rows: Ints) -> dict[str, Hashes]:
    """Two places per column of 64 bits; one more column has the ties and the number of hits."""
    width = lists.ids.shape[1]
    ids = np.pad(lists.ids[rows], ((0, 0), (0, width % 2))).astype(np.uint64)
    pairs = ids[:, ::2] << _HALF | ids[:, 1::2]
    ties = (lists.tied[rows].astype(np.uint64) << np.arange(width, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
    counts = (lists.length[rows] + 1).astype(np.uint64) << _HALF | ties
    return {f"top {2 * at + 1}": pairs[:, at] for at in range(pairs.shape[1])} | {f"top {_COUNT}": counts}


def restored_lists(columns: Mapping[str, Hashes], size: int) -> Rankings | None:
    """The inverse of `saved_columns`; None if there are none. Raises ValueError if columns do not fit."""
    pairs = [name for name in columns if name.startswith("top ") and name != f"top {_COUNT}"]
    if not pairs:
        return None
    pairs.sort(key=lambda name: int(name.removeprefix("top ")))
    both, counts = np.column_stack([columns[name] for name in pairs]), columns[f"top {_COUNT}"]
    if len(both) != size or len(counts) != size:
        raise ValueError("first hits of lists")
    low = np.uint64(2**32 - 1)
    ids = np.stack([both >> _HALF, both & low], axis=2).reshape(size, -1).astype(np.uint32)
    places = np.arange(ids.shape[1], dtype=np.uint64)
    tied = (counts[:, None] >> places & np.uint64(1)).astype(np.bool_)
    count = (counts >> _HALF).astype(np.int64) - 1
    if (count > ids.shape[1]).any():
        raise ValueError("first hits of lists")
    return Rankings(ids, tied, count)
