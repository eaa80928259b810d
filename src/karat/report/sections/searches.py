"""Several searches per query."""

from __future__ import annotations

from karat.data.prices import money
from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.cells import count, interval_column, narrow_warning, table, value_cell
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.searches import FirstLoss, LostHop, Searches, SearchExample, SearchStep, Spent
from karat.results.numbers import counted, listed, percent, with_interval, written

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


class SearchesSection(AnalysisSection):
    name = "searches"
    title = "Searches"
    order = 44

    def show(self, found: Searches) -> list[Block]:
        blocks: list[Block] = []
        if found.steps:
            blocks += [Text(" ".join(_sentences(found))), *narrow_warning(found.metrics), _step_table(found)]
        if found.hops:
            blocks += [Text(" ".join(_hop_sentences(found))), _hop_table(found)]
        return [*blocks, *([_example_table(found.examples)] if found.examples else [])]

    def in_short(self, found: Searches) -> str:
        said = []
        if found.steps:
            union, steps = found.metrics[:2]
            each = "–" if steps.mean is None else f"{steps.mean:.1f}"
            said.append(f"{each} searches per query find {_share(union.mean)} of the relevant items")
            said.append(_least_useful(found) or _wasted(found))
        if found.hops:
            said.append(_lost(found))
        return "; ".join(said)


def _sentences(found: Searches) -> list[str]:
    union, steps, wasted, _ = found.metrics
    said = [
        f"Searches per query: {with_interval(steps)}. Together they find {union.metric} {with_interval(union)}.",
        f"{_wasted(found)[0].upper()}{_wasted(found)[1:]} ({wasted.metric} {with_interval(wasted)} per query).",
    ]
    if found.per_relevant is not None:
        spent = [
            f"{money(found.cost.per_relevant)} {found.currency}" if found.cost and found.cost.per_relevant else "",
            written(found.time.per_relevant, "ms") if found.time and found.time.per_relevant else "",
        ]
        more = "".join(f", {one}" for one in spent if one)
        said.append(f"Per relevant item: {with_interval(found.per_relevant)} searches{more}.")
    useless = _least_useful(found)
    return [*said, f"{useless[0].upper()}{useless[1:]}."] if useless else said


def _wasted(found: Searches) -> str:
    share = percent(found.wasted / found.searches) if found.searches else "0%"
    again = "repeats" if found.repeated == 1 else "repeat"
    repeated = f"; {found.repeated:,} of them {again} an earlier one" if found.repeated else ""
    return f"{share} of the searches find no further relevant item{repeated}"


def _least_useful(found: Searches) -> str:
    """The search whose share of the cost exceeds its share of the relevant items most; empty if none does."""
    costs = [_effort(found, step) for step in found.steps]
    gaps = [cost - (step.share or 0.0) for (cost, _), step in zip(costs, found.steps, strict=True)]
    at = max(range(1, len(gaps)), key=gaps.__getitem__, default=0)
    if not at or gaps[at] <= 0 or found.steps[at].share is None:
        return ""
    step, (cost, name) = found.steps[at], costs[at]
    which = f"searches from the {_ordinal(step)} on bring" if step.onwards else f"the {_ordinal(step)} search brings"
    return f"{which} {percent(step.share or 0.0)} of the relevant items found and {percent(cost)} of the {name}"


def _effort(found: Searches, step: SearchStep) -> tuple[float, str]:
    """Its share of the cost, of the time if that is unknown for most searches, or of the searches."""
    for whole, part, name in ((found.cost, step.cost, "cost"), (found.time, step.time, "time")):
        if whole is not None and 2 * whole.searches > found.searches and whole.total:
            return 0.0 if part is None or part.share is None else part.share, name
    return step.searches / found.searches, "searches"


def _ordinal(step: SearchStep) -> str:
    return _ORDINALS[step.number - 1]


