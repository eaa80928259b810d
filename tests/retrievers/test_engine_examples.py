"""The files of `examples/engines/`: every option is known. `make test-engines` tests them with the engines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from karat.retrievers.specs import is_self_contained, make_retriever

FOLDER = Path(__file__).parents[2] / "examples" / "engines"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))


def test_every_engine_has_a_file() -> None:
    named = {"chroma", "milvus", "weaviate", "pinecone", "vespa", "typesense", "azure-ai-search", "pgvector", "lucene"}
    assert named <= {Path(file).stem for file in FILES}
    page = (FOLDER / "README.md").read_text()
    assert {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".yaml")} <= set(
        re.findall(r"`([\w.-]+)`", page)
    )


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_a_retriever(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (FOLDER / file).read_text()
    for name in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(name, "postgresql://localhost/docs" if name == "DATABASE_URL" else "s3cret-key")
    found = make_retriever(str(FOLDER / file))
    assert "s3cret" not in str(found.settings())
    assert f"karat run {file} -q" in text, "each says how it is run"
    assert not is_self_contained(str(FOLDER / file)), "in CI, a file may only call servers if it is trusted"
