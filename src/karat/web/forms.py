"""Reads the forms of the pages."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

from karat.errors import InputError

_MOST = 10  # fields


async def read_form(request: Request, most: int = _MOST) -> dict[str, str]:
    """`most`: fields."""
    try:
        return dict(parse_qsl((await request.body()).decode("utf-8", "replace"), max_num_fields=most))
    except ValueError as error:  # too many fields
        raise InputError("invalid form", code="bad-body") from error
