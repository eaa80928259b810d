"""What each stage of a system gains and loses."""

from __future__ import annotations

from itertools import groupby

from karat.errors import shorten
from karat.report.blocks import Bar, Bars, Block, Cell, Table, Text
from karat.report.cells import count, difference_table, table, texts
from karat.report.sections.base import AnalysisSection
from karat.results.analyses import waterfall
from karat.results.analyses.reranker import Gain, Reranked
from karat.results.analyses.rewriter import Rewriting, Rewritten
from karat.results.analyses.router import Confusion, Regret, Routed
from karat.results.analyses.waterfall import Loss, Losses
from karat.results.numbers import counted, points, share, such_as, with_interval

# Stage → description, and a short form.
WORDS = {
    waterfall.NOT_IN_CORPUS: ("not in the corpus", "not in corpus"),
    waterfall.NOT_RUN: ("query missing from the run, or failed", "not run"),
    waterfall.MISROUTED: ("in a source that was not queried", "misrouted"),
    waterfall.NOT_RETRIEVED: ("not among the raw candidates", "not found"),
    waterfall.NOT_LISTED: ("not in the list", "not listed"),
    waterfall.CUT_EARLY: ("among the raw candidates, but cut before the final list", "cut early"),
    waterfall.DEMOTED: ("in the raw top {k}, moved out of it by the reranker", "demoted"),
    "over_top_k": ("in the top {k}, cut by --top-k", "over top-k"),
    "too_new": ("in the top {k}, newer than the query's as_of", "too new"),
    "low_score": ("in the top {k}, under the score threshold", "low score"),
    waterfall.CUT: ("in the final list, below rank {k}", "below k"),
    waterfall.OVER_BUDGET: ("in the final list, past {k}", "over budget"),
}
_COLUMNS = 6  # more routes than this are listed one below the other
_ROWS = 10
_NAME = 16
_TEXT = 300  # characters of a query; a table wraps them


class WaterfallSection(AnalysisSection):
    name = "waterfall"
    title = "Where relevant items were lost"
    order = 45

    def show(self, found: Losses) -> list[Block]:
        everything, *segments = found.rows
        groups = groupby(segments, lambda row: row.segment)
        tables = [_by_segment(by, list(rows), found.stages) for by, rows in groups]
        return [_picture(found, everything), _waterfall(found, everything), *_notes(found), *tables]

    def in_short(self, found: Losses) -> str:
        row = found.rows[0]
        lost = sum(row.lost.values())
        if not lost:
            return f"none of {row.relevant:,}"
        most = max(found.stages, key=lambda stage: row.lost[stage])
        what = WORDS[most][0].format(k="k" if found.own_k else found.k)
        return f"{lost:,} of {counted(row.relevant, 'item')}; most of them: {what} ({row.lost[most]:,})"


def _picture(found: Losses, row: Loss) -> Bars:
    """From all relevant items to those that were found, without stages that lost nothing."""
    whole = max(row.relevant, 1)
    bars, left = [Bar("relevant", 0.0, 1.0, 2, f"{row.relevant:,}")], row.relevant
    for stage in found.stages:
        if row.lost[stage]:
            after = left - row.lost[stage]
            bars.append(Bar(WORDS[stage][1], after / whole, left / whole, 1, f"−{row.lost[stage]:,}"))
            left = after
    bars.append(Bar("found", 0.0, row.found / whole, 0, f"{row.found:,}"))
    kinds = ("found", "lost at this stage", "all relevant items")
    return Bars("From relevant to found", "share of the relevant items", kinds, bars, (0.0, 1.0), told=True)


def _waterfall(found: Losses, row: Loss) -> Table:
    k = f"{found.budget:,} tokens" if found.budget else "k" if found.own_k else str(found.k)

    def line(what: str, items: int) -> list[Cell]:
        return [what, items, f"{items / max(row.relevant, 1):.1%}"]

    rows = [
        line("relevant items", row.relevant),
        line(f"found in the {'first' if found.budget else 'top'} {k}", row.found),
    ]
    words = {stage: WORDS[stage][0].replace("top", "first" if found.budget else "top", 1) for stage in found.stages}
    rows += [line(words[stage].format(k=k), row.lost[stage]) for stage in found.stages]
    return table(["what became of them", count("items"), "share"], rows)


