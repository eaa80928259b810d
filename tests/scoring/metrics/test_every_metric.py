"""What every metric promises. A metric is tested here by being listed: nothing names one.

An example goes through all metrics at once, which is what makes many examples affordable; what fails is said
by metric.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import karat
from karat.data.audit import Audit
from karat.results.summary import SummaryRow
from karat.scoring.metrics.against_run import AgainstRun
from karat.scoring.metrics.base import Relevance
from karat.scoring.metrics.evidence import AnswerContainment, EvidenceMetric
from karat.scoring.metrics.variants import OfVariants

Record = dict[str, Any]
Gold = dict[str, dict[str, float]]

K = 3  # for metrics that name no cutoff
CORPUS = 60
FEW = 100  # resamples: two runs that must say the same have the same intervals, however rough they are
METRICS = karat.Metric.all()

every_metric = pytest.mark.parametrize("name", METRICS)
examples = settings(max_examples=15)
costly = settings(max_examples=8)  # with an interval for every metric


# Every metric in all of its forms


def forms(kind: type[karat.Metric]) -> list[karat.Metric]:
    """The metric as it is, with cutoffs where it takes them, and with other values of each parameter."""
    changed = [{name: value} for name, values in parameters(kind).items() for value in values]
    budgets = [kind(budget=1), kind(budget=20)] if kind.cutoff != "none" and kind.by_tokens else []
    if kind.cutoff == "required":
        return [kind(), kind(k=1), kind(k=50), *(kind(**given) for given in changed), *budgets]
    cutoffs = [None, K] if kind.cutoff == "optional" else [None]
    return [*(kind(k=k, **given) for given in [{}, *changed] for k in cutoffs), *budgets]


def parameters(kind: type[karat.Metric]) -> dict[str, list[Any]]:
    """Parameter → values that it allows, apart from its default."""
    declared: Any = msgspec.inspect.type_info(kind)
    return {
        field.name: [value for value in values_of(field.type) if value != field.default]
        for field in declared.fields
        if field.name not in ("k", "budget")
    }


def values_of(kind: Any) -> list[Any]:
    match kind:
        case msgspec.inspect.UnionType():
            return [value for part in kind.types for value in values_of(part)]
        case msgspec.inspect.LiteralType():
            return list(kind.values)
        case msgspec.inspect.FloatType():
            return [value for value in (0.5, 2.0, 0.95) if allowed(kind, value)][:2]
        case msgspec.inspect.IntType():
            return [value for value in (1, 2, 7) if allowed(kind, value)][:2]
        case msgspec.inspect.StrType():
            return ["retrieve", "total"]
        case msgspec.inspect.NoneType():
            return []
    raise AssertionError(f"no values are known for a parameter of type {kind}: add some here")


def allowed(kind: Any, value: float) -> bool:
    return (
        (kind.gt is None or value > kind.gt)
        and (kind.ge is None or value >= kind.ge)
        and (kind.lt is None or value < kind.lt)
        and (kind.le is None or value <= kind.le)
    )


ALL = [metric for kind in METRICS.values() for metric in forms(kind)]
BY_TEXT = (EvidenceMetric, AnswerContainment)
RELEVANCE = [metric for metric in ALL if isinstance(metric, Relevance) and metric.is_quality]
BY_PLACE = [metric for metric in ALL if metric.budget is None]
AT_K = [metric for metric in BY_PLACE if metric.k in (1, K) or (metric.k is None and metric.cutoff == "required")]
# These divide by the hits that fit into a budget of tokens, or that are there, whatever those are.
OF_WHAT_FITS = [
    metric
    for metric in RELEVANCE
    if (metric.budget and metric.name in ("precision", "f1")) or getattr(metric, "by", None) == "returned"
]
OF_THE_GOLD = [metric for metric in RELEVANCE if metric not in OF_WHAT_FITS]


# Runs and gold to try them on


class World(NamedTuple):
    """A run log in memory and a gold set."""

    run: list[Record]
    gold: Gold


# Few, so that most hits are judged and documents come back.
PLAIN = [f"d{i}" for i in range(7)]
CHUNKS = [f"d{doc}#p{part}" for doc in range(4) for part in range(3)]
DOCS = [f"d{i}" for i in range(4)]
# Gold names what the run returns, or its documents.
IDS = {"plain": (PLAIN, PLAIN), "chunks": (CHUNKS, CHUNKS), "documents": (CHUNKS, DOCS)}
GRADES = st.sampled_from([0.0, 0.0, 0.1, 0.2, 0.7, 1.0, 1.0, 2.0, 3.0])
SCORES = st.sampled_from([-1.0, 0.0, 0.5, 1.0])
TEXTS = (
    "a refund takes five days to arrive",
    "A refund takes five days, or more",
    "cards ship in two weeks",
    "cards",
    "",
)
EVIDENCE = ["a refund takes five days to arrive.", "Cards ship in two\nweeks", "nothing of the kind"]
# Sums of these three depend on the order in which they are added.
FORWARD = {"embed": 0.1, "retrieve": 0.2, "write": 0.3}
BACKWARD = {"write": 0.3, "retrieve": 0.2, "embed": 0.1}
LATENCIES = st.sampled_from(
    [None, {}, {"retrieve": 10.5}, {"rerank": None}, {"retrieve": 7.0, "total": 9.5}, FORWARD, BACKWARD]
)
# These sums depend on the order as well.
CHEAP, DEAR = {"stage": "retrieve", "model": "m", "prompt_tokens": 1}, {"stage": "total", "model": "m", "calls": 3}
SILENT, UNPRICED = {"model": "m", "calls": 0, "completion_tokens": 2}, {"stage": "retrieve", "model": "other"}
USAGES = st.sampled_from([None, [], [CHEAP, SILENT], [SILENT, CHEAP], [DEAR, CHEAP], [UNPRICED, SILENT], [SILENT] * 3])
PRICES = {"currency": "USD", "models": {"m": {"per_1k": {"prompt": 0.1, "completion": 0.3}, "per_call": 0.2}}}


@st.composite
def worlds(draw: st.DrawFn, *, scored: bool | None = None, kinds: tuple[str, ...] = tuple(IDS)) -> World:
    """Up to four queries that stand on both sides, with hits in the order of the list or of scores with ties."""
    returned, wanted = IDS[draw(st.sampled_from(kinds))]
    with_scores = draw(st.booleans()) if scored is None else scored
    run: list[Record] = []
    gold: Gold = {}
    for i in range(draw(st.integers(1, 4))):
        ids = draw(st.permutations(returned))[: draw(st.integers(0, 9))]
        with_text = draw(st.booleans())
        hits = [hit(item, text=with_text, **({"score": draw(SCORES)} if with_scores else {})) for item in ids]
        run.append({"query_id": f"q{i}", "topk": hits, "latency_ms": draw(LATENCIES), "usage": draw(USAGES)})
        gold[f"q{i}"] = draw(st.dictionaries(st.sampled_from(wanted), GRADES, max_size=6))
    return World(run, gold)


def hit(item: str, *, text: bool = True, **fields: Any) -> Record:
    said = {"text": TEXTS[sum(map(ord, item)) % len(TEXTS)]} if text else {}
    return {"chunk_id": item, **said, **fields}


def listed(*ids: str, **grades: float) -> World:
    """One query with hits in this order."""
    return World([{"query_id": "q", "topk": [hit(item) for item in ids]}], {"q": grades})


FRACTIONS = listed("d2", "d1", "d0", d0=0.7, d1=0.2, d2=0.1)
ONE_BAD_DOCUMENT = listed("d3#p0", "d3#p1", "d3#p2", "d0#p0", "d1#p0", "d2#p0", d0=1.0, d1=1.0, d2=1.0, d3=0.0)
# Only the first query has a hit that its gold knows by document.
SOME_DOCUMENTS = World(
    [{"query_id": "q0", "topk": [hit("d0#p0"), hit("d0#p1")]}, {"query_id": "q1", "topk": [hit("d1#p0")]}],
    {"q0": {"d0": 1.0}, "q1": {"d0": 1.0}},
)
ORDER_OF_STAGES = World(
    [
        {"query_id": "q0", "topk": [hit("d0")], "latency_ms": FORWARD},
        {"query_id": "q1", "topk": [hit("d0")], "latency_ms": BACKWARD},
    ],
    {"q0": {"d0": 1.0}, "q1": {"d0": 1.0}},
)


class Outcome(NamedTuple):
    """What one metric says: a value a query, and the line about all of them (mean, ceiling, floor)."""

    scores: dict[str, float | None]
    summary: SummaryRow


def evaluate(world: World, metrics: list[karat.Metric] = ALL, **options: Any) -> karat.Result:
    more = {"reference": reference(world.gold)} if any(isinstance(metric, AgainstRun) for metric in metrics) else {}
    chosen = {"k": K, "corpus_size": CORPUS, "prices": PRICES, "resamples": FEW, **more, **options}
    return karat.evaluate(world.run, with_texts(world.gold), metrics, **chosen)


def reference(gold: Gold) -> list[Record]:
    """A run that returns what is relevant."""
    return [{"query_id": query, "topk": [i for i, grade in of.items() if grade > 0]} for query, of in gold.items()]


def with_texts(gold: Gold) -> list[Record]:
    """Where there is something to find, it may be found by its text as well."""
    found = {query: sum(grade > 0 for grade in grades.values()) for query, grades in gold.items()}
    texts = {query: {"evidence": EVIDENCE[:n], "answer_span": "five days"} if n else {} for query, n in found.items()}
    return [{"query_id": query, "gold": grades, **texts[query]} for query, grades in gold.items()]


def outcomes(world: World, metrics: list[karat.Metric] = ALL, **options: Any) -> dict[str, Outcome]:
    return by_metric(evaluate(world, metrics, **options))


def by_metric(result: karat.Result) -> dict[str, Outcome]:
    rows = zip(result.metrics, result.summary_rows, strict=True)
    return {str(metric): Outcome(result.score(metric), row) for metric, row in rows}


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Metrics that do not say the same, to the last bit."""
    assert one.keys() == other.keys()
    return {metric: (one[metric], other[metric]) for metric in one if one[metric] != other[metric]}


