"""What qdrant-client raises, as errors of the store."""

from __future__ import annotations

import json
from collections.abc import Sequence

import grpc  # type: ignore[import-untyped]  # grpcio has no annotations
import httpx
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from triptych._internal.urls import without_secrets
from triptych_backends.qdrant.points import AwayError, MissingError

CLIENT_ERRORS = (
    ApiException,
    QdrantException,
    grpc.RpcError,
    OSError,
    # An answer that is not Qdrant's, such as a proxy's page, and an address that is none.
    ValueError,
    AssertionError,
    httpx.InvalidURL,
)
"""What a call of the client may raise, a wrong answer or a wrong address included."""

_MOST = 300
"""Characters of a reason that are shown."""


def store_error(error: Exception, where: str, secrets: Sequence[str]) -> AwayError:
    """The error to raise for one of `CLIENT_ERRORS`; it shows none of ``secrets``."""
    if _is_missing(error):
        return MissingError(
            f"a collection in Qdrant at {where} was removed during the call: try again"
        )
    reason = " ".join(without_secrets(_reason(error), secrets).split())[:_MOST]
    return AwayError(
        f"Qdrant at {where} does not answer as it should ({reason}): {_advice(error)}; the store "
        "itself has everything"
    )


def _is_missing(error: Exception) -> bool:
    """Whether an error says that a collection is not there."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code == 404 and "Collection" in _said(error.content)
    if isinstance(error, grpc.RpcError):
        return _code(error) is grpc.StatusCode.NOT_FOUND
    return type(error) is ValueError and str(error).endswith("not found")  # the local mode


def _reason(error: Exception) -> str:
    """What went wrong, as Qdrant says it where it does."""
    if isinstance(error, UnexpectedResponse):
        shown = f"HTTP {error.status_code} {error.reason_phrase}".strip()
        said = _said(error.content)
        return f"{shown}: {said}" if said else shown
    if isinstance(error, ResourceExhaustedResponse):
        return "HTTP 429 Too Many Requests"
    if isinstance(error, grpc.RpcError):
        code = _code(error)
        said = getattr(error, "details", lambda: "")() or ""
        return f"gRPC {code.name}: {said}" if code is not None else "gRPC"
    source = getattr(error, "source", error)
    if isinstance(source, ValueError | AssertionError):
        return "the answer is not Qdrant's"
    return f"{type(source).__name__}: {source}"


def _said(content: bytes) -> str:
    """The reason in an answer of Qdrant; "" in an answer of another server."""
    try:
        said = json.loads(content)["status"]["error"]
    except (ValueError, TypeError, KeyError):
        return ""
    return said if isinstance(said, str) else ""


def _advice(error: Exception) -> str:
    status = error.status_code if isinstance(error, UnexpectedResponse) else None
    code = _code(error) if isinstance(error, grpc.RpcError) else None
    refused = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    if status in (401, 403) or code in refused:
        return "check the option api_key"
    exhausted = code is grpc.StatusCode.RESOURCE_EXHAUSTED
    if status == 429 or exhausted or isinstance(error, ResourceExhaustedResponse):
        return "try again later"
    if status is not None or code not in (
        None,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    ):
        return "see to the server, whose log says more, or check its address"
    return "start it, or check its address and key"


def _code(error: Exception) -> grpc.StatusCode | None:
    return getattr(error, "code", lambda: None)()