def _notes(found: Losses) -> list[Block]:
    own_k = f"Queries with their own k: {found.own_k:,}. For the others it is {found.k}."
    no_room = found.rows[0].no_room
    full = f"Lost items that cannot fit, because the top k has fewer places than relevant items: {no_room:,}."
    no_raw = "Without `raw` lists, items that were never found look the same as items that a reranker moved out."
    no_corpus = "Without `--corpus`, items missing from the corpus count as not found."
    told = ((found.own_k and not found.budget, own_k), (no_room, full))
    return texts("note", *told, (not found.has_raw, no_raw), (not found.has_corpus, no_corpus))


def _by_segment(by: str, rows: list[Loss], stages: list[str]) -> Table:
    """Leaves out stages that lost nothing in any group."""
    shown = [stage for stage in stages if any(row.lost[stage] for row in rows)]
    counts = map(count, ("relevant", "found", *(WORDS[stage][1] for stage in shown)))
    return table([by, *counts], [[row.value, row.relevant, row.found, *(row.lost[s] for s in shown)] for row in rows])


class RouterSection(AnalysisSection):
    name = "router"
    title = "Routing"
    order = 42

    def show(self, found: Routed) -> list[Block]:
        blocks = [*_sentences(found), _chosen(found), *_confusion(found.confusion), _by_source(found)]
        if found.regret is None:
            return blocks
        said = _against(found.regret) if found.regret.against else _estimate(found.regret)
        return [*blocks, Text(said, "note")]


def _sentences(found: Routed) -> list[Block]:
    said = f"{share(found.right)} of {counted(found.queries)} were routed to every source that they need"
    if found.over.mean:
        said += f"; {share(found.over)} to more than that"
    said += "."
    if found.partly:
        said += f" Routed to only some of them, which counts as wrong: {counted(found.partly)}."
    lacking = ((found.not_routed, "`route` in the log"), (found.not_labelled, "`source` in the gold set"))
    left_out = [(queries, f"{counted(queries)} without {what}, left out here.") for queries, what in lacking]
    return [Text(said), *texts("warning", *left_out)]


def _chosen(found: Routed) -> Table:
    rows: list[list[Cell]] = [[_short(c.source), c.asked, f"{c.share:.1%}", c.needed] for c in found.chosen[:_ROWS]]
    return table(["source", count("asked"), "of all routes", count("needed")], rows, _rest(len(found.chosen)))


def _confusion(cells: list[Confusion]) -> list[Block]:
    """A matrix if it fits, otherwise a list of misroutes."""
    asked = sorted({cell.asked for cell in cells})
    needed = sorted({cell.needed for cell in cells})
    if len(asked) <= _COLUMNS and len(needed) <= _ROWS:
        counts = {(cell.needed, cell.asked): cell.queries for cell in cells}
        rows: list[list[Cell]] = [[_short(n), *(counts.get((n, a), 0) for a in asked)] for n in needed]
        note = "queries by the source that they need and the source that was queried"
        return [table(["needed ↓  asked →", *(count(_short(a)) for a in asked)], rows, note)]
    wrong = [cell for cell in cells if not cell.right]
    rows = [[_short(c.needed), _short(c.asked), c.queries, such_as(c.examples)[2:-1]] for c in wrong[:_ROWS]]
    return [table(["needed", "asked", count("queries"), "for example"], rows, _rest(len(wrong)))] if rows else []


def _by_source(found: Routed) -> Table:
    rows: list[list[Cell]] = [
        [_short(s.needed), s.all.n, *map(with_interval, (s.all, s.right, s.wrong))] for s in found.by_source[:_ROWS]
    ]
    note = _rest(len(found.by_source))
    return table(["needed", count("queries"), found.metric, "if right", "if wrong"], rows, note)


def _against(regret: Regret) -> str:
    cost = points(regret.cost.mean, limits=(regret.cost.low, regret.cost.high)).removeprefix("+")
    return (
        f"Regret: the best of the routes {', '.join(map(_short, regret.against))}, taken query by query, would reach "
        f"{regret.best:.4f} where routing reaches {regret.recall:.4f}: {cost} over {counted(regret.queries)}."
    )


def _estimate(regret: Regret) -> str:
    cost = points(regret.cost.mean).removeprefix("+")
    return (
        f"Estimated regret: if {counted(regret.queries, 'misrouted query')} did as well as those that were routed "
        f"correctly to the same source, recall would be {regret.best:.4f} instead of {regret.recall:.4f} ({cost}). "
        "Misrouted queries may be harder: for the exact value, pass runs of each route (`--route NAME=RUN`)."
    )


