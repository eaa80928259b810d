"""`karat.yaml`, found upward from the working directory."""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import msgspec

from karat.errors import ConfigError, InputError, did_you_mean
from karat.files.decode_errors import refusal

_TRUSTED: ContextVar[bool] = ContextVar("trusted", default=False)


class RetrievalConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Settings of the retrieval metrics."""

    default_k: Annotated[int, msgspec.Meta(ge=1)] = 5


class MetricsConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Settings of metrics, by family."""

    retrieval: RetrievalConfig = msgspec.field(default_factory=RetrievalConfig)


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    metrics: MetricsConfig = msgspec.field(default_factory=MetricsConfig)
    prices: str | None = None  # a price table; its path as seen from this file
    map: dict[str, str] | str | None = None  # what the fields of your files are for, as --map says it
    retrievers: dict[str, str | dict[str, Any]] | None = None  # what `karat run` asks, by name
    save: bool = False  # keep every result of `karat eval` and `karat gate` in the history
    store: str | None = None  # where the history is: a folder, its path as seen from this file, or a URL


def fields(kind: type[msgspec.Struct] = Config, above: str = "") -> dict[str, msgspec.structs.FieldInfo]:
    """Every setting there is, by its full name such as `metrics.retrieval.default_k`."""
    found: dict[str, msgspec.structs.FieldInfo] = {}
    for field in msgspec.structs.fields(kind):
        name = f"{above}{field.name}"
        inner = isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
        found |= fields(field.type, f"{name}.") if inner else {name: field}
    return found


def _hint(unknown: str) -> str | None:
    """The setting, or the group of settings, that may have been meant."""
    groups = {name.rsplit(".", dots)[0]: None for name in fields() for dots in range(name.count(".") + 1)}
    return did_you_mean(unknown, groups)


def load_config(start: Path | None = None) -> Config:
    file = config_file(start)
    return Config() if file is None else _read(file)


def config_file(start: Path | None = None) -> Path | None:
    """The one that is read: in this folder, or in the next one above it that has one."""
    folder = (start or Path.cwd()).resolve()
    files = (place / "karat.yaml" for place in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def trust_config() -> None:
    """From now on karat.yaml may name places outside of its own folder, whoever wrote it."""
    _TRUSTED.set(True)


def trusted_store(start: Path | None = None) -> str | None:
    """Where karat.yaml wants the history to be. A server gets the password of the environment, so its address is taken
    only from a file that is trusted."""
    file = config_file(start)
    store = None if file is None else _read(file).store
    if file is not None and store is not None and not _is_below(store, file.parent):
        hint = "--trust-config if you know what stands in it; or set KARAT_STORE, which wins over it"
        require_trust(file, "store", "a history outside of its own folder", hint)
    return store


def require_trust(file: Path, field: str, what: str, hint: str) -> None:
    """In CI the file may be that of a pull request, and in a shared folder that of anybody. What runs code, or gets
    something sent, is taken from such a file only where somebody said so."""
    if _TRUSTED.get() or _is_own(file):
        return
    in_ci = "in CI, karat.yaml may be that of a pull request"
    why = in_ci if os.environ.get("CI") else "this file belongs to another user"
    raise ConfigError(f"{why}, and it names {what}", code="untrusted-config", file=str(file), field=field, hint=hint)


def _is_below(store: str, folder: Path) -> bool:
    return "://" not in store and Path(store).resolve().is_relative_to(folder.resolve())


def _is_own(file: Path) -> bool:
    """Whether the user wrote it, as far as one can tell."""
    if os.environ.get("CI"):
        return False
    return not hasattr(os, "geteuid") or file.stat().st_uid == os.geteuid()


def _read(file: Path) -> Config:
    from karat.files.yaml import load_yaml  # with all of PyYAML, and most folders have no such file

    try:
        value, _ = load_yaml(file.read_bytes(), str(file))
        config = msgspec.convert(value or {}, Config)
    except msgspec.ValidationError as error:
        found = refusal(error, str(file), None, value)
        raise ConfigError(
            found.what,
            code=found.code,
            file=str(file),
            field=found.field,
            expected=found.expected,
            got=found.got,
            hint=_hint(found.field or "") if found.code == "unknown-field" else None,
        ) from error
    except InputError as error:
        raise ConfigError(error.what, code=error.code, file=error.file, line=error.line) from error
    _place_retrievers(config, file)
    if config.prices is not None:
        config.prices = str(file.parent / config.prices)
    if config.store is not None and "://" not in config.store:
        config.store = str(file.parent / config.store)
    return config


_NAME = re.compile(r"\w[\w.+ -]*")


def _place_retrievers(config: Config, file: Path) -> None:
    """Settings files of retrievers as seen from here; a name must do for a file."""
    listed = config.retrievers or {}
    for name, spec in listed.items():
        if not _NAME.fullmatch(name):
            what, expected = "this name of a retriever cannot be a file's", "letters, digits, `_`, `-`, `.` and `+`"
            raise ConfigError(what, code="bad-name", file=str(file), field="retrievers", expected=expected, got=name)
        if isinstance(spec, dict) and not isinstance(spec.get("retriever"), str):
            what, expected = f"the retriever {name!r} says not which one it is", "`retriever: my_app:search`"
            raise ConfigError(what, code="missing-field", file=str(file), field="retriever", expected=expected)
        if isinstance(spec, str) and spec.endswith((".yaml", ".yml")):
            listed[name] = str(file.parent / spec)
