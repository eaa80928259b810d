"""Gates as text, for the command line."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from karat.errors import KaratError
from karat.gates.criteria import Gate, parse_gate

READ = {
    "recall@5 >= 0.85": Gate(metric="recall@5", threshold=0.85),
    "recall@5>=0.85": Gate(metric="recall@5", threshold=0.85),
    "  recall@5   ≥ .85 ": Gate(metric="recall@5", threshold=0.85),
    "recall@5 >= 85%": Gate(metric="recall@5", threshold=0.85),
    "recall@5 >= 85 pp": Gate(metric="recall@5", threshold=0.85),
    "recall@5 >= 8.5e-1": Gate(metric="recall@5", threshold=0.85),
    "ndcg@5 drop <= 0.02": Gate(metric="ndcg@5", regression_max=0.02),
    "ndcg(gain=linear)@10 Drop ≤ 2pp": Gate(metric="ndcg(gain=linear)@10", regression_max=0.02),
    "latency_p90 <= 60 ms": Gate(metric="latency_p90", max=60.0),
    "latency_p90 <= 60": Gate(metric="latency_p90", max=60.0),
    "latency_p50(stage=rerank) <= 50MS": Gate(metric="latency_p50(stage=rerank)", max=50.0),
    "latency_p90 rise <= 5 ms": Gate(metric="latency_p90", regression_max=5.0),
    "latency_p90 rise <= 10% of baseline": Gate(metric="latency_p90", regression_max_share=0.1),
    "recall@5 drop <= 5 % of the Baseline in each topic": Gate(
        metric="recall@5", regression_max_share=0.05, each="topic"
    ),
    "redundancy@5 <= 20%": Gate(metric="redundancy@5", max=0.2),
    "distinct_docs@5 >= 3": Gate(metric="distinct_docs@5", threshold=3.0),
    "mrr >= 0.5 in language=pt-BR": Gate(metric="mrr", threshold=0.5, segment={"language": "pt-BR"}),
    "mrr >= 0.5 in topic=card payments on bound": Gate(
        metric="mrr", threshold=0.5, segment={"topic": "card payments"}, on="bound"
    ),
    "mrr >= 0.5 in each language×topic on bound": Gate(metric="mrr", threshold=0.5, each="language×topic", on="bound"),
    "mrr drop <= 1% ON mean": Gate(metric="mrr", regression_max=0.01),
}

REFUSED = {
    "": "bad-gate",
    "recall@5": "bad-gate",
    "recall@5 > 0.85": "bad-gate",
    "recall@5 >= high": "bad-gate",
    ">= 0.85": "bad-gate",
    "recall@5 >= 0.85 in language": "bad-gate",
    "recall@5 >= 0.85 in language= on bound": "bad-gate",
    "recall@5 >= 0.85 on median": "bad-gate",
    "recall@5 >= 1.2.3": "bad-gate",
    "recall@5 drop >= 0.1": "wrong-direction",
    "recall@5 rise <= 0.1": "wrong-direction",
    "latency_p90 drop <= 5": "wrong-direction",
    "latency_p90 <= 60%": "wrong-unit",
    "latency_p90 rise <= 10%": "wrong-unit",
    "latency_p90 <= 10% of baseline": "wrong-unit",
    "recall@5 >= 10% of baseline": "wrong-unit",
    "recall@5 drop <= 100% of baseline": "bad-value",
    "recall@5 drop <= -1% of baseline": "bad-value",
    "distinct_docs@5 >= 3pp": "wrong-unit",
    "recall@5 >= 0.8 ms": "wrong-unit",
    "recall@5 >= 85": "bad-value",
    "recall@5 <= 0.9": "wrong-direction",
    "recal@5 >= 0.85": "unknown-metric",
}


@pytest.mark.parametrize("text", READ)
def test_what_a_text_means(text: str) -> None:
    assert parse_gate(text) == READ[text]


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_read_is_refused_with_a_word_why(text: str) -> None:
    with refused(REFUSED[text]) as caught:
        parse_gate(text)
    assert text in caught.value.what
    assert caught.value.hint or caught.value.expected


MEANT = {
    "recall@5 > 0.85": "recall@5 >= 0.85",
    "recall@5 = 0.85": "recall@5 >= 0.85",
    "recall@5 => 85%": "recall@5 >= 85%",
    "recall@5 >= 0,85": "recall@5 >= 0.85",
    "recall@5 at least 0.85": "recall@5 >= 0.85",
    "recall@5 drop < 3%": "recall@5 drop <= 3%",
    "latency_p90 < 1.5 s": "latency_p90 <= 1500 ms",
    "latency_p90 == 60 ms": "latency_p90 <= 60 ms",
}


@pytest.mark.parametrize("text", MEANT)
def test_the_hint_is_a_gate_that_can_be_read(text: str) -> None:
    with refused("bad-gate") as caught:
        parse_gate(text)
    assert f"write '{MEANT[text]}'" in (caught.value.hint or "")
    assert parse_gate(MEANT[text])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("recal@5 >= 0.85", "did you mean recall@5?"),
        ("recall5 > 0.85", "did you mean recall@5?"),
        ("ndgc@10 drop <= 2%", "did you mean ndcg@10?"),
        ("recall@5 < 0.85", "set a minimum: 'recall@5 >= …'"),
        ("recall@5 >= 85", "85 percent is 0.85 or 85%"),
    ],
)
def test_the_hint_names_what_is_wrong(text: str, hint: str) -> None:
    with pytest.raises(KaratError) as caught:
        parse_gate(text)
    assert caught.value.hint == hint


METRICS = {"recall@5": ("drop", ">=", ""), "mrr": ("drop", ">=", ""), "latency_p90": ("rise", "<=", " ms")}


@given(
    metric=st.sampled_from(sorted(METRICS)),
    number=st.integers(0, 999).map(lambda i: i / 1000),  # a drop by all there is is refused
    regression=st.booleans(),
    on=st.sampled_from(["mean", "bound"]),
    where=st.sampled_from([None, "each", "segment"]),
    value=st.text(alphabet="abcXYZ09-_. ", min_size=1).map(str.strip).filter(bool),
)
def test_a_gate_written_as_text_reads_as_the_same_gate(
    metric: str, number: float, regression: bool, on: str, where: str | None, value: str
) -> None:
    change, sign, unit = METRICS[metric]
    condition = f"{change} <= {number}{unit}" if regression else f"{sign} {number}{unit}"
    place = {None: "", "each": " in each topic", "segment": f" in topic={value}"}[where]
    found = parse_gate(f"{metric} {condition}{place} on {on}")
    field = "regression_max" if regression else "max" if sign == "<=" else "threshold"
    assert found == Gate(
        metric=metric,
        on=on,
        segment={"topic": value} if where == "segment" else None,
        each="topic" if where == "each" else None,
        **{field: number},
    )


@given(st.one_of(st.text(), st.text(alphabet="recall@5 mrr drop<=>0.85%ms in each=on bound")))
def test_any_text_is_a_gate_or_refused(text: str) -> None:
    found: Gate | None = None
    with contextlib.suppress(KaratError):
        found = parse_gate(text)
    assert found is None or found.parsed
