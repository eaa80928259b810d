"""`karat.yaml`, found upward from the working directory."""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Literal

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
    """The content of karat.yaml."""

    metrics: MetricsConfig = msgspec.field(default_factory=MetricsConfig)
    prices: str | None = None  # path of a price table, relative to this file
    map: dict[str, str] | str | None = None  # names of the fields in your files, as in --map
    scores: Literal["higher-is-better", "lower-is-better", "as-listed"] | None = None  # as in --scores
    normalize_ids: bool = False  # as --normalize-ids
    retrievers: dict[str, str | dict[str, Any]] | None = None  # retrievers of `karat run` by name
    save: bool = False  # save every result of `karat eval` and `karat gate` to the history
    store: str | None = None  # the history: a folder, relative to this file, or a URL
    places: dict[str, str] | None = None  # places of `karat send` by name


def fields(kind: type[msgspec.Struct] = Config, above: str = "") -> dict[str, msgspec.structs.FieldInfo]:
    """Return all settings by full name, such as `metrics.retrieval.default_k`."""
    found: dict[str, msgspec.structs.FieldInfo] = {}
    for field in msgspec.structs.fields(kind):
        name = f"{above}{field.name}"
        inner = isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
        found |= fields(field.type, f"{name}.") if inner else {name: field}
    return found


def _hint(unknown: str) -> str | None:
    """Suggest the setting, or group of settings, that was probably meant."""
    groups = {name.rsplit(".", dots)[0]: None for name in fields() for dots in range(name.count(".") + 1)}
    return did_you_mean(unknown, groups)


def load_config(start: Path | None = None) -> Config:
    file = config_file(start)
    return Config() if file is None else _read(file)


def config_file(start: Path | None = None) -> Path | None:
    """Return the nearest karat.yaml, in this folder or above it."""
    folder = (start or Path.cwd()).resolve()
    files = (place / "karat.yaml" for place in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def trust_config() -> None:
    """Trust karat.yaml from now on, even if it names places outside its folder."""
    _TRUSTED.set(True)


def trusted_store(start: Path | None = None) -> str | None:
    """Return the history's place from karat.yaml. A server gets a password from the environment, so its address is only
    read from a trusted file."""
    file = config_file(start)
    store = None if file is None else _read(file).store
    if file is not None and store is not None and not _is_below(store, file.parent):
        hint = "use --trust-config if you trust the file, or set KARAT_STORE, which overrides it"
        require_trust(file, "store", "a history outside its folder", hint)
    return store


def trusted_place(name: str, start: Path | None = None) -> str | None:
    """Return the place with this name in karat.yaml. It gets results and tokens, so the file must be trusted."""
    file = config_file(start)
    place = None if file is None else (_read(file).places or {}).get(name)
    if file is not None and place is not None:
        hint = "use --trust-config if you trust the file, or type the place itself"
        require_trust(file, "places", "a place that results are sent to", hint)
    return place


def require_trust(file: Path, field: str, what: str, hint: str) -> None:
    """Raise ConfigError unless the file is trusted. In CI it may come from a pull request, and in a shared folder from
    anyone. Such a file may only run code or receive data if the user allows it."""
    if _TRUSTED.get() or _is_own(file):
        return
    in_ci = f"in CI, {file.name} may come from a pull request"
    why = in_ci if os.environ.get("CI") else "this file belongs to another user"
    raise ConfigError(f"{why}, and it names {what}", code="untrusted-config", file=str(file), field=field, hint=hint)


def _is_below(store: str, folder: Path) -> bool:
    return "://" not in store and Path(store).resolve().is_relative_to(folder.resolve())


def _is_own(file: Path) -> bool:
    """Return whether the user owns the file; never in CI."""
    if os.environ.get("CI"):
        return False
    return not hasattr(os, "geteuid") or file.stat().st_uid == os.geteuid()


def _read(file: Path) -> Config:
    from karat.files.yaml import load_yaml  # slow to import, and most folders have no karat.yaml

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


_NAME = r"\w[\w.+ -]*"


def _place_retrievers(config: Config, file: Path) -> None:
    """Resolve the paths of retrievers, and check their names, which become file names."""
    listed = config.retrievers or {}
    for name, spec in listed.items():
        if not re.fullmatch(_NAME, name):
            what, expected = "invalid name of a retriever", "letters, digits, `_`, `-`, `.` and `+`"
            raise ConfigError(what, code="bad-name", file=str(file), field="retrievers", expected=expected, got=name)
        if isinstance(spec, dict) and not isinstance(spec.get("retriever"), str):
            what, expected = f"the entry {name!r} does not name its retriever", "`retriever: my_app:search`"
            raise ConfigError(what, code="missing-field", file=str(file), field="retriever", expected=expected)
        if isinstance(spec, str) and spec.endswith((".yaml", ".yml")):
            listed[name] = str(file.parent / spec)
