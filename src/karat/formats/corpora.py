"""The corpus of each system: the same for all, or a folder of texts, chunked as each system's log says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from os import PathLike
from typing import Any

from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.hits import Run
from karat.data.ids import DocRule
from karat.data.normal_ids import IdNormalizer
from karat.data.passages.resolve import in_corpus
from karat.errors import InputError, shorten
from karat.formats.corpus import Chunker, is_text_folder, read_corpus


class Corpora:
    """System → corpus. A folder of texts is chunked once per chunker, when the first system with it is read."""

    def __init__(
        self,
        corpus: Corpus | str | PathLike[str],
        run: Run,
        normal: IdNormalizer | None = None,
        columns: Any = None,
    ) -> None:
        """`run`: the run with the systems; its records name the chunkers. `normal`: normalizes ids. `columns`: as
        in `read_corpus`."""
        self._normal = normal
        self._run, self._cuts = run, dict[Chunker, Corpus]()
        self._chosen: dict[str, Chunker] = {}
        self._folder: str | PathLike[str] | None = None
        if isinstance(corpus, Corpus):
            self.first: Corpus = self._normalized(corpus)
        elif not is_text_folder(corpus):
            self.first = self._normalized(read_corpus(corpus, columns=columns))
        else:
            self._folder = corpus
            self.first = self._cut(_chunker(run.opening().get("chunker")))

    def of(self, system: str) -> Corpus:
        """The corpus of a system. Its records must have been read: they name the chunker."""
        if self._folder is None:
            return self.first
        if system not in self._chosen:
            said = self._run.said(system, "chunker")
            self._chosen[system] = _chunker(said[0] if said else None)
        return self._cut(self._chosen[system])

    def located(self, gold: Gold, rule: DocRule) -> Callable[[str], Gold]:
        """System → the gold set with its passages located in the corpus of that system."""
        return cache(lambda system: in_corpus(gold, self.of(system), rule) or gold)

    def by_corpus(self, systems: Iterable[str]) -> list[tuple[Corpus, set[str]]]:
        """Each corpus with the systems that search it."""
        found: dict[int, tuple[Corpus, set[str]]] = {}
        for system in systems:
            corpus = self.of(system)
            found.setdefault(id(corpus), (corpus, set()))[1].add(system)
        return list(found.values())

    def refuse_mixed(self, systems: Iterable[str]) -> None:
        """Raise if the records of a system name several chunkers for the folder. Call after the run was read."""
        for system in systems if self._folder is not None else ():
            said = self._run.said(system, "chunker")
            chosen = [self._chosen[system]] if system in self._chosen else []
            if len({*chosen, *map(_chunker, said)}) > 1:
                of = f"system {shorten(system, 40)!r}" if system else "the run"
                raise InputError(
                    f"the records of {of} name several chunkers, but a folder of texts can only be chunked in one way",
                    code="mixed-chunkers",
                    file=self._run.label,
                    field="chunker",
                    got=", ".join(shorten(one, 60) for one in said[:3]),
                    hint="use one system per chunking, or give a corpus of chunks (JSONL) with --corpus",
                )

    def _cut(self, chunker: Chunker) -> Corpus:
        assert self._folder is not None
        if chunker not in self._cuts:
            self._cuts[chunker] = self._normalized(read_corpus(self._folder, chunker))
        return self._cuts[chunker]

    def _normalized(self, corpus: Corpus) -> Corpus:
        return corpus if self._normal is None else self._normal.adopted_corpus(corpus)


def _chunker(said: Any) -> Chunker:
    return Chunker.logged(said) or Chunker()
