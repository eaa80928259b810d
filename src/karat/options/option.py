"""An option is a field of a frozen dataclass that says what it is for, what it may be, and how a command names it.

Checks, signatures, documentation, command-line options and saved settings follow from such a list. The command line
looks at the lists at every start, so nothing heavy is imported here, nor by the modules that hold them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, wraps
from numbers import Integral, Real
from operator import ge, gt, le, lt
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from karat.errors import ConfigError, UnknownName

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")
LARGEST = 2**53  # of whole numbers: larger ones are no exact floats, and fit no saved file


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option. Lists of them are made with `option`."""

    name: str
    type: Any
    default: Any  # MISSING: it must be given
    about: str
    ge: float | None = None  # what a number may be
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    wrong: str | None = None  # what an error says
    code: str | None = None  # of the error; default: that of any bad setting
    expected: str | None = None
    flags: Sequence[str] | None = None  # on the command line; default: its name; empty: not there
    metavar: str | None = None
    instead: str | None = None  # what a command takes where the option is not given, if that is not the default
    is_input: bool = False  # names a file that is read, and that no output may replace

    @property
    def plain_type(self) -> Any:
        """Without None, which stands for an option that is not given."""
        given = [each for each in get_args(self.type) if each is not NoneType]
        return given[0] if NoneType in get_args(self.type) and len(given) == 1 else self.type

    @property
    def choices(self) -> tuple[Any, ...]:
        return get_args(self.plain_type) if get_origin(self.plain_type) is Literal else ()

    @property
    def repeats(self) -> bool:
        return isinstance(get_origin(self.plain_type), type) and issubclass(get_origin(self.plain_type), Iterable)

    @property
    def limits(self) -> list[float | None]:
        return [self.ge, self.gt, self.le, self.lt]

    def check(self, value: Any) -> None:
        """Raises ConfigError for a value that it cannot have."""
        if value is None and self.default is None:
            return
        if self.plain_type is int and isinstance(value, Integral) and not -LARGEST <= int(value) <= LARGEST:
            raise ConfigError(f"{self.name} is too large", code=self.code, expected=f"at most {LARGEST:,}", got=value)
        if not self._fits(value):
            wrong = self.wrong or f"{self.name} is out of range"
            raise ConfigError(wrong, code=self.code, expected=self.expected or self._expected(), got=value)

    def _fits(self, value: Any) -> bool:
        kind = self.plain_type
        if self.choices:
            return value in self.choices
        if kind not in (int, float):
            return True
        if not isinstance(value, (Integral if kind is int else Real)):
            return False
        number, checks = float(value), zip(self.limits, (ge, gt, le, lt), strict=True)
        return math.isfinite(number) and all(end is None or holds(number, end) for end, holds in checks)

    def _expected(self) -> str:
        if self.choices:
            *others, last = map(str, self.choices)
            return f"{', '.join(others)} or {last}"
        ends = {"above": self.gt, "at least": self.ge, "under": self.lt, "at most": self.le}
        said = [f"{words} {end:,g}" for words, end in ends.items() if end is not None]
        if said and said[0].startswith("at least") and len(said) == 1:
            return f"{self.ge:,g} or more"
        return ", ".join(said) or (
            f"a whole number of at most {LARGEST:,}" if self.plain_type is int else "a finite number"
        )


def option(default: Any = MISSING, about: str = "", **more: Any) -> Any:
    """A field of a list of options; `more` is as in `Option`."""
    return field(default=default, metadata={"about": about, **more})


def options_in(kind: type) -> dict[str, Option]:
    """Every option of a list, by name."""
    return _options_in(kind)


@cache
def _options_in(kind: type) -> dict[str, Option]:
    types = get_type_hints(kind)
    return {
        each.name: Option(name=each.name, type=types[each.name], default=each.default, **{"about": "", **each.metadata})
        for each in fields(kind)
    }


class OptionList:
    """Base of every list of options: a value that an option cannot have is refused."""

    def __post_init__(self) -> None:
        kind: type = type(self)
        for each in _with_limits(kind):
            each.check(getattr(self, each.name))


@cache
def _with_limits(kind: type) -> list[Option]:
    return [each for each in options_in(kind).values() if each.choices or each.plain_type in (int, float)]


def values_of(options: Any) -> dict[str, Any]:
    """The values of a list, by name; what a file keeps of it."""
    return {each.name: getattr(options, each.name) for each in fields(options)}


def part_of(options: Any, kind: type[K], **more: Any) -> K:
    """The options that a shorter list has, too; `more`: others."""
    taken = {name: value for name, value in values_of(options).items() if name in options_in(kind)}
    return kind(**{**taken, **more})


class UnknownOption(UnknownName, TypeError):
    """A keyword that a function does not take."""


def takes(kind: type) -> Callable[[F], F]:
    """The `**options` of a function are those of a list: its signature and documentation show each of them, and a name
    that is not among them is refused with the nearest that is."""

    def decorate(function: F) -> F:
        *named, _ = inspect.signature(function).parameters.values()
        options = {name: each for name, each in options_in(kind).items() if name not in {one.name for one in named}}
        known = {*options, *(each.name for each in named if each.kind is inspect.Parameter.KEYWORD_ONLY)}

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs.keys() - known - {each.name for each in named}:
                raise UnknownOption("option", name, sorted(known))
            return function(*args, **kwargs)

        called.__signature__ = _signature(function, named, options)  # type: ignore[attr-defined]
        called.__doc__ = _documented(function.__doc__, options)
        return called  # type: ignore[return-value]

    return decorate


def _signature(
    function: Callable[..., Any], named: list[inspect.Parameter], options: dict[str, Option]
) -> inspect.Signature:
    said = {name: hint for name, hint in function.__annotations__.items() if name != "options"}
    try:
        hints = get_type_hints(type("", (), {"__annotations__": said}), vars(inspect.getmodule(function)))
    except NameError:  # of a type that only type checkers load
        hints = said
    parameters = [each.replace(annotation=hints.get(each.name, each.empty)) for each in named]
    for each in options.values():
        default = inspect.Parameter.empty if each.default is MISSING else each.default
        parameters.append(
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=each.type)
        )
    return inspect.Signature(parameters, return_annotation=hints.get("return", inspect.Signature.empty))


def _documented(text: str | None, options: dict[str, Option]) -> str | None:
    if text is None:  # python -OO
        return None
    lines = [f"- `{each.name}`: {each.about}" for each in options.values() if each.about]
    return inspect.cleandoc(text) + "\n\nOptions:\n\n" + "\n".join(lines) + "\n"