def scores(world: World, metrics: list[karat.Metric] = ALL) -> dict[str, dict[str, float | None]]:
    """A value a query, without the intervals over all of them, which take most of the time."""
    result = evaluate(world, metrics)
    return {str(metric): result.score(metric) for metric in result.metrics}


# What a metric declares


@every_metric
def test_declares_itself(name: str) -> None:
    metric = METRICS[name]
    assert metric.name == name
    assert metric.direction in ("higher", "lower")
    low, high = metric.range
    assert low < high
    assert metric.cutoff in ("required", "optional", "none")
    assert metric.aggregate is None or 0 < metric.aggregate < 1


@every_metric
def test_explains_itself(name: str) -> None:
    """A definition of its own in the first line, and an example of its own or of the metric it refines."""
    own = vars(METRICS[name]).get("__doc__") or ""
    assert inspect.cleandoc(own).splitlines()[0].rstrip().endswith((".", ":"))
    family = [kind for kind in METRICS[name].__mro__ if issubclass(kind, karat.Metric) and "name" in vars(kind)]
    assert any(">>> " in (kind.__doc__ or "") for kind in family)


@every_metric
def test_text_round_trip(name: str) -> None:
    metrics = forms(METRICS[name])
    for metric in metrics:
        again = karat.Metric.parse(str(metric))
        assert again == metric
        assert type(again) is type(metric)
        assert str(again) == str(metric)
    assert len({str(metric) for metric in metrics}) == len(metrics)


