"""How a model is asked: the options that all who ask one share, in Python and on the command line."""

from __future__ import annotations

from os import PathLike
from typing import Any

from karat.options.option import OptionList, option


class ModelOptions(OptionList):
    """How a model is asked."""

    base_url: str | None = option(
        None, "OpenAI-compatible endpoint.", metavar="URL", instead="OPENAI_BASE_URL, else OpenAI"
    )
    workers: int = option(8, "Requests at once.", ge=1)
    timeout: float = option(60.0, "Seconds for one try.", gt=0, metavar="S")
    retries: int = option(5, "More tries after faults.", ge=0)
    prices: Any = option(
        None, "Price table, for the cost.", metavar="FILE", instead="that of karat.yaml", is_input=True
    )
    cache: str | PathLike[str] | None = option(
        None, "All answers so far.", metavar="FILE", instead=".karat/llm-cache.sqlite"
    )
    fresh: bool = option(False, "Ask again what the cache could answer.")
    seed: int = option(0, "The same seed draws the same.")
