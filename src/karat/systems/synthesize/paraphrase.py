"""`synthesize --paraphrase`: adds variants to a gold set, which ask the same in other words."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import msgspec

import karat
from karat.data.gold import Gold
from karat.data.prices import Prices, Usage, read_prices
from karat.data.variants import VARIANT_OF
from karat.errors import InputError, shorten
from karat.files.atomic_write import write_whole
from karat.formats.gold_writer import gold_lines
from karat.formats.questions import text_hint
from karat.formats.read import read_gold
from karat.llm.chat import NoReply, Request
from karat.llm.client import (
    Client,
    CostEstimate,
    NoModelAnswer,
    Progress,
    UnusableReply,
    chat_of,
    client_of,
    converse,
    cost_of,
    each,
)
from karat.llm.texts import bound
from karat.matching.cover import normalise
from karat.options.option import takes
from karat.systems.synthesize import prompts
from karat.systems.synthesize.drafts import AGAIN, LONGEST, answer_with, line_in
from karat.systems.synthesize.options import SynthesisOptions
from karat.systems.synthesize.synthesize import EXAMPLES, Synthesis

if TYPE_CHECKING:
    from karat.options.keywords import SynthesisKeywords

_CALLS = 2  # per variant: to write it, and to compare it with its original


class _Wish(NamedTuple):
    """One variant to make."""

    number: int
    row: int  # of the original in the gold set
    wording: str


class _Rephrased(NamedTuple):
    """A variant, or the reason why there is none."""

    wish: _Wish
    query: str | None
    rejected: str = ""
    about: str = ""


class Paraphrasing:
    """Estimates the cost of rephrasing queries, then rephrases them."""

    @takes(SynthesisOptions)
    def __init__(self, gold: Any, **options: Unpack[SynthesisKeywords]) -> None:
        asked = SynthesisOptions(**options)
        self.prices: Prices | None = None if asked.prices is None else read_prices(asked.prices)
        self.gold: Gold = gold if isinstance(gold, Gold) else read_gold(gold)
        self._seed, self._workers = asked.seed, asked.workers
        self._wishes = self._drawn(asked.n, asked.variants)
        self.client: Client = client_of(chat_of(asked.model, asked), asked)

    def _drawn(self, n: int, variants: int) -> list[_Wish]:
        """Variants of up to n queries that are not variants themselves, all wordings in turn."""
        of = self.gold.fields.get(VARIANT_OF) or [None] * len(self.gold.queries)
        rows = [row for row, query in enumerate(self.gold.queries) if of[row] in (None, query)]
        if len(rows) > n:
            rows = sorted(random.Random(self._seed).sample(rows, n))
        for row in rows:
            if not (self.gold.text(row) or "").strip():
                raise InputError(
                    "the query has no text",
                    code="missing-text",
                    file=self.gold.label,
                    query=self.gold.queries[row],
                    field="query",
                    hint=text_hint(self.gold),
                )
        wordings, wishes = list(prompts.WORDINGS), list[_Wish]()
        for place, row in enumerate(rows):
            for i in range(variants):
                wishes.append(_Wish(len(wishes), row, wordings[(place + i) % len(wordings)]))
        return wishes

    def estimate(self) -> CostEstimate:
        """Estimate the cost if every draft is compared with its original."""
        rough = self.client.estimate(map(self._request, self._wishes), prompts.USUAL_TOKENS, None)
        calls, there = _CALLS * rough.calls, _CALLS * rough.there_already
        read, said = _CALLS * rough.prompt_tokens, calls * prompts.USUAL_TOKENS
        used = Usage(model=self.client.model.model, prompt_tokens=read, completion_tokens=said, calls=calls)
        return CostEstimate(calls, there, read, said, *cost_of(used, self.prices))

    def run(self, output: str | PathLike[str] | None = None, progress: Progress | None = None) -> Synthesis:
        started = time.monotonic()
        shown = nullcontext(lambda: None) if progress is None else progress("rephrasing queries", len(self._wishes))
        found: list[_Rephrased] = []
        with shown as tick:
            for wish, made in each(self._wishes, self._rephrased, self._workers):
                found.append(_Rephrased(wish, None, "no reply", str(made)) if isinstance(made, NoReply) else made)
                tick()
        self.client.close()
        found = self._without_repeats(sorted(found, key=lambda one: one.wish.number))
        done = self._summary(found, time.monotonic() - started)
        if output is not None and done.queries:
            variants = (msgspec.json.encode(query) + b"\n" for query in done.queries)
            write_whole(Path(output), b"".join([*gold_lines(self.gold, self._header), *variants]))
        return done

    def _request(self, wish: _Wish) -> Request:
        return prompts.rephrase(self.gold.text(wish.row) or "", wish.wording)

    def _rephrased(self, wish: _Wish) -> _Rephrased:
        original = self.gold.text(wish.row) or ""
        try:
            request = self._request(wish)
            query, _ = converse(self.client, request, lambda said: _read(said, bound("query", request.code)), AGAIN)
            if query is None:
                return _Rephrased(wish, None, "no such query", f"{wish.wording}, {original}")
            if normalise(query) == normalise(original):
                return _Rephrased(wish, None, "like another", query)
            asked = prompts.ask_the_same(original, query)
            same, _ = converse(self.client, asked, lambda said: _is_same(said, bound("same", asked.code)), AGAIN)
        except NoModelAnswer as error:
            return _Rephrased(wish, None, error.kind, error.about)
        return _Rephrased(wish, query) if same else _Rephrased(wish, None, "asks for something else", query)

    def _without_repeats(self, found: list[_Rephrased]) -> list[_Rephrased]:
        """Reject a variant that repeats another query of the gold set, or another variant."""
        seen = {normalise(text) for row in range(len(self.gold.queries)) if (text := self.gold.text(row))}
        kept = []
        for one in found:
            key = None if one.query is None else normalise(one.query)
            kept.append(_Rephrased(one.wish, None, "like another", one.query or "") if key in seen else one)
            seen |= {key} if key is not None else set()
        return kept

    def _summary(self, found: list[_Rephrased], seconds: float) -> Synthesis:
        rejected = [one for one in found if one.query is None]
        lost = len({one.wish.row for one in found} - {one.wish.row for one in found if one.query is not None})
        notes = [f"{lost:,} {'query has' if lost == 1 else 'queries have'} no variant"] if lost else []
        return Synthesis(
            karat=karat.__version__,
            corpus=self.gold.label,
            corpus_hash=self.gold.dataset.hash or "",
            model=self.client.model.model,
            prompt_version=prompts.REPHRASING,
            wanted=len(self._wishes),
            seed=self._seed,
            drafts=len(found),
            rejected=dict(Counter(one.rejected for one in rejected).most_common()),
            rejected_examples=[f"{one.rejected}: {shorten(one.about, 120)}" for one in rejected[:EXAMPLES]],
            spending=self.client.spending(self.prices),
            seconds=seconds,
            notes=notes,
            queries=self._records([one for one in found if one.query is not None]),
        )

    @property
    def _header(self) -> dict[str, Any]:
        """Another version than the original set: it has other queries."""
        dataset = self.gold.dataset
        said = {"name": dataset.name, "version": f"{dataset.version or dataset.hash or '1'} with paraphrases"}
        return {"dataset": {name: value for name, value in said.items() if value}, "synthetic": True}

    def _records(self, kept: list[_Rephrased]) -> list[dict[str, Any]]:
        """Entries of the gold set. They have no gold: that of their original counts."""
        taken, records = set(self.gold.queries), []
        told = {"synthetic": True, "model": self.client.model.model, "prompt_version": prompts.REPHRASING}
        for one in kept:
            original = self.gold.queries[one.wish.row]
            name, number = f"{original}~{one.wish.wording}", 1
            while name in taken:
                number += 1
                name = f"{original}~{one.wish.wording}{number}"
            taken.add(name)
            tags = {"origin": "paraphrase", "wording": one.wish.wording}
            records.append(
                {"query_id": name, "query": one.query, VARIANT_OF: original, "tags": tags, "provenance": told}
            )
        return records


@takes(SynthesisOptions)
def paraphrase_gold(
    gold: Any,
    *,
    output: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Unpack[SynthesisKeywords],
) -> Synthesis:
    """Rephrase up to `n` queries of a gold set, each `variants` times. A variant is kept only if the model agrees that
    it asks for the same. `output`: the gold set with its variants."""
    return Paraphrasing(gold, **options).run(output, progress)


def _read(answer: str, name: str) -> str | None:
    said = answer_with(answer, name)
    if said[name] is None:
        return None
    query = line_in(said, name)
    if not 3 <= len(query) <= LONGEST:
        raise UnusableReply(f"a query has 3 to {LONGEST} characters")
    return query


def _is_same(answer: str, name: str) -> bool:
    said = answer_with(answer, name)[name]
    if not isinstance(said, bool):
        raise UnusableReply(f"{name} is neither true nor false")
    return said