@every_metric
def test_every_parameter_is_tried(name: str) -> None:
    """Guards the tests below: each parameter has a value there that is not its default."""
    assert all(parameters(METRICS[name]).values())


# What changes nothing


@costly
@given(data=st.data(), world=worlds())
def test_order_of_queries(data: st.DataObject, world: World) -> None:
    gold = data.draw(st.permutations(list(world.gold.items())))
    shuffled = World(data.draw(st.permutations(world.run)), dict(gold))
    assert differences(outcomes(world), outcomes(shuffled)) == {}


@costly
@given(world=worlds())
def test_names_of_ids(world: World) -> None:
    """New names in the same order, of another length and with letters outside of ASCII."""
    run = [
        {**record, "query_id": "?" + record["query_id"], "topk": [renamed_hit(h) for h in record["topk"]]}
        for record in world.run
    ]
    gold = {"?" + query: {renamed(i): grade for i, grade in items.items()} for query, items in world.gold.items()}
    after = {
        metric: Outcome({query[1:]: value for query, value in found.scores.items()}, found.summary)
        for metric, found in outcomes(World(run, gold)).items()
    }
    assert differences(outcomes(world), after) == {}


def renamed_hit(found: Record) -> Record:
    return {**found, "chunk_id": renamed(found["chunk_id"])}


