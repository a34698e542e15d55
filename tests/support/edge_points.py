"""Qdrant's real engine in this process, as collections that are not ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as edge
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from triptych_inplace.qdrant import (
    FoundPoint,
    Layout,
    PointReader,
    VectorSpace,
    reader_of,
)

_TYPES = {
    "text": edge.TextIndexParams(tokenizer=edge.TokenizerType.Word),
    "keyword": edge.KeywordIndexParams(),
    "datetime": edge.DatetimeIndexParams(),
    "integer": edge.IntegerIndexParams(lookup=True, range=True),
}


class LocalPoints:
    """The client's local mode: what is made, filled and read in it."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:", force_disable_check_same_thread=True)
        self.reader: PointReader = reader_of(self.client)

    def make(self, name: str, vectors: Mapping[str, tuple[int, str]], **_: str) -> None:
        given = {
            key: models.VectorParams(size=size, distance=models.Distance(distance))
            for key, (size, distance) in vectors.items()
        }
        self.client.create_collection(
            name, vectors_config=given[""] if list(given) == [""] else given
        )

    def put(self, name: str, points: Sequence[tuple[Any, dict[str, Any], dict[str, Any]]]) -> None:
        self.client.upsert(
            name,
            [
                models.PointStruct(
                    id=id_,
                    vector=vectors[""] if list(vectors) == [""] else vectors,
                    payload=payload,
                )
                for id_, vectors, payload in points
            ],
        )

    def delete(self, name: str, ids: Sequence[Any]) -> None:
        self.client.delete(name, models.PointIdsList(points=list(ids)))


class EdgePoints(PointReader):
    """Each collection is a shard in a folder of its own. It reads, too: it is its own reader."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self.reader = self
        self._folder = folder
        self._shards: dict[str, edge.EdgeShard] = {}
        self._vectors: dict[str, dict[str, VectorSpace]] = {}

    def make(self, name: str, vectors: Mapping[str, tuple[int, str]], **indexes: str) -> None:
        path = self._folder / name
        path.mkdir(parents=True)
        self._vectors[name] = {
            key: VectorSpace(name=key, dimension=size, distance=distance)
            for key, (size, distance) in vectors.items()
        }
        self._shards[name] = edge.EdgeShard.create(
            str(path),
            edge.EdgeConfig(
                vectors={
                    key: edge.EdgeVectorParams(size, getattr(edge.Distance, distance))
                    for key, (size, distance) in vectors.items()
                }
            ),
        )
        for field, type_ in indexes.items():
            self._shards[name].update(edge.UpdateOperation.create_field_index(field, _TYPES[type_]))

    def put(self, name: str, points: Sequence[tuple[Any, dict[str, Any], dict[str, Any]]]) -> None:
        self._shards[name].update(
            edge.UpdateOperation.upsert_points([edge.Point(*each) for each in points])
        )

    def delete(self, name: str, ids: Sequence[Any]) -> None:
        self._shards[name].update(edge.UpdateOperation.delete_points(list(ids)))

    def layout(self, name: str) -> Layout | None:
        if name not in self._shards:
            return None
        info = self._shards[name].info()
        return Layout(
            vectors=self._vectors[name],
            indexes={
                key: str(each.data_type).rpartition(".")[2].lower()
                for key, each in info.payload_schema.items()
            },
            points=info.points_count,
        )

    def nearest(
        self,
        name: str,
        space: VectorSpace,
        vector: NDArray[np.float32],
        where: models.Filter,
        *,
        limit: int,
        exact: bool,
        fields: Sequence[str],
        vectors: bool,
    ) -> Sequence[FoundPoint]:
        request = edge.QueryRequest(
            limit,
            query=edge.Query.Nearest(vector.tolist(), space.name),
            filter=_filter(where),
            with_payload=list(fields) or False,
            with_vector=vectors,
            params=edge.SearchParams(exact=exact),
        )
        found = []
        for each in self._shards[name].query(request):
            own = each.vector
            if isinstance(own, dict):
                own = own[space.name]
            found.append(FoundPoint(_id(each.id), each.payload or {}, each.score, own))
        return found

    def scroll(
        self,
        name: str,
        where: models.Filter,
        *,
        limit: int,
        fields: Sequence[str],
        after: Any = None,
    ) -> tuple[Sequence[FoundPoint], Any]:
        request = edge.ScrollRequest(
            offset=after,
            filter=_filter(where),
            limit=limit,
            with_payload=list(fields) or False,
        )
        found, following = self._shards[name].scroll(request)
        points = [FoundPoint(_id(each.id), each.payload or {}) for each in found]
        return points, None if following is None else _id(following)

    def count(self, name: str, where: models.Filter) -> int:
        return self._shards[name].count(edge.CountRequest(filter=_filter(where), exact=True))

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()
        self._shards = {}


def _id(found: Any) -> int | str:
    return found if isinstance(found, int) else str(found)


def _filter(asked: models.Filter) -> edge.Filter:
    def several(part: Any) -> list[Any] | None:
        return None if part is None else [_condition(each) for each in part]

    return edge.Filter(
        must=several(asked.must), should=several(asked.should), must_not=several(asked.must_not)
    )


def _condition(asked: Any) -> Any:
    if isinstance(asked, models.Filter):
        return _filter(asked)
    if isinstance(asked, models.HasIdCondition):
        return edge.HasIdCondition(set(asked.has_id))
    if isinstance(asked, models.IsEmptyCondition):
        return edge.IsEmptyCondition(asked.is_empty.key)
    assert isinstance(asked, models.FieldCondition)
    if asked.range is not None:
        times = isinstance(asked.range, models.DatetimeRange)
        bounds = {
            name: value.isoformat() if times else value
            for name in ("gt", "gte", "lt", "lte")
            if (value := getattr(asked.range, name)) is not None
        }
        made = edge.RangeDateTime(**bounds) if times else edge.RangeFloat(**bounds)
        return edge.FieldCondition(asked.key, range=made)
    if isinstance(asked.match, models.MatchValue):
        if isinstance(asked.match.value, bool):
            # The binding reads True as 1, which matches no boolean: find more, never less.
            return edge.Filter(must_not=[edge.IsEmptyCondition(asked.key)])
        return edge.FieldCondition(asked.key, match=edge.MatchValue(asked.match.value))
    if isinstance(asked.match, models.MatchText):
        return edge.FieldCondition(asked.key, match=edge.MatchText(asked.match.text))
    assert isinstance(asked.match, models.MatchAny)
    return edge.FieldCondition(asked.key, match=edge.MatchAny(asked.match.any))
