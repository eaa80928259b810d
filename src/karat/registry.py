"""Name → class, from the files of one folder and from other packages' entry points, through one door."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from karat.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Named(Protocol):
    """What can be registered: a class with a `name` of its own."""

    name: str


T = TypeVar("T")


class Registry(Generic[T]):
    """All subclasses of `base` that have a name, found in `package`'s modules and in entry points.

    A built-in is one new file in the package; a plug-in is an entry point of the group named after the
    package. Entry points are looked at only when a name is not built in, or when everything is listed,
    so that a start without plug-ins costs nothing.
    """

    def __init__(self, kind: str, package: str, base: type[T]) -> None:
        self.kind, self.package, self.base = kind, package, base
        self._builtin: dict[str, type[T]] | None = None
        self._plugins: dict[str, type[T]] | None = None

    def builtin(self) -> dict[str, type[T]]:
        if self._builtin is None:
            self._builtin = {}
            folder = importlib.import_module(self.package)
            for module in sorted(m.name for m in pkgutil.iter_modules(folder.__path__)):
                for found in self._named_in(importlib.import_module(f"{self.package}.{module}")):
                    self._builtin[_name(found)] = found
        return self._builtin

    def plugins(self) -> dict[str, type[T]]:
        if self._plugins is None:
            from importlib import metadata  # slow to import, and most runs need no plug-in

            self._plugins = {}
            for point in metadata.entry_points(group=self.package):
                self._plugins[point.name] = self._load(point)
        return self._plugins

    def everything(self) -> dict[str, type[T]]:
        return {**self.plugins(), **self.builtin()}

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
                and issubclass(value, self.base)
                and value.__module__ == module.__name__  # type: ignore[attr-defined]
                and "name" in vars(value)
            ):
                yield value

    def _load(self, point: EntryPoint) -> type[T]:
        try:
            found = point.load()
        except Exception as error:
            raise ConfigError(
                f"the plug-in {point.value!r} ({self.kind} {point.name!r}) cannot be loaded: {error}",
                hint="update or uninstall the package that brings it",
            ) from error
        if not (isinstance(found, type) and issubclass(found, self.base)):
            raise ConfigError(f"the plug-in {point.value!r} is no {self.kind}: it must be a subclass of {self.base}")
        return found


def _name(found: type) -> str:
    return str(vars(found)["name"])
