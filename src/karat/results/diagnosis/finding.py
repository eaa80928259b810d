"""What diagnosis says."""

from __future__ import annotations

from typing import Literal

import msgspec

Sure = Literal["strong", "likely"]


class Number(msgspec.Struct, frozen=True):
    """One measured number behind a finding; no limits where it is a plain count."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


class Finding(msgspec.Struct, frozen=True):
    """Something that stands out, with its proof and what to try."""

    code: str
    title: str
    sure: Sure  # strong: holds at 99 % too; likely: at the level of the intervals
    evidence: str
    what_to_try: list[str]
    numbers: list[Number]
