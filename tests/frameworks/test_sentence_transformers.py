"""`dense` with a model of sentence-transformers, made on the spot: nothing is downloaded.

torch is too large for `make test`: the second of these runs only where `karat[models]` is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from karat.corpus import Corpus
from karat.errors import KaratError
from karat.retrievers.specs import make_retriever
from karat.retrievers.static_embedding import StaticEmbedder

CORPUS = Corpus("texts", ["a", "b", "c"], [""] * 3, ["refund a card payment", "transfer money abroad", ""])


def test_without_the_package_the_extra_is_named() -> None:
    if importlib.util.find_spec("sentence_transformers") is not None:
        pytest.skip("sentence-transformers is installed")
    with pytest.raises(KaratError, match=r"pip install 'karat\[models\]'"):
        make_retriever("dense(model=all-MiniLM-L6-v2)").index(CORPUS)


def test_a_model_on_the_disk(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="needs karat[models]")
    from sentence_transformers.models import StaticEmbedding

    static = StaticEmbedder()
    model = library.SentenceTransformer(
        modules=[StaticEmbedding(static._tokenizer, embedding_weights=static._vectors)], device="cpu"
    )
    model.save(str(tmp_path / "model"))
    found = make_retriever(f"dense(model={tmp_path / 'model'})")
    found.index(CORPUS)
    hits = found.search("card payments", 5)
    assert [i for i, _ in hits] == ["a", "b"]
    expected = make_retriever("dense")
    expected.index(CORPUS)
    assert np.array([s for _, s in hits]) == pytest.approx(
        [s for _, s in expected.search("card payments", 5)], abs=0.05
    )
