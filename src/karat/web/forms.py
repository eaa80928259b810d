"""Reads the forms of the pages."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

from karat.errors import InputError

_MOST = 10  # fields


async def read_form(request: Request) -> dict[str, str]:
    try:
        return dict(parse_qsl((await request.body()).decode("utf-8", "replace"), max_num_fields=_MOST))
    except ValueError as error:  # too many fields
        raise InputError("invalid form", code="bad-body") from error
