"""How a model is asked: the options that all who ask one share, in Python and on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from os import PathLike
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar, get_args, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])


class Option(NamedTuple):
    """What is told of an option beside its type; the command line shows it."""

    default: Any
    about: str = ""
    metavar: str | None = None
    least: int | None = None
    instead: str | None = None  # what is taken where the default is none


class ModelOptions(TypedDict, total=False):
    """The one list of them. `spelled_out` fills in the defaults of those that are not given."""

    base_url: Annotated[
        str | None, Option(None, "OpenAI-compatible endpoint.", "URL", instead="OPENAI_BASE_URL, else OpenAI")
    ]
    workers: Annotated[int, Option(8, "Requests at once.", least=1)]
    timeout: Annotated[float, Option(60.0, "Seconds for one try.", "S")]
    retries: Annotated[int, Option(5, "More tries after faults.", least=0)]
    prices: Annotated[Any, Option(None, "Price table, for the cost.", "FILE", instead="that of karat.yaml")]
    cache: Annotated[
        str | PathLike[str] | None, Option(None, "All answers so far.", "FILE", instead=".karat/llm-cache.sqlite")
    ]
    fresh: Annotated[bool, Option(False, "Ask again what the cache could answer.")]
    seed: Annotated[int, Option(0, "The same seed draws the same.")]


def options_in(kind: type) -> dict[str, tuple[Any, Option | None]]:
    """Type and option by name; an option that must be given has nothing told of it."""
    told = get_type_hints(kind, include_extras=True)
    return {
        name: (of, next((each for each in getattr(told[name], "__metadata__", ()) if isinstance(each, Option)), None))
        for name, of in get_type_hints(kind).items()
    }


def spelled_out(function: F) -> F:
    """Takes each of its `**options` by name and with its default, refuses others, and says so in its signature."""
    hints = get_type_hints(function)
    *named, _ = inspect.signature(function).parameters.values()
    parameters = [parameter.replace(annotation=hints.get(parameter.name, parameter.empty)) for parameter in named]
    options = options_in(get_args(hints["options"])[0])
    for name in sorted(options, key=lambda name: name in ModelOptions.__annotations__):  # its own come first
        of, option = options[name]
        default = inspect.Parameter.empty if option is None else option.default
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=of))
    whole = inspect.Signature(parameters, return_annotation=hints["return"])

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = whole.bind(*args, **kwargs)
        given.apply_defaults()
        return function(*given.args, **given.kwargs)

    called.__signature__ = whole  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]