def _short(name: str) -> str:
    return shorten(name, _NAME)


def _rest(count: int) -> str | None:
    return f"{count - _ROWS} more in the saved result" if count > _ROWS else None


class RerankerSection(AnalysisSection):
    name = "reranker"
    title = "Retriever and reranker"
    order = 40

    def show(self, found: Reranked) -> list[Block]:
        raw = "; ".join(f"{row.metric} {with_interval(row)}" for row in found.raw)
        blocks: list[Block] = [Text(f"The raw lists (up to {found.raw_depth} deep): {raw}.")]
        if found.without_raw:
            blocks.append(Text(f"{counted(found.without_raw)} without a raw list, left out here.", "warning"))
        if found.logged_depths and found.gain is not None:
            said = f"The log has {found.logged_depths:,} different values of `rerank_depth`. The possible gain is for "
            blocks.append(Text(f"{said}{_candidates(found.gain)}; set the depth with --rerank-depth N.", "warning"))
        if not found.reordered:
            blocks.append(Text("No reranking: the final lists are the raw lists, cut off." + _room(found.gain)))
            return blocks
        return [*blocks, difference_table(found.differences, "raw", "final"), *_told(found)]

    def in_short(self, found: Reranked) -> str:
        raw = "; ".join(f"raw {row.metric} {with_interval(row)}" for row in found.raw[:1])
        first = found.differences[0] if found.reordered and found.differences else None
        return f"{raw}; {first.metric} raw to final {points(first.delta)}" if first else f"{raw}; no reranking"


def _told(found: Reranked) -> list[Block]:
    rescued, demoted = such_as(found.rescued_examples), such_as(found.demoted_examples)
    return [
        *([] if found.gain is None else [Text(_captured(found.gain))]),
        Text(f"Reranking brought a relevant hit into the top {found.k} of {counted(found.rescued)}{rescued}."),
        Text(f"It pushed the last one out for {counted(found.demoted)}{demoted}."),
    ]


def _captured(gain: Gain) -> str:
    if gain.captured is None:
        return "The raw order is already the best possible: there was nothing to gain."
    return (
        f"The best order of {_candidates(gain)} would reach {gain.metric} {gain.best:.4f}. "
        f"Of this possible gain ({gain.possible * 100:.1f} pp) {share(gain.captured)} was captured."
    )


def _room(gain: Gain | None) -> str:
    if gain is None or gain.captured is None:
        return ""
    best = f"{gain.metric} {gain.best:.4f}, {gain.possible * 100:.1f} pp more"
    return f" The best order of {_candidates(gain)} would reach {best}."


def _candidates(gain: Gain) -> str:
    return "the raw lists" if gain.rerank_depth is None else f"the first {gain.rerank_depth:,} raw hits"


class RewriterSection(AnalysisSection):
    name = "rewriter"
    title = "Query rewriting"
    order = 41

    def show(self, found: Rewritten) -> list[Block]:
        blocks: list[Block] = [difference_table(found.differences, "original", "rewritten")]
        if found.without_original:
            said = f"{counted(found.without_original)} without a list of the original query, left out here."
            blocks.append(Text(said, "warning"))
        said = f"By {found.metric}, rewriting harmed {share(found.harmed)} of the queries"
        said += f" and helped {share(found.helped)}."
        if found.unchanged:
            said += f" Not rewritten: {counted(found.unchanged)}."
        blocks.append(Text(said))
        changes = [*(("harmed", r) for r in found.harmed_most), *(("helped", r) for r in found.helped_most)]
        if changes:
            columns = ("query", "", found.metric, "original", "rewritten")
            blocks.append(table(columns, [_row(*change) for change in changes], "the largest changes"))
        return blocks

    def in_short(self, found: Rewritten) -> str:
        return f"by {found.metric} it harmed {share(found.harmed)} of the queries and helped {share(found.helped)}"


def _row(how: str, change: Rewriting) -> list[Cell]:
    texts = (None if text is None else shorten(text, _TEXT) for text in (change.original, change.rewritten))
    return [change.query_id, how, f"{change.before:.2f} → {change.after:.2f}", *texts]
