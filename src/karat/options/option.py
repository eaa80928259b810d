"""Options in lists: each attribute of a list describes one option, its limits and its flags.

Checks, signatures, documentation, command-line options and saved settings derive from these lists. The command line
loads them at every start, so this module and those with lists import nothing slow.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, partial, wraps
from numbers import Integral, Real
from operator import ge, gt, le, lt
from types import NoneType
from typing import Any, Literal, Self, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

from karat.errors import ConfigError, UnknownName
from karat.errors.spelling import learn

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")
LARGEST = 2**53  # larger whole numbers are not exact as floats, and cannot be saved
MISSING: Any = object()  # the default of a required option


class Option:
    """One option. Create it with `option`."""

    name: str
    _list: type

    def __init__(
        self,
        default: Any,
        about: str,
        *,
        ge: float | None = None,  # limits of a number
        gt: float | None = None,
        le: float | None = None,
        lt: float | None = None,
        wrong: str | None = None,  # message of the error
        code: str | None = None,  # of the error; default: that of ConfigError
        expected: str | None = None,
        flags: Sequence[str] | None = None,  # on the command line; default: its name; empty: none
        metavar: str | None = None,
        instead: str | None = None,  # shown as the default, if it is not `default`
        is_input: bool = False,  # names an input file, which no output may overwrite
    ) -> None:
        self.default = default
        self.about = about
        self.ge = ge
        self.gt = gt
        self.le = le
        self.lt = lt
        self.wrong = wrong
        self.code = code
        self.expected = expected
        self.flags = flags
        self.metavar = metavar
        self.instead = instead
        self.is_input = is_input

    def __set_name__(self, owner: type, name: str) -> None:
        self._list, self.name = owner, name

    @property
    def written_type(self) -> str:
        """The annotation as written in the list."""
        return str(self._list.__annotations__[self.name])

    @cached_property
    def type(self) -> Any:
        return _types_in(self._list)[self.name]

    @cached_property
    def plain_type(self) -> Any:
        """The type without None, which means that the option is not given."""
        given = [each for each in get_args(self.type) if each is not NoneType]
        return given[0] if NoneType in get_args(self.type) and len(given) == 1 else self.type

    @cached_property
    def choices(self) -> tuple[Any, ...]:
        return get_args(self.plain_type) if get_origin(self.plain_type) is Literal else ()

    @property
    def typed(self) -> list[str]:
        """How it is written on the command line."""
        return ["--" + self.name.replace("_", "-")] if self.flags is None else [*self.flags]

    @property
    def repeats(self) -> bool:
        return isinstance(get_origin(self.plain_type), type) and issubclass(get_origin(self.plain_type), Iterable)

    @property
    def limits(self) -> list[float | None]:
        return [self.ge, self.gt, self.le, self.lt]

    def check(self, value: Any) -> None:
        """Raise ConfigError for an invalid value."""
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
        if type(value) is not kind and not isinstance(value, (Integral if kind is int else Real)):
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


@cache
def _types_in(kind: type) -> dict[str, Any]:
    """As `get_type_hints`, but annotations that are written alike are compiled once: most of them are."""
    lists = [(one, vars(one).get("__annotations__", {})) for one in reversed(kind.__mro__)]
    return {name: _type(written, one.__module__) for one, said in lists for name, written in said.items()}


@cache
def _type(written: str, module: str) -> Any:
    return eval(written, vars(sys.modules[module]))


def option(default: Any = MISSING, about: str = "", **more: Any) -> Any:
    """Declare an option of a list; `more`: as in `Option`."""
    return Option(default, about, **more)


@dataclass_transform(frozen_default=True)
class OptionList:
    """Base of all option lists. They are immutable, and invalid values are errors.

    Not a dataclass, because Python would generate and compile six methods per list at every start.
    """

    def __init__(self, *ordered: Any, **named: Any) -> None:
        known = options_in(type(self))
        given = {**dict(zip(known, ordered, strict=False)), **named}
        if len(given) < len(ordered) + len(named) or given.keys() - known:
            raise TypeError(f"{type(self).__name__} accepts each of these once: {', '.join(known)}")
        values = {name: given.get(name, each.default) for name, each in known.items()}
        if lacking := [name for name, value in values.items() if value is MISSING]:
            raise TypeError(f"{type(self).__name__} needs {', '.join(lacking)}")
        vars(self).update(values)
        self.check()

    def check(self) -> None:
        """Raise ConfigError for an invalid value."""
        kind: type = type(self)
        for each in _with_limits(kind):
            each.check(getattr(self, each.name))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some values changed."""
        return type(self)(**{**values_of(self), **changes})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; use replace()")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and values_of(self) == values_of(other)

    def __hash__(self) -> int:
        return hash(tuple(values_of(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values_of(self).items())})"


