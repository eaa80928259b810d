"""Reasons why a metric has no judge-calibrated estimate, as data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from karat.results.numbers import counted, listed
from karat.statistics.calibration import FEW

_NO_ESTIMATE = "No judge-calibrated estimate"
BORROWED = "error rates of other pairs, assumed to hold here"  # the method of an estimate


class NoEstimate(msgspec.Struct, frozen=True):
    """Why a metric has no judge-calibrated estimate."""

    metric: str
    code: Literal[
        "few-own-labels",
        "other-pairs",
        "nothing-to-borrow",
        "drawn-elsewhere",  # humans labelled other pairs of the judge rather than this run's hits
        "uneven-ranks",  # some ranks have more human labels than others, with too few labels to correct for it
        "not-shown",  # no human labels below `depth`
        "unlabelled-hits",  # a hit in the top k has no label
        "unequal-chances",
    ]
    hits: int  # hits of the run that only the judge has labelled
    called: Literal["relevant", "irrelevant"] | None = None  # judge's label of the hits with the fewest human labels
    labelled: int = 0  # hits of that kind with a human label
    needed: int = FEW
    depth: int | None = None


def why_no_estimate(refused: Iterable[NoEstimate], k: int | None = None) -> Iterator[str]:
    """One text for all metrics with the same reason, with what to type."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for row in refused:
        alike.setdefault((row.code, row.called, row.labelled, row.needed, row.depth), []).append(row.metric)
    borrow = " To assume the judge's error rates on other pairs, use `karat eval --borrow-error-rates`."
    for (code, called, labelled, needed, depth), metrics in alike.items():
        depths = [int(at) for metric in metrics if (at := metric.rpartition("@")[2]).isdigit()] or [k or 0]
        cutoff = f" --depth {max(depths)}" if max(depths) else ""
        draw = f" `karat labels pool RUN --gold GOLD{cutoff} --sample 200 -o pool.jsonl` draws hits to label."
        linear = borrow if any(not metric.startswith("ndcg") for metric in metrics) else ""
        ways = dict.fromkeys(("few-own-labels", "other-pairs", "drawn-elsewhere", "uneven-ranks"), draw + linear)
        ways |= {"not-shown": draw}
        kind = f"that the judge calls {called}" if called else "with some judge grade (in the top k or below)"
        why = {
            "few-own-labels": f"the run's own hits {kind} have {counted(labelled, 'human label')}; {needed} needed.",
            "other-pairs": "none of the run's own hits has a human label.",
            "nothing-to-borrow": f"some kind of pair has fewer than {needed} human labels, including other hits.",
            "drawn-elsewhere": "this run's hits have human labels less often than the judge's other pairs, so the "
            "labels come from another run's hits. Hits that both runs found are not a fair sample of this run. Use "
            "--calibration only with labels sampled from this run's hits.",
            "uneven-ranks": "some ranks have far more human labels than others, and too few to correct for it.",
            "not-shown": f"there are no human labels below rank {depth}, so the judge's errors there are unknown.",
            "unlabelled-hits": "some hit in the top k has no judge label.",
            "unequal-chances": "the human labels have unequal `inclusion_probability`, which is not supported here.",
        }[code]
        yield f"{_NO_ESTIMATE} of {listed(metrics)}: {why}{ways.get(code, '')}"
