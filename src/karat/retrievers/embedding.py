"""Who turns texts into vectors: a static model offline, sentence-transformers, or a service."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol, cast

import numpy as np

from karat.errors import shorten
from karat.net.http import Http, HttpError, Secrets, check_url
from karat.retrievers.sentence_model import SentenceModel
from karat.retrievers.static_embedding import StaticEmbedder
from karat.retrievers.unit_vectors import Vectors, normalised
from karat.retrievers.usage import Used, used_by

STATIC = "static"
_BATCH = 128  # texts a request


class Embedder(Protocol):
    """Texts → unit vectors; `used` takes what a service tells of tokens. Some models treat a query in its own way."""

    def embed(self, texts: Sequence[str], timeout: float | None = None, used: Used | None = None) -> Vectors: ...

    def embed_query(self, text: str, timeout: float | None = None, used: Used | None = None) -> Vectors: ...


def make_embedder(model: str, url: str | None = None, key: str | None = None) -> Embedder:
    """`static`: the model that comes with karat[dense]; with `url` a service that speaks OpenAI's API; else a model of
    sentence-transformers. `key` names the environment variable that holds the service's key."""
    if url is not None:
        return Service(model, url, key)
    return _static() if model == STATIC else SentenceModel(model)


@cache
def _static() -> StaticEmbedder:
    return StaticEmbedder()


class Service:
    """POST {url}/embeddings, as OpenAI and many others have it."""

    def __init__(self, model: str, url: str, key: str | None) -> None:
        self._model, self._url = model, check_url(url) + "/embeddings"
        secrets = Secrets()
        self._headers = {} if key is None else {"Authorization": f"Bearer {secrets.get(key)}"}
        self._http = Http(secrets)

    def embed(self, texts: Sequence[str], timeout: float | None = None, used: Used | None = None) -> Vectors:
        batches = [list(texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]
        return normalised(np.concatenate([self._batch(batch, timeout, used) for batch in batches]))

    def embed_query(self, text: str, timeout: float | None = None, used: Used | None = None) -> Vectors:
        (vector,) = self.embed([text], timeout, used)
        return cast(Vectors, vector)

    def _batch(self, texts: list[str], timeout: float | None, used: Used | None) -> Vectors:
        # Some services refuse an empty text; its vector means nothing either way.
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
            raise HttpError(f"{self._url}: no embeddings in the answer", got=shorten(content, 120)) from None
        return vectors, used_by("embed", self._model, content)