def renamed(item: str) -> str:
    doc, mark, part = item.partition("#")
    return f"é{int(doc[1:]) + 1000:06d}{mark}{part}"


@costly
@given(world=worlds(scored=False))
def test_unjudged_hits_at_the_end(world: World) -> None:
    """What follows the last hit and is not in the gold can neither help nor hurt relevance, at any depth."""
    longer = [{**record, "topk": record["topk"] + extra_hits(12)} for record in world.run]
    assert differences(outcomes(world, OF_THE_GOLD), outcomes(World(longer, world.gold), OF_THE_GOLD)) == {}


@examples
@given(world=worlds(scored=False), at=st.integers(K, 9))
def test_below_the_cutoff(world: World, at: int) -> None:
    """A metric with a cutoff looks at nothing below it: more hits there, or none, are all the same."""
    full = [{**record, "topk": record["topk"] + extra_hits(K)} for record in world.run]
    longer = [{**record, "topk": with_more(record["topk"], at)} for record in full]
    shorter = [{**record, "topk": record["topk"][:K]} for record in full]
    expected = scores(World(full, world.gold), AT_K)
    assert differences(expected, scores(World(longer, world.gold), AT_K)) == {}
    assert differences(expected, scores(World(shorter, world.gold), AT_K)) == {}


def with_more(hits: list[Record], at: int) -> list[Record]:
    return hits[:at] + extra_hits(5, "more") + hits[at:]


def extra_hits(n: int, name: str = "extra") -> list[Record]:
    """Hits of documents that no gold knows, one of them twice."""
    return [hit(f"{name}{i // 2}#p{i}") for i in range(n)]


@costly
@given(data=st.data(), world=worlds())
def test_duplicates(data: st.DataObject, world: World) -> None:
    """The first place counts: a list with repeats scores as the list without them."""
    run = [{**record, "topk": with_repeats(data, record["topk"])} for record in world.run]
    assert differences(outcomes(world), outcomes(World(run, world.gold))) == {}


def with_repeats(data: st.DataObject, hits: list[Record]) -> list[Record]:
    repeated = list(hits)
    for _ in range(data.draw(st.integers(0, 2)) if hits else 0):
        first = data.draw(st.integers(0, len(repeated) - 1))
        later = dict(repeated[first])
        if "score" in later:
            later["score"] -= data.draw(st.sampled_from([0.0, 0.5, 2.0]))
        repeated.insert(data.draw(st.integers(first + 1, len(repeated))), later)
    return repeated


@examples
@given(data=st.data(), world=worlds())
def test_other_queries(data: st.DataObject, world: World) -> None:
    """A query has alone the values, ceilings and floors that it has among others, known or unknown to the gold."""
    together = evaluate(World([{"query_id": "unknown", "topk": extra_hits(2)}, *world.run], world.gold))
    at = data.draw(st.integers(0, len(world.run) - 1))
    query = world.run[at]["query_id"]
    alone = evaluate(World([world.run[at]], {query: world.gold[query]}))
    assert together.queries[at] == query
    assert differences(numbers_of(alone, 0), numbers_of(together, at)) == {}


def numbers_of(result: karat.Result, at: int) -> dict[str, Any]:
    """Metric → value, ceiling and floor of one query, as text: NaN is not equal to itself."""
    tables = (result.values, result.ceilings, result.floors)
    return {name: [repr(float(table[name][at])) for table in tables] for name in map(str, result.metrics)}


