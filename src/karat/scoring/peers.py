"""Scores like another tool: its choices where tools differ, as options and as parameters of metrics.

`docs/comparability.md` lists the choices; `tests/parity/test_like.py` compares each with the tool itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metrics, split_names
from karat.scoring.options import CountingOptions


class Peer(msgspec.Struct, frozen=True):
    """The choices of one tool."""

    options: Mapping[str, Any]
    parameters: Mapping[str, Mapping[str, str]] = {}  # of metrics that leave them open
    whole: Mapping[str, Mapping[str, str]] = {}  # of metrics without a cutoff
    panel: tuple[str, ...] = ()  # default metrics; empty: the usual panel


_LINEAR = {"ndcg": {"gain": "linear"}}
_DEEP = 1000  # where other tools have no cutoff: deeper than the lists they are given
_WHOLE: dict[str, dict[str, str]] = {"hit": {}, "recall": {}, "ndcg": {}, "precision": {"by": "returned"}}
_OWN_K = r"@\s*k|at[-_]k"  # refers to the configured cutoff

PEERS: dict[str, Peer] = {
    "trec_eval": Peer({"missing": "skip", "ties": "id", "score_width": 32, "no_relevant": "zero"}, _LINEAR, _WHOLE),
    "ranx": Peer({"missing": "worst", "ties": "listed", "score_width": 64, "no_relevant": "zero"}, _LINEAR, _WHOLE),
    "ir_measures": Peer({"missing": "worst", "ties": "id", "score_width": 32, "no_relevant": "zero"}, _LINEAR, _WHOLE),
    "ragas": Peer(
        {"missing": "skip", "ties": "listed", "score_width": 64, "no_relevant": "zero"},
        {"precision": {"by": "returned"}, "map": {"by": "found"}},
        _WHOLE,
        ("precision", "recall", "map"),
    ),
}
# Names that imply a parameter which their metric omits, because it is the default.
_EXPLICIT = ("ndcg_exp", "ndcg_burges", "gain=", "by=")


def options_like(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with those of the tool in `like`; explicit options win."""
    peer = PEERS.get(options.get("like") or "")
    return dict(options) if peer is None else {**peer.options, **options}


def metrics_like(
    like: str | None, metrics: Iterable[str | Metric] | None, panel: Iterable[str], k: int | None = None
) -> list[Metric]:
    """The requested metrics, else the panel, with a tool's parameters where a text leaves them open.

    For other tools `ndcg` is a metric of the whole list. A cutoff `k` other than the default is explicit, and wins.

    >>> [str(metric) for metric in metrics_like("trec_eval", ["ndcg@10", "ndcg(gain=exp)@10", "map"], [])]
    ['ndcg(gain=linear)@10', 'ndcg@10', 'map']
    >>> [str(metric) for metric in metrics_like("ranx", ["ndcg", "precision", "ndcg@k"], [])]
    ['ndcg(gain=linear)@1000', 'precision(by=returned)@1000', 'ndcg(gain=linear)@k']
    """
    if like is None:
        return parse_metrics(panel if metrics is None else metrics)
    asked = split_names((PEERS[like].panel or panel) if metrics is None else metrics)
    whole = k is None or k == CountingOptions().k
    return list(dict.fromkeys(_like(PEERS[like], text, whole) for text in asked))


def _like(peer: Peer, text: str | Metric, whole: bool) -> Metric:
    (metric,) = parse_metrics([text])
    if isinstance(text, Metric):
        return metric
    said, name, given = text.lower().replace(" ", ""), metric.name, dict[str, Any]()
    without = metric.k is None and metric.budget is None and metric.cutoff == "required"
    deep = whole and without and name in peer.whole and not re.search(_OWN_K, said)
    if not any(parameter in said for parameter in _EXPLICIT):
        given = {**(peer.whole[name] if deep else {}), **peer.parameters.get(name, {})}
    return msgspec.structs.replace(metric, **given, **({"k": _DEEP} if deep else {}))
