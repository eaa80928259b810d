"""Count as another tool does: its choices where tools differ, as options and as parameters of metrics.

`docs/comparability.md` lists the choices; `tests/parity/test_like.py` holds each tool's against the tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metrics, split_names


class Peer(msgspec.Struct, frozen=True):
    """The choices of one tool."""

    options: Mapping[str, Any]
    parameters: Mapping[str, Mapping[str, str]] = {}  # of metrics that do not say them
    panel: tuple[str, ...] = ()  # what is measured where nothing is named; empty: the usual panel


_LINEAR = {"ndcg": {"gain": "linear"}}
_DEEP = 1000  # ragas has no cutoff: deeper than the lists it is given

PEERS: dict[str, Peer] = {
    "trec_eval": Peer({"missing": "skip", "ties": "id", "score_width": 32, "no_relevant": "zero"}, _LINEAR),
    "ranx": Peer({"missing": "worst", "ties": "listed", "score_width": 64, "no_relevant": "zero"}, _LINEAR),
    "ir_measures": Peer({"missing": "worst", "ties": "id", "score_width": 32, "no_relevant": "zero"}, _LINEAR),
    "ragas": Peer(
        {"missing": "skip", "ties": "listed", "score_width": 64, "no_relevant": "zero"},
        {"precision": {"by": "returned"}, "map": {"by": "found"}},
        (f"precision@{_DEEP}", f"recall@{_DEEP}", "map"),
    ),
}
# Names that say a parameter which their metric leaves out, because it is the default.
_EXPLICIT = ("ndcg_exp", "ndcg_burges", "gain=", "by=")


def options_like(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with those of the tool that `like` names; whatever else is given wins."""
    peer = PEERS.get(options.get("like") or "")
    return dict(options) if peer is None else {**peer.options, **options}


def metrics_like(like: str | None, metrics: Iterable[str | Metric] | None, panel: Iterable[str]) -> list[Metric]:
    """The metrics asked for, else the panel, with a tool's parameters where a text leaves them open.

    >>> [str(metric) for metric in metrics_like("trec_eval", ["ndcg@10", "ndcg(gain=exp)@10", "map"], [])]
    ['ndcg(gain=linear)@10', 'ndcg@10', 'map']
    """
    if like is None:
        return parse_metrics(panel if metrics is None else metrics)
    asked = split_names((PEERS[like].panel or panel) if metrics is None else metrics)
    return list(dict.fromkeys(_like(PEERS[like], text) for text in asked))


def _like(peer: Peer, text: str | Metric) -> Metric:
    (metric,) = parse_metrics([text])
    if isinstance(text, Metric) or any(said in text.lower().replace(" ", "") for said in _EXPLICIT):
        return metric
    return msgspec.structs.replace(metric, **peer.parameters.get(metric.name, {}))
