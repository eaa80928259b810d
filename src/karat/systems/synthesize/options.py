"""What `synthesize` may be told."""

from __future__ import annotations

from karat.llm.options import ModelOptions
from karat.options.option import option


class SynthesisOptions(ModelOptions):
    """How a model is asked, which one, and for how many queries."""

    model: str = option(about="Chat model, as the endpoint calls it.", metavar="NAME")
    n: int = option(200, "Queries.", ge=1, flags=["-n"])
    no_answer_share: float = option(0.1, "Share of queries that no chunk answers.", ge=0, le=1)
