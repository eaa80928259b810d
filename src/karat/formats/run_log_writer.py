"""Run logs from your own code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import msgspec


class RunLogWriter:
    """Writes a run log from your own code, a whole line at a time.

    >>> import io
    >>> out = io.BytesIO()
    >>> log = RunLogWriter(out, system="bm25", index_version="v1")
    >>> log.write("q1", [("doc_1#p2", 7.5), "doc_3#p1"], latency_ms={"retrieve": 3.5})
    >>> out.getvalue().decode().count("doc_1#p2")
    1
    """

    def __init__(self, target: str | IO[bytes], *, system: str, **provenance: Any) -> None:
        self._stream: IO[bytes] = open(target, "wb") if isinstance(target, str) else target  # noqa: SIM115
        self._common = {"system": system, **provenance}

    def write(self, query_id: str, hits: Iterable[Any], **fields: Any) -> None:
        """`hits`: ids, (id, score) pairs or dicts, best first. Other fields go into the line as they are."""
        record = {"query_id": query_id, **self._common, "topk": ranked_hits(hits), **fields}
        self._stream.write(msgspec.json.encode(record) + b"\n")
        self._stream.flush()

    def __enter__(self) -> RunLogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def ranked_hits(hits: Iterable[Any]) -> list[dict[str, Any]]:
    """Hits in any form that a person would give, as the objects of a run log, ranks from 1."""
    ranked = []
    for rank, hit in enumerate(hits, 1):
        if isinstance(hit, dict):
            ranked.append({"rank": rank, **hit})
        elif isinstance(hit, tuple):
            ranked.append({"rank": rank, "chunk_id": hit[0], "score": hit[1]})
        else:
            ranked.append({"rank": rank, "chunk_id": hit})
    return ranked
