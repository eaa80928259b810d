"""Which chunks hold a passage: by place, by text, and the same by both."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from karat.data.passages.documents import ChunkPlaces, ChunkTexts, Document, WholeText, holds, normalise
from karat.data.passages.passage import Passage, Stretch, merged, shared, size

STRETCHES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)).map(lambda s: (s[0], s[0] + s[1])), max_size=12)


def characters(stretches: list[Stretch]) -> set[int]:
    return {at for start, end in stretches for at in range(start, end)}


@given(one=STRETCHES, other=STRETCHES)
def test_stretches_are_sets_of_characters(one: list[Stretch], other: list[Stretch]) -> None:
    assert size(merged(one)) == len(characters(one))
    assert characters(merged(one)) == characters(one)
    assert shared(merged(one), merged(other)) == len(characters(one) & characters(other))


@given(chunks=STRETCHES, start=st.integers(0, 60), length=st.integers(1, 70))
@example(chunks=[(0, 100), (10, 12), (20, 60)], start=30, length=10)  # a chunk around others
def test_holders_by_place(chunks: list[Stretch], start: int, length: int) -> None:
    end = start + length
    expected = [
        at
        for at, (first, last) in enumerate(chunks)
        if (common := min(end, last) - max(start, first)) > 0 and holds(common, length, last - first)
    ]
    assert ChunkPlaces(chunks).holders(start, end) == expected


def test_half_of_a_passage_is_enough_and_less_is_not() -> None:
    whole, left, right, short = (0, 200), (0, 150), (150, 300), (120, 139)
    places = ChunkPlaces([whole, left, right, short])
    assert places.holders(100, 200) == [0, 1, 2]  # 50 of 100 characters on either side
    assert places.holders(101, 201) == [0, 2]  # 49 on the left
    assert places.holders(0, 300) == [0, 1, 2]  # longer than a chunk: chunks that lie in it; 19 characters are no chunk


# Letters that make up many repeats, and some white space.
WORDS = st.text(alphabet="ab \n", min_size=0, max_size=60)


def plainly_held(quote: str, text: str) -> bool:
    """The rule in slow words: whole, or cut at an edge of the chunk."""
    if quote in text:
        return True
    cuts = [n for n in range(1, min(len(quote), len(text)) + 1) if text.endswith(quote[:n])]
    cuts += [n for n in range(1, min(len(quote), len(text)) + 1) if text.startswith(quote[-n:])]
    cuts += [len(text)] if text and text in quote else []
    return any(n >= 8 and holds(n, len(quote), len(text)) for n in cuts)


@given(texts=st.lists(WORDS, max_size=6), quote=WORDS)
@example(texts=["x" * 30 + " the money goes", "back to the card " + "y" * 30], quote="the money goes back to the card")
@example(texts=["it takes five days to arrive"], quote="mostly it takes five days to arrive, or a little longer")
def test_holders_by_text(texts: list[str], quote: str) -> None:
    normal = normalise(quote)
    expected = [at for at, text in enumerate(texts) if normal and plainly_held(normal, normalise(text))]
    assert ChunkTexts(texts).holders(normal) == expected


def test_a_quote_is_found_whatever_its_case_and_white_space() -> None:
    text = "One.\n\n  Refunds   take\tFIVE days.\nAnd İstanbul is far."
    found = WholeText(text).find(normalise("refunds TAKE five  days"))
    assert [text[start:end] for start, end in found] == ["Refunds   take\tFIVE days"]
    ((start, end),) = WholeText(text).find(normalise("İstanbul is"))
    assert text[start:end] == "İstanbul is"
    assert WholeText(text).find("six days") == []
    assert WholeText("go on and go on").find("go on") == [(0, 5), (10, 15)]


@given(text=st.text(alphabet="aB \tİ", max_size=80), data=st.data())
def test_what_stands_at_a_place_is_the_quote(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    quote = normalise(text[start : data.draw(st.integers(start, len(text)))])
    found = WholeText(text).find(quote)
    assert bool(found) == bool(quote)
    assert {normalise(text[first:last]) for first, last in found} <= {quote}


def cut(text: str, length: int, step: int) -> list[Stretch]:
    return [(start, min(start + length, len(text))) for start in range(0, len(text), step)]


TEXT = " ".join(f"Sentence {i} tells fact {i * 7919 % 1000} of case {i * 31 % 97}." for i in range(60))


@pytest.mark.parametrize(("length", "step"), [(100, 100), (100, 60), (300, 300), (40, 40)])
@pytest.mark.parametrize("quote", ["Sentence 17 tells fact 623 of case 42.", TEXT[410:560], TEXT[5:910]])
def test_every_way_finds_the_same_chunks(length: int, step: int, quote: str) -> None:
    """By offsets; by the quote in the text that chunks make up, in that of the document, and in the chunks alone."""
    stretches, start = cut(TEXT, length, step), TEXT.index(quote)
    texts = [TEXT[first:last] for first, last in stretches]
    ids = [str(at) for at in range(len(texts))]
    by_place, by_quote = Passage("d", None, start, start + len(quote)), Passage("d", quote)
    given = Document(None, ids, texts, list(stretches))
    bare = Document(None, ids, texts, [None] * len(ids))
    read = Document(TEXT, ids, texts, [None] * len(ids))
    expected = given.holders(by_place, given.places(by_place))
    assert expected
    assert given.places(by_quote) == [(start, start + len(quote))]
    for document, passage in ((given, by_quote), (read, by_place), (read, by_quote), (bare, by_quote)):
        assert document.holders(passage, document.places(passage)) == expected


def test_chunks_without_text_or_place_tell_nothing() -> None:
    silent = Document(None, ["a", "b"], ["", ""], [None, None])
    assert not silent.tells
    assert silent.holders(Passage("d", "quote"), []) is None
    only_texts = Document(None, ["a"], ["some text"], [None])
    assert only_texts.holders(Passage("d", None, 3, 9), [(3, 9)]) is None  # nobody knows what stands there
    only_places = Document(None, ["a", "b"], ["", ""], [(0, 50), (50, 100)])
    assert only_places.holders(Passage("d", "quote"), []) is None
    assert only_places.holders(Passage("d", None, 60, 90), [(60, 90)]) == ["b"]


def test_a_document_is_not_put_together_from_chunks_far_apart() -> None:
    """Offsets that nobody can mean take no memory."""
    assert Document(None, ["a"], ["text"], [(2**50, 2**50 + 4)]).whole is None


def test_texts_of_a_megabyte_are_searched_at_once() -> None:
    """Ten thousand chunks, a hundred quotes of which many are cut, one that is nearly everything, and repeats."""
    text = TEXT * (1_000_000 // len(TEXT)) + "".join(f"<{i}>" for i in range(5000))
    stretches = cut(text, 100, 100)
    chunks = [text[first:last] for first, last in stretches]
    started = time.process_time()
    texts, whole = ChunkTexts(chunks), WholeText(text)
    for at in range(100):
        assert texts.holders(normalise(text[at * 1000 + 50 : at * 1000 + 250]))
    assert len(texts.holders(normalise(text))) == len(chunks)
    assert whole.find("<4999>")
    assert None not in whole.find_each(chunks, in_order=True)
    assert ChunkTexts(["a" * 1_000_000] * 3).holders("a" * 500_000) == [0, 1, 2]
    assert time.process_time() - started < 20  # a search that grows with the square takes hours
