"""The OpenAPI document, made from the endpoints and their structs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from karat.web.endpoints import Endpoint, Problem

_TEMPLATE = "#/components/schemas/{name}"
_REFUSALS = {
    "400": "The request is not one that can be answered.",
    "401": "Not logged in.",
    "403": "From a place that may not ask.",
    "404": "Not there.",
    "503": "The history does not answer.",
}


def openapi(endpoints: Sequence[Endpoint], prefix: str) -> dict[str, Any]:
    from karat import __version__

    kinds = [e.gives for e in endpoints if e.file is None] + [e.takes for e in endpoints if e.takes] + [Problem]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    known = dict(zip(map(str, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(prefix + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Karat", "version": __version__, "description": "Runs of a retriever, and what they scored."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint, known: dict[str, Any]) -> dict[str, Any]:
    media = endpoint.file or "application/json"
    schema = {"type": "string", "format": "binary"} if endpoint.file else known[str(endpoint.gives)]
    problem = {"application/json": {"schema": known[str(Problem)]}}
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _name(endpoint),
        "parameters": [*_in_path(endpoint.path), *_in_query(endpoint.parameters), *_header(endpoint)],
        "responses": {
            "200": {"description": "As asked for.", "content": {media: {"schema": schema}}},
            **{code: {"description": text, "content": problem} for code, text in _REFUSALS.items()},
        },
    }
    if endpoint.writes:
        found["responses"]["413"] = {"description": "The body is too large.", "content": problem}
    if endpoint.takes is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": known[str(endpoint.takes)]}},
        }
    if endpoint.takes_file:
        binary = {"schema": {"type": "string", "format": "binary"}}
        found["requestBody"] = {"required": True, "content": {"application/zip": binary}}
    return found


def _in_path(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", path)
    schema = {"type": "string", "minLength": 1, "maxLength": 100}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _in_query(kind: type[msgspec.Struct]) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([kind], ref_template=_TEMPLATE)
    schema = components[kind.__name__]
    needed = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": described}
        for name, described in schema.get("properties", {}).items()
    ]


def _header(endpoint: Endpoint) -> list[dict[str, Any]]:
    if not endpoint.writes:
        return []
    says = "Any value: a page of another site cannot send it."
    return [{"name": "X-Karat", "in": "header", "required": True, "description": says, "schema": {"const": "1"}}]


def _name(endpoint: Endpoint) -> str:
    """
    >>> from karat.web.api import ENDPOINTS
    >>> _name(ENDPOINTS[0])
    'get_runs'
    """
    return "_".join([endpoint.method.lower(), *re.findall(r"\w+", endpoint.path)])
