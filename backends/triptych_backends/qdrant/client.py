"""`Collections` through qdrant-client: a server over HTTP or gRPC, or the client's local mode."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.models import Filter

from triptych_backends.index.bm25 import K1, B
from triptych_backends.qdrant.errors import CLIENT_ERRORS, store_error
from triptych_backends.qdrant.points import (
    DATASET,
    HEADINGS,
    LENGTH,
    OWNER,
    STATE,
    TOKENS,
    UNIT,
    VECTOR,
    Found,
    MissingError,
    Point,
)

_INDEXES: Mapping[str, Any] = {
    DATASET: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    UNIT: models.PayloadSchemaType.KEYWORD,
    HEADINGS: models.PayloadSchemaType.KEYWORD,
    OWNER: models.PayloadSchemaType.INTEGER,
    LENGTH: models.PayloadSchemaType.INTEGER,
    STATE: models.PayloadSchemaType.INTEGER,
    "key": models.PayloadSchemaType.INTEGER,
}
_WORDS = models.TextIndexParams(
    type=models.TextIndexType.TEXT,
    tokenizer=models.TokenizerType.WHITESPACE,
    lowercase=False,
    scoring=True,
)
_RANKS_WORDS = (1, 20)
"""The first version whose text indexes rank by BM25 with the statistics of a part."""

_WITHOUT_TEXT = models.PayloadSelectorExclude(exclude=[TOKENS, HEADINGS])
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
        self._ranks_words: bool | None = None if is_server else False
        self._after_fork_in_child()
        _CLIENTS.add(self)

    def ranks_words(self) -> bool:
        """See `Collections.ranks_words`: by the server's version, which is asked for once."""
        if self._ranks_words is None:
            with self._asking() as client:
                version = client.info().version
            numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
            self._ranks_words = tuple(numbers) >= _RANKS_WORDS
        return self._ranks_words

    def names(self) -> Sequence[str]:
        """See `Collections.names`."""
        with self._asking() as client:
            return [found.name for found in client.get_collections().collections]

    def make(self, name: str, dimension: int) -> None:
        """See `Collections.make`."""
        vectors = {}
        if dimension:
            vectors[VECTOR] = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
        indexes = dict(_INDEXES) if self._is_server else {}
        if self.ranks_words():
            indexes[TOKENS] = _WORDS
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
        """See `Collections.drop`."""
        with self._asking() as client:
            if client.collection_exists(name):
                client.delete_collection(name)

    def put(self, name: str, points: Sequence[Point], *, over: Filter) -> None:
        """See `Collections.put`."""
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
        """See `Collections.delete`."""
        with self._asking() as client:
            client.delete(name, models.FilterSelector(filter=where), wait=True)

    def read(self, name: str, point: str) -> Mapping[str, Any] | None:
        """See `Collections.read`."""
        try:
            with self._asking() as client:
                found = client.retrieve(name, [point], with_payload=True)
        except MissingError:
            return None
        return found[0].payload if found else None

    def list_points(self, name: str, where: Filter) -> Sequence[Mapping[str, Any]]:
        """See `Collections.list_points`."""
        listed: list[Mapping[str, Any]] = []
        after = None
        while True:
            with self._asking() as client:
                found, after = client.scroll(
                    name, where, limit=_PAGE, offset=after, with_payload=_WITHOUT_TEXT
                )
            listed += [each.payload or {} for each in found]
            if after is None:
                return listed

    def nearest(
        self, name: str, vector: NDArray[np.float32], where: Filter, *, limit: int, exact: bool
    ) -> Sequence[Found]:
        """See `Collections.nearest`."""
        with self._asking() as client:
            answer = client.query_points(
                name,
                query=vector.tolist(),
                using=VECTOR,
                query_filter=where,
                # The local mode always compares one by one, and warns of the parameter.
                search_params=models.SearchParams(exact=exact) if self._is_server else None,
                limit=limit,
                with_payload=_WITHOUT_TEXT,
            )
        return [Found(each.payload or {}, each.score) for each in answer.points]

    def best_by_words(
        self,
        name: str,
        words: str,
        where: Filter,
        *,
        corpus: Filter,
        limit: int,
        k: float = K1,
        b: float = B,
    ) -> Sequence[Found]:
        """See `Collections.best_by_words`."""
        scoring = models.Bm25Scoring(bm25=models.Bm25Params(k=k, b=b))
        with self._asking() as client:
            answer = client.query_points(
                name,
                query=models.TextQuery(text=models.TextQueryInput(query=words, scoring=scoring)),
                using=TOKENS,
                query_filter=where,
                search_params=models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus)),
                limit=limit,
                with_payload=_WITHOUT_TEXT,
            )
        return [Found(each.payload or {}, each.score) for each in answer.points]

    def counts(self, name: str, field: str, where: Filter) -> Mapping[int, int]:
        """See `Collections.counts`."""
        with self._asking() as client:
            answer = client.facet(name, field, where, limit=_VALUES, exact=True)
        return {int(hit.value): hit.count for hit in answer.hits}

    def close(self) -> None:
        """See `Collections.close`."""
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


_CLIENTS: weakref.WeakSet[ClientCollections] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in _CLIENTS:
        client._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
