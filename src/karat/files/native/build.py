"""Compile the native reader: `python -m karat.files.native.build`, and the build hook of the package."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

_NAMES = ("json.c", "trec.c", "parquet.c", "lists.c", "blocks.c", "draws.c", "hash.h", "items.h", "text.h")
SOURCES = [Path(__file__).with_name(name) for name in _NAMES]
LIBRARY = Path(__file__).with_name("_reader.so")
_FLAGS = ("-std=c11", "-O3", "-shared", "-fPIC")


def checksum() -> int:
    """Of the source; the library has it too, so that a stale one is noticed."""
    return zlib.crc32(b"".join(source.read_bytes() for source in SOURCES))


def compiler() -> list[str] | None:
    """The C compiler of this machine, or the command in CC, which may have options."""
    import shlex
    import shutil

    named = shlex.split(os.environ.get("CC", ""))
    found = next(filter(None, map(shutil.which, named[:1] or ("cc", "gcc", "clang"))), None)
    return None if found is None else [found, *named[1:]]


def compile_reader(target: Path = LIBRARY, flags: Sequence[str] = _FLAGS) -> str | None:
    """Write the library; on failure return the reason."""
    import subprocess  # only here: every command reads the checksum

    cc = compiler()
    if cc is None:
        return f"no C compiler: CC is {os.environ['CC']!r}" if os.environ.get("CC") else "no C compiler"
    made = target.with_name(f"{target.name}.{os.getpid()}")  # a process may be running the old one
    stamp = f"-DKARAT_SOURCE={checksum()}ll"
    code = [str(source) for source in SOURCES if source.suffix == ".c"]
    command = [*cc, *flags, stamp, f"-I{Path(__file__).parent}", "-o", str(made), *code, "-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{' '.join(cc)} failed: {done.stderr.strip()[:500] or f'exit code {done.returncode}'}"
        made.replace(target)
    except OSError as error:
        return str(error)
    finally:
        made.unlink(missing_ok=True)
    return None


if __name__ == "__main__":
    sys.exit(compile_reader())