@contextmanager
def one_query_at_a_time() -> Iterator[None]:
    """Slices of one query, wherever a run in memory is cut into slices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karat.formats.dicts._SLICE_HITS", 1)
        patch.setattr("karat.formats.run_log._SLICE_HITS", 1)
        patch.setattr("karat.formats.records._BATCH_RECORDS", 1)
        yield


@costly
@given(world=worlds())
@example(world=SOME_DOCUMENTS)
@example(world=ORDER_OF_STAGES)
def test_slices_of_a_run_log(world: World) -> None:
    """One query at a time or all at once: the same bits."""
    whole = outcomes(world)
    with one_query_at_a_time():
        assert differences(whole, outcomes(world)) == {}


@costly
@given(world=worlds(scored=True))
def test_slices_of_dicts(world: World) -> None:
    run = {record["query_id"]: {h["chunk_id"]: h["score"] for h in record["topk"]} for record in world.run}
    chosen: Any = {"k": K, "resamples": FEW, "reference": reference(world.gold)}
    whole = by_metric(karat.evaluate(run, world.gold, ALL, **chosen))
    with one_query_at_a_time():
        assert differences(whole, by_metric(karat.evaluate(run, world.gold, ALL, **chosen))) == {}


def test_texts_are_found_and_missed() -> None:
    """Guards the tests above: the texts of these worlds tell one list from another."""
    found = [scores(listed(item, d0=1.0, d1=1.0))["coverage@k"]["q"] for item in PLAIN]
    assert {0.0, 0.5} <= set(found)


def test_slices_are_slices() -> None:
    """Guards the two tests above: with these sizes a run of three queries really comes in three slices."""
    records = [{"query_id": f"q{i}", "topk": ["a"]} for i in range(3)]
    dicts = {f"q{i}": {"a": 1.0} for i in range(3)}
    with one_query_at_a_time():
        for run in (records, dicts):
            assert len(list(karat.read_run(run).slices(frozenset(), Audit()))) == 3


# What goes in one direction

# By document a better chunk may stand in a worse place: it is another chunk of a document that was found before.
# Into a budget the better chunk may not fit, where the worse did. What divides by the hits found up to a cutoff falls
# when one more is found, further down than the others.
BY_CHUNK = [
    metric
    for metric in RELEVANCE
    if getattr(metric, "level", "chunk") == "chunk"
    and metric.budget is None
    and not (getattr(metric, "by", None) == "found" and metric.k is not None)
]


@examples
@given(data=st.data(), world=worlds(scored=False))
def test_a_better_swap_never_hurts(data: st.DataObject, world: World) -> None:
    """Of two neighbours the better moves up, in as many queries as have such neighbours."""
    swapped = [with_better_swap(data, record, world.gold[record["query_id"]]) for record in world.run]
    before, after = scores(world, BY_CHUNK), scores(World(swapped, world.gold), BY_CHUNK)
    worse = {
        (str(metric), query): (before[str(metric)][query], value)
        for metric in BY_CHUNK
        for query, value in after[str(metric)].items()
        if badness(metric, value) > badness(metric, before[str(metric)][query]) + 1e-12
    }
    assert worse == {}


def with_better_swap(data: st.DataObject, record: Record, grades: dict[str, float]) -> Record:
    hits = list(record["topk"])
    ids = [h["chunk_id"] for h in hits]
    # A later chunk of a document gains nothing, whatever its grade: only first ones are compared.
    names = [item if item in grades else item.partition("#")[0] for item in ids]
    first = [name not in names[:i] for i, name in enumerate(names)]
    worth = [grades.get(name, 0.0) for name in names]
    places = [i for i in range(len(ids) - 1) if first[i] and first[i + 1] and worth[i] < worth[i + 1]]
    if places:
        i = data.draw(st.sampled_from(places))
        hits[i], hits[i + 1] = hits[i + 1], hits[i]
    return {**record, "topk": hits}


def badness(metric: karat.Metric, value: float | None) -> float:
    """Lower is better. Not found is worst, where a rank has no worst value."""
    if value is None:
        return math.inf
    return value if metric.direction == "lower" else -value


@settings(max_examples=40)
@given(world=worlds())
@example(world=FRACTIONS)
@example(world=ONE_BAD_DOCUMENT)
def test_range(world: World) -> None:
    result = evaluate(world)
    outside = {
        str(metric): numbers[str(metric)].tolist()
        for metric in result.metrics
        for numbers in (result.values, result.ceilings, result.floors)
        if not all(within(metric, value) for value in numbers[str(metric)].tolist())
    }
    assert outside == {}


def within(metric: karat.Metric, value: float) -> bool:
    low, high = metric.range
    return math.isnan(value) or low <= value <= high


@examples
@given(world=worlds())
@example(world=FRACTIONS)
def test_nothing_beats_the_ceiling(world: World) -> None:
    result = evaluate(world)
    assert {str(metric) for metric in result.metrics if beats_ceiling(result, metric)} == set()


def beats_ceiling(result: karat.Result, metric: karat.Metric) -> bool:
    pairs = zip(result.values[str(metric)].tolist(), result.ceilings[str(metric)].tolist(), strict=True)
    known = [(value, ceiling) for value, ceiling in pairs if not math.isnan(value) and not math.isnan(ceiling)]
    return any(badness(metric, value) < badness(metric, ceiling) - 1e-12 for value, ceiling in known)


@examples
@given(world=worlds(kinds=("plain", "chunks")))
@example(world=FRACTIONS)
def test_the_gold_itself_reaches_the_ceiling(world: World) -> None:
    best = [
        {"query_id": query, "topk": [hit(item) for item in sorted(grades, key=lambda item: -grades[item])]}
        for query, grades in world.gold.items()
    ]
    result = evaluate(World(best, world.gold))
    short = {
        str(metric): (value, ceiling)
        for metric in result.metrics
        if metric not in OF_WHAT_FITS  # the best list of these ends before what is not relevant
        for value, ceiling in zip(result.values[str(metric)], result.ceilings[str(metric)], strict=True)
        if not math.isnan(ceiling) and value != ceiling and getattr(metric, "level", "chunk") == "chunk"
    }
    assert short == {}


# What is not there


@examples
@given(world=worlds(), grade=st.sampled_from([1.0, 3.0]))
def test_a_missing_query(world: World, grade: float) -> None:
    """It failed: the worst value of a relevance metric; nothing to say of hits that are not there."""
    gold = {**world.gold, "missing": {"d0": grade}, "nothing to find": {"d0": 0.0}, "no gold": {}}
    for metric in (result := evaluate(World(world.run, gold))).metrics:
        scores = result.score(metric)
        assert scores["missing"] == worst_value(metric, grade), metric
        assert scores["nothing to find"] is None, metric
        assert scores["no gold"] is None, metric


def worst_value(metric: karat.Metric, grade: float) -> float | None:
    """None where the item is not relevant to the metric, for a rank, which has no worst value, and over groups."""
    worst = metric.range[0] if metric.direction == "higher" else metric.range[1]
    if isinstance(metric, (*BY_TEXT, AgainstRun)):
        return worst
    if metric not in RELEVANCE or isinstance(metric, OfVariants) or math.isinf(worst):
        return None
    return worst if metric.rel is None or grade >= metric.rel else None


@costly
@given(world=worlds())
def test_missing_queries_skipped(world: World) -> None:
    """Left out, as if the gold set did not have them."""
    more = World(world.run, {"missing": {"d0": 1.0}, **world.gold})
    assert differences(outcomes(world), outcomes(more, missing="skip")) == {}


@examples
@given(world=worlds())
def test_no_relevant_gold(world: World) -> None:
    """Undefined, never 0, and out of the mean."""
    nothing = {query: dict.fromkeys(grades, 0.0) for query, grades in world.gold.items()}
    for metric, outcome in outcomes(World(world.run, nothing), RELEVANCE).items():
        assert set(outcome.scores.values()) == {None}, metric
        assert (outcome.summary.n, outcome.summary.undefined) == (0, len(nothing)), metric
        assert (outcome.summary.mean, outcome.summary.ceiling, outcome.summary.floor) == (None, None, None), metric
