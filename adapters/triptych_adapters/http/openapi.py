"""The OpenAPI document, made from the tables of operations and routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import triptych
from triptych_adapters.http.server import Server
from triptych_adapters.wire.records import RECORD_TYPE
from triptych_adapters.wire.routes import ROUTES, Route

__all__ = ["document"]


def document(server: Server, routes: Iterable[Any]) -> dict[str, Any]:
    """OpenAPI 3.1 of what this server serves."""
    paths: dict[str, Any] = {}
    for route in ROUTES.values():
        path = route.path.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Triptych", "version": triptych.__version__},
        "paths": paths,
    }


def _operation(route: Route) -> dict[str, Any]:
    operation = route.called
    properties = operation.parameters["properties"]
    required = operation.parameters["required"]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": properties[name]}
        for name in route.in_path
    ]
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {"application/json": {"schema": {}}, RECORD_TYPE: {"schema": {}}},
            }
        },
    }
    others = [name for name in properties if name not in route.in_path]
    if route.has_body:
        found["requestBody"] = {
            "required": any(name in required for name in others),
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {name: properties[name] for name in others},
                        "required": [name for name in others if name in required],
                        "additionalProperties": False,
                    }
                }
            },
        }
    else:
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": properties[name]}
            for name in others
        ]
    if parameters:
        found["parameters"] = parameters
    return found
