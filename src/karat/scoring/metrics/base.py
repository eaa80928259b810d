"""The base classes of metrics."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self

import msgspec
import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.data.presented import above
from karat.errors import did_you_mean
from karat.scoring.judged import Judged, Rules, relevance
from karat.scoring.unjudged import OpenLists

Direction = Literal["higher", "lower"]
CutoffUse = Literal["required", "optional", "none"]
Basis = Literal["ids", "order"]
Level = Annotated[float, msgspec.Meta(gt=0)]
LARGEST_CUTOFF = 2**53
Cutoff = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_CUTOFF)]

INFINITE = np.int64(2**62)
_GRAMMAR = "karat.scoring.metrics.grammar"
CUTOFFS = ("k", "budget")  # fields that are written after the @ and are not parameters


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A measure of one query. Its fields are its parameters; two metrics are equal when they print alike.

    The docstring of a metric is its documentation: first line the definition, then the convention where
    tools disagree, then a worked example that runs as a test.
    """

    name: ClassVar[str]
    direction: ClassVar[Direction] = "higher"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    aliases: ClassVar[dict[str, str]] = {}  # other names → the text they stand for
    trec_eval: ClassVar[str | None] = None  # trec_eval's name, {k} for the cutoff
    cutoff: ClassVar[CutoffUse] = "none"
    by_tokens: ClassVar[bool] = True  # whether the cutoff may be a token budget; not where ranks are counted
    needs: ClassVar[frozenset[str]] = frozenset()  # optional columns of hits, or "latency"
    uses_hits: ClassVar[bool] = False  # needs the hits themselves, not only the judged ones
    lists: ClassVar[str | None] = None  # other lists of the run that it scores instead of the final ones
    aggregate: ClassVar[float | None] = None  # None: the mean over queries; else this quantile
    by_grades: ClassVar[bool] = False  # whether its ceiling depends on nothing but the grades and cutoff of a query
    counts_places: ClassVar[bool] = False  # its value is a number of places: at most k
    within_list: ClassVar[bool] = False  # that number depends on the length of the lists, and does not measure it
    unit: ClassVar[str] = ""
    # What its value depends on: matching ids of hits and gold, and hits in the right order.
    rests_on: ClassVar[frozenset[Basis]] = frozenset({"order"})
    is_share: ClassVar[bool] = True  # between 0 and 1 it is shown in percent; a reciprocal rank is not a share
    by_text: ClassVar[str | None] = None  # the same metric for evidence texts instead of ids
    exact: ClassVar[bool] = False  # its interval is never too narrow, whatever method is configured
    is_quality: ClassVar[bool] = True  # whether a change is better or worse; False: it only describes, as judged@k does
    version: ClassVar[int] = 1  # of the definition: increased whenever its numbers change

    @staticmethod
    def parse(text: "str | Metric") -> "Metric":
        """The metric that a text names: `recall@5`, `ndcg(gain=linear)@10`, `P_5`."""
        found: Metric = above(_GRAMMAR, "parse_metric")(text)
        return found

    @staticmethod
    def all() -> "dict[str, type[Metric]]":
        """Every metric by its name, those of plug-ins included."""
        found: dict[str, type[Metric]] = above(_GRAMMAR, "all_metrics")()
        return found

    k: Cutoff | None = None
    budget: Cutoff | None = None  # tokens, instead of k: the top of the list that fits into the budget

    @property
    def reads(self) -> frozenset[str]:
        """Columns of hits that this metric reads."""
        return self.needs if self.budget is None else self.needs | {"text", "tokens"}

    @property
    def reads_texts(self) -> bool:
        """Whether it needs the texts of hits for more than an estimate of their tokens."""
        return "text" in self.needs

    @property
    def needs_hits(self) -> bool:
        """Whether it needs the hits themselves; all other metrics are functions of the judged table."""
        return bool(self.uses_hits or self.reads or self.budget)

    @property
    def by_grade(self) -> bool:
        """Whether it names a grade, so that its values change when all grades of a query are put on another scale."""
        return False

    @property
    def counts_empty_places(self) -> bool:
        """Whether it describes lists and counts their empty places, so that short lists must be reported."""
        return False

    def unit_by(self, rules: Rules) -> str:
        """The unit of its values under the rules of the evaluation."""
        return self.unit

    def told_in(self, rules: Rules) -> str:
        """The unit in which its values and differences are shown: pp (percentage points) for shares."""
        return "pp" if self.is_share and self.range == (0.0, 1.0) else self.unit_by(rules)

    def score(self, judged: Judged) -> Floats:
        """One value per query, NaN where undefined."""
        raise NotImplementedError

    def ceiling(self, judged: Judged) -> Floats:
        """What a perfect ranking of the gold would score, NaN where that is meaningless."""
        return np.full(judged.n, np.nan)

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """What a random ranking of the corpus scores on average, NaN where there is no closed form."""
        return np.full(judged.n, np.nan)

    def lacks(self, judged: Judged) -> str | None:
        """What this metric needs and these queries of the run do not have; None where nothing is missing."""
        if self.budget is None or judged.hits is None:
            return None
        columns = (judged.hits.columns.get(name, []) for name in ("tokens", "text"))
        said = any(value is not None for column in columns for value in column)
        return None if said else "the hits have neither tokens nor text"

    def votes(self, judged: Judged) -> Floats | None:
        """The weight of each query in the mean; None: all equal."""
        return None

    def influence(self, lists: OpenLists) -> Floats | None:
        """How much a label of each open item may change `second − first`; within a query the lowest are used first.

        None: the effect of unjudged hits on this metric is unknown. Not called with a token budget.
        """
        return None

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """The exact lowest `second − first` that is possible while the open items have no label, for one joint
        assignment of grades. `labels`: the most items of each query that are not irrelevant."""
        raise NotImplementedError

    def limit(self, judged: Judged) -> Ints:
        """The cutoff of each query: that of the name, else the query's own or the configured one."""
        if self.budget is not None:
            return judged.fitting(self.budget)[0]
        if self.k is not None:
            return np.full(judged.n, self.k, np.int64)
        return judged.k if self.cutoff == "required" else np.full(judged.n, INFINITE)

    def cut(self, judged: Judged) -> Ints | int:
        """As `limit`, but one number where it is the same for every query, which is faster to compare with."""
        if self.budget is not None or (self.k is None and self.cutoff == "required"):
            return self.limit(judged)
        return int(INFINITE) if self.k is None else self.k

    def parameters(self) -> dict[str, object]:
        """Parameters that differ from their defaults, in the order of declaration."""
        fields = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        given = {name: getattr(self, name) for name, default in fields if getattr(self, name) != default}
        return {name: value for name, value in given.items() if name not in CUTOFFS}

    def __str__(self) -> str:
        return _text(self)


