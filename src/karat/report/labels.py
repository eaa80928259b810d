"""Reports of `karat labels pool`, `karat labels clicks`, `agree`, `merge` and `calibrate`."""

from __future__ import annotations

from collections.abc import Container

from karat.labels.agreement import ONE_QUERY, Agreement, KappaRow
from karat.labels.calibration_file import Calibration, JudgeRates, Rate
from karat.labels.click_log import DEEPEST, LogCounts
from karat.labels.clicks import FEW_SESSIONS, ClickModel, PositionRow
from karat.labels.merge import Merging
from karat.labels.next_labels import Settling
from karat.labels.pool import Pooling
from karat.labels.production import QuestionSample
from karat.report.blocks import Block, Cell, Column, Interval, Report, Section, Table, Text
from karat.report.cells import count, few_name, few_warning, table, texts
from karat.results.no_estimate import why_no_estimate
from karat.results.numbers import counted, difference, listed, written

_CONFLICTS = 20
_NEXT = 10
_UNLIKELY = 0.2


def pool_report(pool: Pooling) -> Report:
    left = pool.drawn_from - pool.pairs
    kinds: list[tuple[object, str, int]] = [
        (True, f"in the first {pool.k} hits of any run", pool.found),
        (True, "already judged, left out", pool.judged),
        (pool.without_influence, f"cannot change the difference in {pool.metric}, left out", pool.without_influence),
        (pool.chosen == "sample", "not sampled", left),
        (pool.chosen == "budget", "over the budget", left),
        (True, f"in the pool, for {counted(pool.queries)}", pool.pairs),
        (pool.near_duplicates, "of these, near-duplicates of another one of the query", pool.near_duplicates),
    ]
    influence = f"These pairs account for {pool.influence_share or 0:.0%} of the possible change in {pool.metric}."
    no_text = f"Pairs without text: {pool.without_text:,}. Pass a corpus (--corpus), or log the texts of hits."
    blocks: list[Block] = [
        Table([Column("pairs"), count("")], [[what, pairs] for shown, what, pairs in kinds if shown], layout="facts"),
        *texts(
            "note",
            (pool.influence_share is not None, influence),
            (pool.no_answer_queries, f"Queries without an answer, skipped: {pool.no_answer_queries:,}."),
        ),
        *texts("warning", (pool.without_text, no_text)),
    ]
    title = f"{', '.join(pool.runs)} against {pool.gold}"
    sections = [] if pool.sampled is None else [Section("questions", "Questions", _questions(pool.sampled))]
    sections.append(Section("pool", "Pairs to label", blocks))
    if pool.settling is not None:
        sections.append(Section("settling", "What would settle the comparison", _settling(pool.settling)))
    return Report(title, sections)


def _settling(found: Settling) -> list[Block]:
    today, expected, low, high = (
        difference(value, "pp", (None, None), 1) for value in (found.delta, found.expected, found.low, found.high)
    )
    limits = Interval(f"{expected} [{low}, {high}]", found.expected * 100, found.low * 100, found.high * 100)
    rows: list[list[Cell]] = [
        [f"{found.metric} by today's labels (pp)", today],
        ["expected with all labels (pp)", limits],
        ["pairs whose label can change it", f"{found.open:,}"],
    ]
    if not found.decided:
        rows.append(["probability that labels decide it", f"{found.chance:.0%}"])
    if not found.decided and found.labels is not None:
        rows.append(["labels needed then", f"{found.labels:,} ({found.few:,} to {found.many:,})"])
    how = (
        f"{found.candidate} minus {found.baseline}, on {counted(found.queries)}. The {found.level * 100:g} % interval "
        "covers the choice of queries and the missing labels, if unjudged hits are as often relevant as judged ones at "
        "such ranks."
    )
    needed = " labels needed, roughly: the median, and 10 % and 90 %, of simulations in which labels decide."
    how += needed if not found.decided and found.labels is not None else ""
    better = found.candidate if found.expected > 0 else found.baseline
    said = f"Decided: {better} is better, whatever the missing labels are likely to be."
    if not found.decided:
        said = "Undecided. Label the pairs in their order, and pool again with --labelled after some of them."
    few = "Labels will probably not decide it. More queries would: see `karat eval power`."
    return [
        Text(said),
        Table([Column("what"), Column("value")], rows, layout="facts"),
        Text(how, "note"),
        *texts("warning", (not found.decided and found.chance < _UNLIKELY, few)),
    ]


