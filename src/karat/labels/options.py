"""Options for labels in addition to the gold set."""

from __future__ import annotations

from collections.abc import Sequence

from karat.options.option import OptionList, option


class LabelOptions(OptionList):
    """Labels in addition to the gold set, for `read_labelling`."""

    bounds: bool = option(False, "Also show how far labels of unjudged hits could move each score (strict bounds).")
    labels: Sequence[str] = option((), "Judge labels in addition to the gold set.", metavar="FILE", is_input=True)
    gold_labels: Sequence[str] = option(
        (), "Human labels that count as gold. Judge labels in the file are ignored.", metavar="FILE", is_input=True
    )
    calibration: str | None = option(
        None,
        "Correct the judge with human labels for some of its pairs, or a file saved by `karat labels calibrate`.",
        metavar="FILE",
        is_input=True,
    )
    borrow: bool = option(
        False,
        "If too few of the run's own hits have human labels, assume the judge's error rates on other pairs. The "
        "estimate then has no interval.",
        flags=["--borrow-error-rates"],
    )
    pool: str | None = option(None, "Hits of other runs, which count in the bounds.", metavar="POOL", is_input=True)
    max_grade: int = option(2, "Highest grade of the labels.", ge=1, le=9)
    gold_scale: float | None = option(
        None, "Highest grade of the gold set's own scale, which is then rescaled to that of the labels.", gt=0
    )
