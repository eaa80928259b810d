"""What a system is asked."""

from __future__ import annotations

from typing import Any

import msgspec


class Question(msgspec.Struct, frozen=True):
    """One query, with what a system may know of it: its tags, never its gold."""

    id: str
    text: str
    facts: dict[str, Any] = {}  # language, as_of, conversation_id and tags
    timeout: float | None = None  # seconds after which nobody waits for the answer any more

    @property
    def language(self) -> str | None:
        found = self.facts.get("language")
        return None if found is None else str(found)