class Relevance(Metric, frozen=True, kw_only=True):
    """A metric of what was found: 0 for a query that the run lacks; undefined (or 0) without relevant gold."""

    rests_on: ClassVar[frozenset[Basis]] = frozenset({"ids", "order"})

    rel: Level | None = None  # lowest grade that counts as relevant; default: any above 0
    level: Literal["chunk", "doc"] = "chunk"  # doc: any chunk of a relevant chunk's document counts

    @property
    def by_document(self) -> Self:
        """The same metric for documents instead of chunks."""
        return msgspec.structs.replace(self, level="doc")

    @property
    def by_grade(self) -> bool:
        return self.rel is not None

    def score(self, judged: Judged) -> Floats:
        relevant = judged.relevant(self.rel)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.compute(judged, relevant)
        some = relevant > 0
        return values if some.all() else np.where(some, values, judged.without_gold)

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        """One value per query; values of queries without relevant gold are ignored."""
        raise NotImplementedError

    def ceiling(self, judged: Judged) -> Floats:
        ceiling = self.score(judged.perfect)
        if judged.gold.located is None:
            return ceiling
        # Where one hit may match several items, ranking the items one by one is not optimal.
        return np.where(judged.gold.located.several[judged.queries] & (ceiling < 1), np.nan, ceiling)

    def relevant_hits(self, judged: Judged) -> Ints:
        """How many items of the corpus are relevant: one per gold item, or all chunks of it."""
        gold, located = judged.gold, judged.gold.located
        if gold.in_corpus is None:
            return judged.relevant(self.rel)
        items = relevance(gold.grades, self.rel)
        one_by_one = items if located is None else items & ~located.settled
        query, counts = gold.query_of_item[one_by_one], gold.in_corpus[one_by_one]
        named = np.bincount(query, counts, len(gold.queries)).astype(np.int64)
        return (named if located is None else named + located.count_chunks(items))[judged.queries]

    def mean_of_items(self, judged: Judged, chance_of: Callable[[Ints, Ints], Floats]) -> Floats:
        """Mean over the relevant items of each query of the chance to find one, given how many items of the corpus it
        is and how many are drawn. Equal cases are computed once."""
        gold, row = judged.gold, np.full(len(judged.gold.queries), -1)
        row[judged.queries] = np.arange(judged.n)
        query = row[gold.query_of_item]
        items = np.flatnonzero(relevance(gold.grades, self.rel) & (query >= 0))
        counts = np.ones(len(items), np.int64) if gold.in_corpus is None else gold.in_corpus[items]
        drawn = self.limit(judged)[query[items]]
        cases, which = np.unique(np.stack([counts, drawn]), axis=1, return_inverse=True)
        chances = chance_of(cases[0], cases[1])[which.reshape(-1)]
        return share(judged.per_query(query[items], chances), judged.relevant(self.rel))

    def found(self, judged: Judged, limit: Ints | int, *, every_chunk: bool = False) -> Bools:
        """Which judged hits are relevant, inside the cutoff and not a repeat of a document: one row per item found,
        or with `every_chunk` one per hit."""
        hit = relevance(judged.hit_grade, self.rel) & judged.within(limit)
        return judged.once_a_hit(hit) if every_chunk else hit & judged.hit_new

    def known_difference(self, lists: OpenLists) -> Floats:
        return self.score(lists.second) - self.score(lists.first)

    def count_found(self, judged: Judged, limit: Ints | int, *, every_chunk: bool = False) -> Floats:
        # Adding zeros is faster than picking the hits that count.
        found = self.found(judged, limit, every_chunk=every_chunk)
        return judged.per_query(judged.hit_query, found.astype(np.float64))


