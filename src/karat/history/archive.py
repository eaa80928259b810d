"""Runs as one file, to export, import and push them."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from lzma import LZMAError
from pathlib import Path
from struct import error as StructError
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from karat import __version__
from karat.data.saved import SavedObject
from karat.errors import ConfigError, InputError, KaratError, shorten
from karat.files.decode_errors import DECODE_ERRORS
from karat.files.limits import largest_content
from karat.history.changes import checked_note, checked_title
from karat.history.hits import StoredPart, all_parts, restored_hits, stored_parts
from karat.history.incoming import checked_line, checked_run
from karat.history.rows import Judgement, utc
from karat.history.store import Saved, Store, checked_name, short
from karat.history.texts import key_of, pack_text, packed_texts, split_keys
from karat.net.http import Http, HttpError, Response, Secrets, check_url, is_loopback
from karat.net.timeouts import TooSlow
from karat.results.kept_run import KeptRun, read_kept

LARGEST = 512 << 20  # bytes per run: a hundred times a run of 100,000 queries
_LARGEST_MANIFEST = 64 << 20
_HELD = 32 << 20  # bytes of runs, compressed, kept in memory while the others are checked
_LARGEST_ANSWER = 1 << 20
_MANIFEST, _TEXTS = "history.json", "texts.bin"
# What zipfile raises for damaged files, including unknown versions and methods, passwords and bad offsets.
_BROKEN = (zipfile.BadZipFile, KeyError, EOFError, RuntimeError, OSError, zlib.error, LZMAError, StructError)


class ArchivedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the file."""

    id: str
    sha256: str
    saved_at: str
    branch: str | None = None
    author: str | None = None
    tags: list[str] = []
    judgements: list[Judgement] = []
    hits: str | None = None  # sha256 of the file with the hits of every query; null: not kept
    title: str | None = None
    note: str | None = None


class _Gates(msgspec.Struct):
    """The part of a verdict that is checked here."""

    schema: Literal["karat/gates/1"]
    outcome: str


class Manifest(SavedObject, frozen=True, kw_only=True):
    """The manifest of a file of runs."""

    schema: Literal["karat/history/1"] = "karat/history/1"
    runs: list[ArchivedRun]


class PushError(KaratError):
    """The server did not accept the runs."""

    code = "push-refused"


