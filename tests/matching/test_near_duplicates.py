"""Near duplicates against the definition, text by text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karat.matching.near_duplicates import near_duplicates, shingles

WORDS = st.lists(st.sampled_from(["refund", "card", "Five", "days", "退款", "of", "the"]), max_size=12)
TEXTS = st.lists(st.none() | WORDS.map(" ".join), max_size=12)


def by_definition(texts: list[str | None], threshold: float) -> list[int | None]:
    found: list[int | None] = []
    for at, text in enumerate(texts):
        mine = shingles(text or "")
        first = None
        for before in range(at):
            other = shingles(texts[before] or "")
            shared, either = len(mine & other), len(mine | other)
            if found[before] is None and either and shared and shared >= threshold * either:
                first = before
                break
        found.append(first)
    return found


@given(TEXTS, st.sampled_from([0.3, 0.5, 0.8, 1.0]))
def test_it_equals_the_definition(texts: list[str | None], threshold: float) -> None:
    assert near_duplicates(texts, threshold) == by_definition(texts, threshold)


@given(TEXTS)
def test_a_copy_is_a_duplicate_and_an_empty_text_is_none(texts: list[str | None]) -> None:
    found = near_duplicates([*texts, *texts])
    for at, text in enumerate(texts):
        assert (found[len(texts) + at] is not None) == bool(text)


def test_a_changed_word_in_a_passage_is_a_near_duplicate() -> None:
    passage = "You can refund a card payment for up to 90 days after the day of the sale. " * 3
    other = "Cards are shipped within two weeks, and nobody can make that any faster, whatever they pay for it."
    assert near_duplicates([passage, other, passage.replace("90", "60", 1), passage.upper()]) == [None, None, 0, 0]


def test_texts_without_blanks_are_told_apart() -> None:
    one, other = "退款需要五个工作日才能到账请耐心等待", "银行卡将在两周内寄出请注意查收您的邮件"
    assert near_duplicates([one, other, one + "。"]) == [None, None, 0]
