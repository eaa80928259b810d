"""Find classes by name in a folder and in entry points, and your own code by `module:callable`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from karat.errors import ConfigError, UnknownName, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


T = TypeVar("T")


class Registry(Generic[T]):
    """The named subclasses of `base` in the modules of `package` and in entry points.

    To add a built-in, add a file to the package. A plug-in is an entry point of `group` (default: the package's name)
    whose key is the name of the class. Entry points are only loaded when a name is not built in, or when everything is
    listed, so a start without plug-ins stays fast.
    """

    def __init__(self, kind: str, package: str, base: type[T], group: str | None = None) -> None:
        self.kind = kind
        self.package = package
        self.base = base
        self.group: str = group or package
        self._builtin: dict[str, type[T]] | None = None
        self._plugins: dict[str, type[T]] | None = None

    def builtin(self) -> dict[str, type[T]]:
        if self._builtin is None:
            found: dict[str, type[T]] = {}
            folder = importlib.import_module(self.package)
            for name in sorted(m.name for m in pkgutil.iter_modules(folder.__path__)):
                path = f"{self.package}.{name}"
                with _loading(f"{path} cannot be loaded", "not-importable", "fix the file, or remove it", path):
                    module = importlib.import_module(path)
                for thing in self._named_in(module):
                    other = found.setdefault(_name(thing), thing)
                    if other is not thing:
                        raise self._clash(_name(thing), other.__module__, thing.__module__)
            self._builtin = found
        return self._builtin

    def plugins(self) -> dict[str, type[T]]:
        if self._plugins is None:
            self._plugins = {name: self._load(point) for name, point in self._entry_points().items()}
        return self._plugins

    def refuse_clashes(self) -> None:
        """Raise ConfigError if two plug-ins, or a plug-in and a built-in, have the same name."""
        self._entry_points()

    def everything(self) -> dict[str, type[T]]:
        return {**self.builtin(), **self.plugins()}

    def get(self, name: str) -> type[T] | None:
        return self.builtin().get(name) or self.plugins().get(name)

    def require(self, name: str) -> type[T]:
        found = self.get(name)
        if found is None:
            raise UnknownName(self.kind, name, sorted(self.everything()))
        return found

    def _named_in(self, module: object) -> Iterator[type[T]]:
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and value.__module__ == module.__name__  # type: ignore[attr-defined]
                and "name" in vars(value)
                and issubclass(value, self.base)  # last: it is slow for abstract classes
            ):
                yield value

    def _entry_points(self) -> dict[str, EntryPoint]:
        if not _may_have_plugins(tuple(sys.path)):
            return {}
        from importlib import metadata

        found: dict[str, EntryPoint] = {}
        for point in metadata.entry_points(group=self.group):
            other = found.setdefault(point.name, point)
            if other.value != point.value:
                raise self._clash(point.name, f"the plug-in {other.value!r}", f"the plug-in {point.value!r}")
            if point.name in self.builtin():
                module = self.builtin()[point.name].__module__
                raise self._clash(point.name, f"the built-in in {module}", f"the plug-in {point.value!r}")
        return found

    def _clash(self, name: str, first: str, second: str) -> ConfigError:
        return ConfigError(
            f"two {self.kind}s are called {name!r}: {first} and {second}",
            code="duplicate-name",
            hint="rename one of them; for a plug-in, change both the entry-point key and the `name` of its class",
        )

    def _load(self, point: EntryPoint) -> type[T]:
        what = f"the plug-in {point.value!r} ({self.kind} {point.name!r}) cannot be loaded"
        with _loading(what, "bad-plugin", "update or uninstall its package"):
            found = point.load()
        if not (isinstance(found, type) and issubclass(found, self.base)):
            what = f"the plug-in {point.value!r} is not a valid {self.kind}"
            expected = f"a subclass of {self.base.__module__}.{self.base.__name__}"
            raise ConfigError(what, code="bad-plugin", expected=expected, got=found)
        if getattr(found, "name", None) != point.name:
            raise ConfigError(
                f"the plug-in {point.value!r} has two names: its entry-point key is {point.name!r}, "
                f"its class says name = {getattr(found, 'name', None)!r}",
                code="bad-plugin",
                hint="make them equal",
            )
        return found


@contextmanager
def _loading(what: str, code: str, hint: str, module: str | None = None) -> Iterator[None]:
    """Raise ConfigError for anything that loading code raises, with the file of `module`."""
    try:
        yield
    except Exception as error:
        file = None if module is None else getattr(importlib.util.find_spec(module), "origin", None)
        cause = f"{what}: {type(error).__name__}: {error}"
        raise ConfigError(cause, code=code, file=file, hint=hint) from error


@cache
def _may_have_plugins(path: tuple[str, ...]) -> bool:
    """Return whether an installed package may have an entry point for Karat. Importing `importlib.metadata` to find out
    takes longer than evaluating a small run."""
    for folder in path:
        try:
            names = os.listdir(folder or ".")
        except NotADirectoryError:
            return True  # an archive may have some
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info", ".egg")):
                with suppress(OSError), open(os.path.join(folder, name, "entry_points.txt"), "rb") as stream:
                    if b"[karat." in stream.read():
                        return True
    return False


def _name(found: type) -> str:
    return str(vars(found)["name"])


def load_callable(given: Any) -> Any:
    """Load `module:callable`, also from the working directory; anything else is returned unchanged."""
    if not isinstance(given, str):
        return given
    module, _, path = given.partition(":")
    if not module or not path:
        raise ConfigError(f"{given!r} is not a callable", code="bad-callable", expected="module:callable")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    hint = "run karat in the folder of the code, or install the code"
    with _loading(f"the module {module!r} cannot be imported", "not-importable", hint):
        found: Any = importlib.import_module(module)
    for part in path.split("."):
        if not hasattr(found, part):
            public = [name for name in dir(found) if not name.startswith("_")]
            raise ConfigError(f"{module!r} has no {path!r}", code="unknown-callable", hint=did_you_mean(part, public))
        found = getattr(found, part)
    return found


def made_by(factory: Any, hint: str) -> Any:
    """Call a class or function without arguments; anything that it raises becomes a ConfigError."""
    with _loading(f"calling {title_of(factory)} failed", "not-made", hint):
        return factory()


def title_of(given: Any) -> str:
    """Return `module:callable` of an object, or of its type."""
    if isinstance(given, str):
        return given
    kind = given if hasattr(given, "__qualname__") else type(given)
    return f"{getattr(kind, '__module__', None) or 'builtins'}:{kind.__qualname__}"
