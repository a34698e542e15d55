"""What is read of Qdrant: layouts of collections, points by vector, by filter, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.models import Filter

from triptych.errors import StoreError
from triptych.resources import shown_url
from triptych_qdrant import AwayError, ClientCollections, parse_url

PointId: TypeAlias = int | str


@attrs.frozen(kw_only=True)
class VectorSpace:
    """A dense vector of a collection: its name ("" where it has none), width and distance.

    ``distance`` is Qdrant's word: "Cosine", "Dot", "Euclid" or "Manhattan".
    """

    name: str
    dimension: int
    distance: str


@attrs.frozen(kw_only=True)
class Layout:
    """What a collection has: dense vectors by name, payload indexes ("text", "keyword", …) by
    key, and how many points there are, about."""

    vectors: Mapping[str, VectorSpace]
    indexes: Mapping[str, str]
    points: int


@attrs.frozen
class FoundPoint:
    """A point: the fields of its payload that were asked for, its score and its vector."""

    id: PointId
    payload: Mapping[str, Any]
    score: float = 0.0
    vector: Sequence[float] | None = None


def reader_of(given: str | QdrantClient) -> PointReader:
    """A reader by the URL ``qdrant://host:6333``, or by a client, which stays open.

    A forked process needs a client of its own.

    Raises:
        ValidationError: the URL is invalid.
    """
    if isinstance(given, str):
        location = parse_url(given, alone=True)
        secrets = [location.api_key] if location.api_key else []
        return PointReader(location.connect, location.where, secrets=secrets)
    options = given.init_options
    path = options.get("path")
    local = options.get("location") == ":memory:" or path
    address = options.get("url") or options.get("location") or path
    where = (
        shown_url(address)
        if address
        else f"{options.get('host') or 'localhost'}:{options.get('port')}"
    )
    return PointReader(lambda: given, where, is_server=not local, closes=False)


class PointReader:
    """Reads collections through qdrant-client. Thread-safe, and fork-safe.

    Each method raises `StoreError` where Qdrant does not answer. ``where`` is what messages call
    the place. The arguments are those of `ClientCollections`; ``closes`` is whether the client is
    ours.
    """

    def __init__(
        self,
        connect: Callable[[], QdrantClient],
        where: str,
        *,
        is_server: bool = True,
        closes: bool = True,
        secrets: Sequence[str] = (),
    ) -> None:
        self.where = where
        self._is_server = is_server
        self._closes = closes
        self._connection = _Connection(connect, where, is_server=is_server, secrets=secrets)

    def layout(self, name: str) -> Layout | None:
        """What the collection has; None where there is none."""
        with self._connection.reading() as client:
            if not client.collection_exists(name):
                return None
            found = client.get_collection(name)
        given = found.config.params.vectors or {}
        named = given if isinstance(given, dict) else {"": given}
        return Layout(
            vectors={
                key: VectorSpace(name=key, dimension=each.size, distance=each.distance.value)
                for key, each in named.items()
                if each.multivector_config is None
            },
            indexes={key: _type_of(each) for key, each in found.payload_schema.items()},
            points=found.points_count or 0,
        )

    def nearest(
        self,
        name: str,
        space: VectorSpace,
        vector: NDArray[np.float32],
        where: Filter,
        *,
        limit: int,
        exact: bool,
        fields: Sequence[str],
        vectors: bool,
    ) -> Sequence[FoundPoint]:
        """The ``limit`` nearest points that pass, best first, with ``fields`` of their payloads.

        ``exact`` compares one by one; with ``vectors`` each point has its vector.
        """
        with self._connection.reading() as client:
            answer = client.query_points(
                name,
                query=vector.tolist(),
                using=space.name or None,
                query_filter=where,
                # The local mode always compares one by one, and warns of the parameter.
                search_params=models.SearchParams(exact=exact) if self._is_server else None,
                limit=limit,
                with_payload=_included(fields),
                with_vectors=([space.name] if space.name else True) if vectors else False,
            )
        return [
            FoundPoint(each.id, each.payload or {}, each.score, _vector(each.vector, space))  # type: ignore[arg-type]  # ids are ints and texts
            for each in answer.points
        ]

    def scroll(
        self,
        name: str,
        where: Filter,
        *,
        limit: int,
        fields: Sequence[str],
        after: PointId | None = None,
    ) -> tuple[Sequence[FoundPoint], PointId | None]:
        """A page of the points that pass, in the order of their ids, from ``after`` on.

        The second value is where the next page begins, None after the last.
        """
        with self._connection.reading() as client:
            found, following = client.scroll(
                name,
                where,
                limit=limit,
                offset=after,
                with_payload=_included(fields),
            )
        points = [FoundPoint(each.id, each.payload or {}) for each in found]  # type: ignore[arg-type]  # ids are int or str, as here
        return points, following  # type: ignore[return-value]  # as above

    def count(self, name: str, where: Filter) -> int:
        """How many points pass."""
        with self._connection.reading() as client:
            return client.count(name, where, exact=True).count

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._closes:
            self._connection.close()


class _Connection(ClientCollections):
    """The client, which connects again in a forked child; every error is a `StoreError`."""

    @contextmanager
    def reading(self) -> Iterator[QdrantClient]:
        try:
            with self._asking() as client:
                yield client
        except AwayError as error:
            # The advice for a store of ours that is searched in Qdrant is left out.
            said = str(error).removesuffix("; the store itself has everything")
            raise StoreError(said) from error.__cause__


def _type_of(index: models.PayloadIndexInfo) -> str:
    """The type of a payload index; one of numbers that orders none is for "lookup"."""
    ranges = getattr(index.params, "range", None)
    return "lookup" if ranges is False else str(index.data_type.value)


def _included(fields: Sequence[str]) -> Any:
    return models.PayloadSelectorInclude(include=list(fields)) if fields else False


def _vector(given: Any, space: VectorSpace) -> Sequence[float] | None:
    found = given.get(space.name) if isinstance(given, dict) else given
    return found if isinstance(found, list) else None
