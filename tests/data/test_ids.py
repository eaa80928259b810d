"""Ids in bulk: whatever container they are in, they say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.data.ids import DocRule, as_list
from karat.data.packed_ids import pack

IDS = st.lists(st.text(st.sampled_from("ab#|é日-1"), max_size=30), min_size=1, max_size=20)


@pytest.mark.parametrize("rule", ["#", "|", "-", "é", "##", "", "(.*)#"])
@given(ids=IDS)
def test_packed_ids_have_the_documents_of_their_texts(rule: str, ids: list[str]) -> None:
    of, packed = DocRule(rule), pack(ids)
    assert as_list(of.docs(packed)) == list(map(of.doc, ids))
    assert as_list(packed) == ids
    assert of.any_chunk(packed) == of.any_chunk(ids)
