"""Options for requests to models, shared by Python and the command line."""

from __future__ import annotations

from os import PathLike
from typing import Any

from karat.options.option import OptionList, option


class ModelOptions(OptionList):
    """Options for requests to a model."""

    base_url: str | None = option(
        None, "OpenAI-compatible endpoint.", metavar="URL", instead="OPENAI_BASE_URL, else OpenAI"
    )
    workers: int = option(8, "Concurrent requests.", ge=1)
    timeout: float = option(60.0, "Seconds per attempt.", gt=0, metavar="S")
    retries: int = option(5, "Retries after errors.", ge=0)
    prices: Any = option(
        None, "Price table, to estimate the cost.", metavar="FILE", instead="from karat.yaml", is_input=True
    )
    cache: str | PathLike[str] | None = option(
        None, "Cache of replies.", metavar="FILE", instead=".karat/llm-cache.sqlite"
    )
    fresh: bool = option(False, "Ignore cached replies.")
    seed: int = option(0, "Seed of random samples.")
