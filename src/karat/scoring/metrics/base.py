"""What a metric is and what it promises."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self

import msgspec
import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.scoring.judged import Judged, Rules, relevance
from karat.scoring.unjudged import OpenLists

Direction = Literal["higher", "lower"]
Level = Annotated[float, msgspec.Meta(gt=0)]
LARGEST_CUTOFF = 2**53
Cutoff = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_CUTOFF)]

INFINITE = np.int64(2**62)
CUTOFFS = ("k", "budget")  # fields that are written after the @, and are no parameters


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
    cutoff: ClassVar[Literal["required", "optional", "none"]] = "none"
    by_tokens: ClassVar[bool] = True  # may the cutoff be a budget of tokens; not where places themselves are counted
    needs: ClassVar[frozenset[str]] = frozenset()  # optional columns of hits, or "latency"
    uses_hits: ClassVar[bool] = False  # looks at the hits themselves, not only at judged ones
    aggregate: ClassVar[float | None] = None  # None: the mean over queries; else this quantile
    unit: ClassVar[str] = ""
    version: ClassVar[int] = 1  # of the definition: raised whenever its numbers change

    k: Cutoff | None = None
    budget: Cutoff | None = None  # tokens, instead of k: the top of the list that fits into it

    @property
    def reads(self) -> frozenset[str]:
        """Columns of hits that this metric looks at."""
        return self.needs if self.budget is None else self.needs | {"text", "tokens"}

    @property
    def needs_hits(self) -> bool:
        """Whether it looks at the hits themselves; all other metrics are functions of the judged table."""
        return bool(self.uses_hits or self.reads or self.budget)

    def unit_by(self, rules: Rules) -> str:
        """The unit of its values under the rules that they were measured by."""
        return self.unit

    def score(self, judged: Judged) -> Floats:
        """One value a query, NaN where undefined."""
        raise NotImplementedError

    def ceiling(self, judged: Judged) -> Floats:
        """What a perfect ranking of the gold would score, NaN where that says nothing."""
        return np.full(judged.n, np.nan)

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """What a random ranking of the corpus scores on average, NaN where not known in closed form."""
        return np.full(judged.n, np.nan)

    def lacks(self, judged: Judged) -> str | None:
        """What this metric needs and these queries of the run do not have; None where nothing is lacking."""
        if self.budget is None or judged.hits is None:
            return None
        columns = (judged.hits.columns.get(name, []) for name in ("tokens", "text"))
        said = any(value is not None for column in columns for value in column)
        return None if said else "the hits have no tokens and no text"

    def votes(self, judged: Judged) -> Floats | None:
        """How much each query counts in the mean; None: all the same."""
        return None

    def influence(self, lists: OpenLists) -> Floats | None:
        """How far a label of each open item may move `second − first`; of those of one query the lowest decide first.

        None: nothing is known of what unjudged hits could do to this metric.
        """
        return None

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """The lowest `second − first` that is possible while the open items have no label: exactly, for one joint
        assignment of grades. `labels`: at most so many items of each query are other than irrelevant."""
        raise NotImplementedError

    def limit(self, judged: Judged) -> Ints:
        """The cutoff of each query: the name's, else the query's own or the configured one."""
        if self.budget is not None:
            return judged.fitting(self.budget)[0]
        if self.k is not None:
            return np.full(judged.n, self.k, np.int64)
        return judged.k if self.cutoff == "required" else np.full(judged.n, INFINITE)

    def parameters(self) -> dict[str, object]:
        """Parameters that differ from their defaults, in the order in which they are declared."""
        fields = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        given = {name: getattr(self, name) for name, default in fields if getattr(self, name) != default}
        return {name: value for name, value in given.items() if name not in CUTOFFS}

    def __str__(self) -> str:
        return _text(self)


class Relevance(Metric, frozen=True, kw_only=True):
    """A metric of what was found: 0 for a query that the run lacks, undefined without relevant gold."""

    rel: Level | None = None  # lowest grade that counts as relevant; default: any above 0
    level: Literal["chunk", "doc"] = "chunk"  # doc: any chunk of a relevant chunk's document will do

    @property
    def by_document(self) -> Self:
        """The same metric, asking for the right documents instead of the right chunks."""
        return msgspec.structs.replace(self, level="doc")

    def score(self, judged: Judged) -> Floats:
        relevant = judged.relevant(self.rel)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.compute(judged, relevant)
        return np.where(relevant > 0, values, np.nan)

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        """One value a query; whatever it gives for a query without relevant gold is not looked at."""
        raise NotImplementedError

    def ceiling(self, judged: Judged) -> Floats:
        ceiling = self.score(judged.perfect)
        if judged.gold.located is None:
            return ceiling
        # Where one hit may find several items, a ranking of the items one by one is not the best there is.
        return np.where(judged.gold.located.several[judged.queries] & (ceiling < 1), np.nan, ceiling)

    def relevant_hits(self, judged: Judged) -> Ints:
        """How many hits of each query would be relevant: its items, or the chunks that hold them."""
        gold, located = judged.gold, judged.gold.located
        if located is None:
            return judged.relevant(self.rel)
        items = relevance(gold.grades, self.rel)
        named = np.bincount(gold.query_of_item[items & ~located.settled], minlength=len(gold.queries))
        return (named + located.count_chunks(items))[judged.queries]

    def found(self, judged: Judged, limit: Ints, *, every_chunk: bool = False) -> Bools:
        """Which judged hits are relevant, inside the cutoff and not a repeat of a document: a row for each item found,
        or with `every_chunk` one for each hit."""
        hit = relevance(judged.hit_grade, self.rel) & (judged.hit_rank <= limit[judged.hit_query])
        return judged.once_a_hit(hit) if every_chunk else hit & judged.hit_new

    def known_difference(self, lists: OpenLists) -> Floats:
        return self.score(lists.second) - self.score(lists.first)

    def count_found(self, judged: Judged, limit: Ints, *, every_chunk: bool = False) -> Floats:
        return judged.per_query(judged.hit_query[self.found(judged, limit, every_chunk=every_chunk)])


def chance(wanted: Ints, draws: Ints, corpus_size: int) -> Floats:
    """1 − C(N−G, k) / C(N, k): that k draws without replacement bring at least one of G wanted things out of N.

    >>> chance(np.array([0, 1, 2]), np.array([5, 5, 9]), 10).tolist()
    [0.0, 0.5, 1.0]
    """
    # The same ratio as a product over the wanted things, which are few, and not over k, which may be large.
    none = np.ones(len(wanted))
    for i in range(int(wanted.max(initial=0))):
        missed = np.maximum(corpus_size - draws - i, 0) / max(corpus_size - i, 1)
        none = np.where(i < wanted, none * missed, none)
    return 1 - none


@lru_cache(1000)  # the name of a metric is asked for again and again
def _text(metric: Metric) -> str:
    given = ",".join(f"{name}={_plain(value)}" for name, value in metric.parameters().items())
    text = f"{metric.name}({given})" if given else metric.name
    if metric.budget is not None:
        return f"{text}@{metric.budget}tok"
    if metric.k is not None:
        return f"{text}@{metric.k}"
    return f"{text}@k" if metric.cutoff == "required" else text


def _plain(value: object) -> str:
    """A number in as few digits as tell it from every other; 2.0 as 2."""
    text = repr(value) if isinstance(value, float) else str(value)
    return text.removesuffix(".0")
