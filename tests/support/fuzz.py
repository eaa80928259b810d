"""Feed every reader, history file and endpoint with damaged input: `make fuzz`, and shortly in `make test`.

Each target runs in a process of its own. Whatever ends it, takes too long or raises anything but a KaratError is a
failure; its input is kept in `tests/fuzz/TARGET/`, from where every later test run tries it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import gzip
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[1] / "fuzz"
_SLOW = 20.0  # seconds for one input
_START = 60.0  # seconds for a target to begin
_VARINTS = (b"\xff\xff\xff\xff\x7f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x80" * 8 + b"\x40", b"\xff" * 4)
_ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    1.5,
    10**21,
    2**63,
    "",
    "İ",
    "\ud800",
    "x\x00",
    "q1",
    [],
    [[]],
    {},
    {"a": None},
)
_DEEP = b"[" * 2000


def damaged(data: bytes, chance: random.Random, tokens: list[bytes]) -> bytes:
    """A good input with a few wounds: in its bytes, in its JSON, or in what is compressed."""
    if data[:2] == b"\x1f\x8b" and chance.random() < 0.5:
        try:
            return gzip.compress(damaged(gzip.decompress(data), chance, tokens), 1, mtime=0)
        except (OSError, EOFError, zlib.error):
            pass
    for _ in range(chance.choice((1, 1, 2, 3, 5))):
        data = (_in_json if chance.random() < 0.35 else _in_bytes)(data, chance, tokens)
    return data


def _in_bytes(data: bytes, chance: random.Random, tokens: list[bytes]) -> bytes:
    at = chance.randrange(len(data) + 1)
    if data[:4] == b"PAR1" and chance.random() < 0.5:  # as much in the footer as in the pages
        at = chance.randrange(max(0, len(data) - 8 - int.from_bytes(data[-8:-4], "little") % len(data)), len(data))
    end = min(len(data), at + chance.choice((0, 1, 1, 2, 8, 40)))
    match chance.randrange(8):
        case 0 | 1:
            return (
                data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :] if at < len(data) else data
            )
        case 2:
            return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        case 3:
            piece = chance.choice(_VARINTS)
            return data[:at] + piece + data[at + len(piece) :]
        case 4:
            return data[:at] + chance.choice(tokens) + data[end:]
        case 5:
            return data[:at] + data[end:]
        case 6:
            return data[:end] + data[at:]
        case _:
            return data[:at] if chance.random() < 0.3 else data[:at] + _DEEP[: chance.randrange(2000)] + data[at:]


def _in_json(data: bytes, chance: random.Random, tokens: list[bytes]) -> bytes:
    """One value of one line is another; as bytes where no line is JSON."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    try:
        value = json.loads(lines[at] if len(lines) < 50 else data)
    except (ValueError, RecursionError):
        return _in_bytes(data, chance, tokens)
    other = json.dumps(_other(value, chance)).encode()
    return b"\n".join([*lines[:at], other, *lines[at + 1 :]]) if len(lines) < 50 else other


def _other(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        if chance.random() < 0.15:
            return {name: inner for name, inner in value.items() if name != key}
        return {**value, key: _other(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], _other(value[at], chance), *value[at + 1 :]]
    return chance.choice(_ODD)


def fails(take: Callable[[bytes], object], data: bytes) -> str | None:
    """What went wrong; None where all is well, which includes a KaratError."""
    from karat.errors import KaratError

    try:
        take(data)
    except KaratError as error:
        return None if 0 < len(str(error)) < 3000 else "the message is empty or endless"
    except BaseException as error:  # polars' PanicException is no Exception
        import traceback

        return "".join(traceback.format_exception(error)[-3:])
    return None


def inside(names: list[str], seconds: float, seed: int, current: Path) -> int:
    """Damage inputs until the time is over or one of them fails; `current` holds the one at hand."""
    from fuzz_targets import TARGETS, TOKENS

    for name in names:
        current.with_name("target").write_text(name)
        target = TARGETS[name]()
        chance, seeds, count = random.Random(f"{name} {seed}"), list(target.seeds.values()), 0
        with tempfile.TemporaryDirectory() as folder, target.open(Path(folder)) as take:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                data = damaged(chance.choice(seeds), chance, TOKENS)
                current.write_bytes(data)
                faulthandler.dump_traceback_later(_SLOW, exit=True)
                said = fails(take, data)
                faulthandler.cancel_dump_traceback_later()
                if said is not None:
                    sys.stderr.write(said)
                    return 3
                count += 1
        sys.stdout.write(f"{name} {count}\n")
    return 0


class Failed(Exception):
    """An input that ended the process, took too long or raised anything but a KaratError."""

    def __init__(self, target: str, data: bytes, said: str) -> None:
        super().__init__(f"{target}: {said}")
        self.target, self.data = target, data


def fuzz(names: Sequence[str], seconds: float, seed: int) -> dict[str, int]:
    """How many inputs each target took, all in one process. Raises Failed with the first that it should have taken."""
    with tempfile.TemporaryDirectory() as folder:
        current = Path(folder) / "input"
        command = [sys.executable, __file__, "--inside", str(current), "--seconds", str(seconds), "--seed", str(seed)]
        command += [part for name in names for part in ("--target", name)]
        limit = len(names) * (seconds + _START) + _SLOW
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=limit)
            said = f"exit code {done.returncode}\n{done.stderr[-3000:]}"
        except subprocess.TimeoutExpired:
            done, said = None, "no end"
        if done is None or done.returncode:
            target = current.with_name("target")
            name = target.read_text() if target.exists() else names[0]
            raise Failed(name, current.read_bytes() if current.exists() else b"", said)
        return {name: int(count) for name, count in map(str.split, done.stdout.splitlines())}


def keep(name: str, data: bytes) -> Path:
    path = CORPUS / name / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from fuzz_targets import TARGETS

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--target", action="append", choices=list(TARGETS), help="default: all of them")
    options.add_argument("--seconds", type=float, default=10, help="for each target")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    names = asked.target or list(TARGETS)
    if asked.inside is not None:
        sys.exit(inside(names, asked.seconds, asked.seed, asked.inside))
    failures = 0
    for name in names:
        try:
            print(f"{name}: {fuzz([name], asked.seconds, asked.seed)[name]} inputs")  # noqa: T201
        except Failed as failed:
            failures += 1
            print(f"FAILED, kept as {keep(name, failed.data)}\n{failed}")  # noqa: T201
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
