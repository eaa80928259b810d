"""Why a metric has no judge-calibrated estimate, as data and in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from karat.results.numbers import listed
from karat.statistics.calibration import FEW

_NO_ESTIMATE = "No judge-calibrated estimate"


class NoEstimate(msgspec.Struct, frozen=True):
    """Why a metric has no judge-calibrated estimate."""

    metric: str
    code: Literal[
        "few-own-labels",
        "other-pairs",
        "nothing-to-borrow",
        "drawn-elsewhere",  # people labelled other pairs of the judge rather than this run's hits
        "uneven-ranks",  # people looked at some ranks more than at others, with too few labels to allow for it
        "not-shown",  # people saw nothing below `depth`
        "unlabelled-hits",  # a hit of the top k that nobody labelled
        "unequal-chances",
    ]
    hits: int  # of the run that only the judge has labelled
    called: Literal["relevant", "irrelevant"] | None = None  # by the judge: which hits lack labels by people most
    labelled: int = 0  # hits of that kind that people labelled
    needed: int = FEW
    depth: int | None = None


def why_no_estimate(refused: Iterable[NoEstimate], k: int | None = None) -> Iterator[str]:
    """One text for all metrics with the same reason, and what to type."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for row in refused:
        alike.setdefault((row.code, row.called, row.labelled, row.needed, row.depth), []).append(row.metric)
    borrow = " To assume that the judge errs here as on other pairs, use `karat eval --borrow-error-rates`."
    for (code, called, labelled, needed, depth), metrics in alike.items():
        depths = [int(at) for metric in metrics if (at := metric.rpartition("@")[2]).isdigit()] or [k or 0]
        cutoff = f" --depth {max(depths)}" if max(depths) else ""
        draw = f" `karat labels pool RUN --gold GOLD{cutoff} --sample 200 -o pool.jsonl` draws hits to label."
        linear = borrow if any(not metric.startswith("ndcg") for metric in metrics) else ""
        ways = dict.fromkeys(("few-own-labels", "other-pairs", "drawn-elsewhere", "uneven-ranks"), draw + linear)
        ways |= {"not-shown": draw}
        kind = f"that the judge calls {called}" if called else "of some grade of the judge, in the top k or below it"
        why = {
            "few-own-labels": f"of the run's own hits {kind}, people labelled {labelled:,}; {needed} are needed.",
            "other-pairs": "people labelled none of the run's own hits.",
            "nothing-to-borrow": f"people labelled fewer than {needed} pairs of some kind, of other hits as well.",
            "drawn-elsewhere": "people labelled fewer of this run's hits than of the judge's other pairs, so their "
            "labels are of another run's hits. Those that both runs found are no fair sample of this one. Give "
            "--calibration only labels that were drawn from this run's hits.",
            "uneven-ranks": "people labelled some ranks far more often than others, and too few hits to allow for it.",
            "not-shown": f"people labelled no hit below rank {depth}, and how the judge errs there is not known.",
            "unlabelled-hits": "some hit of the top k has no label of the judge.",
            "unequal-chances": "people's labels have unequal chances (`inclusion_probability`): not allowed for.",
        }[code]
        yield f"{_NO_ESTIMATE} of {listed(metrics)}: {why}{ways.get(code, '')}"
