"""`dense` with models of sentence-transformers, made on the spot: nothing is downloaded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from libraries import library
from refusals import refused

from karat.data.corpus import Corpus
from karat.retrievers.dense import StaticEmbedder, make_embedder
from karat.retrievers.specs import make_retriever
from karat.systems.run import run_retriever

CORPUS = Corpus("texts", ["a", "b", "c"], [""] * 3, ["refund a card payment", "transfer money abroad", ""])
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "question", "passage", ":", "refund", "a", "card", "payment"]
WORDS += ["transfer", "money", "abroad"]


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small transformer with weights from a seed, which puts a word before queries and another before passages."""
    library("sentence_transformers")
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(7)
    bare, made = tmp_path_factory.mktemp("bert"), tmp_path_factory.mktemp("model")
    (bare / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    BertTokenizerFast(str(bare / "vocab.txt")).save_pretrained(bare)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(WORDS), **sizes)).save_pretrained(bare)
    SentenceTransformer(
        modules=[Transformer(str(bare)), Pooling(32)],
        device="cpu",
        prompts={"query": "question: ", "document": "passage: "},
    ).save(str(made))
    return made


def vector(model: Path, text: str) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(model)).encode([text], normalize_embeddings=True, prompt="")[0]


def test_a_static_model_on_the_disk_finds_what_ours_finds(tmp_path: Path) -> None:
    library("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    static = StaticEmbedder()
    module = StaticEmbedding(static._tokenizer, embedding_weights=static._vectors)
    SentenceTransformer(modules=[module], device="cpu").save(str(tmp_path / "model"))
    found = make_retriever(f"dense(model={tmp_path / 'model'})")
    found.index(CORPUS)
    hits = found.search("card payments", 5)
    assert [i for i, _ in hits] == ["a", "b"]
    expected = make_retriever("dense")
    expected.index(CORPUS)
    assert np.array([s for _, s in hits]) == pytest.approx(
        [s for _, s in expected.search("card payments", 5)], abs=0.05
    )


def test_queries_and_passages_get_the_words_that_the_model_was_trained_with(transformer: Path) -> None:
    model = make_embedder(str(transformer))
    assert model.embed_query("refund") == pytest.approx(vector(transformer, "question: refund"), abs=1e-5)
    assert model.embed(["refund"])[0] == pytest.approx(vector(transformer, "passage: refund"), abs=1e-5)
    assert model.embed_query("refund") != pytest.approx(model.embed(["refund"])[0], abs=1e-3)


def test_many_workers_share_one_model(transformer: Path) -> None:
    texts = ["refund", "refund a card", "transfer money abroad now", "money"] * 25
    gold = [{"query_id": f"q{i}", "query": text, "gold": ["a"]} for i, text in enumerate(texts)]
    one, many = (
        run_retriever(f"dense(model={transformer})", gold, corpus=CORPUS, k=2, workers=n, warm_up=0) for n in (1, 8)
    )
    assert one.failed == many.failed == 0, many.first_error
    assert [r["topk"] for r in one.run] == [r["topk"] for r in many.run]


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    library("sentence_transformers")
    with refused("not-loaded") as caught:
        make_embedder(str(tmp_path))
    assert caught.value.hint


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if it were not installed
    with refused("missing-package", extra="models"):
        make_retriever("dense(model=all-MiniLM-L6-v2)").index(CORPUS)