def _questions(sample: QuestionSample) -> list[Block]:
    kinds: list[tuple[str, int]] = [
        ("questions in the file", sample.traces),
        ("distinct questions", sample.distinct),
        ("already in the gold set, left out", sample.in_gold),
        ("drawn", sample.drawn),
    ]
    facts: list[list[Cell]] = [[what, number] for what, number in kinds if number]
    blocks: list[Block] = [Table([Column("questions"), count("")], facts, layout="facts")]
    rows: list[list[Cell]] = [[one.value, one.questions, one.drawn] for one in sample.strata]
    blocks += [table([str(sample.by), count("questions"), count("drawn")], rows)] if rows else []
    found: list[list[Cell]] = [
        [entry.count, entry.found, entry.done, ", ".join(entry.examples)] for entry in sample.audit
    ]
    blocks += [table([count("count"), "found", "done", "for example"], found)] if found else []
    nothing = sample.redacted_nothing
    redacted = [name for name in sample.redacted if name not in nothing]
    return blocks + texts(
        "note",
        (redacted, f"Redacted before anything was written: {', '.join(redacted)}."),
        (nothing, f"No text of the traces matches: {', '.join(nothing)}."),
    )


def merge_report(found: Merging) -> Report:
    facts: list[list[Cell]] = [
        ["version", found.version],
        ["before", " ".join(part for part in (found.dataset.version, found.dataset.hash) if part) or found.gold],
        ["labels added", f"{found.added:,} ({found.relevant:,} relevant) on {counted(found.queries)}"],
        ["by", ", ".join(f"{who} {labels:,}" for who, labels in found.annotators.items())],
    ]
    rows: list[list[Cell]] = [[entry.count, entry.found, entry.done] for entry in found.audit]
    judges = f"Labels of models, left out: {found.by_judges:,}. Use them with `karat eval --labels` instead."
    blocks: list[Block] = [Table([Column("what"), Column("value")], facts, layout="facts")]
    blocks += [table([count("count"), "found", "done"], rows)] if rows else []
    clicks = f"Labels from clicks, left out: {found.by_clicks:,}. Use them with `karat eval --labels` instead."
    merged = f"{found.from_clicks:,} of the added labels come from clicks, not from people. Their items say so."
    blocks += texts("note", (found.by_judges, judges), (found.by_clicks, clicks))
    blocks += texts("warning", (found.from_clicks, merged))
    title = f"{', '.join(source.file for source in found.labels)} into {found.gold}"
    return Report(title, [Section("merge", "A new gold set", blocks)])


