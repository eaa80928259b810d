"""Dense search: nearest vectors from a static model (offline), sentence-transformers, or a service.

The static model is the mean of word-piece vectors, without a neural network at run time. Its weights are read directly
from the `wordllama` package, so nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError, MissingExtra, shorten
from karat.net.http import Http, HttpError, Secrets, check_url
from karat.retrievers.base import Found, Nothing, Retriever, Stopwatch, as_hits, best, refuse_empty
from karat.retrievers.templates import Used, as_field, used_by

Vectors = NDArray[np.float32]
STATIC = "static"
_BATCH = 128  # texts per request
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_NO_WHEEL = (3, 14)  # wordllama has no wheel from this Python on


class Dense(Retriever):
    """Finds the documents with the nearest vectors to the query's, by cosine; compares every document.

    `model` is `static` (offline, included in karat[dense]), a model of sentence-transformers, or with `url` the name of
    a model at a service with OpenAI's API; `key` names the environment variable with its key. Documents without text
    are never found.
    """

    name = "dense"

    def __init__(self, model: str = STATIC, url: str | None = None, key: str | None = None) -> None:
        self.model = model
        self.url = url
        self.key = key

    def index(self, corpus: Corpus) -> None:
        refuse_empty(corpus)
        texts = [f"{title}\n{text}".strip() for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        there = [i for i, text in enumerate(texts) if text]
        if not there:
            raise Nothing("the texts of the corpus are all empty", code="empty-corpus", file=corpus.label)
        self._embedder: Embedder = make_embedder(self.model, self.url, self.key)
        self._ids = [corpus.ids[i] for i in there]
        self._vectors: Vectors = self._embedder.embed([texts[i] for i in there])

    def answer(self, question: Question, k: int) -> Found:
        watch, used = Stopwatch(), Used()
        with watch.stage("embed"):
            vector = self._embedder.embed_query(question.text, question.timeout, used)
        with watch.stage("retrieve"):
            found = self._nearest(vector, k)
        return Found(as_hits(found), watch.latency_ms, fields=as_field(used))

    def search(self, query: str, k: int, *, language: str | None = None) -> list[tuple[str, float]]:
        return self._nearest(self._embedder.embed_query(query), k)

    def _nearest(self, vector: Vectors, k: int) -> list[tuple[str, float]]:
        return best(self._ids, self._vectors @ vector, np.arange(len(self._ids)), k)


def normalised(vectors: Vectors) -> Vectors:
    norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    units: Vectors = (vectors / norms).astype(np.float32)
    return units


class Embedder:
    """Returns unit vectors; `used` collects token counts of a service. Some models encode queries differently."""

    def embed(self, texts: Sequence[str], timeout: float | None = None, used: Used | None = None) -> Vectors:
        raise NotImplementedError

    def embed_query(self, text: str, timeout: float | None = None, used: Used | None = None) -> Vectors:
        (vector,) = self.embed([text], timeout, used)
        return cast(Vectors, vector)


def make_embedder(model: str = STATIC, url: str | None = None, key: str | None = None) -> Embedder:
    """Return an encoder. `static`: the model of karat[dense]; with `url`: a service with OpenAI's API; else a model of
    sentence-transformers. `key` names the environment variable with the service's key."""
    if url is not None:
        return EmbeddingService(model, url, key)
    return _static() if model == STATIC else SentenceModel(model)


