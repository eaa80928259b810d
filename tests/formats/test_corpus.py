"""A newcomer with nothing but documents: a folder of text and Markdown files as a corpus."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from refusals import refused

from karat.formats.corpus import Chunker, read_corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "guide").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "notes.txt").write_text("not mine")
    (tmp_path / "guide" / "Refunds.md").write_text("intro\n\n# How to refund #\n\none two three four five six seven")
    (tmp_path / "c#.txt").write_text("\ufeffeight nine")
    (tmp_path / "empty.txt").write_text(" \n ")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    return tmp_path


def test_files_become_chunks_with_their_document_title_and_place(folder: Path) -> None:
    found = read_corpus(folder, Chunker(tokens=6, overlap=2))
    text = (folder / "guide" / "Refunds.md").read_text()
    assert [t.split()[-1] for t in found.texts] == ["nine", "#", "four", "seven"]
    assert found.fields["doc_id"] == ["c%23.txt"] + ["guide/Refunds.md"] * 3
    assert found.titles == ["c#"] + ["How to refund"] * 3
    assert found.ids[1].startswith("guide/Refunds.md#0-")
    for at in (1, 2, 3):
        assert text[found.fields["start"][at] : found.fields["end"][at]] == found.texts[at]
    assert found.chunker == {"algo": "words", "tokens": 6, "overlap": 2}
    assert read_corpus(folder).chunker == {"algo": "words", "tokens": 200, "overlap": 40}
    assert found.hash != read_corpus(folder).hash


@pytest.mark.parametrize(
    ("text", "tokens", "overlap", "chunks"),
    [
        ("a b c d e", 2, 0, ["a b", "c d", "e"]),
        ("a b c d e", 3, 1, ["a b c", "c d e"]),
        ("a b c d", 3, 1, ["a b c", "c d"]),
        ("a b", 5, 2, ["a b"]),
        ("a", 5, 4, ["a"]),
        ("", 5, 2, []),
        ("日本語です ok", 3, 1, ["日本語", "語です", "す ok"]),
        ("a  b\n\nc", 2, 1, ["a  b", "b\n\nc"]),
    ],
)
def test_cutting(text: str, tokens: int, overlap: int, chunks: list[str]) -> None:
    assert [text[a:b] for a, b in Chunker(tokens, overlap).cut(text)] == chunks


def test_every_word_is_in_some_chunk_and_none_is_too_long() -> None:
    text = " ".join(f"word{n}" for n in range(1000))
    for tokens, overlap in ((7, 3), (200, 40), (1, 0), (999, 998)):
        parts = [text[a:b].split() for a, b in Chunker(tokens, overlap).cut(text)]
        assert {word for part in parts for word in part} == set(text.split())
        assert max(map(len, parts)) <= tokens
        assert all(one[len(one) - overlap :] == other[:overlap] for one, other in pairwise(parts))


@pytest.mark.parametrize("chunker", [Chunker(0, 0), Chunker(5, 5), Chunker(5, -1)])
def test_chunks_that_cannot_be_are_refused(folder: Path, chunker: Chunker) -> None:
    with refused("bad-value"):
        read_corpus(folder, chunker)


def test_folders_without_texts_are_refused(tmp_path: Path) -> None:
    with refused("no-corpus", file=tmp_path):
        read_corpus(tmp_path)
    (tmp_path / "a.txt").write_text("  ")
    with refused("no-corpus", file=tmp_path):
        read_corpus(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with refused("not-utf8", file=tmp_path / "a.txt"):
        read_corpus(tmp_path)


def test_a_corpus_in_chunks_is_not_cut_again(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "x"}\n')
    assert len(read_corpus(tmp_path)) == 1
    for path in (tmp_path, tmp_path / "corpus.jsonl"):
        with refused("chunked-already"):
            read_corpus(path, Chunker())


@pytest.mark.parametrize(
    ("logged", "chunker"),
    [
        ({"algo": "words", "tokens": 50, "overlap": 10}, Chunker(50, 10)),
        ({"algo": "headings", "tokens": 50, "overlap": 10}, None),
        ({"algo": "words", "tokens": 50, "overlap": True}, None),
        ({"algo": "words", "tokens": 50}, None),
        ("words 50/10", None),
        (None, None),
    ],
)
def test_only_its_own_settings_are_read_from_a_log(logged: object, chunker: Chunker | None) -> None:
    assert Chunker.logged(logged) == chunker
