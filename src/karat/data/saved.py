"""Common fields of all saved objects: the kind of file, the version that saved it, and what was evaluated."""

from __future__ import annotations

from typing import Any

import msgspec

from karat.data.gold import Dataset
from karat.data.presented import Presented
from karat.errors.redaction import redact_known


class SavedObject(Presented, msgspec.Struct, frozen=True, kw_only=True):
    """What a command saves. Later versions add keys and never change the meaning of existing ones."""

    schema: str  # karat/NAME/NUMBER, a default of each kind
    karat: str  # version


class SavedOfSystem(SavedObject, frozen=True, kw_only=True):
    """The saved data of one system's run on one gold set."""

    system: str
    run: str
    gold: str
    dataset: Dataset


def json_text(value: Any) -> bytes:
    """JSON for people to read in a file or a terminal."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    return redact_known(text.decode()).encode()
