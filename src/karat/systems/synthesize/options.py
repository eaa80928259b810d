"""Options of `synthesize`."""

from __future__ import annotations

from karat.llm.options import ModelOptions
from karat.options.option import option


class SynthesisOptions(ModelOptions):
    """Options of `synthesize`, including those for requests to a model."""

    model: str = option(about="Name of the chat model at the endpoint.", metavar="NAME")
    n: int = option(200, "Number of queries.", ge=1, flags=["-n"])
    variants: int = option(2, "With --paraphrase: variants of each query.", ge=1, le=8)
    no_answer_share: float = option(0.1, "Share of queries that no chunk answers.", ge=0, le=1)
