"""Reports of `karat baseline` and `karat stress`."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Report, Section, Table, Text
from karat.report.cells import table, texts
from karat.report.overview import data_name, run_names
from karat.results.numbers import counted, difference, interval, p_value, points, titled, written
from karat.systems.ladder import Ladder, Rung
from karat.systems.stress.stress import Stress, StressRow

_LISTS = {"topk": "final lists", "raw": "raw lists", "topk_original": "lists of the original query"}


def ladder_report(ladder: Ladder) -> Report:
    names = [row.metric for row in ladder.rungs[0].values]
    sections = [Section(name, name, [_rung_table(ladder, at, name)]) for at, name in enumerate(names)]
    said: list[Block] = [Text(f"{name} was skipped: {why}", "warning") for name, why in ladder.skipped.items()]
    said += [Text(note, "warning") for note in ladder.notes]
    if said:
        sections.append(Section("notes", "Notes", said))
    size = ladder.corpus["size"]
    over = f"Ladder over {ladder.corpus['name']} ({counted(size, 'item')})"
    sentence = f"{over}, on {data_name(ladder.dataset, ladder.gold)}"
    return Report(f"{over}, against {ladder.gold}", sections, page_title=sentence)


def _rung_table(ladder: Ladder, at: int, name: str) -> Table:
    """The highest rung on top, as on a ladder."""
    level = f"{ladder.statistics['level'] * 100:g} % interval"
    unit = ladder.units[name]
    steps = [titled(title, unit) for title in ("above the next", "above bm25")]
    rows = [_rung_row(rung, at, unit) for rung in reversed(ladder.rungs)]
    unit = "" if ladder.units[name] == "pp" else ladder.units[name]
    if ladder.ceilings.get(name) is not None:
        rows.insert(0, ["(perfect ranking)", written(ladder.ceilings[name], unit), None, None, None])
    if ladder.floors.get(name) is not None:
        rows.append(["(random ranking)", written(ladder.floors[name], unit), None, None, None])
    runs = [rung.system for rung in ladder.rungs if not rung.baseline]
    given = f" → marks your runs: {', '.join(runs)}." if runs else ""
    note = f"above …: paired per-query differences with their intervals.{given}"
    return table(["system", "value", level, *steps], rows, note)


def _rung_row(rung: Rung, at: int, unit: str) -> list[Cell]:
    value, shown = rung.values[at], "" if unit == "pp" else unit
    steps = []
    for differences in (rung.above_next, rung.above_bm25):
        found = next((d for d in differences if d.metric == value.metric), None)
        steps.append(None if found is None else difference(found.delta, unit, (found.low, found.high), 1))
    name = rung.system if rung.baseline else f"→ {rung.system}"
    return [name, written(value.mean, shown), interval(value.low, value.high, shown), *steps]


def stress_report(found: Stress) -> Report:
    sections = [Section("stress", "Hard-negative stress", [Text(_what(found)), _rank_table(found), *_notes(found)])]
    if found.worst:
        rows = [[d.query_id, f"{d.before:.2f} → {d.after:.2f}", d.query] for d in found.worst]
        worst = table(["query", found.metric, "text"], rows, "with all negatives together")
        sections.append(Section("worst", "Queries that lost most", [worst]))
    [name] = run_names([found.system or found.run])
    sentence = f"{name} on {data_name(found.dataset, found.gold)} with hard negatives in its lists"
    return Report(f"{found.system or found.run} against {found.gold}", sections, page_title=sentence)


def _what(found: Stress) -> str:
    said = f"Negatives were inserted into the {_LISTS[found.lists]} of {counted(found.queries)}"
    if found.drawn_from > found.queries:
        said += f" (sampled from {found.drawn_from:,} with seed {found.statistics['seed']})"
    if found.reranker is None:
        return f"{said}. No reranker was given, so nothing moves them down again."
    return f"{said}. {found.reranker} reranked the lists with and without them."


def _rank_table(found: Stress) -> Table:
    titles = ["negatives at", "without", "with", f"change of {found.metric}", "p"]
    note = "A change is significant if the interval excludes 0 and p is small."
    if found.reranker is not None:
        titles.append("before reranking")
        note += " before reranking: the change that the reranker had to undo."
    return table(titles, [_rank_row(row) for row in found.rows], note)


def _rank_row(row: StressRow) -> list[Cell]:
    change, bare = row.change, row.unranked
    at = f"rank {row.at[0]}" if len(row.at) == 1 else f"ranks {', '.join(map(str, row.at))} together"
    cells: list[Cell] = [
        at,
        written(change.baseline),
        written(change.candidate),
        points(change.delta, limits=(change.low, change.high)),
        p_value(change.p),
    ]
    return cells if bare is None else [*cells, points(bare.delta)]


def _notes(found: Stress) -> list[Block]:
    why, left_out = ", ".join(f"{why} ({n:,})" for why, n in found.left_out.items()), sum(found.left_out.values())
    fewer, short, last = found.fewer_negatives, found.short_lists, found.rows[-1].at[-1]
    return texts(
        "warning",
        (left_out, f"{counted(left_out)} of the gold set left out: {why}."),
        (fewer, f"{counted(fewer)} with fewer negatives than ranks: the last row uses those that exist."),
        (short, f"{counted(short)} with a list that ends before rank {last}: the negative was put at its end instead."),
        (found.moved, f"Negatives that were already in the list and were moved: {found.moved:,}."),
        (
            found.relevant_negatives,
            f"Negatives not used because the gold set calls them relevant: {found.relevant_negatives:,}.",
        ),
        (
            found.without_text,
            f"The reranker got {counted(found.without_text, 'hit')} without text: --corpus provides it.",
        ),
        (found.rows[0].change.few, "Too few queries for a reliable result."),
    )
