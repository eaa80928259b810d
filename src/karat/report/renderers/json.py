"""A report as JSON: the blocks themselves."""

from __future__ import annotations

import msgspec

from karat.report.blocks import Report


def render_json(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