def _step_table(found: Searches) -> Table:
    steps = found.steps
    titles: list[str | Column] = [
        "search",
        count("queries"),
        interval_column("recall so far", (value_cell(step.recall) for step in steps)),
        Column("recall alone", "score", "of this search by itself, in the queries that have it"),
        Column("new relevant", "count", "relevant items that no earlier search found"),
        Column("of those found", help="share of all relevant items that the searches found"),
        Column("wasted", help="share of these searches without a new relevant item"),
        Column("repeated", "count", "searches with the same hits as an earlier one"),
    ]
    rows: list[list[Cell]] = [
        [
            _numbered(step),
            step.queries,
            value_cell(step.recall),
            step.alone,
            step.new,
            _share(step.share),
            percent(step.wasted / step.searches, 0),
            step.repeated,
        ]
        for step in steps
    ]
    for whole, name, unit in ((found.time, "time", "ms"), (found.cost, "cost", found.currency or "")):
        if whole is not None:
            titles += [f"{name}, {unit}", f"{unit} per new relevant"]
            for row, step in zip(rows, steps, strict=True):
                row += _spent(step.time if name == "time" else step.cost, unit)
    note = f"queries with relevant gold: {found.queries:,}; recall so far is the mean over all of them"
    return table(titles, rows, note)


def _spent(spent: Spent | None, unit: str) -> list[Cell]:
    """Mean per search, and per new relevant item."""
    values = (None, None) if spent is None else (spent.total / spent.searches, spent.per_relevant)
    return ["–" if v is None else written(v, unit).removesuffix(" ms") if unit == "ms" else money(v) for v in values]


def _numbered(row: SearchStep | LostHop) -> str:
    return f"{row.number} and later" if row.onwards else str(row.number)


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


def _hop_sentences(found: Searches) -> list[str]:
    covered, every = found.hop_metrics
    lost, worst = _lost(found), found.worst_hop
    said = f"{covered.metric} {with_interval(covered)}, {every.metric} {with_interval(every)}."
    return [said, f"{lost[0].upper()}{lost[1:]}{'' if worst is None else _where(worst)}."]


def _lost(found: Searches) -> str:
    hop = found.worst_hop
    if hop is None:
        return "every hop is covered"
    which = f"hops from {hop.number} on are" if hop.onwards else f"hop {hop.number} is"
    often = " most often" if len(found.hops) > 1 else ""
    return f"{which} lost{often}: {hop.missing:,} of {counted(hop.hops, 'time' if hop.onwards else 'query')}"


def _where(hop: LostHop) -> str:
    """Where it was lost most often."""
    places = {f"in search {place}": number for place, number in hop.lost.items()}
    places |= {"because no search was left": hop.stopped, "between search and final list": hop.dropped}
    place = max(places, key=places.__getitem__)
    return f", {place}" if places[place] == hop.missing else f", {places[place]:,} of them {place}"


def _hop_table(found: Searches) -> Table:
    titles: list[str | Column] = [
        "hop",
        count("queries"),
        "covered",
        Column("lost in search", help="the first search after the hops before it were covered"),
        Column("no search left", "count", "the searches ended when the hops before it were covered"),
        Column("not in the final list", "count", "a search found it"),
    ]
    rows: list[list[Cell]] = [
        [
            _numbered(hop),
            hop.hops,
            percent(hop.covered / hop.hops, 0),
            listed([f"{place}: {number:,}" for place, number in hop.lost.items()]) or "–",
            hop.stopped,
            hop.dropped,
        ]
        for hop in found.hops
    ]
    return table(titles, rows)


def _loss(lost: FirstLoss | None) -> str:
    if lost is None:
        return "–"
    if lost.found_by:
        return f"hop {lost.hop}: found by search {lost.found_by}, not in the final list"
    return f"hop {lost.hop}: " + (f"not found by search {lost.search}" if lost.search else "no search left")


def _example_table(examples: list[SearchExample]) -> Table:
    asked, lost = any(one.asked for one in examples), any(one.lost for one in examples)
    titles: list[str | Column] = ["query", count("searches"), count("wasted"), count("repeated"), "found"]
    titles += [*(["lost hop"] if lost else []), *(["wasted searches for"] if asked else [])]
    rows: list[list[Cell]] = [
        [
            *(one.query, one.searches, one.wasted, one.repeated, f"{one.found} of {one.relevant}"),
            *([_loss(one.lost)] if lost else []),
            *([listed(one.asked) or "–"] if asked else []),
        ]
        for one in examples
    ]
    return table(titles, rows)
