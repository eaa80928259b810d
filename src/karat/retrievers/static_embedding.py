"""Dense vectors without a neural network at run time: the mean of static word-piece vectors.

The weights come inside the `wordllama` package, so nothing is downloaded; they are read directly."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from karat.errors import MissingExtra
from karat.retrievers.unit_vectors import Vectors, normalised

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class StaticEmbedder:
    """Texts → unit vectors."""

    name_of_model = "wordllama l2_supercat 256"

    def __init__(self) -> None:
        folder = _package_folder()
        try:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra("static embeddings", str(error.name), "dense") from None
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
        means = sums / sizes[:, None]
        return normalised(means)

    def embed_query(self, text: str, timeout: float | None = None, used: Any = None) -> Vectors:
        (vector,) = self.embed([text])
        return cast(Vectors, vector)


def _package_folder() -> Path:
    found = importlib.util.find_spec("wordllama")  # located, never imported: its own loader wants the network
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("static embeddings", "wordllama", "dense")
    return Path(found.submodule_search_locations[0])
