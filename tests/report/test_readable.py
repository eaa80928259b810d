"""Texts that are cut for a page."""

from __future__ import annotations

import pytest

from karat.report.readable import readable


@pytest.mark.parametrize("more", [1, 2, 20, 21])
def test_a_note_never_stands_for_fewer_characters_than_it_has(more: int) -> None:
    text = "a" * (300 + more)
    assert readable(text, 300) == text


def test_a_text_that_is_much_too_long_is_cut() -> None:
    assert readable("a" * 330, 300) == "a" * 300 + "… (30 more characters)"
    assert readable("a" * 270 + "\x00" * 60, 300) == "a" * 270 + "�" * 30 + "… (30 more characters)"
