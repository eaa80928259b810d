"""What `judge` may be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from karat.llm.options import ModelOptions
from karat.options.option import option


@dataclass(frozen=True, kw_only=True)
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
