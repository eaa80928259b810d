"""Tuning: chooses how lists are fused or cut, and measures the gain on queries that did not choose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, Unpack

import msgspec
import numpy as np

from karat import __version__
from karat.data.attributes import cluster_numbers
from karat.data.audit import Audit, Entry
from karat.data.bulk import Bulk
from karat.data.gold import Dataset
from karat.data.hits import NoLists
from karat.data.ids import Floats, Ints
from karat.data.saved import SavedObject
from karat.errors import ConfigError, InputError
from karat.formats.read import read_gold
from karat.options.option import takes
from karat.results.analyses.base import Setup
from karat.results.differences import Difference, Paired, reading_of
from karat.results.evaluate import evaluate_all
from karat.results.evaluation import KEEP_LISTS
from karat.results.result import Result
from karat.results.summary import Scores, mean_of
from karat.scoring.fusion import Candidates, ListOfRun, candidates_of
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.options import Options
from karat.scoring.views import Need
from karat.statistics.nested import Nested, fold_numbers
from karat.systems.settings_to_try import MOST_LISTS, Setting, cuts, fusions, is_simple, rankings, with_cutoffs

if TYPE_CHECKING:
    from karat.options.keywords import EvaluateKeywords

FOLDS = 5
WIDER = (1 + FOLDS / (FOLDS - 1)) ** 0.5
PREFETCH = 100
_FEWEST = 2 * FOLDS  # units (queries or conversations)
_MOST_HITS = 40_000_000  # places of all lists together
_SHOWN = 10
What = Literal["fusion", "cut"]


class TriedSetting(msgspec.Struct, frozen=True):
    """A setting and what it scores on all queries, which is too good for the best ones."""

    setting: Setting
    told: str
    mean: float
    tokens: float | None  # of a query, on average
    simple: bool
    chosen: int = 0  # folds that chose it


class Against(msgspec.Struct, frozen=True):
    """The gain of tuning over one simple setting."""

    told: str
    gain: Difference  # on held-out queries
    in_sample: Difference  # of the best setting, on the queries that chose it


class Tuning(SavedObject, frozen=True, kw_only=True):
    """What `karat eval tune` saves."""

    schema: Literal["karat/tuning/1"] = "karat/tuning/1"
    lists: list[str]
    gold: str
    dataset: Dataset
    metric: str
    what: What
    statistics: dict[str, Any]
    prefetch: int  # hits of each list that were used
    budget: int | None  # tokens of a context, on average
    folds: int
    queries: int  # on which the metric is defined
    tried: int  # settings
    gain: Difference  # on held-out queries, over the best simple setting
    in_sample: Difference  # the same on the queries that chose
    against: list[Against]  # each simple setting by itself
    best: TriedSetting  # the best on all queries
    simple: TriedSetting  # the best simple one
    settings: list[TriedSetting]  # the best ones first
    worth_it: bool  # the gain is better than chance
    counted: list[Entry] = []  # for the audit

    @property
    def recommended(self) -> TriedSetting:
        return self.best if self.worth_it else self.simple


@takes(Options)
def tune(
    runs: Any,
    gold: Any,
    metric: str | Metric = "ndcg@10",
    *,
    what: What | None = None,
    prefetch: int = PREFETCH,
    budget: int | None = None,
    **options: Unpack[EvaluateKeywords],
) -> Tuning:
    """Choose how the lists of several runs are fused (`fusion`), or where the list of one is cut (`cut`).

    `runs`: a run or several. With `fusion`, one run of one system is fused with its lists before reranking (`raw`).
    `prefetch`: hits of each list that are used. `budget`: at most this many tokens per query, on average.
    """
    return tuned(runs, gold, metric, what=what, prefetch=prefetch, budget=budget, **options)[0]


@takes(Options)
def tuned(
    runs: Any,
    gold: Any,
    metric: str | Metric = "ndcg@10",
    *,
    what: What | None = None,
    prefetch: int = PREFETCH,
    budget: int | None = None,
    **options: Unpack[EvaluateKeywords],
) -> tuple[Tuning, Candidates, list[Result]]:
    """The same, with the lists and the results of the runs."""
    asked = parse_metric(metric)
    _check(asked, prefetch, budget)
    sides = _sides(runs, gold, asked, prefetch, budget, what, options)
    what = what or ("fusion" if len(sides) > 1 else "cut")
    names = _names(sides, with_raw=what == "fusion")
    candidates = _candidates(sides, names, asked, prefetch)
    if budget is not None and candidates.tokens is None:
        raise InputError("the hits have neither tokens nor text", code="no-tokens", file=sides[0].run, field="tokens")
    deepest = int(max(side.depths.max(initial=0) for side in sides))
    settings = [*_settings(what, candidates, min(prefetch, deepest), budget)]
    values, spent = _measured(candidates, settings, asked, sides[0], budget)
    kept = ~np.isnan(values).any(axis=0)
    if spent is not None:
        kept &= ~np.isnan(spent).any(axis=0)
    found = _Tuner(
        side=sides[0],
        names=names,
        metric=asked,
        settings=settings,
        values=values[:, kept],
        spent=None if spent is None else spent[:, kept],
        rows=candidates.rows[kept],
        lost=candidates.rows[~kept & ~np.isnan(values).all(axis=0)],
    )
    return found.tuning(what, prefetch, budget), candidates, sides


def _check(metric: Metric, prefetch: int, budget: int | None) -> None:
    if metric.aggregate is not None or metric.uses_hits or metric.needs or not metric.is_quality:
        raise ConfigError(
            f"cannot tune for {metric}: it is not a score of each query by the ranks of relevant hits",
            code="unsuitable-metric",
            hint="use one such as ndcg@10, recall@5, mrr or recall@2000tok",
        )
    for name, value in (("prefetch", prefetch), ("budget", budget)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"the {name} must be 1 or more", expected="a whole number", got=value)


def _sides(
    runs: Any, gold: Any, metric: Metric, prefetch: int, budget: int | None, what: What | None, options: Any
) -> list[Result]:
    """One result per list, with the first hits of each query."""
    many = isinstance(runs, (list, tuple)) and bool(runs) and not isinstance(runs[0], dict)
    given: list[Any] = [*runs] if many else [runs]
    read = Options(**options)
    gold = read_gold(gold, **read.replace(columns=read.fields).of_gold)
    if len(gold.queries) > KEEP_LISTS:
        what_is = f"tuning uses at most {KEEP_LISTS:,} queries, and the gold set has {len(gold.queries):,}"
        raise ConfigError(what_is, code="too-many-queries", file=gold.label, hint="a random part of them is enough")

    def need(_: Setup) -> Need:
        sized = ("tokens@1",) if budget is not None or metric.budget is not None else ()
        return Need(lists=prefetch, texts=bool(sized), metrics=(metric, *sized))

    def scored(run: Any, **more: Any) -> list[Result]:
        return list(
            evaluate_all(run, gold, [metric], consumers=[need], **{**options, "analyses": False, **more}).values()
        )

    named = [str(run) for run in given if isinstance(run, (str, PurePath))]
    if twice := [name for name, count in Counter(named).items() if count > 1]:
        raise ConfigError("the same run is given twice", code="duplicate-run", got=twice[0], hint="give each run once")
    sides = [side for run in given for side in scored(run)]
    if what == "cut" and len(sides) > 1:
        raise ConfigError("one list can be cut, and there are several", code="several-systems", hint="give one run")
    if what == "fusion" and len(sides) == 1:
        try:
            sides += scored(given[0], hits="raw")
        except (NoLists, InputError) as error:
            hint = "give several runs, or a run with lists before reranking (`raw`)"
            raise ConfigError(
                "there is only one list to fuse", code="one-list", file=sides[0].run, hint=hint
            ) from error
    if len(sides) > MOST_LISTS:
        raise ConfigError(f"at most {MOST_LISTS} lists can be fused", code="too-many-lists", got=len(sides))
    return sides


def _names(sides: Sequence[Result], *, with_raw: bool) -> list[str]:
    """Short names of the lists: of systems, else of files; numbered where they are equal."""
    by_system, by_file = ([side.system for side in sides], [PurePath(side.run).stem for side in sides])
    for names in (by_system, by_file):
        if all(names) and len(set(names)) == len(names):
            return names
    names = by_system if all(by_system) else by_file
    if with_raw and len(names) == 2 and sides[1].provenance.get("hits") == "raw":
        return [names[0], f"{names[0]} raw"]
    return [f"{name or 'list'} {at}" for at, name in enumerate(names, 1)]


def _candidates(sides: Sequence[Result], names: Sequence[str], metric: Metric, prefetch: int) -> Candidates:
    rows = np.unique(np.concatenate([side.rows for side in sides]))
    if len(rows) * len(sides) * prefetch > _MOST_HITS:
        raise ConfigError(
            "too many hits", code="too-many-hits", expected=f"at most {_MOST_HITS:,}", hint="use a smaller --prefetch"
        )
    tables = [side.data.tables[side.view.of(metric)] for side in sides]
    if len({len(table.gold.grades) for table in tables}) > 1:
        raise ConfigError("the runs spell ids so differently that their gold sets differ", code="other-gold")
    lists = [ListOfRun(n, side.data.lists, table) for n, side, table in zip(names, sides, tables, strict=True)]
    return candidates_of(lists, rows, prefetch)


def _settings(what: What, candidates: Candidates, depth: int, budget: int | None) -> Iterable[Setting]:
    if what == "cut":
        return cuts(candidates, depth)
    fused = [*fusions(len(candidates.ranks), scored=candidates.scores is not None)]
    return fused if budget is None else with_cutoffs(fused, depth)


def _measured(
    candidates: Candidates, settings: Sequence[Setting], metric: Metric, side: Result, budget: int | None
) -> tuple[Floats, Floats | None]:
    """Setting × query: scores, and tokens if there is a budget for them."""
    shape = (len(settings), len(candidates.rows))
    values, spent = np.empty(shape), None if budget is None else np.empty(shape)
    if metric.budget is not None and candidates.tokens is None:
        values[:] = np.nan
        return values, spent
    for at, (_, ranked) in enumerate(rankings(candidates, settings)):
        judged = ranked.judged(side.rules, metric.budget)
        values[at] = metric.score(judged)
        if metric.budget is not None:
            values[at][~judged.fitting(metric.budget)[1]] = np.nan
        if spent is not None:
            spent[at] = ranked.spent()
    return values, spent


class _Tuner(Bulk, frozen=True):
    """What all settings score on all queries."""

    side: Result
    names: list[str]
    metric: Metric
    settings: list[Setting]
    values: Floats  # setting × query
    spent: Floats | None
    rows: Ints  # of the queries in the gold set
    lost: Ints  # queries on which some setting is undefined

    def tuning(self, what: What, prefetch: int, budget: int | None) -> Tuning:
        side, gold = self.side, self.side.gold
        clusters = None if side.cluster is None else cluster_numbers(gold, side.cluster)[self.rows]
        queries = [gold.queries[i] for i in self.rows.tolist()]
        units = len(queries) if clusters is None else len(np.unique(clusters))
        if units < _FEWEST:
            unit = "queries" if clusters is None else f"groups of queries ({side.cluster})"
            raise InputError(
                f"{self.metric} is defined on {units} {unit}, too few to tune on",
                code="too-few-queries",
                file=gold.label,
                expected=f"at least {_FEWEST}",
            )
        sign = 1.0 if self.metric.direction == "higher" else -1.0
        nested = Nested(
            values=sign * self.values,
            outer=fold_numbers(queries, FOLDS, clusters, f"outer {side.sampling.seed}"),
            inner=fold_numbers(queries, FOLDS, clusters, f"inner {side.sampling.seed}"),
            spent=self.spent,
            most=np.inf if budget is None else float(budget),
        )
        every = np.arange(len(self.settings))
        simple = np.array([at for at in every if is_simple(self.settings[at], budget=budget is not None)], np.int64)
        chosen, held_out = nested.held_out(every)
        _, usual = nested.held_out(simple)
        whole = np.ones(len(queries), np.bool_)
        best, best_simple = nested.choose(every, whole), nested.choose(simple, whole)
        counts = Counter(chosen.tolist())
        gain = self._honest(sign * usual, sign * held_out, clusters)
        order = np.argsort(-sign * self.values.mean(axis=1), kind="stable")
        shown = [at for at in order.tolist() if not self._over(at, budget)][:_SHOWN]
        audit = Audit()
        audit.count("untuned_queries", len(self.lost), (gold.queries[i] for i in self.lost[:3].tolist()))
        return Tuning(
            karat=__version__,
            lists=self.names,
            gold=gold.label,
            dataset=gold.dataset,
            metric=str(self.metric),
            what=what,
            statistics=side.sampling.saved(side.cluster),
            prefetch=prefetch,
            budget=budget,
            folds=FOLDS,
            queries=len(queries),
            tried=len(self.settings),
            gain=gain,
            in_sample=self._difference(self.values[best_simple], self.values[best], clusters),
            against=[
                Against(
                    self.settings[at].told(self.names),
                    self._honest(self.values[at], sign * held_out, clusters),
                    self._difference(self.values[at], self.values[best], clusters),
                )
                for at in simple.tolist()
                if not self._over(at, budget)
            ][:_SHOWN],
            best=self._tried(best, counts),
            simple=self._tried(best_simple, counts),
            settings=[self._tried(at, counts) for at in shown],
            worth_it=gain.reading == "better",
            counted=list(audit),
        )

    def _over(self, at: int, budget: int | None) -> bool:
        return self.spent is not None and budget is not None and bool(self.spent[at].mean() > budget)

    def _tried(self, at: int, counts: Counter[int]) -> TriedSetting:
        setting = self.settings[at]
        return TriedSetting(
            setting=setting,
            told=setting.told(self.names),
            mean=mean_of(self.values[at]) or 0.0,
            tokens=None if self.spent is None else mean_of(self.spent[at]),
            simple=is_simple(setting, budget=self.spent is not None),
            chosen=counts[at],
        )

    def _difference(self, before: Floats, after: Floats, clusters: Ints | None) -> Difference:
        name = str(self.metric)
        sides = [Scores([self.metric], {name: values}, {}, clusters) for values in (before, after)]
        [found] = Paired(*sides).differences(self.side.sampling, permutations=0)
        return found

    def _honest(self, before: Floats, after: Floats, clusters: Ints | None) -> Difference:
        """A difference on held-out queries. Each fold also chose for the others, so their differences are not
        independent: the interval is widened (Nadeau and Bengio 2003). A permutation test would not see that."""
        found = self._difference(before, after, clusters)
        if found.delta is None or found.low is None or found.high is None:
            return found
        low, high = (found.delta + WIDER * (limit - found.delta) for limit in (found.low, found.high))
        certain = low > 0 or high < 0
        return msgspec.structs.replace(
            found,
            low=round(low, 6),
            high=round(high, 6),
            certain=certain,
            reading=reading_of(
                found.delta,
                self.metric.direction,
                certain=certain,
                few=found.few,
                moved=bool(found.wins or found.losses),
            ),
        )