def clicks_report(found: ClickModel) -> Report:
    """What `karat labels clicks` shows: labels, the examination of each position, and what was left out."""
    facts: list[list[Cell]] = [
        ["pairs of query and item", found.pairs],
        [f"relevant (grade {found.highest})", found.relevant],
        ["irrelevant (grade 0)", found.irrelevant],
        ["uncertain, no grade", found.uncertain],
    ]
    facts += [["shown fewer than five times, no grade", found.rare]] if found.rare else []
    apart = "only at positions that cannot be compared, no grade"
    facts += [[apart, found.not_comparable]] if found.not_comparable else []
    units = "session" if found.has_sessions else "list"
    how = "the mean attraction of what was shown" if found.chosen == "mean" else "given by --threshold"
    rule = (
        f"A pair is relevant if its attraction is above {found.threshold:.3f} ({how}) with a probability of at least "
        f"{found.confidence:.0%}, and irrelevant if it is below with that probability. Attraction: the probability "
        "of a click by someone who looks at the item."
    )
    labels: list[Block] = [Table([Column("pairs"), count("")], facts, layout="facts"), Text(rule, "note")]
    labels += texts("warning", *_click_warnings(found))
    rows: list[list[Cell]] = [
        [str(row.position), row.shown, row.clicked, f"{row.clicked / row.shown:.3f}", _examined(row, found)]
        for row in found.positions
    ]
    explained = (
        f"examined: how often people look at a position, relative to position {found.reference}, with "
        f"{found.confidence:.0%} interval over {counted(found.sessions, units)}. –: cannot be compared."
    )
    left = [(number, what) for number, what in _left_out(found.counts) if number]
    blocks: list[Block] = [
        table(["position", count("shown"), count("clicked"), "click rate", "examined"], rows, explained)
    ]
    sections = [Section("labels", "Labels from clicks", labels), Section("positions", "Position bias", blocks)]
    if left:
        told = table([count("count"), "left out"], [[number, what] for number, what in left])
        sections.append(Section("left-out", "What was left out", [told]))
    on = f"{counted(found.clicks, 'click')}, {counted(found.queries)}"
    return Report(f"{found.log}: {on}", sections)


def _examined(row: PositionRow, found: ClickModel) -> Cell:
    if row.examination is None:
        return None
    if row.position == found.reference:
        return "1"
    if row.low is None or row.high is None:
        return f"{row.examination:.3f}"
    return Interval(f"{row.examination:.3f} [{row.low:.2f}, {row.high:.2f}]", row.examination, row.low, row.high)


def _click_warnings(found: ClickModel) -> list[tuple[object, str]]:
    lost = [str(row.position) for row in found.positions if row.examination is None]
    what = "Position" if len(lost) == 1 else "Positions"
    apart = (
        f"{what} {listed(lost)} cannot be compared with position {found.reference}: no items were shown at both and "
        "clicked at both. Lists that change their order now and then would tell."
    )
    units = counted(found.sessions, "session" if found.has_sessions else "list")
    few = f"Only {units}: the intervals are a rough guide."
    alone = "The log has no sessions, so each list counts as one. If one person sees several lists, add `session`."
    return [(lost, apart), (found.sessions < FEW_SESSIONS, few), (not found.has_sessions, alone)]


def _left_out(counts: LogCounts) -> list[tuple[int, str]]:
    return [
        (counts.empty_lists, "lists without items"),
        (counts.unknown_queries, "lines of queries that the gold set does not have"),
        (counts.clicks_not_shown, "clicks on items that were not shown"),
        (counts.repeated_items, "items that a list has again, further down"),
        (counts.repeated_showings, "showings of the same item at the same position in the same session"),
        (counts.too_deep, f"items below position {DEEPEST}"),
    ]


def agreement_report(found: Agreement, closed: Container[tuple[str, str]] = ()) -> Report:
    """`closed`: pairs (query, item) that the reader has yet to grade, whose grades must stay hidden."""
    counts = (count("labels"), count("without a grade"))
    rows: list[list[Cell]] = [[one.name, one.kind, one.labels, one.missing, one.mean_grade] for one in found.annotators]
    who = table(["annotator", "kind", *counts, Column("mean grade", "score")], rows)
    sections = [Section("annotators", "Annotators", [who if rows else Text("There are no labels yet.")])]
    sections.append(Section("agreement", "Agreement", _agreement(found)))
    if found.conflicts:
        sections.append(Section("conflicts", "Disagreements", _conflicts(found, closed)))
    return Report(f"Labels of {', '.join(found.files)}", sections)


