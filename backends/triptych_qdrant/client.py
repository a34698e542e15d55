"""`Collections` through qdrant-client: a server over HTTP or gRPC, or the client's local mode."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no annotations
import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse
from qdrant_client.models import Filter

from triptych.resources import without_secrets
from triptych.runtime import renewed_in_child
from triptych_qdrant.points import (
    DATASET,
    HEADINGS,
    OWNER,
    STATE,
    UNIT,
    VECTOR,
    AwayError,
    Found,
    MissingError,
    Point,
)

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


_INDEXES: Mapping[str, Any] = {
    DATASET: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    UNIT: models.PayloadSchemaType.KEYWORD,
    HEADINGS: models.PayloadSchemaType.KEYWORD,
    OWNER: models.PayloadSchemaType.INTEGER,
    STATE: models.PayloadSchemaType.INTEGER,
}
_WITHOUT_HEADINGS = models.PayloadSelectorExclude(exclude=[HEADINGS])
_PAGE = 1_000
_VALUES = 1_000_000
"""More than there are values to count."""


class ClientCollections:
    """See `Collections`. Thread-safe, and fork-safe: a forked child connects by itself.

    ``connect`` makes a client; ``where`` is what messages call it, and ``secrets`` what they
    do not show, such as its key. ``is_server`` is False for the
    client's local mode, which has no payload indexes and serves one thread at a time.
    ``shard_number`` and ``replication_factor`` are those of collections that are made on a cluster.
    """

    def __init__(
        self,
        connect: Callable[[], QdrantClient],
        where: str,
        *,
        is_server: bool = True,
        secrets: Sequence[str] = (),
        shard_number: int | None = None,
        replication_factor: int | None = None,
    ) -> None:
        self.where = where
        self._secrets = tuple(secrets)
        self._shard_number = shard_number
        self._replication_factor = replication_factor
        self._connect = connect
        self._is_server = is_server
        self._client: tuple[int, QdrantClient] | None = None
        self._after_fork_in_child()
        _CLIENTS.add(self)

    def names(self) -> Sequence[str]:
        with self._asking() as client:
            return [found.name for found in client.get_collections().collections]

    def make(self, name: str, dimension: int) -> None:
        vectors = {}
        if dimension:
            vectors[VECTOR] = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
        indexes = _INDEXES if self._is_server else {}
        with self._asking() as client:
            if not client.collection_exists(name):
                client.create_collection(
                    name,
                    vectors_config=vectors,
                    shard_number=self._shard_number,
                    replication_factor=self._replication_factor,
                )
            # Again where they are there: whoever made the collection may have been killed.
            for field, schema in indexes.items():
                client.create_payload_index(name, field, schema, wait=True)

    def drop(self, name: str) -> None:
        with self._asking() as client:
            if client.collection_exists(name):
                client.delete_collection(name)

    def put(self, name: str, points: Sequence[Point], *, over: Filter) -> None:
        structs = [
            models.PointStruct(
                id=point.id,
                payload=dict(point.payload),
                vector={} if point.vector is None else {VECTOR: point.vector.tolist()},
            )
            for point in points
        ]
        with self._asking() as client:
            client.upsert(
                name, structs, wait=True, update_filter=over if over != Filter() else None
            )

    def delete(self, name: str, where: Filter) -> None:
        with self._asking() as client:
            client.delete(name, models.FilterSelector(filter=where), wait=True)

    def read(self, name: str, point: str) -> Mapping[str, Any] | None:
        try:
            with self._asking() as client:
                found = client.retrieve(name, [point], with_payload=True)
        except MissingError:
            return None
        return found[0].payload if found else None

    def list_points(self, name: str, where: Filter) -> Sequence[Mapping[str, Any]]:
        listed: list[Mapping[str, Any]] = []
        after = None
        while True:
            with self._asking() as client:
                found, after = client.scroll(
                    name, where, limit=_PAGE, offset=after, with_payload=_WITHOUT_HEADINGS
                )
            listed += [each.payload or {} for each in found]
            if after is None:
                return listed

    def nearest(
        self, name: str, vector: NDArray[np.float32], where: Filter, *, limit: int, exact: bool
    ) -> Sequence[Found]:
        with self._asking() as client:
            answer = client.query_points(
                name,
                query=vector.tolist(),
                using=VECTOR,
                query_filter=where,
                # The local mode always compares one by one, and warns of the parameter.
                search_params=models.SearchParams(exact=exact) if self._is_server else None,
                limit=limit,
                with_payload=_WITHOUT_HEADINGS,
            )
        return [Found(each.payload or {}, each.score) for each in answer.points]

    def counts(self, name: str, field: str, where: Filter) -> Mapping[int, int]:
        with self._asking() as client:
            answer = client.facet(name, field, where, limit=_VALUES, exact=True)
        return {int(hit.value): hit.count for hit in answer.hits}

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None and client[0] == os.getpid():
            client[1].close()

    @contextmanager
    def _asking(self) -> Iterator[QdrantClient]:
        try:
            with nullcontext() if self._is_server else self._turns:
                yield self._connected()
        except CLIENT_ERRORS as error:
            raise store_error(error, self.where, self._secrets) from error

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()
        self._turns = threading.Lock()

    def _connected(self) -> QdrantClient:
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                self._client = (os.getpid(), self._connect())
            return self._client[1]


_CLIENTS = renewed_in_child("_after_fork_in_child")
