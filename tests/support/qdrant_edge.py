"""Qdrant's real engine in this process: `Collections` over qdrant-edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import qdrant_edge as edge
from numpy.typing import NDArray
from qdrant_client import models

from triptych_qdrant import Found, MissingError, Point
from triptych_qdrant.points import (
    DATASET,
    HEADINGS,
    OWNER,
    STATE,
    UNIT,
    VECTOR,
)

_NOTHING = "nothing"
"""An engine in the process wants a vector in every collection."""


class EdgeCollections:
    """Each collection is a shard in a folder of its own; see `Collections`.

    A shard belongs to one process. What a killed process wrote is there after the next opens it.
    """

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self.folder = folder
        self.shards: dict[str, edge.EdgeShard] = {}
        for path in sorted(folder.glob("*")):
            self.shards[path.name] = edge.EdgeShard.load(str(path))

    def names(self) -> Sequence[str]:
        return list(self.shards)

    def make(self, name: str, dimension: int) -> None:
        if name not in self.shards:
            self._create(name, dimension)
        indexes: dict[str, Any] = {
            DATASET: edge.KeywordIndexParams(is_tenant=True),
            UNIT: edge.KeywordIndexParams(),
            HEADINGS: edge.KeywordIndexParams(),
            OWNER: edge.IntegerIndexParams(lookup=True, range=True),
            STATE: edge.IntegerIndexParams(lookup=True, range=True),
        }
        for field, schema in indexes.items():
            self.shards[name].update(edge.UpdateOperation.create_field_index(field, schema))

    def _create(self, name: str, dimension: int) -> None:
        path = self.folder / name
        path.mkdir(parents=True)
        vectors = {VECTOR if dimension else _NOTHING: dimension or 1}
        self.shards[name] = edge.EdgeShard.create(
            str(path),
            edge.EdgeConfig(
                vectors={
                    each: edge.EdgeVectorParams(size, edge.Distance.Cosine)
                    for each, size in vectors.items()
                }
            ),
        )

    def _shard(self, name: str) -> edge.EdgeShard:
        try:
            return self.shards[name]
        except KeyError:
            raise MissingError(f"collection {name} is not there") from None

    def drop(self, name: str) -> None:
        shard = self.shards.pop(name, None)
        if shard is not None:
            shard.update(edge.UpdateOperation.delete_points_by_filter(edge.Filter()))
            shard.close()
            (self.folder / name).rename(self.folder.parent / f"dropped-{name}-{uuid4().hex}")

    def put(self, name: str, points: Sequence[Point], *, over: models.Filter) -> None:
        structs = [
            edge.Point(
                point.id,
                {} if point.vector is None else {VECTOR: point.vector.tolist()},
                dict(point.payload),
            )
            for point in points
        ]
        condition = None if over == models.Filter() else _filter(over)
        self._shard(name).update(edge.UpdateOperation.upsert_points(structs, condition=condition))

    def delete(self, name: str, where: models.Filter) -> None:
        self._shard(name).update(edge.UpdateOperation.delete_points_by_filter(_filter(where)))

    def read(self, name: str, point: str) -> Mapping[str, Any] | None:
        shard = self.shards.get(name)
        found = shard.retrieve([point], True, False) if shard else []
        return found[0].payload if found else None

    def list_points(self, name: str, where: models.Filter) -> Sequence[Mapping[str, Any]]:
        found, after = self._shard(name).scroll(
            edge.ScrollRequest(filter=_filter(where), limit=100_000, with_payload=True)
        )
        assert after is None
        return [each.payload or {} for each in found]

    def nearest(
        self,
        name: str,
        vector: NDArray[np.float32],
        where: models.Filter,
        *,
        limit: int,
        exact: bool,
    ) -> Sequence[Found]:
        request = edge.QueryRequest(
            limit,
            query=edge.Query.Nearest(vector.tolist(), VECTOR),
            filter=_filter(where),
            with_payload=True,
            params=edge.SearchParams(exact=exact),
        )
        return [Found(each.payload or {}, each.score) for each in self._shard(name).query(request)]

    def counts(self, name: str, field: str, where: models.Filter) -> Mapping[int, int]:
        request = edge.FacetRequest(field, limit=100_000, exact=True, filter=_filter(where))
        return {int(hit.value): hit.count for hit in self._shard(name).facet(request).hits}

    def close(self) -> None:
        for shard in self.shards.values():
            shard.close()
        self.shards = {}


def _filter(asked: models.Filter) -> edge.Filter:
    def several(part: Any) -> list[Any] | None:
        if part is None:
            return None
        return [_condition(each) for each in (part if isinstance(part, list) else [part])]

    return edge.Filter(
        must=several(asked.must), should=several(asked.should), must_not=several(asked.must_not)
    )


def _condition(asked: Any) -> Any:
    if isinstance(asked, models.Filter):
        return _filter(asked)
    assert isinstance(asked, models.FieldCondition)
    if asked.range is not None:
        assert isinstance(asked.range, models.Range)
        return edge.FieldCondition(
            asked.key,
            range=edge.RangeFloat(lt=asked.range.lt, lte=asked.range.lte, gt=asked.range.gt),
        )
    if isinstance(asked.match, models.MatchValue):
        return edge.FieldCondition(asked.key, match=edge.MatchValue(asked.match.value))
    assert isinstance(asked.match, models.MatchAny)
    return edge.FieldCondition(asked.key, match=edge.MatchAny(asked.match.any))
