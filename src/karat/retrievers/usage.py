"""What a call to a model used, as the run log has it: that is what cost is counted from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from karat.retrievers.templates import value_at

Used: TypeAlias = list[dict[str, Any]]  # entries of `usage` in a run log

# Where services tell it: OpenAI and vLLM, Jina and Voyage, Cohere.
_PROMPT = ("usage.prompt_tokens", "usage.total_tokens", "meta.tokens.input_tokens", "meta.billed_units.input_tokens")
_COMPLETION = ("usage.completion_tokens", "meta.tokens.output_tokens")
_CALLS = ("meta.billed_units.search_units",)  # what Cohere counts, and is paid for, as one

_MOST = 2**53  # of anything, in a run log


def used_by(stage: str, model: str, content: Any) -> dict[str, Any]:
    """One call, with what its answer tells; what it does not tell is left out.

    >>> used_by("embed", "small", {"data": [], "usage": {"prompt_tokens": 21, "total_tokens": 21}})
    {'stage': 'embed', 'model': 'small', 'prompt_tokens': 21, 'calls': 1}
    """
    told = {"prompt_tokens": _told(content, _PROMPT), "completion_tokens": _told(content, _COMPLETION)}
    counted = {name: count for name, count in told.items() if count is not None}
    return {"stage": stage, "model": model, **counted, "calls": _told(content, _CALLS) or 1}


def _told(content: Any, paths: Iterable[str]) -> int | None:
    found = (value_at(content, path) for path in paths)
    # Some write whole numbers as 21.0; what no log may hold is not told.
    return next((int(n) for n in found if type(n) in (int, float) and 0 <= n <= _MOST and n % 1 == 0), None)


def as_field(used: Used) -> dict[str, Any]:
    """The field of the run log; nothing where no model was called."""
    return {"usage": used} if used else {}