def _agreement(found: Agreement) -> list[Block]:
    seen = f"Labels given with the ranking in sight, which kappa leaves out: {found.saw_ranking:,}."
    if not found.kappas:
        none = Text("No pair was graded by two annotators, so agreement cannot be measured.", "warning")
        return [none, *texts("note", (found.saw_ranking, seen))]
    how = f"kappa: 1 is full agreement, 0 is chance; with {found.level * 100:g} % interval over queries. "
    how += "Cohen's for two annotators, Fleiss' for all. –: all gave the same grade."
    rows = [_row(row) for row in found.kappas]
    inverted = dict.fromkeys(_annotators(row) for row in found.kappas if row.inverted)
    opposite = "disagree more than by chance: does one of them use the scale in reverse?"
    return [
        table(["annotators", "of", count("pairs"), "agreed", "kappa"], rows, how),
        *texts("note", (found.saw_ranking, seen)),
        *texts("warning", (any((row.low, row.high) == (-1, 1) for row in found.kappas), ONE_QUERY)),
        *texts("warning", *((True, f"{who} {opposite}") for who in inverted)),
    ]


def _row(row: KappaRow) -> list[Cell]:
    kappa = None
    if row.kappa is not None and row.low is not None and row.high is not None:
        text = f"{row.kappa:.2f} [{row.low:.2f}, {row.high:.2f}]".replace("-", "−")
        kappa = Interval(text, row.kappa, row.low, row.high)
    return [_annotators(row), row.of, row.pairs, f"{row.agreed:.0%}", kappa]


def _annotators(row: KappaRow) -> str:
    return " and ".join(row.annotators) if row.measure == "cohen" else f"all {len(row.annotators)} (Fleiss)"


def _conflicts(found: Agreement, closed: Container[tuple[str, str]]) -> list[Block]:
    open_ones = [c for c in found.conflicts if (c.query_id, c.item) not in closed]
    shown = open_ones[:_CONFLICTS]
    rows = [[c.query_id, c.item, ", ".join(f"{name} {grade:g}" for name, grade in c.grades.items())] for c in shown]
    said = f"{len(found.conflicts):,} of {counted(found.shared, 'pair')} with two or more grades"
    more, hidden = len(open_ones) - len(shown), len(found.conflicts) - len(open_ones)
    said += f"; {hidden:,} that you have not graded yet are not shown" if hidden else ""
    return [
        Text(said + (f"; {more:,} more are in --json." if more else ".")),
        *([table(["query", "item", "grades"], rows)] if shown else []),
    ]


def calibration_report(found: Calibration) -> Report:
    sections = [Section("rates", "How the judge compares with people", _overall(found))]
    for name, title, rows in (("segments", "By segment", found.segments), ("systems", "By system", found.systems)):
        if rows:
            sections.append(Section(name, title, _groups(rows)))
    sections.append(Section("corrected", "Corrected share of relevant pairs", _corrected(found)))
    if found.metrics:
        refused = {row.refused.metric: row.refused for row in found.metrics if row.refused is not None}
        warnings = texts("warning", *((True, text) for text in why_no_estimate(refused.values())))
        sections.append(Section("metrics", "Corrected metrics", [_metrics(found), *warnings]))
    sections.append(Section("next", "What to label next", _next(found)))
    return Report(f"{found.judge} against {found.human}", sections)


def _overall(found: Calibration) -> list[Block]:
    o = found.overall
    what = "more than 0" if found.rel is None else f"{found.rel:g} or more"
    said = (
        f"The judge labelled {counted(found.judge_labels, 'pair')}, people {found.human_labels:,}; {found.shared:,} "
        f"have both labels. Relevant: a grade of {what}."
    )
    rows: list[list[Cell]] = [
        ["sensitivity", _cell(o.sensitivity), "share of the pairs relevant to people that the judge finds"],
        ["specificity", _cell(o.specificity), "share of the pairs irrelevant to people that the judge rejects"],
        ["kappa", _cell(o.kappa), "agreement beyond chance: 1 is full, 0 none"],
    ]
    counts = map(count, ("pairs", "labelled by people", "of them relevant"))
    grades: list[list[Cell]] = [[f"{s.grade:g}", s.pairs, s.labelled, s.relevant] for s in found.strata]
    return [
        Text(said),
        table(["", f"value [{found.level * 100:g} % interval]", ""], rows),
        table(["the judge's grade", *counts], grades),
        *(Text(note, "warning") for note in found.notes),
    ]