def share(part: Floats, whole: Floats | Ints) -> Floats:
    """The ratio; NaN where the whole is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def unknown_stage(stage: str | None, stages: Iterable[str]) -> str | None:
    """The message for a stage that no query of a run has."""
    known = sorted(stages)
    return None if stage is None or stage in known else f"no such stage; {did_you_mean(stage, known)}"


def chance(wanted: Ints, draws: Ints, corpus_size: int) -> Floats:
    """1 − C(N−G, k) / C(N, k): the chance that k draws without replacement include one of G items out of N.

    >>> chance(np.array([0, 1, 2]), np.array([5, 5, 9]), 10).tolist()
    [0.0, 0.5, 1.0]
    """
    # The same ratio as a product over the G items, which are few, instead of over k, which may be large.
    none = np.ones(len(wanted))
    for i in range(int(wanted.max(initial=0))):
        missed = np.maximum(corpus_size - draws - i, 0) / max(corpus_size - i, 1)
        none = np.where(i < wanted, none * missed, none)
    return 1 - none


def mean_chance(wanted: Ints, most: Ints, corpus_size: int) -> Floats:
    """The mean of `chance` over 1, 2, … `most` draws; draws beyond the corpus add nothing.

    >>> mean_chance(np.array([1, 1, 9]), np.array([3, 20, 2]), 10).round(6).tolist()
    [0.2, 0.775, 0.95]
    """
    draws = np.minimum(most, corpus_size)
    # The sum of C(N−G, j) / C(N, j) over j = 0 … k is (N+1) / (G+1) · (1 − C(N−k, G+1) / C(N+1, G+1)).
    missed = (corpus_size + 1) / (wanted + 1) * chance(wanted + 1, draws + 1, corpus_size + 1) - 1
    return np.where(wanted > 0, 1 - missed / most, 0.0)


@lru_cache(1000)  # the name of a metric is needed repeatedly
def _text(metric: Metric) -> str:
    given = ",".join(f"{name}={_plain(value)}" for name, value in metric.parameters().items())
    text = f"{metric.name}({given})" if given else metric.name
    if metric.budget is not None:
        return f"{text}@{metric.budget}tok"
    if metric.k is not None:
        return f"{text}@{metric.k}"
    return f"{text}@k" if metric.cutoff == "required" else text


def _plain(value: object) -> str:
    """A number in as few digits as identify it; 2.0 as 2."""
    text = repr(value) if isinstance(value, float) else str(value)
    return text.removesuffix(".0")
