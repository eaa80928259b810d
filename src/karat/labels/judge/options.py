"""Options for `judge`. Apart from those of other labels, which every evaluation loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from karat.llm.options import ModelOptions
from karat.options.option import option


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
