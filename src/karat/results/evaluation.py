"""One evaluation: needs become a request, the request a pass, and its data one result per system."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.hits import SIZES, LentRun, NoLists, Run, Ungrouped, is_other_list
from karat.data.ids import DocRule
from karat.errors import InputError, NoOverlap, did_you_mean, shorten
from karat.results.analyses.base import Consumer, needs_of_analyses
from karat.results.bm25_baseline import NoWordSearch, WordSearch, mark_depth
from karat.results.context import Context
from karat.results.queries.lists import ListReader
from karat.results.result import Result
from karat.results.summary import FEW
from karat.scoring.collect import RunData, collect
from karat.scoring.doubts import judge_doubts
from karat.scoring.engines.base import Engine, Local
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.forbidden import RuleUse
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.name_watch import LOOKED
from karat.scoring.one_pass import Golds, PassRequest
from karat.scoring.overlap import count_beyond, count_missing, count_short_lists
from karat.scoring.views import BM25, ORIGINAL, OWN, RAW, Need, View
from karat.statistics.sampling import Sampling

if TYPE_CHECKING:
    from karat.data.normal_ids import IdNormalizer
    from karat.formats.corpora import Corpora

KEEP_LISTS = 20_000  # up to this many queries, lists to show are kept during the pass; else they are read again
KEEP_IDS = 1_000_000  # up to this many queries, ids and scores of lists can be kept (`Need.every`)
_NO_SCORE = "log the score of each hit, or remove the threshold (--min-score)"
_NO_RANK = "name the score column (--map score=COLUMN), or use --scores as-listed if rows are in ranking order"
_NO_FIELD = "log it for each hit (null where a document has none), or pass a corpus that has it (--corpus)"
_NOT_COMPARED = "its values cannot be compared with those of the rule, or queries lack theirs"
_NO_VERSION = "log the doc_version of each hit, or pass a corpus that has it (--corpus)"


def _needing_hits(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    return tuple(metric for metric in metrics if metric.needs_hits)


class Evaluation(msgspec.Struct, frozen=True, eq=False):
    """One evaluation with all its options."""

    engine: Engine
    gold: Gold
    rules: Rules
    asked: list[Metric]
    keep_empty: bool  # metrics that were named are shown even if undefined for every query
    background: tuple[str, ...]
    context: Context
    normal: IdNormalizer | None  # if ids are normalized
    corpora: Corpora | None
    counts_corpus: bool  # the corpus size is that of each system's own corpus
    lent: dict[str, Run]  # lists that other runs provide
    segmented_by: tuple[str, ...]
    cluster: str | None
    sampling: Sampling
    about: dict[str, Any]  # what is known about runs that take the place of labels, for the provenance

    def results(self, run: Run, consumers: Sequence[Consumer]) -> dict[str, Result]:
        overlap_hint = run.overlap_hint
        plan = self._plan(consumers)
        views = self._views(plan)
        request = self._request(views, plan)
        kept = request.lists == plan.lists and (request.texts or not plan.texts)
        if plan.lists and not kept and not run.can_look:
            from karat.formats.spill import Spilling

            run = Spilling(run, plan.lists, self.rules.scores)
            request = replace(request, columns=request.columns | ({"text"} if plan.texts else frozenset()))
        run, golds = self._golds(self._described(run), views, request)
        systems, run = self._pass(run, request, golds)
        if not systems:
            raise InputError(
                "the run has no queries", code="no-queries", file=run.label, hint="it needs at least one line"
            )
        self._lend_texts(systems)
        if self.corpora is not None:
            self.corpora.refuse_mixed(systems)
        for measured in systems.values():
            _refuse_no_overlap(measured, run.label, self.gold, (request.own,), overlap_hint)
        _refuse_unscored(systems.values(), run.label, request.own)
        _refuse_scoreless(systems.values(), run.label, self.rules, request.own)
        _refuse_undated(systems.values(), run.label, request.own)
        _refuse_unchecked(systems.values(), run.label, self.rules)
        systems, no_bm25 = self._with_lent(systems, views, golds)
        systems = {system: self._counted(measured) for system, measured in systems.items()}
        opened = {system: measured.opened for system, measured in systems.items()}
        provenance, context = run.provenance(), replace(self.context, no_bm25=no_bm25, opened=opened)
        return {
            system: self._result(measured, run, request, provenance.get(system, {}), context)
            for system, measured in systems.items()
        }

    def _plan(self, consumers: Sequence[Consumer]) -> Need:
        """The union of all needs."""
        context = self.context
        setup = context.setup(self.gold, self.rules, self.asked)
        every = [Need(metrics=(*self.asked, *self.background)), *(declare(setup) for declare in consumers)]
        if context.analysed and BM25 in self.lent:
            shown = Need.union(every).metrics
            every.append(Need(views={View(lists=BM25, no_future=self.rules.no_future): shown}))
        if context.analysed:
            every += needs_of_analyses(setup)
        if self._lacks_texts:
            every.append(Need(facts=frozenset({"query"})))
        return Need.union(every)

    @property
    def _lacks_texts(self) -> bool:
        return not any(self.gold.fields.get("query", ()))

    def _lend_texts(self, systems: Mapping[str, RunData]) -> None:
        """Take query texts from the run if the gold set has none. All forms of this gold set share its fields."""
        said = [measured.facts["query"] for measured in systems.values() if "query" in measured.facts]
        if self._lacks_texts and said:
            self.gold.fields["query"] = [next(filter(None, texts), None) for texts in zip(*said, strict=True)]

    def _views(self, plan: Need) -> dict[View, list[Metric]]:
        """Every view with its metrics."""
        own = View.own(self.rules)
        views: dict[View, dict[Metric, None]] = {own: {}}
        for view, metrics in [(own, plan.metrics), *plan.views.items()]:
            if view.labels == "judge" and self.context.labelling.with_judge is None:
                continue
            views.setdefault(view, {})
            for metric in parse_metrics(metrics):
                views.setdefault(view.of(metric), {})[metric] = None
        return {view: list(metrics) for view, metrics in views.items()}

    @property
    def _rule(self) -> DocRule:
        return DocRule(self.rules.doc_of)

    def _described(self, run: Run) -> Run:
        if self.normal is not None and not isinstance(run, WordSearch):
            from karat.data.normal_ids import NormalizedRun

            run = NormalizedRun(run, self.normal)
        if self.corpora is not None:
            from karat.data.corpus import DescribedRun

            run = DescribedRun(run, self.corpora.of, self._rule)
        return run

    def _golds(self, run: Run, views: Iterable[View], request: PassRequest) -> tuple[Run, Golds]:
        """The gold set for each view, and the run, held in memory if locating passages needed its hits."""
        corpus, with_judge = self.context.corpus, self.context.labelling.with_judge
        known = {} if corpus is None else corpus.unknown_documents(self._rule)
        sets: dict[str, Gold] = {"gold": self.gold}
        if any(view.labels == "judge" for view in views):
            assert with_judge is not None
            sets["judge"] = with_judge(self.gold)
        golds = Golds(self.gold)
        for level, labels in {(view.level, view.labels) for view in views}:
            gold = sets[labels]
            golds.sets[level, labels] = gold.documents(self._rule, known) if level == "doc" else gold
        if not any(gold.passages for gold in sets.values()):
            return run, golds
        from karat.data.passages.resolve import in_corpus, resolve
        from karat.formats.spill import HeldRun

        held: Run | None = None
        for lists, labels in {(view.lists, view.labels) for view in views if sets[view.labels].passages}:
            if self.corpora is not None and in_corpus(sets[labels], self.corpora.first, self._rule) is not None:
                golds.located[lists, labels] = self.corpora.located(sets[labels], self._rule)
                continue
            if lists not in self.lent:
                held = held or HeldRun(run, request.columns | {"text"}, request.other_lists)
            try:
                source = self._source(lists, held)
                golds.located[lists, labels] = resolve(sets[labels], source, corpus, self._rule)
            except (NoLists, NoWordSearch):
                continue  # there is no table for this view either
        return held or run, golds

    def _counted(self, measured: RunData) -> RunData:
        """Add how many items of the system's own corpus each gold item covers."""
        corpus = None if self.corpora is None else self.corpora.of(measured.system)
        if corpus is None or not (self.counts_corpus or self.rules.corpus_size == len(corpus)):
            return measured
        from karat.data.in_corpus import count_in_corpus

        known = {id(table.gold): table.gold for table in measured.tables.values()}
        counted = {key: gold.counted(count_in_corpus(gold, corpus, self._rule)) for key, gold in known.items()}
        tables = {view: replace(table, gold=counted[id(table.gold)]) for view, table in measured.tables.items()}
        return replace(measured, tables=tables)

    def _source(self, lists: str, held: Run | None) -> Run:
        """The run that has these lists."""
        if lists in self.lent:
            return self._described(self.lent[lists])
        assert held is not None
        return held if lists == OWN else held.lists(lists)

    def _request(self, views: Mapping[View, list[Metric]], plan: Need) -> PassRequest:
        """What must be read from the run itself."""
        own, own_lists = View.own(self.rules), {OWN, RAW, ORIGINAL} - self.lent.keys()
        own_lists |= {view.lists for view in views if is_other_list(view.lists)} - self.lent.keys()
        here = {view: _needing_hits(metrics) for view, metrics in views.items() if view.lists in own_lists}
        # With very many queries, the few lists that are shown with texts are read again.
        few = len(self.gold.queries) <= KEEP_LISTS
        lists = plan.lists if few or (plan.every and len(self.gold.queries) <= KEEP_IDS) else 0
        texts = bool(lists) and plan.texts and few
        levels = {view.level for view in here if view.but(level=own.level) == own} if plan.open_hits else ()
        return PassRequest(
            rules=self.rules,
            own=own,
            views=here,
            columns=self._columns(here, texts=plan.texts) | plan.facts | ({"text"} if texts else frozenset()),
            facts=plan.facts,
            lists=lists,
            texts=texts,
            open_levels=frozenset(levels),
            returned=plan.returned,
            hashes=plan.hashes,
            tops=plan.tops,
            near_every=max(1, len(self.gold.queries) // LOOKED),
        )

    def _columns(self, views: Mapping[View, Iterable[Metric]], *, texts: bool = False) -> frozenset[str]:
        """`texts`: whether lists are shown with texts."""
        asked = [metric for metrics in views.values() for metric in metrics]
        rules = frozenset().union(*(view.rules(self.rules).needs for view in views))
        found = rules.union(*(metric.reads for metric in asked))
        whole = texts or "text" in rules or any(metric.reads_texts for metric in asked)
        return found if whole or "text" not in found else found | {SIZES}

    def _pass(
        self, run: Run, request: PassRequest, golds: Golds, engine: Engine | None = None
    ) -> tuple[dict[str, RunData], Run]:
        parts = (engine or self.engine).parts
        try:
            return collect(parts(run, request, golds), request, golds), run
        except Ungrouped:
            run = run.grouped()
            return collect(parts(run, request, golds), request, golds), run

    def _with_lent(
        self, systems: dict[str, RunData], views: Mapping[View, list[Metric]], golds: Golds
    ) -> tuple[dict[str, RunData], str | None]:
        """Add the views of lists that other runs provide. Also return why there are no BM25 lists."""
        no_bm25 = None
        for lists, run in self.lent.items():
            here = {view: _needing_hits(metrics) for view, metrics in views.items() if view.lists == lists}
            if not here:
                continue
            if lists == BM25:
                depths = sorted({mark_depth(measured.tables, self.rules) for measured in systems.values()})
                here = {view.but(top_k=depth): metrics for view, metrics in here.items() for depth in depths}
                run = run.to_depth(depths[-1]) if isinstance(run, WordSearch) else run
            request = PassRequest(self.rules, View.own(self.rules), here, main=lists, columns=self._columns(here))
            found: dict[str, RunData] = {}
            try:
                for lent in self._lent_runs(run, systems):
                    found |= self._pass(self._described(lent), request, golds, Local())[0]
            except NoWordSearch as error:
                no_bm25 = str(error).replace("\nhint: ", "; ")
                continue
            for system, measured in found.items():
                _refuse_no_overlap(measured, run.label, self.gold, here, run.overlap_hint)
                systems = systems | {system: systems[system].joined(measured)}
        return systems, no_bm25

    def _lent_runs(self, run: Run, systems: Iterable[str]) -> Iterator[Run]:
        """Lists for the systems of the run. BM25 searches the corpus of each system."""
        if self.corpora is None or not isinstance(run, WordSearch):
            yield LentRun(run, set(systems))
            return
        for corpus, names in self.corpora.by_corpus(systems):
            yield LentRun(WordSearch(corpus, self.gold, run.depth), names)

    def _lists(self, measured: RunData, run: Run, request: PassRequest) -> ListReader:
        return ListReader(
            run=run,
            system=measured.system,
            gold=measured.tables[request.own].gold,
            rules=self.rules,
            kept=measured.lists,
            depth=request.lists,
            texts=request.texts,
            places=measured.places,
        )

    def _result(
        self, measured: RunData, run: Run, request: PassRequest, provenance: dict[str, Any], context: Context
    ) -> Result:
        own, rules = View.own(self.rules), self.rules
        table = measured.tables[own]
        if self.corpora is not None:
            context = replace(context, corpus=self.corpora.of(measured.system))
        if context.corpus is not None and self.counts_corpus:
            rules = rules.replace(corpus_size=len(context.corpus) or None)
        empty = Result(
            system=measured.system,
            run=run.label,
            gold=table.gold,
            rules=rules,
            data=measured,
            view=own,
            rows=np.zeros(0, np.int64),
            metrics=[],
            values={},
            audit=Audit.merged(table.gold.audit, table.audit),
            provenance=provenance | self.about,
            sampling=self.sampling,
            cluster=self.cluster,
            segmented_by=self.segmented_by,
            context=context,
            lists=self._lists(measured, run, request),
        )
        result = empty.measure(self.asked)
        silent = {name for name, values in result.values.items() if np.isnan(values).all()}
        # Undefined metrics of the panel are hidden; named metrics are always shown.
        shown = [m for m in self.asked if self.keep_empty or str(m) not in silent]
        names = [str(m) for m in shown]
        doubts = judge_doubts(measured.names, measured.slopes, result.gold, rules, context.corpus, result.audit)
        self._count(result, [f"{n}: {measured.lacking[n]}" for n in names if n in silent and n in measured.lacking])
        judged = {key: found for key, found in result.memo.items() if key[0] == "judged"}
        result.memo.clear()  # it refers to the result: both would stay in memory until garbage is collected
        return replace(
            result,
            metrics=shown,
            values={name: result.values[name] for name in names},
            votes={name: votes for name, votes in result.votes.items() if name in names},
            background=self.background,
            doubts=doubts,
            memo=judged,
        )

    def _count(self, result: Result, reasons: list[str]) -> None:
        """Count audit entries that are known only after the pass."""
        audit, table, gold = result.audit, result.data.tables[result.view], result.gold
        missing = np.flatnonzero(~table.present)
        if result.data.unknown:
            from karat.data.normal_ids import near_queries

            near = near_queries(result.data.unknown, gold, missing)
            audit.count("near_queries", len(near), (f"run {name}, gold {other}" for name, other in near.items()))
        count_missing(gold, missing, audit, "missing_skipped" if self.rules.missing == "skip" else "missing_queries")
        relevant = gold.count_items(gold.grades > 0)
        bare = result.rows[(relevant[result.rows] == 0) & (gold.no_answer[result.rows] == 0)]
        code = "no_relevant_zero" if self.rules.no_relevant == "zero" else "no_relevant_gold"
        if gold.made_of == "labels":  # a run that is the gold set has other reasons, which were counted
            audit.count(code, len(bare), (gold.queries[i] for i in bare[:3]))
        audit.count("no_data", len(reasons), reasons)
        # Of metrics that were named. In a few queries, the longest list says little about the retriever's limit.
        filtered = self.rules.top_k is not None or self.rules.min_score is not None or self.rules.no_future
        if self.keep_empty and not filtered and len(result.rows) >= FEW:
            count_beyond(self.asked, int(result.depths.max(initial=0)), audit)
        if any(metric.counts_empty_places for metric in self.asked):
            count_short_lists(self.asked, table.judged(result.rows, self.rules), audit)


# Problems that are known only after the pass and make an evaluation pointless.


def _refuse_no_overlap(measured: RunData, run: str, gold: Gold, views: Iterable[View], hint: str) -> None:
    """Raise if a system has none of the gold set's queries. `run`: its label. `hint`: what to type for other names."""
    tables = [measured.tables[view] for view in views if view in measured.tables]
    if any(table.present.any() for table in tables):
        return
    from karat.data.normal_ids import near_queries

    of = f" (system {shorten(measured.system, 40)!r})" if measured.system else ""
    entries = [entry for table in tables for entry in table.audit if entry.code == "unknown_queries"]
    run_has = f", the run has {entries[0].examples[0]!r}" if entries and entries[0].examples else ""
    near = next(iter(near_queries(measured.unknown, gold, np.arange(len(gold.queries))).items()), None)
    if near is not None:
        run_has, other = f", the run has {near[0]!r}", near[1]
    way = "; --normalize-ids treats them as the same" if near is not None else f"; {hint}"
    raise NoOverlap(
        f"the gold set {gold.label} has none of the queries of {run}{of}",
        hint=f"the gold set has {shorten(other if near else gold.queries[0], 60)!r}{run_has}{way}",
    )


def _refuse_unscored(systems: Collection[RunData], run: str, own: View) -> None:
    """Raise for a score threshold if no hit of any system has a score: nothing was removed.

    If only some systems have scores, the audit of the others counts their hits.
    """
    if own.min_score is not None and all(measured.tables[own].unscored for measured in systems):
        what = f"no hit has a score, so a threshold of {own.min_score:g} removes nothing"
        raise InputError(what, code="no-scores", file=run, field="score", hint=_NO_SCORE)


def _refuse_scoreless(systems: Collection[RunData], run: str, rules: Rules, own: View) -> None:
    """Raise for `--scores` if a table has neither scores nor ranks: it would change nothing."""
    if rules.scores is None or rules.scores == "as-listed":
        return
    tables = [measured.tables[own] for measured in systems]
    if all(0 < table.audit["row_order"] >= table.present.sum() - table.audit["empty_results"] for table in tables):
        what = f"no row has a score, so --scores {rules.scores} changes nothing"
        raise InputError(what, code="no-scores", file=run, field="score", hint=_NO_RANK)


def _refuse_undated(systems: Collection[RunData], run: str, own: View) -> None:
    """Raise for `--no-future` if no hit of any system has a usable version: nothing was removed.

    If only some systems have versions, the audit of the others counts their hits.
    """
    if not own.no_future or not all(measured.tables[own].undated for measured in systems):
        return
    for measured in systems:
        if measured.odd_version is not None:
            raise measured.odd_version.error(run)
    from karat.scoring.dates import NoVersions

    raise NoVersions("no hit has a version", file=run, field="doc_version", hint=_NO_VERSION)


def _refuse_unchecked(systems: Collection[RunData], run: str, rules: Rules) -> None:
    """Raise for a rule of `--forbid` that could check no hit of any system: finding nothing would prove nothing."""
    if not rules.forbid:
        return
    from karat.data.forbidden import read_rules

    use = RuleUse()
    for measured in systems:
        use |= measured.rule_use
    for rule in read_rules(rules.forbid):
        if rule in use.used or not any(table.depth.any() for one in systems for table in one.tables.values()):
            continue
        names = sorted({*use.fields} - {rule.field})
        known = did_you_mean(rule.field, names) or (f"hits have: {', '.join(names[:10])}" if names else _NO_FIELD)
        what = f"no hit could be checked by the rule '{rule}'"
        hint = _NOT_COMPARED if rule.field in use.fields else f"no hit has {rule.field}; {known}"
        raise InputError(what, code="no-field", file=run, field=rule.field, hint=hint)
