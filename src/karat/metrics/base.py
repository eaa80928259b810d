"""What a metric is and what it promises."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self

import msgspec
import numpy as np

from karat.ids import Bools, Floats, Ints
from karat.judged import Judged, relevance

Direction = Literal["higher", "lower"]
Level = Annotated[float, msgspec.Meta(gt=0)]
LARGEST_CUTOFF = 2**53
Cutoff = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_CUTOFF)]

INFINITE = np.int64(2**62)


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
    needs: ClassVar[frozenset[str]] = frozenset()  # optional columns of hits, or "latency"
    uses_hits: ClassVar[bool] = False  # looks at the hits themselves, not only at judged ones
    aggregate: ClassVar[float | None] = None  # None: the mean over queries; else this quantile
    unit: ClassVar[str] = ""
    version: ClassVar[int] = 1  # of the definition: raised whenever its numbers change

    k: Cutoff | None = None

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
        return None

    def votes(self, judged: Judged) -> Floats | None:
        """How much each query counts in the mean; None: all the same."""
        return None

    def limit(self, judged: Judged) -> Ints:
        """The cutoff of each query: the name's, else the query's own or the configured one."""
        if self.k is not None:
            return np.full(judged.n, self.k, np.int64)
        return judged.k if self.cutoff == "required" else np.full(judged.n, INFINITE)

    def parameters(self) -> dict[str, object]:
        """Parameters that differ from their defaults, in the order in which they are declared."""
        fields = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        given = {name: getattr(self, name) for name, default in fields if getattr(self, name) != default}
        given.pop("k", None)
        return given

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
        return self.score(judged.perfect)

    def found(self, judged: Judged, limit: Ints, *, every_chunk: bool = False) -> Bools:
        """Which judged hits are relevant, inside the cutoff and not a repeat of a document."""
        hit = relevance(judged.hit_grade, self.rel) & (judged.hit_rank <= limit[judged.hit_query])
        return hit if every_chunk else hit & judged.hit_new

    def count_found(self, judged: Judged, limit: Ints, *, every_chunk: bool = False) -> Floats:
        return judged.per_query(judged.hit_query[self.found(judged, limit, every_chunk=every_chunk)])


@lru_cache(1000)  # the name of a metric is asked for again and again
def _text(metric: Metric) -> str:
    given = ",".join(f"{name}={_plain(value)}" for name, value in metric.parameters().items())
    text = f"{metric.name}({given})" if given else metric.name
    if metric.k is not None:
        return f"{text}@{metric.k}"
    return f"{text}@k" if metric.cutoff == "required" else text


def _plain(value: object) -> str:
    """A number in as few digits as tell it from every other; 2.0 as 2."""
    text = repr(value) if isinstance(value, float) else str(value)
    return text.removesuffix(".0")