@cache
def _options_of(kind: type) -> dict[str, Option]:
    lists = reversed(kind.__mro__)  # options of a base come first
    return {name: each for one in lists for name, each in vars(one).items() if isinstance(each, Option)}


def options_in(kind: type) -> dict[str, Option]:
    """Return the options of a list by name."""
    return _options_of(kind)


@cache
def _with_limits(kind: type) -> list[Option]:
    return [each for each in options_in(kind).values() if each.choices or each.plain_type in (int, float)]


def values_of(options: Any) -> dict[str, Any]:
    """Return the values of a list by name, as they are saved."""
    return {name: getattr(options, name) for name in options_in(type(options))}


def part_of(options: Any, kind: type[K], **more: Any) -> K:
    """Return a shorter list with the values that both have; `more`: other values."""
    taken = {name: value for name, value in values_of(options).items() if name in options_in(kind)}
    return kind(**{**taken, **more})


class UnknownOption(UnknownName, TypeError):
    """A keyword that a function does not accept. `typed`: options of the command line, which may have other names."""

    def __init__(self, name: str, known: list[str], typed: dict[str, str]) -> None:
        super().__init__("option", name, known)
        same = typed.get("--" + name.replace("_", "-"))
        self.hint: str | None = self.hint if same is None else f"in Python it is {same}="


def takes(kind: type, **renamed: str) -> Callable[[F], F]:
    """Declare that the `**options` of a function come from a list: signature and documentation show each of them, and
    an unknown name is an error that suggests the nearest one. `renamed`: names that callers may try → the right one."""

    def decorate(function: F) -> F:
        *named, _ = inspect.signature(function).parameters.values()
        options = {name: each for name, each in options_in(kind).items() if name not in {one.name for one in named}}
        known = {*options, *(each.name for each in named)}
        typed = {flag: each for each in options.values() for flag in each.typed}
        names = {flag: each.name for flag, each in typed.items()}
        names |= {f"--{name}": right for name, right in renamed.items()}
        for flag, each in typed.items():
            learn(flag, each.name, partial(_values, each))
        for parameter in named:
            learn("--" + parameter.name.replace("_", "-"), parameter.name, partial(_values, parameter))

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs.keys() - known:
                raise UnknownOption(name, sorted(known), names)
            return function(*args, **kwargs)

        called.__signature__ = _signature(function, named, options)  # type: ignore[attr-defined]
        called.__doc__ = _documented(function.__doc__, options)
        return called  # type: ignore[return-value]

    return decorate


def _values(of: Option | inspect.Parameter) -> tuple[Any, ...]:
    """What may follow it in a message: True for a switch, or its choices."""
    return (True,) if of.default is False else of.choices if isinstance(of, Option) else ()


def _signature(
    function: Callable[..., Any], named: list[inspect.Parameter], options: dict[str, Option]
) -> inspect.Signature:
    said = {name: hint for name, hint in function.__annotations__.items() if name != "options"}
    try:
        hints = get_type_hints(type("", (), {"__annotations__": said}), vars(inspect.getmodule(function)))
    except NameError:  # a type imported only for type checkers
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
