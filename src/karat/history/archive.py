"""Runs as one file: to carry them from one history to another, and to keep them apart from any."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from karat import __version__
from karat.data.saved import SavedObject
from karat.errors import InputError
from karat.files.atomic_write import write_whole
from karat.history.rows import Judgement, utc
from karat.history.store import Saved, Store, checked_name, short
from karat.results.kept_run import KeptRun, read_kept

LARGEST = 512 << 20  # bytes of one run: a hundred times a run of 100,000 queries
_MANIFEST = "history.json"


class ArchivedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the file."""

    id: str
    sha256: str
    saved_at: str
    branch: str | None = None
    tags: list[str] = []
    judgements: list[Judgement] = []


class _Gates(msgspec.Struct):
    """All that is asked of a verdict here; what it says is for those who show it."""

    schema: Literal["karat/gates/1"]
    outcome: str


class Manifest(SavedObject, frozen=True, kw_only=True):
    """What a file of runs says of itself."""

    schema: Literal["karat/history/1"] = "karat/history/1"
    runs: list[ArchivedRun]


def export_runs(store: Store, ids: Sequence[str], path: Path) -> None:
    write_whole(path, pack(store, ids))


def pack(store: Store, ids: Sequence[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:  # Parquet is compressed already
        entries = []
        for run_id in ids:
            content = _bytes(store.source(run_id))
            entries.append(_entry(store, run_id, hashlib.sha256(content).hexdigest()))
            file.writestr(f"{run_id}.parquet", content)
        manifest = Manifest(karat=__version__, runs=entries)
        file.writestr(_MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return buffer.getvalue()


def import_runs(store: Store, source: Path | bytes, label: str) -> list[Saved]:
    """All runs of a file, or none: each is checked before the first is saved."""
    checked = list(_checked(source, label))
    return [store.save(run) if entry is None else _save(store, run, entry) for entry, run in checked]


def _save(store: Store, run: KeptRun, entry: ArchivedRun) -> Saved:
    return store.save(run, branch=entry.branch, tags=entry.tags, judgements=entry.judgements, saved_at=entry.saved_at)


def _entry(store: Store, run_id: str, digest: str) -> ArchivedRun:
    row = store.row(run_id)
    return ArchivedRun(
        id=run_id,
        sha256=digest,
        saved_at=row.saved_at,
        branch=row.head.branch,
        tags=row.tags,
        judgements=store.judgements(run_id),
    )


def _checked(source: Path | bytes, label: str) -> Iterator[tuple[ArchivedRun | None, KeptRun]]:
    if isinstance(source, Path):
        if not source.is_file():
            raise InputError("no such file", code="no-such-file", file=label)
        with source.open("rb") as stream:
            single = stream.read(4) == b"PAR1"
    else:
        single = source[:4] == b"PAR1"
    if single:  # the file of one run, out of the folder of a history
        yield None, _whole(read_kept(source, label), _id_in_name(source), label)
        return
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            manifest = msgspec.json.decode(_read(file, _MANIFEST, label), type=Manifest)
            for entry in manifest.runs:
                content = _read(file, f"{entry.id}.parquet", label)
                if hashlib.sha256(content).hexdigest() != entry.sha256:
                    raise InputError(
                        f"the run {short(entry.id)} is not what was exported", code="changed-run", file=label
                    )
                _check_entry(entry, label)
                yield entry, _whole(read_kept(content, label), entry.id, label)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        hint = "expected a file written by `karat history export`"
        raise InputError("not a file of runs, or a broken one", code="not-an-archive", file=label, hint=hint) from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InputError(f"not a file of runs: {error}", code="not-an-archive", file=label) from error


def _read(file: zipfile.ZipFile, name: str, label: str) -> bytes:
    """What a member says of its size is only a promise, so reading stops by itself."""
    with file.open(name) as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(f"{name} is larger than {LARGEST >> 20} MB", code="too-large", file=label)
    return content


def _whole(run: KeptRun, wanted: str | None, label: str) -> KeptRun:
    if wanted is not None and run.id != wanted:
        raise InputError(f"the run {short(wanted)} was changed after it was saved", code="changed-run", file=label)
    run.saved()  # its parts fit together
    return run


def _check_entry(entry: ArchivedRun, label: str) -> None:
    for tag in entry.tags:
        checked_name(tag, "tag")
    for time in (entry.saved_at, *(one.judged_at for one in entry.judgements)):
        if utc(time, "saved_at") != time:
            raise InputError("not a time of a history", code="bad-value", file=label, field="saved_at", got=time)
    for one in entry.judgements:
        msgspec.json.decode(one.document, type=_Gates)


def _id_in_name(source: Path | bytes) -> str | None:
    return source.stem if isinstance(source, Path) and len(source.stem) == 64 else None


def _bytes(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()
