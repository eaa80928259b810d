"""The first retriever behind the plug-in door."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.formats.corpus import read_corpus
from karat.retrievers.base import REGISTRY
from karat.retrievers.bm25 import BM25
from karat.retrievers.dense import StaticEmbedder
from karat.retrievers.words import fold, words

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"


def corpus(texts: dict[str, str], **fields: list[str]) -> Corpus:
    return Corpus("test", list(texts), [""] * len(texts), list(texts.values()), dict(fields))


def test_it_is_found_by_name() -> None:
    assert REGISTRY.require("bm25") is BM25


def test_the_document_with_the_words_wins() -> None:
    found = BM25()
    found.index(corpus({"a": "refund the card", "b": "transfer money abroad", "c": "the weather"}))
    assert [i for i, _ in found.search("refunding cards", 5)] == ["a"]
    assert found.search("nothing known", 5) == []
    assert found.search("", 5) == []


def test_scores_are_bm25() -> None:
    texts = {"a": "refund refund card", "b": "refund money", "c": "card money money transfer"}
    found = BM25(k1=1.5, b=0.75)
    found.index(corpus(texts))
    lengths = {i: len(t.split()) for i, t in texts.items()}
    average = sum(lengths.values()) / 3
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))  # Lucene's form, which bm25s uses by default

    def score(item: str, frequency: int) -> float:
        return idf * frequency / (frequency + 1.5 * (1 - 0.75 + 0.75 * lengths[item] / average))

    assert found.search("refund", 5) == [
        ("a", pytest.approx(score("a", 2), rel=1e-5)),
        ("b", pytest.approx(score("b", 1), rel=1e-5)),
    ]


def test_ties_go_by_id_descending_and_k_cuts_after_them() -> None:
    found = BM25()
    found.index(corpus(dict.fromkeys("abcd", "same words")))
    assert [i for i, _ in found.search("words", 3)] == ["d", "c", "b"]


def test_accents_may_be_left_out_and_languages_have_their_stems() -> None:
    assert fold("Cupón") == "cupon"
    assert words("transferências", "pt-BR") == words("transferencia", "pt-BR")
    assert words("los cupones vencidos", "es-AR") == words("cupón vencido", "es-AR")
    assert words("маленькие города", "ru") == words("маленький город", "ru")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("日本語", ["日本", "本語"]),
        ("本", ["本"]),
        ("ガイドABC版", ["ガイ", "イド", "abc", "版"]),
        ("한국어 검색", ["한국", "국어", "검색"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
    ],
)
def test_scripts_without_spaces_become_pairs_and_marks_stay_with_their_letters(text: str, found: list[str]) -> None:
    assert words(text, "ja") == found
    assert words(text) == found, "a text may hold words of any language"


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("I know what's John's", "en", ["know", "what", "john"]),
        ("I know what\u2019s John\u2019s", "en", ["know", "what", "john"]),
        ("step 3 of plan B", "en", ["step", "3", "plan"]),
        ("l'eau d'un lac", "fr", ["eau", "lac"]),
        ("o gato e a casa", "pt-BR", ["gat", "cas"]),
        ("a x b", "xx", []),
        ("版 本", "ja", ["版", "本"]),
    ],
)
def test_a_single_letter_is_no_word(text: str, language: str, found: list[str]) -> None:
    assert words(text, language) == found


def test_a_query_loses_more_words_than_a_text() -> None:
    assert words("What do you know about refunds?") == ["what", "do", "you", "know", "about", "refund"]
    assert words("What do you know about refunds?", asked=True) == ["know", "refund"]
    assert words("quais são os reembolsos", "pt") == words("quais são os reembolsos", "pt", asked=True)


def test_a_query_of_stop_words_alone_is_searched_by_those_in_the_index() -> None:
    found = BM25()
    found.index(corpus({"a": "who are you", "b": "refund the card"}))
    assert [i for i, _ in found.search("Who are you?", 5)] == ["a"]


def test_the_settings_say_how_texts_become_words() -> None:
    assert {"k1", "b", "field", "analyzer"} <= set(BM25().settings())


def test_chinese_is_found_by_a_part_of_a_word() -> None:
    found = BM25()
    found.index(corpus({"a": "我们可以退款给客户", "b": "天气很好"}))
    assert [i for i, _ in found.search("怎么退款", 5)] == ["a"]


def test_a_query_is_stemmed_as_the_corpus_is() -> None:
    """A corpus that names no languages was stemmed as English; a Portuguese query must be, too."""
    found = BM25()
    found.index(corpus({"a": "transferências bancárias", "b": "x"}))
    assert [i for i, _ in found.search("transferências", 5, language="pt-BR")] == ["a"]
    found = BM25()
    found.index(corpus({"a": "transferências bancárias", "b": "x"}, language=["pt-BR", "pt-BR"]))
    assert [i for i, _ in found.search("transferência", 5)] == ["a"], "the usual language of the corpus"


def test_only_titles_or_only_texts_can_be_searched() -> None:
    texts = Corpus("test", ["a", "b"], ["refund", ""], ["card", "refund"])
    for field, hits in (("title", ["a"]), ("text", ["b"]), ("all", ["a", "b"])):
        found = BM25(field)  # type: ignore[arg-type]
        found.index(texts)
        assert sorted(i for i, _ in found.search("refunds", 5)) == hits


def test_scores_equal_those_of_bm25s() -> None:
    import bm25s

    texts, gold = read_corpus(DEMO / "corpus.jsonl"), karat.read_gold(DEMO / "gold.jsonl")
    mine, other = BM25(), bm25s.BM25(k1=1.5, b=0.75)
    mine.index(texts)
    languages = texts.fields["language"]
    parts = zip(texts.titles, texts.texts, languages, strict=True)
    other.index([words(f"{title}\n{text}", language) for title, text, language in parts], show_progress=False)
    for query, language in list(zip(gold.fields["query"], gold.tags["language"], strict=True))[::20]:
        known = [word for word in words(query, language, asked=True) if word in other.vocab_dict]
        scores = dict(zip(texts.ids, other.get_scores(known).tolist(), strict=True))
        assert mine.search(query, 20, language=language) == [
            (i, pytest.approx(scores[i], rel=1e-5)) for i, _ in mine.search(query, 20, language=language)
        ]
        assert sorted(scores.values(), reverse=True)[:20] == pytest.approx(
            [s for _, s in mine.search(query, 20, language=language)], rel=1e-5
        )


def test_an_empty_corpus_is_refused() -> None:
    with refused("empty-corpus"):
        BM25().index(corpus({}))


def test_the_demo_logs_are_of_bm25() -> None:
    """They were recorded when single letters were words and English was stemmed by Porter's second stemmer."""
    import Stemmer
    from bm25s import stopwords

    names = {"en": ("english", "EN"), "pt-BR": ("portuguese", "PORTUGUESE"), "es-AR": ("spanish", "SPANISH")}
    stemmers = {code: Stemmer.Stemmer(name) for code, (name, _) in names.items()}
    dropped = {code: set(map(fold, getattr(stopwords, f"STOPWORDS_{stop}"))) for code, (_, stop) in names.items()}

    def old(text: str, language: str) -> list[str]:
        found = re.findall(r"\w+", fold(text))
        return [stemmers[language].stemWord(word) for word in found if word not in dropped[language]]

    texts, gold = read_corpus(DEMO / "corpus.jsonl"), karat.read_gold(DEMO / "gold.jsonl")
    parts = zip(texts.titles, texts.texts, texts.fields["language"], strict=True)
    counts = [Counter(old(f"{title}\n{text}", language)) for title, text, language in parts]
    mean = sum(map(Counter.total, counts)) / len(counts)
    having = Counter(word for count in counts for word in count)

    def score(query: list[str], count: Counter[str]) -> float:
        norm = 1.5 * (0.25 + 0.75 * count.total() / mean)
        idf = {word: math.log(1 + (len(counts) - having[word] + 0.5) / (having[word] + 0.5)) for word in query}
        return sum(idf[word] * count[word] / (count[word] + norm) for word in query)

    logged = {line["query_id"]: line["topk"] for line in map(json.loads, (DEMO / "bm25.jsonl").open())}
    for query, text, language in list(zip(gold.queries, gold.fields["query"], gold.tags["language"], strict=True))[::7]:
        asked = old(text, language)
        scores = sorted((score(asked, count) for count in counts), reverse=True)[:10]
        assert [hit["score"] for hit in logged[query]] == pytest.approx([s for s in scores if s > 0], abs=1e-4)


def test_static_vectors_know_what_is_alike() -> None:
    car, vehicle, bread = StaticEmbedder().embed(
        ["a car on the road", "a vehicle on the street", "banana bread recipe"]
    )
    assert car @ vehicle > car @ bread + 0.2
    assert np.linalg.norm(car) == pytest.approx(1, abs=1e-5)


def test_a_corpus_is_read_with_its_fields_and_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"_id": 1, "text": "a"}\n{"id": "b", "title": "t", "text": "c", "language": "en"}\n')
    found = read_corpus(file)
    assert (found.ids, found.titles, found.fields) == (["1", "b"], ["", "t"], {"language": [None, "en"]})
    file.write_text('{"_id": 1, "text": "a"}\n{"id": "1"}\n')
    with refused("duplicate-id", file=file, line=2, field="id", got="1") as caught:
        read_corpus(file)
    assert "line 1" in caught.value.what
    file.write_text('{"text": "a"}\n')
    with refused("missing-field", file=file, line=1, field="id"):
        read_corpus(file)
