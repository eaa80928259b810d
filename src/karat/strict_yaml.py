"""A YAML file of settings as a struct; whatever is wrong with it is told with its line and column."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as File
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from karat.errors import ConfigError, InputError, did_you_mean
from karat.yaml_io import KEY, Path, Places, load_yaml_places

S = TypeVar("S", bound=msgspec.Struct)

_AT = re.compile(r" - at `\$([^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.S)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_TYPE = re.compile(r"Expected `(.*)`, got `(.*)`")
_BOUND = re.compile(r"Expected `\w+` (>=|<=) (\S+)")
_NAMES = {"float": "number", "str": "text", "int": "whole number", "object": "mapping", "array": "list"}
_OPEN = "..."  # how msgspec calls a key of a mapping, whichever it is


@dataclass(frozen=True)
class Document:
    """What a file holds, and where."""

    file: str | None  # None: from memory, where there are no lines
    value: Any
    places: Places

    def line(self, path: Path) -> int:
        return self._place(path)[0]

    def placed(self, problem: ConfigError, path: Path) -> ConfigError:
        """A problem with what stands at a path."""
        if self.file is not None:
            problem.file = self.file
            problem.line, problem.column = self._place(path)
        problem.field = ".".join(str(p) for p in path if p != KEY) or None
        return problem

    def convert(self, kind: type[S]) -> S:
        try:
            return msgspec.convert(self.value, kind)
        except msgspec.ValidationError as error:
            problem, path = _explain(str(error), self.value, kind)
            raise self.placed(problem, path) from error

    def _place(self, path: Path) -> tuple[int, int]:
        """Of a value, or of the next thing around it: what comes through a merge key has no place of its own."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))


def read_document(file: File) -> Document:
    try:
        text = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(file)) from error
    try:
        value, places = load_yaml_places(text, str(file))
    except InputError as error:
        raise ConfigError(error.what, file=error.file, line=error.line, column=error.column, hint=error.hint) from error
    return Document(str(file), value, places)


def _explain(message: str, value: Any, kind: Any) -> tuple[ConfigError, Path]:
    """What msgspec found, in the words of the file, and where."""
    found = _AT.search(message)
    path, text = _path(found[1] if found else ""), message[: found.start()] if found else message
    if _OPEN in path:
        return _explain_entry(path[: path.index(_OPEN)], value, kind)
    kinds, got = [part for k in _kinds_at(kind, path) for part in _parts(k)], _at(value, path)
    if unknown := _UNKNOWN.match(text):
        known = [name for k in kinds for name in getattr(k, "__struct_fields__", ())]
        problem = ConfigError(f"unknown field {unknown[1]!r}", hint=did_you_mean(unknown[1], known))
        return problem, (*path, unknown[1], KEY)
    if missing := _MISSING.match(text):
        return ConfigError(f"the field {missing[1]!r} is missing"), path
    if wanted := _TYPE.match(text):
        expected = " or ".join(_NAMES.get(k, k) for k in wanted[1].split(" | ") if k != "null")
        hint = "write a plain number, such as 0.85" if "float" in wanted[1] and isinstance(got, str) else None
        return ConfigError("wrong type", expected=expected, got=got, hint=hint), path
    if bound := _BOUND.match(text):
        more = "or more" if bound[1] == ">=" else "or less"
        return ConfigError("out of range", expected=f"{float(bound[2]):g} {more}", got=got), path
    if text.startswith("Invalid enum value"):
        choices = [str(choice) for k in kinds if get_origin(k) is Literal for choice in get_args(k)]
        expected = " or ".join(part for part in (", ".join(choices[:-1]), *choices[-1:]) if part)
        return ConfigError("unknown choice", expected=expected, got=got, hint=did_you_mean(str(got), choices)), path
    return ConfigError(text), path


def _explain_entry(path: Path, value: Any, kind: Any) -> tuple[ConfigError, Path]:
    """What is wrong inside of a mapping: its first entry that is refused for itself."""
    (entry_kind,) = _kinds_at(kind, (*path, _OPEN))
    for key, entry in _at(value, path).items():
        try:
            msgspec.convert(entry, entry_kind)
        except msgspec.ValidationError as error:
            problem, inner = _explain(str(error), entry, entry_kind)
            return problem, (*path, key, *inner)
    raise AssertionError("an entry was refused, and none of them is")


def _path(text: str) -> Path:
    parts = re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", text)
    return tuple(name or (_OPEN if number == _OPEN else int(number)) for name, number in parts)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _kinds_at(kind: Any, path: Path) -> Iterator[Any]:
    """What may stand at a path of a value of this kind."""
    if not path:
        yield kind
        return
    for part in _parts(kind):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            inner = {field.encode_name: field.type for field in msgspec.structs.fields(part)}
            if path[0] in inner:
                yield from _kinds_at(inner[str(path[0])], path[1:])
        elif get_origin(part) in (list, dict):
            yield from _kinds_at(get_args(part)[-1], path[1:])


def _parts(kind: Any) -> Iterator[Any]:
    """The kinds that a union is made of."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        for part in get_args(kind):
            yield from _parts(part)
    else:
        yield kind
