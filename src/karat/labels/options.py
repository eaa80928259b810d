"""What an evaluation may be told of labels beside the gold set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from karat.options.option import OptionList, option


@dataclass(frozen=True, kw_only=True)
class LabelOptions(OptionList):
    """Labels beside the gold set, for `read_labelling`."""

    bounds: bool = option(False, "Also how far labels of unjudged hits could move each score: strict bounds.")
    labels: Sequence[str] = option((), "Labels of a judge beside the gold set.", metavar="FILE", is_input=True)
    calibration: str | None = option(
        None,
        "Correct the judge: labels of people for some of its pairs, or what `karat calibrate` saved.",
        metavar="FILE",
        is_input=True,
    )
    pool: str | None = option(None, "What other runs found: counts in the bounds.", metavar="POOL", is_input=True)
    max_grade: int = option(2, "Highest grade of the labels.", ge=1, le=9)
