"""What an endpoint of the API is: declared once, it is routed, checked and described from the same lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.errors import InputError, KaratError, UnknownName
from karat.history.store import NotThere, StoreError

Method = Literal["GET", "POST", "PUT", "DELETE"]


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    error: str
    hint: str | None = None


class NoParameters(msgspec.Struct, frozen=True):
    """Of an endpoint that takes none."""


@dataclass(frozen=True)
class Endpoint:
    """One path and method. `parameters`: a struct of what may stand after the question mark, `gives`: what comes back.

    `answer` gets what it answers from (the store), what stands in the path, the parameters and the body.
    """

    method: Method
    path: str
    summary: str
    gives: Any
    answer: Callable[[Any, dict[str, str], Any, Any], Any]
    parameters: type[msgspec.Struct] = NoParameters
    takes: Any = None  # of the body, in JSON
    takes_file: bool = False  # or a file of runs
    file: str | None = None  # media type, where it gives a file

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def read_parameters(kind: type[msgspec.Struct], request: Request) -> Any:
    """From texts to the types that the struct names; what it does not know is refused, so that no typo passes."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    for name in dict.fromkeys(request.query_params.keys()):
        if name not in fields:
            raise UnknownName("parameter", name, fields)
        values = request.query_params.getlist(name)
        several = _is_list(fields[name].type)
        if len(values) > 1 and not several:
            raise InputError("given more than once", code="duplicate-value", field=name)
        given[name] = values if several else values[0]
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from error


def _is_list(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) is list


def read_body(kind: Any, content: bytes) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise InputError(f"the body is not what is expected: {error}", code="bad-body") from error


def as_json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refusal(error: KaratError) -> Response:
    """404 for what is not there, 503 for a store that does not answer, 400 for everything else."""
    status = 404 if isinstance(error, NotThere) else 503 if isinstance(error, StoreError) else 400
    text = str(error).partition("\nhint: ")[0]
    return as_json(Problem(text, error.hint), status)
