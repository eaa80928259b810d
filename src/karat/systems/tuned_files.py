"""Files of a tuned setting: its spec as YAML, and its run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from karat.results.numbers import points
from karat.scoring.fusion import Candidates, Ranked
from karat.systems.settings_to_try import Setting, scores_of
from karat.systems.tuning import Tuning

_SYSTEM = "tuned"


def spec_text(found: Tuning) -> str:
    """The recommended setting: options of the retriever `hybrid` if that can do it, else a small form of its own.

    Texts are written as JSON, which is YAML too.
    """
    setting = found.recommended.setting
    lines = [f"# {line}" for line in _about(found)]
    if setting.method == "rrf" and len(setting.weights) == 2:
        lines += [f"# karat run … --k {setting.top_k}"] if setting.top_k is not None else []
        first, second = map(_text, found.lists)
        lines += ["retriever: hybrid", f"first: {first}", f"second: {second}", f"prefetch: {found.prefetch}"]
        lines += [f"constant: {setting.constant:g}", f"weight: {setting.weights[0]:g}"]
    else:
        weights = ", ".join(
            f"{_text(name)}: {weight:g}" for name, weight in zip(found.lists, setting.weights, strict=True) if weight
        )
        lines += ["tuned:", f"  method: {setting.method}", f"  weights: {{{weights}}}", f"  prefetch: {found.prefetch}"]
        more = {"constant": setting.constant, "top_k": setting.top_k, "min_score": setting.min_score}
        lines += [f"  {name}: {value!r}" for name, value in more.items() if value is not None]
    return "\n".join(lines) + "\n"


def _text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _about(found: Tuning) -> Iterator[str]:
    gain = found.gain
    said = points(gain.delta, "pp" if gain.delta is not None else "", (gain.low, gain.high))
    yield f"{found.metric}: {said} on {found.queries:,} held-out queries, over the best simple setting in each fold."
    yield "Tuning is worth it." if found.worth_it else "Tuning is not worth it: this is the best simple setting."


def run_lines(found: Tuning, candidates: Candidates) -> Iterator[bytes]:
    """The run of the recommended setting, as lines of a run log. Hits have their rank, which decides."""
    setting: Setting = found.recommended.setting
    score = scores_of(candidates, setting)
    if setting.method == "list":
        at = setting.weights.index(1.0)
        shown = None if candidates.scores is None else candidates.scores[at]
    else:
        shown = score
    ranked = Ranked.by(candidates, score).cut(setting.top_k)
    start = np.append(0, np.cumsum(candidates.size))
    for query, row in enumerate(candidates.rows.tolist()):
        if not candidates.present[query]:
            continue
        places = ranked.order[query, : ranked.depth[query]].tolist()
        hits = [_hit(candidates, int(start[query]) + place, rank) for rank, place in enumerate(places, 1)]
        if shown is not None:
            for hit, place in zip(hits, places, strict=True):
                hit["score"] = float(shown[query, place])
        record = {"query_id": candidates.gold.queries[row], "system": _SYSTEM, "topk": hits}
        yield json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _hit(candidates: Candidates, at: int, rank: int) -> dict[str, Any]:
    doc = "" if candidates.docs is None else candidates.docs[at]
    return {"chunk_id": candidates.ids[at], "rank": rank, **({"doc_id": doc} if doc else {})}
