"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from karat.errors import ConfigError


def check_writable(path: str | Path, inputs: Iterable[str | None] = ()) -> None:
    """Raise ConfigError if `write_whole` would fail, or if the file is an input."""
    target = Path(path)
    refuse_overwriting(target, inputs)
    if target.is_dir():
        raise ConfigError("this is a folder", code="is-a-folder", file=str(target), hint="name a file inside it")
    try:  # the only check that works for every kind of folder
        with tempfile.TemporaryFile(dir=target.parent, prefix=f".{target.name}."):
            pass
    except OSError as error:
        raise cannot_write(target, error) from error


def refuse_overwriting(path: str | Path, inputs: Iterable[str | None]) -> None:
    """Raise ConfigError if an output is also an input."""
    target = Path(path)
    named = [name for i in inputs if i for name in _names(i)]
    if target.exists() and any(Path(name).exists() and target.samefile(name) for name in named):
        raise ConfigError(
            "this input file would be overwritten",
            code="would-overwrite",
            file=str(path),
            hint="choose another output file",
        )


def _names(given: str) -> list[str]:
    """The files that an input may name: itself, and the run in `run:FILE` and `FILE#SYSTEM`."""
    run = given.removeprefix("run:")
    return [given, run, run.rpartition("#")[0] or run]


def write_whole(path: str | Path, content: bytes, *, mode: int | None = None) -> None:
    """Write to a temporary file next to the target, then rename it. `mode`: file permissions."""
    with whole_file(path, mode=mode) as stream:
        stream.write(content)


@contextmanager
def whole_file(path: str | Path, *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """The same for content that is written piece by piece; after an error the target is as it was."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        os.chmod(name, 0o666 & ~umask() if mode is None else mode)
        os.replace(name, target)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(target, error) from error
        raise


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """A folder that is filled elsewhere and then renamed. The target must not exist, or be empty."""
    target = Path(path)
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        what = "this folder is not empty" if target.is_dir() else "this is a file"
        hint = "choose another folder, or remove it first"
        raise ConfigError(what, code="folder-not-empty", file=str(path), hint=hint)
    try:
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        yield made
        os.chmod(made, 0o777 & ~umask())
        os.replace(made, target)
    except BaseException as error:
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(error, OSError):
            raise cannot_write(target, error) from error
        raise


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def cannot_write(target: Path, error: OSError) -> ConfigError:
    hint = None if target.parent.is_dir() else f"create the folder {target.parent} first"
    what = f"cannot be written: {error.strerror or error}"
    return ConfigError(what, code="not-writable", file=str(target), hint=hint)
