"""Ids in bulk: whatever container they are in, they say the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from readers import choose_reader

from karat.data.ids import DocRule, as_list, as_slice, equal
from karat.data.packed_ids import cut_packed, pack

IDS = st.lists(st.text(st.sampled_from("ab#|é日-1"), max_size=30), min_size=1, max_size=20)


@pytest.mark.parametrize("rule", ["#", "|", "-", "é", "##", "", "(.*)#"])
@given(ids=IDS)
def test_packed_ids_have_the_documents_of_their_texts(rule: str, ids: list[str]) -> None:
    of, packed = DocRule(rule), pack(ids)
    assert as_list(of.docs(packed)) == list(map(of.doc, ids))
    assert as_list(packed) == ids
    assert of.any_chunk(packed) == of.any_chunk(ids)


@given(IDS, IDS)
def test_packed_ids_are_compared_like_texts(ids: list[str], others: list[str]) -> None:
    pairs = list(zip(ids, others, strict=False)) + [(name, name) for name in ids]
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    assert equal(pack(left), pack(right)).tolist() == [one == other for one, other in pairs]


@pytest.mark.parametrize("pure", ["0", "1"])
def test_packed_ids_are_cut_before_a_byte(pure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_reader(monkeypatch, pure)
    ids = ["", "#", "a#b#c", "12345678#9", "1234567#", "no separator at all", "é#é"]
    packed = pack(ids)
    assert as_list(cut_packed(packed, ord("#"))) == [name.partition("#")[0] for name in ids]
    assert as_list(packed) == ids


@given(st.lists(st.integers(0, 5), max_size=6))
def test_a_slice_has_the_same_rows(rows: list[int]) -> None:
    values = np.arange(10, 20)
    assert values[as_slice(np.array(rows, np.int64))].tolist() == [values[row] for row in rows]
