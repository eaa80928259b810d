"""Triage → Report."""

from __future__ import annotations

from collections.abc import Sequence

from karat.highlight import Passage
from karat.report.blocks import Block, Cell, Example, Line, Listing, Report, Section, Text
from karat.report.sections.waterfall import WORDS
from karat.triaging import DEPTH, Case, ShownGold, ShownHit, Triage


def triage_report(found: Triage) -> Report:
    section = Section("triage", "Where it fails", triage_blocks(found))
    return Report(title=f"{found.system or found.run} against {found.gold}", sections=[section])


def triage_blocks(found: Triage) -> list[Block]:
    return [Text(_summary(found)), *map(Text, found.notes), *(_case(case, found.k) for case in found.cases)]


def _summary(found: Triage) -> str:
    said = (
        f"{found.nothing_found:,} of {found.queries:,} queries have nothing relevant among the first {DEPTH} hits; "
        f"{found.losing:,} more fall short of what the gold allows."
    )
    failed = found.nothing_found + found.losing
    if failed <= len(found.cases):
        return said
    worst = len(found.cases) - found.sampled
    sample = f" and a sample of {found.sampled:,} of the others" if found.sampled else ""
    return f"{said} Shown: the {worst:,} worst{sample}."


def _case(case: Case, k: int) -> Example:
    left = case.gold_items - len(case.gold)
    listings = [Listing("should be found", [_gold(item) for item in case.gold], f"and {left} more" if left else None)]
    listings.append(Listing("was found", _hits(case.hits), None if case.hits else "nothing"))
    if case.bm25 is not None:
        listings.append(Listing("word search (BM25)", _hits(case.bm25), None if case.bm25 else "nothing"))
    return Example(
        query_id=case.query_id,
        query=case.query,
        facts=dict(case.scores),
        labels={"case": case.kind, **_lost_at(case), **case.tags},
        notes=_losses(case, k),
        listings=listings,
    )


def _lost_at(case: Case) -> dict[str, str]:
    """The stage that lost most."""
    return {"lost": WORDS[max(case.lost, key=lambda stage: case.lost[stage])][1]} if case.lost else {}


def _losses(case: Case, k: int) -> list[str]:
    if not case.lost:
        return []
    stages = (f"{count} {WORDS[stage][0].format(k=k)}" for stage, count in case.lost.items())
    return [
        f"Of {case.gold_items} relevant items {sum(case.lost.values())} are not in the top {k}: {'; '.join(stages)}."
    ]


def _gold(item: ShownGold) -> Line:
    facts: dict[str, Cell] = {"grade": item.grade, "found at": item.rank}
    return Line("", item.id, None, facts, *_text(item.passage))


def _hits(hits: Sequence[ShownHit]) -> list[Line]:
    return [Line(str(hit.rank), hit.id, hit.mark, _score(hit.score), *_text(hit.passage)) for hit in hits]


def _score(score: float | None) -> dict[str, Cell]:
    return {} if score is None else {"score": f"{score:.4g}"}


def _text(passage: Passage | None) -> tuple[str | None, list[tuple[int, int]]]:
    if passage is None:
        return None, []
    return passage.text, list(passage.marks)
