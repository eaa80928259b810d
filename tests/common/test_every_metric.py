"""What every metric promises. A metric is tested here by being listed: nothing names one."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import karat
from karat.metrics.base import Relevance

Record = dict[str, Any]
Gold = dict[str, dict[str, float]]

K = 3  # for metrics that name no cutoff
CORPUS = 60
METRICS = karat.all_metrics()
RELEVANCE = [name for name, metric in METRICS.items() if issubclass(metric, Relevance)]

every_metric = pytest.mark.parametrize("name", METRICS)
every_relevance_metric = pytest.mark.parametrize("name", RELEVANCE)
some_examples = settings(max_examples=60)


# Every metric in all of its forms


def variants(name: str) -> list[karat.Metric]:
    """The metric as it is, with cutoffs where it takes them, and with other values of each parameter."""
    kind = METRICS[name]
    cutoffs = [None] if kind.cutoff == "none" else [None, 1, K, 50]
    changed = [{}, *({field: value} for field, values in parameters(kind).items() for value in values)]
    return [kind(k=k, **given) for given in changed for k in cutoffs]


def parameters(kind: type[karat.Metric]) -> dict[str, list[Any]]:
    """Parameter → values that it allows, apart from its default."""
    fields: Any = msgspec.inspect.type_info(kind)
    return {
        field.name: [value for value in values_of(field.type) if value != field.default]
        for field in fields.fields
        if field.name != "k"
    }


def values_of(kind: Any) -> list[Any]:
    match kind:
        case msgspec.inspect.UnionType():
            return [value for part in kind.types for value in values_of(part)]
        case msgspec.inspect.LiteralType():
            return list(kind.values)
        case msgspec.inspect.FloatType():
            return [value for value in (0.3, 0.5, 0.95, 1.0, 2.0) if allowed(kind, value)]
        case msgspec.inspect.IntType():
            return [value for value in (1, 2, 7) if allowed(kind, value)]
        case msgspec.inspect.StrType():
            return ["retrieve", "rerank", "total"]
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


# Runs and gold to try them on


class World(NamedTuple):
    """A run log in memory and a gold set."""

    run: list[Record]
    gold: Gold


PLAIN = [f"d{i}" for i in range(9)]
CHUNKS = [f"d{doc}#p{part}" for doc in range(5) for part in range(3)]
DOCS = [f"d{i}" for i in range(5)]
GRADES = st.sampled_from([0.0, 0.0, 0.1, 0.2, 0.7, 1.0, 1.0, 2.0, 3.0])
SCORES = st.sampled_from([-1.0, 0.0, 0.5, 1.0])
TEXTS = (
    "a refund takes five days to arrive",
    "A refund takes five days, or more",
    "cards ship in two weeks",
    "cards",
    "",
)
LATENCIES = st.sampled_from(
    [None, {}, {"retrieve": 10.5}, {"retrieve": 3.25, "rerank": 0.1}, {"retrieve": 7.0, "total": 9.5}, {"rerank": None}]
)
# Gold names what the run returns, or its documents.
WORLDS = {"plain": (PLAIN, PLAIN), "chunks": (CHUNKS, CHUNKS), "documents": (CHUNKS, DOCS)}


@st.composite
def worlds(draw: st.DrawFn, *, scored: bool | None = None, kinds: tuple[str, ...] = tuple(WORLDS)) -> World:
    """Up to four queries that stand on both sides, with hits in the order of the list or of scores with ties."""
    returned, wanted = (st.sampled_from(ids) for ids in WORLDS[draw(st.sampled_from(kinds))])
    with_scores = draw(st.booleans()) if scored is None else scored
    run: list[Record] = []
    gold: Gold = {}
    for i in range(draw(st.integers(1, 4))):
        ids = draw(st.lists(returned, max_size=9, unique=True))
        texts = draw(st.booleans())
        hits = [hit(item, text=texts) for item in ids]
        if with_scores:
            for each in hits:
                each["score"] = draw(SCORES)
        run.append({"query_id": f"q{i}", "topk": hits, "latency_ms": draw(LATENCIES)})
        gold[f"q{i}"] = draw(st.dictionaries(wanted, GRADES, max_size=6))
    return World(run, gold)


def hit(item: str, *, text: bool = True) -> Record:
    place = sum(map(ord, item))
    return {"chunk_id": item, **({"text": TEXTS[place % len(TEXTS)]} if text else {})}


def listed(record: Record) -> list[str]:
    return [each["chunk_id"] for each in record["topk"]]


def evaluate(world: World, metrics: list[karat.Metric], **options: Any) -> karat.Result:
    return karat.evaluate(world.run, world.gold, metrics, k=K, **options)


def values(world: World, metrics: list[karat.Metric], **options: Any) -> dict[str, dict[str, float | None]]:
    """Metric → query → value."""
    result = evaluate(world, metrics, **options)
    return {str(metric): result.score(metric) for metric in metrics}


def summaries(world: World, metrics: list[karat.Metric]) -> list[Any]:
    """Means, ceilings and floors."""
    return evaluate(world, metrics, corpus_size=CORPUS).summary_rows


# What it declares


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
    own = METRICS[name].__dict__.get("__doc__") or ""
    assert inspect.cleandoc(own).splitlines()[0].endswith(".")
    family = [kind for kind in METRICS[name].__mro__ if issubclass(kind, karat.Metric) and "name" in vars(kind)]
    assert any(">>> " in (kind.__doc__ or "") for kind in family)


@every_metric
def test_text_round_trip(name: str) -> None:
    forms = variants(name)
    for metric in forms:
        again = karat.parse_metric(str(metric))
        assert again == metric
        assert type(again) is type(metric)
        assert str(again) == str(metric)
    assert len({str(metric) for metric in forms}) == len(forms)


# What changes nothing


@every_metric
@some_examples
@given(data=st.data(), world=worlds())
def test_order_of_queries(name: str, data: st.DataObject, world: World) -> None:
    metrics = variants(name)
    gold = dict(data.draw(st.permutations(list(world.gold.items()))))
    shuffled = World(data.draw(st.permutations(world.run)), gold)
    assert values(shuffled, metrics) == values(world, metrics)
    assert summaries(shuffled, metrics) == summaries(world, metrics)


@every_metric
@some_examples
@given(world=worlds())
def test_names_of_ids(name: str, world: World) -> None:
    """New names in the same order, of another length and with letters outside of ASCII."""
    metrics = variants(name)

    def renamed(item: str) -> str:
        doc, mark, part = item.partition("#")
        return f"é{ord(doc[1]):06d}{mark}{part}"

    run = [
        {
            **record,
            "query_id": "?" + record["query_id"],
            "topk": [{**h, "chunk_id": renamed(h["chunk_id"])} for h in record["topk"]],
        }
        for record in world.run
    ]
    gold = {"?" + query: {renamed(item): grade for item, grade in items.items()} for query, items in world.gold.items()}
    before, after = values(world, metrics), values(World(run, gold), metrics)
    assert [list(scores.values()) for scores in after.values()] == [list(scores.values()) for scores in before.values()]
    assert summaries(World(run, gold), metrics) == summaries(world, metrics)


@every_relevance_metric
@some_examples
@given(world=worlds(scored=False))
def test_unjudged_hits_at_the_end(name: str, world: World) -> None:
    """What follows the last hit and is not in the gold can neither help nor hurt, at any depth."""
    metrics = variants(name)
    longer = [{**record, "topk": record["topk"] + extra_hits(12)} for record in world.run]
    assert values(World(longer, world.gold), metrics) == values(world, metrics)


@every_metric
@some_examples
@given(world=worlds(scored=False), at=st.integers(0, 6))
def test_unjudged_hits_below_the_cutoff(name: str, world: World, at: int) -> None:
    """Nothing below rank k is looked at by a metric with a cutoff, whatever stands there."""
    metrics = [
        metric for metric in variants(name) if metric.k == K or (metric.k is None and metric.cutoff == "required")
    ]
    full = [{**record, "topk": record["topk"] + extra_hits(K)} for record in world.run]
    longer = [{**r, "topk": r["topk"][: K + at] + extra_hits(5, "more") + r["topk"][K + at :]} for r in full]
    cut = [{**record, "topk": record["topk"][:K]} for record in full]
    expected = values(World(full, world.gold), metrics)
    assert values(World(longer, world.gold), metrics) == expected
    # bpref-like metrics have no cutoff, so the rest of the list may go as well
    assert values(World(cut, world.gold), metrics) == expected


def extra_hits(n: int, name: str = "extra") -> list[Record]:
    return [hit(f"{name}{i}#p{i}") for i in range(n)]


@every_metric
@some_examples
@given(data=st.data(), world=worlds())
def test_duplicates(name: str, data: st.DataObject, world: World) -> None:
    """The first place counts: a list with repeats scores as the list without them."""
    metrics = variants(name)
    assert values(World(with_repeats(data, world.run), world.gold), metrics) == values(world, metrics)


def with_repeats(data: st.DataObject, run: list[Record]) -> list[Record]:
    repeated = []
    for record in run:
        topk = list(record["topk"])
        for _ in range(data.draw(st.integers(0, 2)) if topk else 0):
            first = data.draw(st.integers(0, len(topk) - 1))
            later = dict(topk[first])
            if "score" in later:
                later["score"] -= data.draw(st.sampled_from([0.0, 0.5, 2.0]))
            topk.insert(data.draw(st.integers(first + 1, len(topk))), later)
        repeated.append({**record, "topk": topk})
    return repeated


@every_metric
@some_examples
@given(world=worlds())
def test_slicing(name: str, world: World) -> None:
    """One query at a time or all at once: the same bits."""
    metrics = variants(name)
    whole = values(world, metrics), summaries(world, metrics)
    with one_query_at_a_time():
        assert (values(world, metrics), summaries(world, metrics)) == whole


@every_metric
@some_examples
@given(world=worlds(scored=True))
def test_slicing_of_dicts(name: str, world: World) -> None:
    metrics = variants(name)
    run = {record["query_id"]: {h["chunk_id"]: h["score"] for h in record["topk"]} for record in world.run}
    whole = karat.evaluate(run, world.gold, metrics, k=K)
    with one_query_at_a_time():
        sliced = karat.evaluate(run, world.gold, metrics, k=K)
    assert [sliced.score(metric) for metric in metrics] == [whole.score(metric) for metric in metrics]
    assert sliced.summary_rows == whole.summary_rows


class one_query_at_a_time:  # noqa: N801
    """Slices of one query, wherever a reader cuts a run into slices."""

    SIZES = (
        "karat.formats.dicts._SLICE_HITS",
        "karat.formats.run_log._SLICE_HITS",
        "karat.formats.records._BATCH_RECORDS",
    )

    def __enter__(self) -> None:
        self.patch = pytest.MonkeyPatch()
        for size in self.SIZES:
            self.patch.setattr(size, 1)

    def __exit__(self, *_: object) -> None:
        self.patch.undo()


def test_slices_are_slices() -> None:
    """Guards the two tests above: with these sizes a run of three queries really comes in three slices."""
    records = [{"query_id": f"q{i}", "topk": ["a"]} for i in range(3)]
    dicts = {f"q{i}": {"a": 1.0} for i in range(3)}
    with one_query_at_a_time():
        for run in (records, dicts):
            assert len(list(karat.read_run(run).slices(frozenset(), karat.Audit()))) == 3


# What goes in one direction


def better_swaps(world: World) -> Iterator[World]:
    """Worlds in which, in one query, the better of two neighbours has moved up."""
    for at, record in enumerate(world.run):
        grades, ids = world.gold[record["query_id"]], listed(record)
        names = [item if item in grades else item.partition("#")[0] for item in ids]
        for i in range(len(ids) - 1):
            # A later chunk of a document gains nothing, whatever its grade.
            repeats = names[i] in names[:i] or names[i + 1] in names[: i + 1]
            if not repeats and grades.get(names[i + 1], 0.0) > grades.get(names[i], 0.0):
                topk = list(record["topk"])
                topk[i], topk[i + 1] = topk[i + 1], topk[i]
                yield World([*world.run[:at], {**record, "topk": topk}, *world.run[at + 1 :]], world.gold)


@every_relevance_metric
@some_examples
@given(world=worlds(scored=False))
def test_a_better_swap_never_hurts(name: str, world: World) -> None:
    metrics = variants(name)
    before = values(world, metrics)
    for swapped in better_swaps(world):
        for metric, scores in values(swapped, metrics).items():
            for query, after in scores.items():
                assert badness(name, after) <= badness(name, before[metric][query]) + 1e-12, (metric, query)


def badness(name: str, value: float | None) -> float:
    """Lower is better; not found is worst where a rank has no worst value."""
    if value is None:
        return math.inf
    return value if METRICS[name].direction == "lower" else -value


@every_metric
@some_examples
@given(world=worlds())
def test_range(name: str, world: World) -> None:
    low, high = METRICS[name].range
    result = evaluate(world, variants(name), corpus_size=CORPUS)
    for numbers in (result.values, result.ceilings, result.floors):
        for metric, found in numbers.items():
            inside = [low <= value <= high for value in found.tolist() if not math.isnan(value)]
            assert all(inside), (metric, found)


@every_metric
@some_examples
@given(world=worlds(kinds=("plain", "chunks")))
def test_nothing_beats_the_ceiling(name: str, world: World) -> None:
    result = evaluate(world, variants(name))
    for metric in map(str, result.metrics):
        for value, ceiling in zip(result.values[metric].tolist(), result.ceilings[metric].tolist(), strict=True):
            if not math.isnan(value) and not math.isnan(ceiling):
                assert badness(name, ceiling) <= badness(name, value) + 1e-12, metric


@every_metric
@some_examples
@given(world=worlds(kinds=("plain", "chunks")))
def test_the_gold_itself_reaches_the_ceiling(name: str, world: World) -> None:
    best = [
        {"query_id": query, "topk": [hit(item) for item in sorted(grades, key=lambda i: -grades[i])]}
        for query, grades in world.gold.items()
    ]
    result = evaluate(World(best, world.gold), variants(name))
    for metric in map(str, result.metrics):
        for value, ceiling in zip(result.values[metric].tolist(), result.ceilings[metric].tolist(), strict=True):
            assert math.isnan(ceiling) or value == ceiling, metric


# What is not there


@every_metric
@some_examples
@given(world=worlds(), grade=st.sampled_from([1.0, 3.0]))
def test_a_missing_query(name: str, world: World, grade: float) -> None:
    """It failed: the worst value of a relevance metric, which a rank does not have; nothing to say of its hits."""
    gold = {**world.gold, "missing": {"d0": grade}, "missing too": {"d0": 0.0}, "and this": {}}
    kind = METRICS[name]
    worst = kind.range[0] if kind.direction == "higher" else kind.range[1]
    says = issubclass(kind, Relevance) and math.isfinite(worst)
    for metric in variants(name):
        scores = evaluate(World(world.run, gold), [metric]).score(metric)
        relevant = getattr(metric, "rel", None) is None or grade >= metric.rel  # type: ignore[attr-defined]
        assert scores["missing"] == (worst if says and relevant else None), metric
        # With nothing to find there is nothing to miss.
        assert scores["missing too"] is None, metric
        assert scores["and this"] is None, metric


@every_metric
@some_examples
@given(world=worlds())
def test_missing_queries_skipped(name: str, world: World) -> None:
    """Left out, as if the gold set did not have them."""
    metrics = variants(name)
    more = World(world.run, {"missing": {"d0": 1.0}, **world.gold})
    assert values(more, metrics, missing="skip") == values(world, metrics)
    assert evaluate(more, metrics, missing="skip").summary_rows == evaluate(world, metrics).summary_rows


@every_relevance_metric
@some_examples
@given(world=worlds())
def test_no_relevant_gold(name: str, world: World) -> None:
    """Undefined, never 0, and out of the mean."""
    nothing = {query: dict.fromkeys(grades, 0.0) for query, grades in world.gold.items()}
    result = evaluate(World(world.run, nothing), variants(name))
    for metric, row in zip(result.metrics, result.summary_rows, strict=True):
        assert set(result.score(metric).values()) == {None}
        assert (row.n, row.undefined, row.mean) == (0, len(nothing), None)


@every_metric
@some_examples
@given(world=worlds())
def test_queries_do_not_touch_each_other(name: str, world: World) -> None:
    """A query scores the same alone and among others; a query that is not in the gold changes nothing."""
    metrics = variants(name)
    together = values(World([{"query_id": "unknown", "topk": extra_hits(2)}, *world.run], world.gold), metrics)
    for record in world.run:
        query = record["query_id"]
        alone = values(World([record], {query: world.gold[query]}), metrics)
        for metric in map(str, metrics):
            assert alone[metric][query] == together[metric][query], metric
