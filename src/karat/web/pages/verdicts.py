"""What gates said of a run, as it is kept."""

from __future__ import annotations

import msgspec

from karat.errors import InputError
from karat.gates.verdicts import Verdicts


def kept_verdicts(document: str) -> Verdicts:
    try:
        return msgspec.json.decode(document, type=Verdicts)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InputError(
            f"the verdict was kept by a Karat that wrote it in another way: {error}", code="old-verdict"
        ) from error
