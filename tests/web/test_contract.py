"""The API keeps what its own document promises, whatever it is asked."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)


@schemathesis.serializer("application/zip")
def as_it_is(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else bytes(str(value), "utf-8", "replace")


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def test_every_endpoint_by_its_document(labelling: Any) -> None:
    site = labelling
    schema = schemathesis.openapi.from_url(f"{site.url}/api/v1/openapi.json")
    asked = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal asked
            if "pool" in (case.path_parameters or {}):
                case.path_parameters["pool"] = "pool"  # no other would be there
            try:
                case.call_and_validate(base_url=site.url, checks=CHECKS)
            except FailureGroup as group:
                raise group.exceptions[0] from None
            asked += 1

        ask()
    assert asked > 200
