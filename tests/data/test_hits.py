"""Slices of hits: what is picked out of them comes with all that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from karat.data.audit import Audit
from karat.data.corpus import Corpus, DescribedRun
from karat.data.hits import Hits, LentRun, Run
from karat.data.ids import DocRule, as_list
from karat.errors import ConfigError

RAW = Hits("a", ["q1", "q3"], np.array([0, 1, 3]), ["r1", "r2", "r3"], places=np.array([10, 30]))
HITS = Hits(
    "a",
    ["q1", "q2", "q3"],
    np.array([0, 2, 2, 3]),
    ["x#1", "y#1", "x#2"],
    score=np.array([3.0, 2.0, 1.0]),
    columns={"text": ["one", None, "three"]},
    lines=np.array([1, 2, 3]),
    others={"raw": RAW},
    places=np.array([10, 20, 30]),
)
NOTHING = frozenset[str]()


class OneSlice(Run):
    can_look = True  # type: ignore[assignment]

    def __init__(self, *hits: Hits) -> None:
        self._hits = hits

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = NOTHING) -> Iterator[Hits]:
        yield from self._hits


def test_places_and_other_lists_follow_their_queries() -> None:
    picked = HITS.select_queries(np.array([False, True, True]))
    assert picked.places is not None
    assert picked.places.tolist() == [20, 30]
    assert picked.others["raw"].queries == ["q3"]
    assert picked.others["raw"].ids == ["r2", "r3"]
    assert picked.others["raw"].places is not None
    assert picked.others["raw"].places.tolist() == [30]
    assert HITS.select_queries(np.array([False, True, False])).others == {}


def test_picking_rows_leaves_other_lists_alone() -> None:
    assert HITS.select_rows(np.array([0])).others["raw"] is RAW


def test_a_run_that_cannot_look_reads_its_slices() -> None:
    (found,) = OneSlice(HITS).look("a", ["q3", "nowhere"], None, NOTHING)
    assert (found.queries, as_list(found.ids)) == (["q3"], ["x#2"])
    assert list(OneSlice(HITS).look("another", ["q3"], None, NOTHING)) == []


def test_lent_lists_have_the_name_of_the_other_run() -> None:
    assert [hits.system for hits in LentRun(OneSlice(HITS), {"x", "y"}).slices(NOTHING, Audit())] == ["x", "y"]


def test_lent_lists_of_several_strange_systems_are_refused() -> None:
    other = Hits("b", ["q1"], np.array([0, 1]), ["x"])
    with pytest.raises(ConfigError):
        list(LentRun(OneSlice(HITS, other), {"x"}).slices(NOTHING, Audit()))


def test_a_corpus_describes_other_lists_and_what_is_looked_at() -> None:
    corpus = Corpus("c", ["x#1", "y#1", "r2"], [""] * 3, ["of x", "of y", "of r"], {"doc_id": ["x", "why", "are"]})
    run = DescribedRun(OneSlice(HITS), lambda system: corpus, DocRule("#"))
    (hits,) = run.slices(frozenset({"text"}), Audit(), frozenset({"raw"}))
    assert hits.columns["text"] == ["one", "of y", "three"]
    assert hits.docs == ["", "why", ""]
    assert hits.others["raw"].columns["text"] == [None, "of r", None]
    assert hits.others["raw"].docs == ["", "are", ""]
    (found,) = run.look("a", ["q1"], None, frozenset({"text"}))
    assert found.columns["text"] == ["one", "of y"]
    assert run.can_look
