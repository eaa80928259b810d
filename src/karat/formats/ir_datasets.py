"""Datasets of the package ir_datasets by name: `ir_datasets:beir/scifact/test` instead of a path."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from karat.errors import InputError, MissingExtra, shorten

Wanted = Literal["gold", "run", "corpus"]
_HAS = {"gold": "qrels", "run": "scoreddocs", "corpus": "docs"}


def fetched(label: str, wanted: Wanted) -> Path:
    """A temporary folder with what is wanted of a dataset, in the form of BEIR; of a run a TREC file. The package
    downloads what it does not have."""
    folder, dataset = _folder(label), _loaded(label)
    if not getattr(dataset, f"has_{_HAS[wanted]}")():
        raise InputError(
            f"the dataset has no {_HAS[wanted]}",
            code="no-such-part",
            file=label,
            hint="name a subset that has them, such as ir_datasets:beir/scifact/test",
        )
    try:
        if wanted == "run":
            return _written(folder / "scoreddocs.run", (_scored(one) for one in dataset.scoreddocs_iter()))
        if wanted == "corpus":
            return _written(folder / "corpus.jsonl", (_document(one) for one in dataset.docs_iter()))
        (folder / "qrels").mkdir(exist_ok=True)
        _written(folder / "qrels" / "test.tsv", (_judged(one) for one in dataset.qrels_iter()))
        if dataset.has_queries():
            _written(folder / "queries.jsonl", (_query(one) for one in dataset.queries_iter()))
        return folder
    except InputError:
        raise
    except Exception as error:  # of any kind: downloads, licences, and damaged files
        raise _unavailable(label, error) from error


@cache
def _folder(label: str) -> Path:
    made = Path(tempfile.mkdtemp(prefix="karat-ir-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def _loaded(label: str) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise MissingExtra(f"reading {label}", "ir_datasets", None) from None
    name = label.partition(":")[2]
    try:
        return ir_datasets.load(name)
    except KeyError:
        hint = "its names are at https://ir-datasets.com, for example ir_datasets:beir/scifact/test"
        raise InputError(
            f"ir_datasets has no dataset {shorten(name, 60)!r}", code="unknown-dataset", file=label, hint=hint
        ) from None
    except Exception as error:
        raise _unavailable(label, error) from error


def _unavailable(label: str, error: Exception) -> InputError:
    what = f"ir_datasets cannot provide it: {shorten(str(error) or type(error).__name__, 300)}"
    return InputError(what, code="unavailable-dataset", file=label, hint="check the connection, and try again")


def _written(path: Path, lines: Iterable[bytes]) -> Path:
    if not path.exists():
        with path.open("wb") as stream:
            stream.writelines(lines)
    return path


def _line(record: dict[str, Any]) -> bytes:
    return msgspec.json.encode(record) + b"\n"


def _text(one: Any) -> str:
    text = getattr(one, "text", None)
    return str(one.default_text() if text is None else text)


def _judged(one: Any) -> bytes:
    return f"{one.query_id}\t{one.doc_id}\t{one.relevance}\n".encode()


def _query(one: Any) -> bytes:
    return _line({"_id": str(one.query_id), "text": _text(one)})


def _document(one: Any) -> bytes:
    title = getattr(one, "title", None)
    return _line({"_id": str(one.doc_id), "text": _text(one), **({"title": title} if title else {})})


def _scored(one: Any) -> bytes:
    return f"{one.query_id} Q0 {one.doc_id} 0 {one.score} scoreddocs\n".encode()
