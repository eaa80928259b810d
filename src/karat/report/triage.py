"""Report of `karat eval triage`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from karat.errors import shorten
from karat.report.blocks import MOVED, Block, Cell, Example, Line, Listing, Report, Section, Text
from karat.report.cells import table
from karat.report.overview import data_name, run_names
from karat.report.sections.doubts import doubt_sections
from karat.report.sections.stages import WORDS
from karat.results.numbers import counted
from karat.results.queries.changed import ChangedQueries, ChangedQuery
from karat.results.queries.shown import MarkedText, ShownHit, cut
from karat.results.queries.triage import DEPTH, Case, Triage


def triage_report(found: Triage) -> Report:
    section = Section("triage", "Where it fails", triage_blocks(found))
    [name] = run_names([found.system or found.run])
    where = f"Where {name} fails on {data_name(found.dataset, found.gold)}"
    sentence = f"{where}: {found.nothing_found:,} of {counted(found.queries)} with nothing found"
    sections = [*doubt_sections(found.warnings), section]
    return Report(f"{found.system or found.run} against {found.gold}", sections, page_title=sentence)


def short_triage_report(found: Triage) -> Report:
    """One line per query, for a terminal. One or two queries are shown in full."""
    whole = triage_report(found)
    if len(found.cases) <= _IN_FULL:
        return whole
    searched = any(case.bm25_relevant is not None for case in found.cases)
    columns = ("query", "text", "finding", *searched * ("word search",), "should be found", "first hit")
    rows = [_line(case, searched) for case in found.cases]
    more = "`--explain` shows each query with its hits; `-o triage.html` writes that as a page."
    listed = table(columns, rows, _legend(found))
    blocks: list[Block] = [Text(_summary(found)), *map(Text, found.notes), listed, Text(more)]
    return msgspec.structs.replace(whole, sections=[*whole.sections[:-1], Section("triage", "Where it fails", blocks)])


def _line(case: Case, searched: bool) -> list[Cell]:
    more = f" + {case.gold_items - 1}" if case.gold_items > 1 else ""
    return [
        case.query_id,
        shorten(case.query or "", _TEXT),
        _short_finding(case),
        *searched * (_word_search(case).get("word search"),),
        f"{case.gold[0].id}{more}" if case.gold else None,
        case.hits[0].id if case.hits else "nothing",
    ]


def _short_finding(case: Case) -> str | None:
    if case.kind == "nothing lost":
        return None
    return WORDS[_main_loss(case)][1] if case.lost else "poor order"


def _legend(found: Triage) -> str:
    """What the short findings mean."""
    said = {_short_finding(case): _finding(case, found.k).get("finding") for case in found.cases}
    return "; ".join(f"{short}: {words}" for short, words in said.items() if short) + "."


def _main_loss(case: Case) -> str:
    return max(case.lost, key=lambda stage: case.lost[stage])


def triage_blocks(found: Triage) -> list[Block]:
    in_full = len(found.cases) - found.brief
    cases = [_case(case, found.k, i < in_full) for i, case in enumerate(found.cases)]
    return [Text(_summary(found)), *map(Text, found.notes), *_brief_note(found, in_full), *cases]


def _brief_note(found: Triage, in_full: int) -> list[Block]:
    marked = ["with shared words highlighted"] if any(hit.passage for case in found.cases for hit in case.hits) else []
    searched = ["with the results of word search"] if any(case.bm25 is not None for case in found.cases) else []
    if not found.brief or not (marked or searched):
        return []
    return [Text(f"The first {in_full:,} are shown {' and '.join([*marked, *searched])}, the others in brief.", "note")]


def _summary(found: Triage) -> str:
    have, fall = "has" if found.nothing_found == 1 else "have", "scores" if found.losing == 1 else "score"
    of = f"of {counted(found.queries)}"
    below = "below what the gold set allows"
    if found.nothing_found:
        more = f"; {found.losing:,} more {fall} {below}" if found.losing else ""
        said = f"{found.nothing_found:,} {of} {have} no relevant hit in the first {DEPTH}{more}."
    elif found.losing:
        said = f"Every query has a relevant hit in the first {DEPTH}; {found.losing:,} {of} {fall} {below}."
    else:
        said = f"None {of} scores {below}."
    shown = len(found.cases) - found.sampled
    if found.sampled:
        return f"{said} Shown: the {shown:,} worst and a sample of {found.sampled:,} of the others."
    good = shown - found.nothing_found - found.losing
    if good < 0:
        return f"{said} Shown: the {'worst' if shown == 1 else f'{shown:,} worst'}."
    rest = "One more loses nothing and is" if good == 1 else f"The other {good:,} lose nothing and are"
    return f"{said} {rest} listed last." if good else said


def changed_blocks(found: ChangedQueries, baseline: str, candidate: str, in_full: int) -> list[Block]:
    """Queries that lost, gained or only changed, with both lists side by side; empty if nothing changed."""
    if not found.shown:
        return []
    counts = ", ".join(f"{count:,} {_KINDS[kind]}" for kind, count in found.counts.items() if count)
    left = sum(found.counts.values()) - len(found.shown)
    sample = f" and a sample of {found.sampled:,} of the others" if found.sampled else ""
    shown = f" Shown: the largest changes{sample}." if left else ""
    said = f"By {found.shown[0].metric}: {counts}.{shown}"
    return [Text(said), *(_changed(q, baseline, candidate, i < in_full) for i, q in enumerate(found.shown))]


_WHEN = ("before", "after")
_SIDE = 160  # characters of a text in lists side by side
_IN_FULL = 2  # queries that a terminal shows in full
_TEXT = 60  # characters of a query in a table
_OWN = ("outcome", "finding", "word search", "text", "page")
_KINDS = {"lost": "lost", "gained": "gained", "changed": "with different hits but the same score"}


def _changed(query: ChangedQuery, baseline: str, candidate: str, in_full: bool) -> Example:
    return Example(
        query_id=query.query_id,
        query=query.query,
        facts={f"{query.metric} before": query.before, "after": query.after},
        labels=_tags(query.tags),
        listings=[
            _wanted(query),
            _side("before", baseline, query.baseline, in_full),
            _side("after", candidate, query.candidate, in_full),
        ],
        outcome=query.kind,
        brief=not in_full,
    )


def _side(when: str, system: str, hits: Sequence[ShownHit], in_full: bool) -> Listing:
    """In brief, without scores: they cannot be compared between systems."""
    lines = _hits(hits) if in_full else [msgspec.structs.replace(line, facts={}) for line in _hits(hits)]
    return Listing(f"{when}: {system}" if in_full else when, lines, None if hits else "nothing")


def _case(case: Case, k: int, in_full: bool) -> Example:
    listings = [_wanted(case), Listing("was found", _hits(case.hits), None if case.hits else "nothing")]
    if case.bm25 is not None:
        listings.append(Listing("word search (BM25)", _hits(case.bm25), None if case.bm25 else "nothing"))
    return Example(
        query_id=case.query_id,
        query=case.query,
        facts=dict(case.scores),
        labels={**_finding(case, k), **_word_search(case), **_tags(case.tags)},
        notes=_losses(case, k) if in_full else [],
        listings=listings,
        outcome=case.kind,
        brief=not in_full,
    )


def case_example(case: Case, k: int) -> Example:
    """One query with everything that is known about it."""
    return msgspec.structs.replace(_case(case, k, True), alone=True)


def sides_example(before: Case, after: Case, names: Sequence[str]) -> Example:
    """One query in two runs: where each hit was before, and is now."""
    old, new = ({hit.id: hit.rank for hit in side.hits} for side in (before, after))
    listings = [
        *_both_golds(before, after, names),
        Listing(f"before: {names[0]}", _moved(before.hits, old, new), None if before.hits else "nothing"),
        Listing(f"after: {names[1]}", _moved(after.hits, old, new), None if after.hits else "nothing"),
    ]
    searched = after.bm25 if after.bm25 is not None else before.bm25
    if searched is not None:
        listings.append(Listing("word search (BM25)", _hits(searched), None if searched else "nothing"))
    scores = [(name, before.scores.get(name), score) for name, score in after.scores.items()]
    return Example(
        query_id=after.query_id,
        query=after.query,
        facts={f"{name} {when}": value for name, *both in scores for when, value in zip(_WHEN, both, strict=True)},
        labels=_tags(after.tags),
        notes=[_movement(old, new)],
        listings=[msgspec.structs.replace(one, lines=list(map(_cut, one.lines))) for one in listings],
        outcome=_outcome(before, after),
        alone=True,
    )


def _both_golds(before: Case, after: Case, names: Sequence[str]) -> list[Listing]:
    """One list if both runs were judged by the same items, with the rank in each."""
    sides = [{item.id: item.grade for item in side.gold} for side in (before, after)]
    if sides[0] != sides[1] or before.gold_items != after.gold_items:
        golds = zip((before, after), names, strict=True)
        return [msgspec.structs.replace(_wanted(side), title=f"should be found: {name}") for side, name in golds]
    ranks = {item.id: item.rank for item in before.gold}
    listing = _wanted(after)
    places = {item.id: _moved_words(ranks[item.id], item.rank) for item in after.gold}
    lines = [
        msgspec.structs.replace(line, facts={"grade": line.facts["grade"], MOVED: places[line.id]})
        for line in listing.lines
    ]
    return [msgspec.structs.replace(listing, lines=lines)]


def _cut(line: Line) -> Line:
    """With a shorter text: lists side by side are narrow."""
    if line.text is None:
        return line
    shorter = cut(MarkedText(line.text, list(line.marks)), _SIDE)
    return msgspec.structs.replace(line, text=shorter.text, marks=shorter.marks)


def _moved_words(before: int | None, after: int | None) -> str:
    """
    >>> _moved_words(3, 1), _moved_words(None, 9), _moved_words(4, None), _moved_words(None, None), _moved_words(2, 2)
    ('rank 3 → 1', 'entered at 9', 'left, was 4', 'in neither list', 'rank 2')
    """
    if before is None or after is None:
        return f"entered at {after}" if after else f"left, was {before}" if before else "in neither list"
    return f"rank {after}" if before == after else f"rank {before} → {after}"


def _moved(hits: Sequence[ShownHit], old: dict[str, int], new: dict[str, int]) -> list[Line]:
    """Hits with their rank in both runs, where it changed."""
    return [
        line if old.get(line.id) == new.get(line.id) else _with_ranks(line, old.get(line.id), new.get(line.id))
        for line in _hits(hits)
    ]


def _with_ranks(line: Line, before: int | None, after: int | None) -> Line:
    said = "entered" if before is None else "left" if after is None else _moved_words(before, after)
    return msgspec.structs.replace(line, facts={**line.facts, MOVED: said})


def _movement(old: dict[str, int], new: dict[str, int]) -> str:
    both = old.keys() & new.keys()
    counts = {
        "moved up": sum(new[name] < old[name] for name in both),
        "moved down": sum(new[name] > old[name] for name in both),
        "entered": len(new.keys() - old.keys()),
        "left": len(old.keys() - new.keys()),
    }
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"Hits: {said}." if said else "Both runs have the same hits in the same order."


def _outcome(before: Case, after: Case) -> str:
    """How the scores of both runs changed."""
    pairs = [(before.scores.get(name), score) for name, score in after.scores.items()]
    known = [(old, new) for old, new in pairs if old is not None and new is not None]
    gained, lost = any(new > old for old, new in known), any(new < old for old, new in known)
    if gained and lost:
        return "some scores gained, some lost"
    return "gained" if gained else "lost" if lost else "same scores" if known else ""


def _tags(tags: dict[str, str]) -> dict[str, str]:
    """Renames tags that clash with names the page uses itself."""
    return {f"{name} (tag)" if name in _OWN else name: value for name, value in tags.items()}


def _finding(case: Case, k: int) -> dict[str, str]:
    """Where most of the expected items were lost: the findings of the diagnosis, per query."""
    if case.kind == "nothing lost":
        return {}
    if not case.lost:
        return {"finding": f"all in the top {k}, but poorly ordered"}
    return {"finding": WORDS[_main_loss(case)][0].format(k=k)}


def _word_search(case: Case) -> dict[str, str]:
    """Whether plain word search would have done better on this query."""
    by_words = case.bm25_relevant
    if by_words is None:
        return {}
    found = sum(hit.mark == "hit" for hit in case.hits)
    if not by_words and not found:
        return {"word search": "also finds nothing"}
    return {"word search": "finds more" if by_words > found else "finds less" if by_words < found else "finds as much"}


def _losses(case: Case, k: int) -> list[str]:
    if not case.lost:
        return []
    stages = (f"{WORDS[stage][0].format(k=k)}: {count}" for stage, count in case.lost.items())
    lost, items = sum(case.lost.values()), "item" if case.gold_items == 1 else "items"
    are = "is" if lost == 1 else "are"
    return [f"{lost} of {case.gold_items} relevant {items} {are} not in the top {k} ({'; '.join(stages)})."]


def _wanted(shown: Case | ChangedQuery) -> Listing:
    left = shown.gold_items - len(shown.gold)
    lines = [
        Line("", item.id, None, {"grade": item.grade, "found at": item.rank}, *_text(item.passage))
        for item in shown.gold
    ]
    return Listing("should be found", lines, f"and {left} more" if left else None)


def _hits(hits: Sequence[ShownHit]) -> list[Line]:
    return [
        Line(str(h.rank), h.id, h.mark, {} if h.score is None else {"score": f"{h.score:.4g}"}, *_text(h.passage))
        for h in hits
    ]


def _text(passage: MarkedText | None) -> tuple[str | None, list[tuple[int, int]]]:
    return (None, []) if passage is None else (passage.text, list(passage.marks))