def _groups(rows: list[JudgeRates]) -> list[Block]:
    rates = [[_cell(rate) for rate in (row.sensitivity, row.specificity, row.kappa)] for row in rows]
    cells: list[list[Cell]] = [
        [few_name(row), row.pairs, row.labelled, *told] for row, told in zip(rows, rates, strict=True)
    ]
    columns = (count("pairs"), count("by people"), "sensitivity", "specificity", "kappa")
    blank = texts("note", (any(None in told for told in rates), "–: no labels by people to compute it from"))
    inverted = [row.value for row in rows if row.inverted]
    opposite = f"The judge is inverted here, it calls relevant what people call irrelevant: {listed(inverted)}."
    return [
        table([rows[0].of, *columns], cells),
        *blank,
        *few_warning(rows, "labels by people"),
        *texts("warning", (inverted, opposite)),
    ]


def _cell(rate: Rate, digits: int = 2) -> Cell:
    if rate.value is None:
        return None
    value, low, high = (
        None if v is None else f"{round(v, digits) + 0.0:.{digits}f}".replace("-", "−")  # never −0.00
        for v in (rate.value, rate.low, rate.high)
    )
    if low is None or high is None:
        return value
    return Interval(f"{value} [{low}, {high}]", rate.value, rate.low, rate.high)


def _corrected(found: Calibration) -> list[Block]:
    o = found.overall
    rows: list[list[Cell]] = [["by the judge alone", f"{o.said:.3f}", None]]
    if o.by_people is not None:
        rows.append(["by people alone", _cell(o.by_people, 3), _width(o.by_people)])
    rows.append([f"corrected ({found.method})", _cell(o.corrected, 3), _width(o.corrected)])
    note = (
        "Share of the judge's pairs that is relevant. The interval covers the choice of queries and of labelled pairs."
    )
    return [table(["relevant pairs", "share", "width"], rows, note)]


def _width(rate: Rate) -> str | None:
    return None if rate.low is None or rate.high is None else f"{rate.high - rate.low:.3f}"


def _metrics(found: Calibration) -> Table:
    rows: list[list[Cell]] = [
        [m.system, m.metric, written(m.gold_only), written(m.gold_plus_judge), _cell(m.corrected, 3)]
        for m in found.metrics
    ]
    return table(["system", "metric", "gold only", "gold plus judge", "corrected"], rows)


def _next(found: Calibration) -> list[Block]:
    if found.needed is None and found.queries == 1:
        return [Text("All pairs are of one query, which says nothing about other queries. Add queries.", "warning")]
    if found.needed is None:
        said = f"No number of labels can narrow the interval of the corrected share to {found.width:g}, because the "
        return [Text(said + "queries differ too much. Add queries instead.", "warning")]
    more = found.needed - found.shared
    if more <= 0:
        return [Text(f"The {found.shared:,} labels by people are enough for an interval {found.width:g} wide.")]
    said = (
        f"About {found.needed:,} labels by people in total, {more:,} more than now, narrow the interval to "
        f"{found.width:g}."
    )
    rows = [[pair.query_id, pair.item, f"{pair.judge:g}"] for pair in found.next[:_NEXT]]
    note = f"the first {len(rows)} of {len(found.next):,} pairs, picked at random where labels help most; all in --json"
    return [Text(said), table(["query", "item", "the judge's grade"], rows, note)]
