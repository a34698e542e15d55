"""The HTTP routes of the operations of a `Service`, for servers and clients.

Each route is one operation. Its arguments are in the path, in the query of the URL or in the body,
a JSON object. A document's name is last in a path, with its slashes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import attrs

from triptych.errors import ValidationError
from triptych_adapters.wire.arguments import strict_json
from triptych_adapters.wire.operations import OPERATIONS, PIPELINE_OPERATIONS, Operation

SERVICE_PATH: Final = "/v1/service"


def argument_in(part: str) -> str:
    """Return the argument that a part of a path stands for; "" for a literal part."""
    return part.strip("{}").partition(":")[0] if part.startswith("{") else ""


@attrs.frozen(slots=True)
class Route:
    """The route of an operation.

    Attributes:
        operation: the name of the operation in `OPERATIONS`.
        method: the HTTP method.
        path: the path below the server's root; ``{argument}`` stands for an argument,
            ``{name:path}`` for one that may contain slashes.
        in_path: the arguments in the path, in order.
        has_body: whether the other arguments are in the body; else in the query of the URL.
    """

    operation: str
    method: str
    path: str
    in_path: tuple[str, ...] = attrs.field(init=False)
    has_body: bool = attrs.field(init=False)

    @in_path.default
    def _in_path(self) -> tuple[str, ...]:
        return tuple(filter(None, map(argument_in, self.path.split("/"))))

    @has_body.default
    def _has_body(self) -> bool:
        return self.method not in {"GET", "DELETE"}

    @property
    def name(self) -> str:
        """The operation's name, with the suffix ``_by_pipeline`` for a pipeline."""
        return f"{self.operation}_by_pipeline" if "{pipeline}" in self.path else self.operation

    @property
    def called(self) -> Operation:
        """The operation itself."""
        table = PIPELINE_OPERATIONS if "pipeline" in self.in_path else OPERATIONS
        return table[self.operation]

    def url(self, arguments: Mapping[str, Any]) -> str:
        """Return the path with percent-encoded arguments; dots too, because clients drop ``..``."""
        parts = []
        for part in self.path.split("/"):
            if name := argument_in(part):
                part = quote(str(arguments[name]), safe="").replace(".", "%2E")
            parts.append(part)
        return "/".join(parts)


@attrs.frozen(kw_only=True, slots=True)
class ServerFacts:
    """The properties of a server: version, embedder, lanes, pipelines, limit.

    Attributes:
        version: the version of Triptych.
        write: whether operations that write and destroy are served.
        embedder, dimension: the embedder's signature and dimension, None without one.
        lanes, pipelines: their names.
        max_body: the maximum size of a request's body in bytes.
        idempotency: whether writes accept an Idempotency-Key.
    """

    version: str
    write: bool
    embedder: str | None
    dimension: int | None
    lanes: tuple[str, ...]
    pipelines: tuple[str, ...]
    max_body: int
    idempotency: bool


_DATASET: Final = "/v1/datasets/{dataset_id}"

ROUTES: Final[Mapping[str, Route]] = {
    route.operation: route
    for route in (
        Route("put_document", "PUT", _DATASET + "/documents/{name:path}"),
        Route("put_documents", "POST", _DATASET + "/documents"),
        Route("get_document", "GET", _DATASET + "/documents/{name:path}"),
        Route("list_documents", "GET", _DATASET + "/documents"),
        Route("count_documents", "GET", _DATASET + "/count"),
        Route("update_metadata", "POST", _DATASET + "/metadata"),
        Route("delete_document", "DELETE", _DATASET + "/documents/{name:path}"),
        Route("delete_documents", "POST", _DATASET + "/delete"),
        Route("history", "GET", _DATASET + "/history/{name:path}"),
        Route("diff", "GET", _DATASET + "/diff/{name:path}"),
        Route("restore", "POST", _DATASET + "/restore/{name:path}"),
        Route("changes", "GET", "/v1/changes"),
        Route("list_datasets", "GET", "/v1/datasets"),
        Route("create_dataset", "PUT", _DATASET),
        Route("configure_dataset", "PATCH", _DATASET),
        Route("delete_dataset", "DELETE", _DATASET),
        Route("recreate", "POST", _DATASET + "/recreate"),
        Route("purge", "POST", _DATASET + "/purge"),
        Route("layers", "GET", _DATASET + "/layers"),
        Route("dataset_layer", "GET", _DATASET + "/layers/{layer}"),
        Route("put_dataset_layer", "PUT", _DATASET + "/layers/{layer}"),
        Route("layer", "GET", _DATASET + "/layers/{layer}/{name:path}"),
        Route("put_document_layer", "PUT", _DATASET + "/layers/{layer}/{name:path}"),
        Route("put_folder_layer", "PUT", _DATASET + "/folder-layers/{layer}/{folder:path}"),
        Route("search", "POST", "/v1/search"),
        Route("search_documents", "POST", "/v1/search-documents"),
        Route("search_many", "POST", "/v1/search-many"),
        Route("explain", "POST", "/v1/explain"),
        Route("similar", "GET", _DATASET + "/similar/{name:path}"),
        Route("context", "POST", "/v1/context"),
        Route("context_prefix", "GET", "/v1/context-prefix"),
        Route("verify", "POST", "/v1/verify"),
        Route("ask", "POST", "/v1/ask"),
        Route("replay", "POST", "/v1/replay"),
        Route("embed_pending", "POST", "/v1/embed-pending"),
        Route("remove_expired", "POST", "/v1/remove-expired"),
        Route("rebuild", "POST", "/v1/rebuild"),
        Route("doctor", "POST", "/v1/doctor"),
        Route("stats", "GET", "/v1/dataset-stats"),
        Route("cache_stats", "GET", "/v1/cache-stats"),
        Route("health", "GET", "/v1/health"),
    )
}
"""The routes by the names of operations."""

_PIPELINE: Final = "/v1/pipelines/{pipeline}"

PIPELINE_ROUTES: Final[Mapping[str, Route]] = {
    operation: Route(operation, "POST", _PIPELINE + ROUTES[operation].path.removeprefix("/v1"))
    for operation in PIPELINE_OPERATIONS
}
"""The routes of the operations of a named pipeline; the argument ``pipeline`` names it."""


# The query of a URL: a text stands there as it is, another value as its JSON, such as
# ?limit=10&where={"lang":"en"}, all of it percent-encoded.


def query_pairs(parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Encode ``arguments``, with the JSON Schema ``parameters``, for the query of a URL."""
    properties = parameters["properties"]
    return {
        name: value if _is_text(properties[name]) else json.dumps(value)
        for name, value in arguments.items()
    }


def query_arguments(
    tool: str, parameters: Mapping[str, Any], pairs: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Decode the arguments in the query of a URL; `read_arguments` checks them.

    Raises:
        ValidationError: an argument is given twice, or is not valid JSON.
    """
    properties = parameters["properties"]
    arguments: dict[str, Any] = {}
    for name, text in pairs:
        if name in arguments:
            raise ValidationError(
                f"{tool}: the argument {name[:60]!r} is given twice: give it once"
            )
        if name not in properties or _is_text(properties[name]):
            arguments[name] = text
            continue
        try:
            arguments[name] = strict_json(text)
        except (ValueError, RecursionError) as error:
            reason = "" if isinstance(error, json.JSONDecodeError) else f" ({error})"
            raise ValidationError(
                f"{tool}: the argument {name!r} is not JSON: {text[:60]!r}{reason}; "
                'write 10, true or {"lang":"en"}'
            ) from None
    return arguments


def _is_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string"
