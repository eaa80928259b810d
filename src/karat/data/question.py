"""The questions that a system is asked."""

from __future__ import annotations

from typing import Any

import msgspec


class Question(msgspec.Struct, frozen=True):
    """One query, with what a system may know about it: its tags, never its gold."""

    id: str
    text: str
    facts: dict[str, Any] = {}  # language, as_of, conversation_id and tags
    timeout: float | None = None  # seconds to wait for the answer

    @property
    def language(self) -> str | None:
        found = self.facts.get("language")
        return None if found is None else str(found)
