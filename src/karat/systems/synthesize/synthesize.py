"""`synthesize`: makes a gold set from a corpus and checks every query."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import msgspec

import karat
from karat.data.corpus import Corpus
from karat.data.prices import Prices, Usage, read_prices
from karat.data.saved import SavedObject
from karat.errors import shorten
from karat.files.atomic_write import write_whole
from karat.formats.corpus import read_corpus
from karat.llm.chat import NoReply
from karat.llm.client import Client, CostEstimate, Progress, Spending, chat_of, client_of, cost_of, each
from karat.matching.near_duplicates import near_duplicates
from karat.options.option import takes
from karat.systems.synthesize import prompts
from karat.systems.synthesize.drafts import LOOKED_AT, Draft, Made, Maker, Wish, wishes
from karat.systems.synthesize.options import SynthesisOptions

if TYPE_CHECKING:
    from karat.options.keywords import SynthesisKeywords

_DRAFTS = 4  # per query, before giving up
EXAMPLES = 3


class Synthesis(SavedObject, frozen=True, kw_only=True):
    """What `karat synthesize` prints as JSON; `queries` is what it writes."""

    schema: Literal["karat/synthesis/1"] = "karat/synthesis/1"
    corpus: str
    corpus_hash: str
    model: str
    prompt_version: str
    wanted: int
    seed: int
    drafts: int  # generated in total
    rejected: dict[str, int]  # reason → drafts
    rejected_examples: list[str]
    spending: Spending
    seconds: float
    notes: list[str]
    queries: list[dict[str, Any]]

    @property
    def header(self) -> dict[str, Any]:
        name = f"synthetic, from {Path(self.corpus).name}"
        return {"dataset": {"name": name, "version": self.corpus_hash}, "synthetic": True}


class Synthesizing:
    """Estimates the cost of generating queries, then generates them."""

    @takes(SynthesisOptions)
    def __init__(self, corpus: Any, **options: Unpack[SynthesisKeywords]) -> None:
        asked = SynthesisOptions(**options)
        self.prices: Prices | None = None if asked.prices is None else read_prices(asked.prices)
        self.corpus: Corpus = corpus if isinstance(corpus, Corpus) else read_corpus(corpus)
        self._n, self._seed, self._workers = asked.n, asked.seed, asked.workers
        without = round(asked.n * asked.no_answer_share)
        self._targets = {True: asked.n - without, False: without}
        # Drawn separately, so that the share of one does not change the queries of the other.
        self._wishes = {has: wishes(self.corpus, asked.seed + (not has), has) for has in (True, False)}
        self._first = {has: list(islice(self._wishes[has], count)) for has, count in self._targets.items()}
        self.client: Client = client_of(chat_of(asked.model, asked), asked)
        self._maker = Maker(self.client, self.corpus, searched=without > 0)

    def estimate(self) -> CostEstimate:
        """Estimate the cost if no draft is rejected: one call to generate a query, and one to answer it."""
        rough = [
            self.client.estimate(map(self._maker.request, self._first[has]), prompts.USUAL_TOKENS, None)
            for has in (True, False)
        ]
        calls, there = (2 * sum(counts) for counts in zip(*((e.calls, e.there_already) for e in rough), strict=True))
        read = sum(e.prompt_tokens * times for e, times in zip(rough, (2, 2 + LOOKED_AT), strict=True))
        said = calls * prompts.USUAL_TOKENS
        used = Usage(model=self.client.model.model, prompt_tokens=read, completion_tokens=said, calls=calls)
        return CostEstimate(calls, there, read, said, *cost_of(used, self.prices))

    def run(self, output: str | PathLike[str] | None = None, progress: Progress | None = None) -> Synthesis:
        started = time.monotonic()
        kept: list[tuple[Wish, Draft]] = []
        rejected: list[Made] = []
        drafts = 0
        shown = nullcontext(lambda: None) if progress is None else progress("making queries", self._n)
        with shown as tick:
            for has_answer in (True, False):
                for made in self._drafts(has_answer, kept, tick):
                    drafts += 1
                    if made.draft is None:
                        rejected.append(made)
                    else:
                        kept.append((made.wish, made.draft))
        self.client.close()
        done = self._summary(kept, rejected, drafts, time.monotonic() - started)
        if output is not None and done.queries:
            lines = [done.header, *done.queries]
            write_whole(Path(output), b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        return done

    def _drafts(self, has_answer: bool, kept: list[tuple[Wish, Draft]], tick: Callable[[], None]) -> Iterator[Made]:
        """Make queries in batches, each as large as the number still missing; returned in the order of the wishes."""
        lacking = self._targets[has_answer]
        left, wave = lacking * _DRAFTS, self._first[has_answer]
        seen = [draft.query for _, draft in kept]
        while wave and lacking:
            left -= len(wave)
            for made in _without_repeats(self._made(wave, tick), seen):
                if made.draft is not None:
                    seen.append(made.draft.query)
                    lacking -= 1
                yield made
            wave = list(islice(self._wishes[has_answer], min(lacking, left)))

    def _made(self, wave: list[Wish], tick: Callable[[], None]) -> list[Made]:
        found = []
        for wish, made in each(wave, self._maker.make, self._workers):
            found.append(Made(wish, None, "no reply", str(made)) if isinstance(made, NoReply) else made)
            if found[-1].draft is not None:
                tick()
        return sorted(found, key=lambda made: made.wish.number)

    def _summary(self, kept: list[tuple[Wish, Draft]], rejected: list[Made], drafts: int, seconds: float) -> Synthesis:
        lacking = self._n - len(kept)
        notes = (
            [f"{lacking:,} of {self._n:,} queries are missing, because too many drafts were rejected"]
            if lacking
            else []
        )
        return Synthesis(
            karat=karat.__version__,
            corpus=self.corpus.label,
            corpus_hash=self.corpus.hash,
            model=self.client.model.model,
            prompt_version=prompts.VERSION,
            wanted=self._n,
            seed=self._seed,
            drafts=drafts,
            rejected=dict(Counter(made.rejected for made in rejected).most_common()),
            rejected_examples=[f"{made.rejected}: {shorten(made.about, 120)}" for made in rejected[:EXAMPLES]],
            spending=self.client.spending(self.prices),
            seconds=seconds,
            notes=notes,
            queries=[self._record(wish, draft) for wish, draft in kept],
        )

    def _record(self, wish: Wish, draft: Draft) -> dict[str, Any]:
        chunk, language = self.corpus.ids[wish.chunk], self.corpus.fields.get("language")
        digest = hashlib.sha256(draft.query.encode()).hexdigest()[:10]
        record: dict[str, Any] = {"query_id": f"syn_{digest}", "query": draft.query}
        if draft.quote is None:
            record["no_answer"] = True
        else:
            record["gold"] = [{"chunk_id": chunk, "grade": 2, "quote": draft.quote}]
            record |= {"evidence": [draft.quote], "answer": draft.answer}
        tags = {"origin": "synthetic", "type": wish.kind.type}
        if draft.quote is not None:
            tags["difficulty"] = wish.kind.difficulty
        if language and language[wish.chunk]:
            tags["language"] = str(language[wish.chunk])
        told = {"model": self.client.model.model, "prompt_version": prompts.VERSION, "seed": self._seed}
        made = {"synthetic": True, "chunk_id": chunk, "corpus_hash": self.corpus.hash, **told}
        return {**record, "tags": tags, "provenance": made}


@takes(SynthesisOptions)
def synthesize_gold(
    corpus: Any,
    *,
    output: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Unpack[SynthesisKeywords],
) -> Synthesis:
    """Generate `n` queries from a corpus, each with the chunk that answers it, the answer and a supporting quote.

    A query is kept only if the model finds the same answer again from the chunk alone, and if it differs enough from
    the other queries. `output`: the gold set.
    """
    return Synthesizing(corpus, **options).run(output, progress)


def _without_repeats(drafts: list[Made], seen: list[str]) -> list[Made]:
    """Reject drafts whose query nearly repeats another."""
    places = near_duplicates([*seen, *(made.draft.query if made.draft else None for made in drafts)])[len(seen) :]
    return [
        Made(made.wish, None, "like another", made.draft.query) if made.draft and place is not None else made
        for made, place in zip(drafts, places, strict=True)
    ]
