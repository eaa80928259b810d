"""Vectors by a model of sentence-transformers: a folder on the disk, or a name that its hub knows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from threading import Lock
from typing import Any, cast

import numpy as np

from karat.errors import ConfigError, MissingExtra, shorten
from karat.retrievers.unit_vectors import Vectors, normalised


class SentenceModel:
    """Texts → unit vectors. A model that is on this machine is used without asking the network."""

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtra(f"the model {shorten(model, 60)!r}", "sentence-transformers", "models") from None
        self._model: Any = _load(SentenceTransformer, model)
        # Its tokenizer keeps the settings of a call in itself: two calls at once refuse or spoil each other.
        self._one_at_a_time = Lock()

    def embed(self, texts: Sequence[str], timeout: float | None = None, used: Any = None) -> Vectors:
        return self._encode("encode_document", texts)

    def embed_query(self, text: str, timeout: float | None = None, used: Any = None) -> Vectors:
        (vector,) = self._encode("encode_query", [text])
        return cast(Vectors, vector)

    def _encode(self, method: str, texts: Sequence[str]) -> Vectors:
        # Since version 5 a model knows what to put before a query and before a document.
        encode = getattr(self._model, method, self._model.encode)
        with self._one_at_a_time:
            found = encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        return normalised(np.asarray(found, np.float32))


def _load(library: Any, model: str) -> Any:
    on_disk = os.path.isdir(model)
    with contextlib.suppress(Exception):  # not there, or not whole: the next attempt says what is wrong
        return library(model, local_files_only=True)
    try:
        return library(model, local_files_only=on_disk)
    except Exception as problem:  # whatever kind the library, its hub or the network raise
        raise ConfigError(
            f"the model {shorten(model, 60)!r} cannot be loaded",
            code="not-loaded",
            got=f"{type(problem).__name__}: {problem}".partition("\n")[0],
            hint="give a folder with a model of sentence-transformers, or a name of its hub, which needs the network "
            "once; `dense` alone uses the model that comes with karat[dense]",
        ) from None
