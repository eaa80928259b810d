"""What an evaluation may be told of labels beside the gold set, and what `judge` may be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from karat.llm.options import ModelOptions
from karat.options.option import OptionList, option


class LabelOptions(OptionList):
    """Labels beside the gold set, for `read_labelling`."""

    bounds: bool = option(False, "Also how far labels of unjudged hits could move each score: strict bounds.")
    labels: Sequence[str] = option((), "Labels of a judge beside the gold set.", metavar="FILE", is_input=True)
    gold_labels: Sequence[str] = option(
        (), "Labels of people, which count as gold; those of judges in the file do not.", metavar="FILE", is_input=True
    )
    calibration: str | None = option(
        None,
        "Correct the judge: labels of people for some of its pairs, or what `karat labels calibrate` saved.",
        metavar="FILE",
        is_input=True,
    )
    borrow: bool = option(
        False,
        "Where people labelled too few of the run's own hits, assume the judge's error rates on other pairs: an "
        "estimate without an interval.",
        flags=["--borrow-error-rates"],
    )
    pool: str | None = option(None, "What other runs found: counts in the bounds.", metavar="POOL", is_input=True)
    max_grade: int = option(2, "Highest grade of the labels.", ge=1, le=9)
    gold_scale: float | None = option(
        None, "Highest grade of the gold set's own scale, which is then stretched to that of the labels.", gt=0
    )


class JudgeOptions(ModelOptions):
    """How a model is asked, which one, and what it is told."""

    model: str | None = option(None, "Chat model, as the endpoint calls it.", metavar="NAME")
    judge: str | Callable[..., Any] | None = option(
        None, "A function (query, passage) → 0, 1 or 2 instead of a model.", metavar="MODULE:CALLABLE"
    )
    prompt: Any = option(None, "Other instructions for the model.", metavar="FILE", is_input=True)
    corpus: Any = option(None, "Lends passages to pairs that have none.", is_input=True)
    annotator: str | None = option(None, "Name in the labels.", metavar="NAME", instead="the model")
    canaries: int = option(5, "Of each kind, to test the judge.", ge=0)
