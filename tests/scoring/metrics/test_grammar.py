"""Text ↔ metric."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.errors import ConfigError, UnknownName
from karat.scoring.metrics.cost import Latency, LatencyP90
from karat.scoring.metrics.discounted import NDCG, RBP
from karat.scoring.metrics.grammar import aliases, parse_metrics
from karat.scoring.metrics.lists import Novelty
from karat.scoring.metrics.precision import AveragePrecision
from karat.scoring.metrics.recall import Recall


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("recall@5", Recall(k=5)),
        ("recall", Recall()),
        ("recall@k", Recall()),
        ("recall(rel=2)@5", Recall(k=5, rel=2.0)),
        ("recall(rel=0.5)", Recall(rel=0.5)),
        ("recall()@5", Recall(k=5)),
        ("ndcg(gain=linear)@10", NDCG(k=10, gain="linear")),
        ("ndcg(gain=exp)@10", NDCG(k=10)),
        ("ndcg(gain=linear,rel=2)@10", NDCG(k=10, gain="linear", rel=2.0)),
        ("map", AveragePrecision()),
        ("map@10", AveragePrecision(k=10)),
        ("rbp(p=0.95)", RBP(p=0.95)),
        ("novelty(shingle=2,threshold=0.3)@5", Novelty(k=5, shingle=2, threshold=0.3)),
        ("latency(stage=rerank)", Latency(stage="rerank")),
        ("latency_p90(stage=Re-Rank 2)", LatencyP90(stage="Re-Rank 2")),
        # However it is written
        ("  recall @ 5  ", Recall(k=5)),
        ("RECALL@5", Recall(k=5)),
        ("Recall@K", Recall()),
        ("nDCG( gain = linear ) @ 10", NDCG(k=10, gain="linear")),
        ("recall_at_5", Recall(k=5)),
        ("recall-at-5", Recall(k=5)),
        ("recall_5", Recall(k=5)),
        ("map_cut_10", AveragePrecision(k=10)),
        ("ndcg_cut_10(rel=2)", NDCG(k=10, gain="linear", rel=2.0)),
        # What stands in the text wins over what the alias stands for
        ("ndcg_cut_10(gain=exp)", NDCG(k=10)),
        ("retrieval-ndcg-at-k(gain=exp)", NDCG()),
    ],
)
def test_parses(text: str, metric: karat.Metric) -> None:
    assert karat.Metric.parse(text) == metric


def test_a_metric_parses_as_itself() -> None:
    metric = NDCG(k=3)
    assert karat.Metric.parse(metric) is metric


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (Recall(k=5), "recall@5"),
        (Recall(), "recall@k"),
        (Recall(rel=2.0), "recall(rel=2)@k"),
        (Recall(rel=0.5, k=1), "recall(rel=0.5)@1"),
        (NDCG(k=10), "ndcg@10"),
        (NDCG(k=10, gain="linear"), "ndcg(gain=linear)@10"),
        (NDCG(k=10, gain="linear", rel=2.0), "ndcg(rel=2,gain=linear)@10"),
        (AveragePrecision(), "map"),
        (AveragePrecision(k=3), "map@3"),
        (RBP(), "rbp"),
        (RBP(p=0.95), "rbp(p=0.95)"),
        (LatencyP90(stage="rerank"), "latency_p90(stage=rerank)"),
    ],
)
def test_prints(metric: karat.Metric, text: str) -> None:
    assert str(metric) == text
    assert karat.Metric.parse(text) == metric


@given(p=st.floats(0, 1, exclude_min=True, exclude_max=True), rel=st.floats(0, 1e300, exclude_min=True))
def test_numbers_are_printed_in_full(p: float, rel: float) -> None:
    metric = RBP(p=p, rel=rel)
    assert karat.Metric.parse(str(metric)) == metric


def test_near_parameters_are_two_metrics() -> None:
    """Scores are kept by text: what differs must print differently."""
    near = [karat.Metric.parse("rbp(p=0.1234567)"), karat.Metric.parse("rbp(p=0.1234568)")]
    result = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, near)
    assert len(result.means) == 2
    assert list(result.means.values()) == pytest.approx([0.8765433, 0.8765432], abs=1e-12)


def test_each_metric_once() -> None:
    asked = parse_metrics(["P@5", "map", "precision@5", "precision_5", "MAP", "map@5"])
    assert [str(metric) for metric in asked] == ["precision@5", "map", "map@5"]


@pytest.mark.parametrize("alias", sorted(aliases()))
def test_every_alias_is_understood(alias: str) -> None:
    metric = karat.Metric.parse(alias)
    assert metric == karat.Metric.parse(aliases()[alias])
    assert karat.Metric.parse(alias.upper()) == metric
    if metric.cutoff != "none":
        assert karat.Metric.parse(f"{alias}@7") == msgspec.structs.replace(metric, k=7)


def test_aliases_hide_no_metric() -> None:
    assert not set(aliases()) & set(karat.Metric.all())


# trec_eval's names, with trec_eval's meaning


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("map", "map"),
        ("recip_rank", "mrr"),
        ("Rprec", "rprecision"),
        ("bpref", "bpref"),
        ("P_5", "precision@5"),
        ("recall_1000", "recall@1000"),
        ("ndcg_cut_10", "ndcg(gain=linear)@10"),
        ("map_cut_30", "map@30"),
        ("success_1", "hit@1"),
        ("rbp_resid", "rbp_residual"),
    ],
)
def test_trec_eval_names(name: str, text: str) -> None:
    assert str(karat.Metric.parse(name)) == text


# Refused, each with words that help


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("recal@5", "recall"),
        ("ncdg@10", "ndcg"),
        ("precison", "precision"),
        ("mmr", "mrr"),
        ("latency_p95", "latency_p90"),
        ("novelity@3", "novelty"),
    ],
)
def test_unknown_metric(text: str, near: str) -> None:
    with refused("unknown-metric", UnknownName) as caught:
        karat.Metric.parse(text)
    assert near in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_name_that_is_like_none_gets_no_suggestion() -> None:
    with refused("unknown-metric", name="foo") as caught:
        karat.Metric.parse("foo@5")
    assert "`karat metrics`" in caught.value.hint


def test_unknown_metric_without_neighbour() -> None:
    with refused("unknown-metric", UnknownName):
        karat.Metric.parse("zzzzzzzzzzzzzzzz")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # a parameter that it does not have
        ("recall(gain=linear)@5", ("'gain'", "rel")),
        ("recall(k=5)", ("'k'", "rel")),
        ("latency(rel=2)", ("'rel'", "stage")),
        ("distinct_docs(rel=2)@5", ("'rel'", "none")),
        # a value that makes no sense
        ("recall(rel=high)@5", ("rel", "got high")),
        ("recall(rel=0)@5", ("rel", "> 0")),
        ("recall(rel=-1)@5", ("rel", "> 0")),
        ("recall(rel=nan)@5", ("rel",)),
        ("ndcg(gain=log)@5", ("gain", "got log", "exp, linear")),
        ("ndcg(gain=lin)@5", ("gain", "linear?")),
        ("rbp(p=0)", ("p", "> 0")),
        ("rbp(p=1)", ("p", "< 1")),
        ("novelty(shingle=0)@5", ("shingle", ">= 1")),
        ("novelty(shingle=1.5)@5", ("shingle", "got 1.5")),
        ("novelty(threshold=1.1)@5", ("threshold", "<= 1")),
        # no value
        ("recall(rel)@5", ("'rel'", "name=value")),
        ("recall(rel=)@5", ("'rel='", "name=value")),
        ("recall(=2)@5", ("'=2'", "name=value")),
        ("recall(2)@5", ("'2'", "name=value")),
        # cutoffs
        ("recall@0", ("'recall@0'", ">= 1, got 0")),
        ("recall_at_0", ("recall_at_0", ">= 1")),
        ("recall@99999999999999999999", ("recall@99999999999999999999",)),
        ("mrr@k", ("mrr@10",)),
        ("retrieval-map-at-k", ("map@10",)),
        ("bpref@5", ("write bpref",)),
        ("rprecision@k", ("write rprecision",)),
        ("latency_p90@10", ("write latency_p90",)),
        # no metric at all
        ("", ("recall@5",)),
        ("@5", ("recall@5",)),
        ("recall@", ("recall@5",)),
        ("recall@-1", ("recall@5",)),
        ("recall@2.5", ("recall@5",)),
        ("recall@five", ("recall@5",)),
        ("recall@5@6", ("recall@5",)),
        ("recall(rel=2", ("recall@5",)),
        ("recall(rel=2))@5", ("recall@5",)),
        ("recall@5(rel=2)", ("recall@5",)),
        ("recall@5, mrr", ("recall@5",)),
    ],
)
def test_refused(text: str, words: tuple[str, ...]) -> None:
    with refused("bad-metric", ConfigError) as caught:
        karat.Metric.parse(text)
    for word in words:
        assert word in str(caught.value)
    assert not re.search(r"`|\$\.|null", str(caught.value))  # the words of the library that noticed it
    assert caught.value.exit_code == 2


def test_a_parameter_given_twice_is_refused() -> None:
    """One of the two values would be ignored without a word."""
    with pytest.raises(ConfigError, match="rel"):
        karat.Metric.parse("recall(rel=2,rel=3)@5")


def test_two_cutoffs_are_refused() -> None:
    with pytest.raises(ConfigError, match="P_5"):
        karat.Metric.parse("P_5@10")


@given(
    st.text(max_size=30) | st.from_regex(r"[a-z_]{1,8}(\([a-z]{0,4}=?[0-9.]{0,3}\))?(@[0-9k]{0,3})?", fullmatch=True)
)
def test_any_text_is_a_metric_or_refused(text: str) -> None:
    try:
        metric = karat.Metric.parse(text)
    except ConfigError:
        return
    assert karat.Metric.parse(str(metric)) == metric


@pytest.mark.parametrize("metric", ["recall@0", "recal@5", "bpref@5"])
def test_evaluate_refuses_before_it_reads(metric: str) -> None:
    with pytest.raises(ConfigError):
        karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["mrr", metric])


def test_a_single_metric_may_stand_alone() -> None:
    assert karat.evaluate({"q": ["a"]}, {"q": ["a"]}, "mrr").means == {"mrr": 1.0}


def test_one_text_may_name_several() -> None:
    found = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["recall@5, ndcg(gain=linear,level=doc)@3", "mrr,mrr"]).means
    assert list(found) == ["recall@5", "ndcg(gain=linear,level=doc)@3", "mrr"] or list(found) == [
        "recall@5",
        "ndcg(level=doc,gain=linear)@3",
        "mrr",
    ]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("context_recall", "evidence_recall@5"), ("ContextPrecision", "map@5"), ("faithfulness", None)],
)
def test_metrics_of_ragas_have_an_answer(name: str, nearest: str | None) -> None:
    with refused("metric-of-another-tool", ConfigError) as caught:
        karat.Metric.parse(name)
    assert caught.value.hint is not None
    assert nearest is None or nearest in caught.value.hint
