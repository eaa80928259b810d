"""Endpoints of the API, and the OpenAPI document that describes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.errors import ConfigError, InputError, KaratError, UnknownName
from karat.errors.redaction import redact, redact_known
from karat.files.decode_errors import DECODE_ERRORS
from karat.history.store import NotThere, StoreError
from karat.web.access import ROLES, Role

Method = Literal["GET", "POST", "PUT", "DELETE"]
ZIP = "application/zip"
_JSON = "application/json"
_BINARY = {"type": "string", "format": "binary"}
_TEMPLATE = "#/components/schemas/{name}"
_REFUSALS = {
    "400": "Invalid request.",
    "401": "Not logged in.",
    "403": "Not allowed.",
    "404": "Not found.",
    "503": "The history is not available.",
}


Offset = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
Answer: TypeAlias = Callable[[Any, dict[str, str], Any, Any], Any]


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    error: str
    hint: str | None = None
    code: str | None = None  # of the error, as in the reference of errors; refusals by the server have none


class NotYet(ConfigError):
    """The answer would reveal grades to someone who is still labelling."""


class NoParameters(msgspec.Struct, frozen=True):
    """Parameters of an endpoint that takes none."""


class Endpoint(msgspec.Struct, frozen=True):
    """One path and method. `parameters`: a struct of the query parameters; `gives`: the type of the response.

    `answer` gets the object to answer from (the store), the path parameters, the query parameters and the body.
    `role`: the least role that may ask. Everyone may read unless it is given; an endpoint that writes has to name it,
    and is for admins until it does.
    """

    method: Method
    path: str
    summary: str
    gives: Any
    answer: Answer
    parameters: type[msgspec.Struct] = NoParameters
    takes: Any = None  # type of the JSON body; bytes: a file of runs
    file: str | None = None  # media type, if the response is a file
    role: Role | None = None

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def least_role(self) -> Role:
        return self.role or ("admin" if self.writes else "viewer")


def read_parameters(kind: type[msgspec.Struct], request: Request) -> Any:
    """Converts query parameters to the types of a struct; unknown names are refused to catch typos."""
    lists = {field.name: _is_list(field.type) for field in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    for name in request.query_params:
        if name not in lists:
            raise UnknownName("parameter", name, lists)
        values = request.query_params.getlist(name)
        if len(values) > 1 and not lists[name]:
            raise InputError("given more than once", code="duplicate-value", field=name)
        given[name] = values if lists[name] else values[0]
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from error


def _is_list(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) is list


def read_body(kind: Any, content: bytes) -> Any:
    if kind is bytes:
        return content
    try:
        return msgspec.json.decode(content, type=kind)
    except DECODE_ERRORS as error:
        raise InputError(f"invalid body: {error}", code="bad-body") from error


def as_json(value: Any, status: int = 200) -> Response:
    return Response(redact_known(msgspec.json.encode(value).decode()), status, media_type=_JSON)


def problem_of(error: KaratError) -> tuple[int, Problem]:
    """404 for unknown things, 503 if the store fails, 403 for hidden grades, 400 for everything else."""
    codes = {NotThere: 404, StoreError: 503, NotYet: 403}
    status = next((code for kind, code in codes.items() if isinstance(error, kind)), 400)
    return status, Problem(str(error).partition("\nhint: ")[0], error.hint and redact(error.hint), error.code)


def openapi(endpoints: Sequence[Endpoint], prefix: str) -> dict[str, Any]:
    from karat import __version__

    kinds = [e.gives for e in endpoints if e.file is None]
    kinds += [*(e.takes for e in endpoints if e.takes not in (None, bytes)), Problem]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    known = dict(zip(map(str, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(prefix + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Karat", "version": __version__, "description": "Runs of a retriever and their scores."},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint, known: dict[str, Any]) -> dict[str, Any]:
    problem = {_JSON: {"schema": known[str(Problem)]}}
    schema = _BINARY if endpoint.file else known[str(endpoint.gives)]
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "description": f"Role: {' or '.join(ROLES[ROLES.index(endpoint.least_role) :])}.",
        "operationId": _name(endpoint),
        "parameters": [*_in_path(endpoint.path), *_in_query(endpoint.parameters), *_header(endpoint)],
        "responses": {
            "200": {"description": "Success.", "content": {endpoint.file or _JSON: {"schema": schema}}},
            **{code: {"description": text, "content": problem} for code, text in _REFUSALS.items()},
        },
    }
    if endpoint.writes:
        found["responses"]["413"] = {"description": "The body is too large.", "content": problem}
    if endpoint.takes is bytes:
        found["requestBody"] = {"required": True, "content": {ZIP: {"schema": _BINARY}}}
    elif endpoint.takes is not None:
        found["requestBody"] = {"required": True, "content": {_JSON: {"schema": known[str(endpoint.takes)]}}}
    return found


def _in_path(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", path)
    schema = {"type": "string", "minLength": 1, "maxLength": 100}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _in_query(kind: type[msgspec.Struct]) -> list[dict[str, Any]]:
    schema = msgspec.json.schema_components([kind], ref_template=_TEMPLATE)[1][kind.__name__]
    needed = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": described}
        for name, described in schema.get("properties", {}).items()
    ]


def _header(endpoint: Endpoint) -> list[dict[str, Any]]:
    if not endpoint.writes:
        return []
    says = "Any value. Pages of other sites cannot send it."
    return [{"name": "X-Karat", "in": "header", "required": True, "description": says, "schema": {"const": "1"}}]


def _name(endpoint: Endpoint) -> str:
    """
    >>> from karat.web.api import ENDPOINTS
    >>> _name(ENDPOINTS[0])
    'get_runs'
    """
    return "_".join([endpoint.method.lower(), *re.findall(r"\w+", endpoint.path)])
