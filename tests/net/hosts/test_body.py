"""Reading a text, and cutting it so that what is left is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from karat.errors import InputError
from karat.net.hosts.base import _NOTE as NOTE
from karat.net.hosts.base import cut, utf8
from karat.net.hosts.comments import read_body


def test_a_short_text_is_left_alone() -> None:
    assert cut("a\nb", 3) == "a\nb"


@given(st.text(st.sampled_from("a\n`~<details></details>ü👩 "), max_size=3000), st.integers(500, 2000))
def test_nothing_is_longer_than_the_limit(text: str, limit: int) -> None:
    for size in (len, utf8):
        found = cut(text, limit, size)
        assert size(found) <= limit
        assert found == text or found.endswith(NOTE)


@pytest.mark.parametrize(
    ("opened", "closed"),
    [
        ("```text", "\n```"),
        ("~~~~", "\n~~~~"),
        ("````\n```", "\n````"),
        ("```\n```", ""),
        ("<details><summary>x</summary>", "\n</details>"),
        ("<details>\n<details>\n</details>\n```", "\n```\n</details>"),
    ],
)
def test_code_and_folds_that_were_cut_open_are_closed(opened: str, closed: str) -> None:
    text = f"{opened}\n" + "line\n" * 1000
    assert cut(text, 1000).endswith(f"line{closed}{NOTE}")


def test_one_endless_line_is_cut_in_the_middle() -> None:
    assert cut("👩" * 10_000, 4000, utf8) == "👩" * 900 + NOTE


def test_a_byte_order_mark_line_ends_of_windows_and_nul_are_cleaned(tmp_path: Path) -> None:
    (tmp_path / "c.md").write_bytes(b"\xef\xbb\xbfa\r\nb\0")
    assert read_body(str(tmp_path / "c.md")) == "a\nb�"


@pytest.mark.parametrize(
    ("content", "code"), [(b"", "empty-file"), (b" \n\t", "empty-file"), (b"\xff\xfe", "not-utf8")]
)
def test_a_file_that_says_nothing_is_refused(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "c.md").write_bytes(content)
    with refused(code, InputError, file=tmp_path / "c.md"):
        read_body(str(tmp_path / "c.md"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with refused("unreadable", InputError, file=tmp_path / "none.md"):
        read_body(str(tmp_path / "none.md"))
    with refused("unreadable", InputError, file=tmp_path):
        read_body(str(tmp_path))
