"""Options for labels in addition to the gold set, and for `judge`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from karat.llm.options import ModelOptions
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


class JudgeOptions(ModelOptions):
    """Which model judges, how it is called, and its prompt."""

    model: str | None = option(None, "Name of the chat model at the endpoint.", metavar="NAME")
    judge: str | Callable[..., Any] | None = option(
        None, "Function (query, passage) → 0, 1 or 2, instead of a model.", metavar="MODULE:CALLABLE"
    )
    prompt: Any = option(None, "File with your own instructions for the model.", metavar="FILE", is_input=True)
    corpus: Any = option(None, "Provides passages for pairs that have none.", is_input=True)
    annotator: str | None = option(None, "Annotator name in the labels.", metavar="NAME", instead="the model")
    canaries: int = option(5, "Number of test pairs of each kind, to test the judge.", ge=0)
