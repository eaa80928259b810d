"""Texts of hits and gold, each stored once under a key made from its id and its content."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence

from karat.errors import InputError
from karat.history.statements import Connection
from karat.results.kept_hits import LONGEST_TEXT

KEY = 16  # bytes
_LARGEST = 4 * LONGEST_TEXT  # bytes of a text
_LARGEST_PACKED = _LARGEST + 64  # zlib never makes a text much longer
_AT_ONCE = 400  # keys per statement


def key_of(name: str, text: str) -> bytes:
    """The key of the text that a hit or gold item had."""
    said = name.encode("utf-8", "replace")
    content = len(said).to_bytes(8, "big") + said + text.encode("utf-8", "replace")
    return hashlib.blake2b(content, digest_size=KEY).digest()


def pack_text(text: str) -> bytes:
    return zlib.compress(text.encode("utf-8", "replace"))


def unpack_text(content: bytes) -> str:
    """Raises InputError if it is not a text that Karat packed; never unpacks more than a text may have."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(content[:_LARGEST_PACKED], _LARGEST + 1).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise InputError("a kept text is damaged", code="damaged-run") from error
    if not unpacking.eof or len(text) > LONGEST_TEXT:
        raise InputError("a kept text is damaged or too long", code="damaged-run")
    return text


def add_texts(connection: Connection, texts: Mapping[bytes, str]) -> None:
    """Adds the texts that are not there yet."""
    for keys in _some(list(texts)):
        known = {row[0] for row in _chosen(connection, "key", keys)}
        new = [(key.hex(), pack_text(texts[key])) for key in keys if key.hex() not in known]
        if new:
            marks = ", ".join(["(?, ?)"] * len(new))
            values = [value for row in new for value in row]
            connection.execute(f"INSERT INTO texts VALUES {marks} ON CONFLICT (key) DO NOTHING", values)


def read_texts(connection: Connection, keys: Iterable[bytes]) -> dict[bytes, str]:
    """Key → text, for those that are there."""
    found = packed_texts(connection, keys)
    return {key: unpack_text(content) for key, content in found.items()}


def packed_texts(connection: Connection, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for some in _some(list(dict.fromkeys(keys))):
        found |= {bytes.fromhex(key): bytes(content) for key, content in _chosen(connection, "key, content", some)}
    return found


def remove_unused(connection: Connection) -> int:
    """Removes texts that no run refers to; returns how many."""
    used: set[bytes] = set()
    for (run_id,) in connection.execute("SELECT DISTINCT run_id FROM hits").fetchall():
        for (keys,) in connection.execute("SELECT keys FROM hits WHERE run_id = ?", (run_id,)).fetchall():
            used.update(split_keys(bytes(keys)))
    known = connection.execute("SELECT key FROM texts").fetchall()
    unused = [key for (key,) in known if len(key) != 2 * KEY or bytes.fromhex(key) not in used]
    for at in range(0, len(unused), _AT_ONCE):
        some = unused[at : at + _AT_ONCE]
        connection.execute(f"DELETE FROM texts WHERE key IN ({', '.join('?' * len(some))})", some)
    return len(unused)


def split_keys(joined: bytes) -> list[bytes]:
    return [joined[at : at + KEY] for at in range(0, len(joined), KEY)]


def _chosen(connection: Connection, columns: str, keys: Sequence[bytes]) -> list[tuple[str, bytes]]:
    marks = ", ".join("?" * len(keys))
    statement = f"SELECT {columns} FROM texts WHERE key IN ({marks})"
    return connection.execute(statement, [key.hex() for key in keys]).fetchall()


def _some(keys: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))
