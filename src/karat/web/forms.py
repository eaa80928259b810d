"""What a form of these pages sends."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

from karat.errors import InputError

_MOST = 10  # fields


async def read_form(request: Request) -> dict[str, str]:
    try:
        return dict(parse_qsl((await request.body()).decode("utf-8", "replace"), max_num_fields=_MOST))
    except ValueError as error:  # more fields than any form has
        raise InputError("not a form of these pages", code="bad-body") from error