class EmbeddingService(Embedder):
    """Sends POST {url}/embeddings, as in OpenAI's API."""

    def __init__(self, model: str, url: str, key: str | None) -> None:
        self._model, self._url = model, check_url(url) + "/embeddings"
        secrets = Secrets()
        self._headers = {} if key is None else {"Authorization": f"Bearer {secrets.get(key)}"}
        self._http = Http(secrets)

    def embed(self, texts: Sequence[str], timeout: float | None = None, used: Used | None = None) -> Vectors:
        batches = [list(texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]
        return normalised(np.concatenate([self._batch(batch, timeout, used) for batch in batches]))

    def _batch(self, texts: list[str], timeout: float | None, used: Used | None) -> Vectors:
        # Some services reject an empty text, and its vector has no meaning.
        body = {"model": self._model, "input": [text or " " for text in texts]}
        said = self._http.ask("POST", self._url, body, self._read, headers=self._headers, timeout=timeout)
        vectors, call = said.read
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise HttpError(f"{self._url}: {len(vectors)} vectors for {len(texts)} texts")
        if used is not None:
            used.append(call)
        return vectors

    def _read(self, content: Any) -> tuple[Vectors, dict[str, Any]]:
        try:
            rows = sorted(content["data"], key=lambda row: int(row["index"]))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (TypeError, KeyError, ValueError):
            raise HttpError(f"{self._url}: no embeddings in the response", got=shorten(content, 120)) from None
        return vectors, used_by("embed", self._model, content)


class SentenceModel(Embedder):
    """Load a model; one on this machine is used without network access."""

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtra(f"the model {shorten(model, 60)!r}", "sentence-transformers", "models") from None
        self._model: Any = _load(SentenceTransformer, model)
        # Its tokenizer stores the settings of a call, so concurrent calls would fail or corrupt each other.
        self._one_at_a_time = Lock()

    def embed(self, texts: Sequence[str], timeout: float | None = None, used: Any = None) -> Vectors:
        return self._encode("encode_document", texts)

    def embed_query(self, text: str, timeout: float | None = None, used: Any = None) -> Vectors:
        (vector,) = self._encode("encode_query", [text])
        return cast(Vectors, vector)

    def _encode(self, method: str, texts: Sequence[str]) -> Vectors:
        # Since version 5, a model has its own prefixes for queries and documents.
        encode = getattr(self._model, method, self._model.encode)
        with self._one_at_a_time:
            found = encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        return normalised(np.asarray(found, np.float32))


def _load(library: Any, model: str) -> Any:
    on_disk = os.path.isdir(model)
    with contextlib.suppress(Exception):  # missing or incomplete: the next attempt reports it
        return library(model, local_files_only=True)
    try:
        return library(model, local_files_only=on_disk)
    except Exception as problem:  # any error of the library, its hub or the network
        raise ConfigError(
            f"the model {shorten(model, 60)!r} cannot be loaded",
            code="not-loaded",
            got=f"{type(problem).__name__}: {problem}".partition("\n")[0],
            hint="give the folder of a sentence-transformers model, or its name on the hub, which needs the network "
            "once; `dense` alone uses the model of karat[dense]",
        ) from None


class StaticEmbedder(Embedder):
    def __init__(self) -> None:
        folder = _package_folder()
        try:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra("the static model", str(error.name), "dense") from None
        (vectors,) = load_file(str(folder / _WEIGHTS)).values()
        self._vectors: Vectors = vectors.astype(np.float32)
        self._tokenizer: Any = Tokenizer.from_file(str(folder / _TOKENIZER))

    def embed(self, texts: Sequence[str], timeout: float | None = None, used: Any = None) -> Vectors:
        if not texts:
            return np.zeros((0, self._vectors.shape[1]), np.float32)
        encoded = [e.ids or [0] for e in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        sizes = np.array([len(ids) for ids in encoded])
        starts = np.cumsum(sizes) - sizes
        sums = np.add.reduceat(self._vectors[np.concatenate(encoded)], starts, axis=0)
        return normalised(sums / sizes[:, None])


_static = cache(StaticEmbedder)


def _package_folder() -> Path:
    found = importlib.util.find_spec("wordllama")  # located, never imported: its own loader needs the network
    if found is None or not found.submodule_search_locations:
        missing = MissingExtra("the static model", "wordllama", "dense")
        if sys.version_info >= _NO_WHEEL:
            missing.hint = f"{missing.hint} with Python 3.11 to 3.13: wordllama has no wheel for newer ones"
        raise missing
    return Path(found.submodule_search_locations[0])