def pack(store: Store, ids: Sequence[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:  # Parquet is already compressed
        entries = []
        texts: dict[bytes, bytes] = {}
        for run_id in ids:
            source, row = store.source(run_id), store.row(run_id)
            content = source if isinstance(source, bytes) else source.read_bytes()
            with store.transaction() as connection:
                parts = all_parts(connection, run_id)
                texts |= packed_texts(connection, (key for part in parts for key in split_keys(part.keys)))
            hits = msgspec.msgpack.encode(parts)
            entry = ArchivedRun(
                id=run_id,
                sha256=hashlib.sha256(content).hexdigest(),
                saved_at=row.saved_at,
                branch=row.head.branch,
                author=row.head.author,
                tags=row.tags,
                judgements=store.judgements(run_id),
                hits=hashlib.sha256(hits).hexdigest() if parts else None,
                title=row.title,
                note=row.note,
            )
            entries.append(entry)
            file.writestr(f"{run_id}.parquet", content)
            if parts:
                file.writestr(f"{run_id}.hits", hits)
        if texts:
            file.writestr(_TEXTS, msgspec.msgpack.encode(texts))
        manifest = Manifest(karat=__version__, runs=entries)
        file.writestr(_MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return buffer.getvalue()


def import_runs(store: Store, source: Path | bytes, label: str) -> list[Saved]:
    """Imports all runs of a file or none: all are checked before the first is saved.

    Only one run at a time is unpacked. Checked runs are kept compressed; those that do not fit in memory are read a
    second time."""
    held, whole = _checked_first(source, label)
    late = () if whole else _checked(source, label, at=len(held))
    return [
        store.save(
            run,
            branch=said.branch,
            author=said.author,
            tags=said.tags,
            judgements=said.judgements,
            saved_at=said.saved_at or None,
            title=said.title,
            note=said.note,
        )
        for said, run in chain(_taken(held, label), late)
    ]


class _Held(NamedTuple):
    """A checked run, compressed."""

    said: ArchivedRun
    content: bytes
    parts: list[StoredPart]
    texts: dict[bytes, bytes]

    @property
    def size(self) -> int:
        hits = sum(len(part.content) + len(part.keys) for part in self.parts)
        return len(self.content) + hits + sum(map(len, self.texts.values()))


def _checked_first(source: Path | bytes, label: str) -> tuple[list[_Held], bool]:
    """Checks all runs; returns the first ones that fit in memory, and whether these are all."""
    held, size = [], 0
    for said, run in _checked(source, label):
        if size <= _HELD:
            texts = [] if run.hits is None else run.hits.texts
            packed = {key_of(*text): pack_text(text[1]) for text in texts}
            one = _Held(said, run.to_parquet(), list(stored_parts(run)), packed)
            size += one.size
            if size <= _HELD:
                held.append(one)
    return held, size <= _HELD


def _taken(held: list[_Held], label: str) -> Iterator[tuple[ArchivedRun, KeptRun]]:
    """Yields runs one by one and frees their memory."""
    held.reverse()
    while held:
        one = held.pop()
        run = read_kept(one.content, label, most=LARGEST)
        yield one.said, _with_hits(run, one.parts, one.texts, label) if one.parts else run


def _with_hits(run: KeptRun, parts: list[StoredPart], texts: dict[bytes, bytes], label: str) -> KeptRun:
    return KeptRun(run.text, run.rows, restored_hits(run.rows, parts, texts, label))


def push(url: str, content: bytes, token: str | None, timeout: float) -> list[tuple[str, bool]]:
    """Sends packed runs to a server; returns the ids of the runs, and whether each was new there.

    Sends once, without redirects; if it fails, run the command again. The token is never in a message and never sent
    unencrypted.
    """
    parts = urlsplit(check_url(url, hint=None, query=False))
    if token and parts.scheme == "http" and not is_loopback(url):
        raise ConfigError(
            "the token would be sent unencrypted", code="insecure-address", expected="an address with https://"
        )
    headers = {"Content-Type": "application/zip", "X-Karat": "1", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    client = Http(Secrets(token or ""), extra=None, largest=_LARGEST_ANSWER)
    target = parts._replace(path=f"{_root(parts.path)}/api/v1/runs").geturl()
    try:
        return _sent(client.send("POST", target, content, headers=headers, timeout=timeout))
    except (HttpError, TooSlow) as error:
        hint = error.hint or "check that the server is running and the address is right"
        raise PushError(f"{parts.hostname} did not answer: {error.what}", code="no-answer", hint=hint) from error


def _root(path: str) -> str:
    """Returns the root path of the server, even if the address is that of a page.

    >>> _root("/karat/"), _root("/karat/runs"), _root("/api/v1/runs/"), _root("")
    ('/karat', '/karat', '', '')
    """
    return path.rstrip("/").removesuffix("/runs").removesuffix("/api/v1")


def _sent(answer: Response) -> list[tuple[str, bool]]:
    try:
        found = answer.json()
        if answer.status == 200:
            return [(str(run["id"]), bool(run["new"])) for run in found]
        what = shorten(str(found["error"]), 300)
    except (ValueError, KeyError, TypeError):
        what = "not a response of `karat serve`"
    hint = "KARAT_TOKEN or --token-file" if answer.status == 401 else None
    raise PushError(f"the server refused the runs ({answer.status}): {what}", hint=hint)


def _checked(source: Path | bytes, label: str, at: int = 0) -> Iterator[tuple[ArchivedRun, KeptRun]]:
    if isinstance(source, Path):
        if not source.is_file():
            raise InputError("no such file", code="no-such-file", file=label)
        with source.open("rb") as stream:
            single = stream.read(4) == b"PAR1"
    else:
        single = source[:4] == b"PAR1"
    if single:  # the file of one run from the folder of a history
        name = source.stem if isinstance(source, Path) and len(source.stem) == 64 else None
        yield ArchivedRun(id="", sha256="", saved_at=""), _whole(read_kept(source, label, most=LARGEST), name, label)
        return
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            manifest = msgspec.json.decode(_read(file, _MANIFEST, label, _LARGEST_MANIFEST), type=Manifest)
            if len({entry.id for entry in manifest.runs}) < len(manifest.runs):
                raise InputError("a run is listed twice", code="not-an-archive", file=label)
            texts: dict[bytes, bytes] | None = None
            for entry in manifest.runs[at:]:
                content = _read(file, f"{entry.id}.parquet", label)
                if hashlib.sha256(content).hexdigest() != entry.sha256:
                    raise InputError(
                        f"the run {short(entry.id)} was changed after the export", code="changed-run", file=label
                    )
                _check_entry(entry, label)
                run = _whole(read_kept(content, label, most=LARGEST), entry.id, label)
                if entry.hits is not None:
                    content = _read(file, f"{entry.id}.hits", label)
                    if hashlib.sha256(content).hexdigest() != entry.hits:
                        what = f"the hits of the run {short(entry.id)} were changed after the export"
                        raise InputError(what, code="changed-run", file=label)
                    texts = _texts(file, label) if texts is None else texts
                    run = _with_hits(run, msgspec.msgpack.decode(content, type=list[StoredPart]), texts, label)
                yield entry, run
    except _BROKEN as error:
        hint = "expected a file written by `karat history export`"
        raise InputError("not a file of runs, or damaged", code="not-an-archive", file=label, hint=hint) from error
    except DECODE_ERRORS as error:
        raise InputError(f"not a file of runs: {error}", code="not-an-archive", file=label) from error


def _texts(file: zipfile.ZipFile, label: str) -> dict[bytes, bytes]:
    """The texts of all runs, compressed, by their keys; none if no run has any."""
    if _TEXTS not in file.namelist():
        return {}
    return msgspec.msgpack.decode(_read(file, _TEXTS, label), type=dict[bytes, bytes])


def _read(file: zipfile.ZipFile, name: str, label: str, largest: int | None = None) -> bytes:
    """Reads a member up to a limit, because its declared size cannot be trusted."""
    most = min(largest or LARGEST, largest_content(file.getinfo(name).compress_size, at_once=True))
    with file.open(name) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"{name} is larger than {most >> 20} MB", code="too-large", file=label)
    return content


def _whole(run: KeptRun, wanted: str | None, label: str) -> KeptRun:
    if wanted is not None and run.id != wanted:
        raise InputError(f"the run {short(wanted)} was changed after it was saved", code="changed-run", file=label)
    return checked_run(run, label)


def _check_entry(entry: ArchivedRun, label: str) -> None:
    checked_line(entry.branch, "branch", label)
    checked_line(entry.author, "author", label)
    for tag in entry.tags:
        checked_name(tag, "tag")
    checked_title(entry.title)
    checked_note(entry.note)
    for time in (entry.saved_at, *(one.judged_at for one in entry.judgements)):
        if utc(time, "saved_at") != time:
            raise InputError("invalid time", code="bad-value", file=label, field="saved_at", got=time)
    for one in entry.judgements:
        if msgspec.json.decode(one.document, type=_Gates).outcome != one.outcome:
            what = "a verdict has another outcome"
            raise InputError(what, code="bad-value", file=label, field="outcome", got=one.outcome)
