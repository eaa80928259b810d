"""Which corpus belongs to which system: a folder of texts is cut the way that each system's records say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from karat.data.audit import Audit
from karat.data.corpus import Corpus
from karat.data.hits import Run
from karat.formats.corpora import Corpora
from karat.formats.corpus import Chunker, read_corpus
from karat.formats.read import read_run

SMALL, LARGE = Chunker(3, 0), Chunker(6, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one two three four five six seven eight nine ten")
    return tmp_path


def log(*said: tuple[str, Any]) -> Run:
    run = read_run(
        [{"query_id": f"q{i}", "system": name, "topk": ["a"], "chunker": cut} for i, (name, cut) in enumerate(said)]
    )
    list(run.slices(frozenset(), Audit()))
    return run


def test_each_system_has_the_chunks_that_its_records_name(folder: Path) -> None:
    run = log(("s", SMALL.settings()), ("l", LARGE.settings()), ("other", "by headings"), ("s2", SMALL.settings()))
    corpora = Corpora(folder, run)
    for system, chunker in (("s", SMALL), ("l", LARGE), ("other", Chunker()), ("unknown", Chunker())):
        assert corpora.of(system).ids == read_corpus(folder, chunker).ids
    assert corpora.first is corpora.of("s") is corpora.of("s2")  # cut and indexed once
    assert sorted(sorted(names) for _, names in corpora.by_corpus(["s", "l", "s2"])) == [["l"], ["s", "s2"]]
    corpora.refuse_mixed(["s", "l", "other", "s2"])


def test_chunks_that_were_cut_before_are_the_same_for_all(folder: Path) -> None:
    run = log(("s", SMALL.settings()), ("l", LARGE.settings()), ("l", SMALL.settings()))
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "one"}\n')
    for corpus in (folder, Corpus("given", ["a"], [""], ["one"])):
        corpora = Corpora(corpus, run)
        assert corpora.of("s") is corpora.of("l") is corpora.first
        corpora.refuse_mixed(["s", "l"])


def test_one_system_with_several_chunkings_is_refused(folder: Path) -> None:
    corpora = Corpora(folder, log(("s", SMALL.settings()), ("s", LARGE.settings())))
    corpora.of("s")
    with refused("mixed-chunkers", file="run", field="chunker"):
        corpora.refuse_mixed(["s"])
    foreign = Corpora(folder, log(("s", "by headings"), ("s", {"algo": "sentences"}), ("s", None)))
    foreign.of("s")
    foreign.refuse_mixed(["s"])  # neither is a way in which the folder would be cut
