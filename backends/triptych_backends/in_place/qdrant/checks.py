"""What makes searches of a collection slow."""

from __future__ import annotations

from collections.abc import Iterator

from triptych.records import Finding
from triptych_backends.in_place.qdrant.catalog import Collection
from triptych_backends.in_place.source import MANY

__all__ = ["findings"]


def findings(collection: Collection) -> Iterator[Finding]:
    """The findings about a collection; no point is read."""
    if collection.layout.points < MANY:
        return
    place = f"collection {collection.name}"
    for pair in collection.pairs:
        if not pair.indexed:
            yield Finding(
                check="tables.text-search",
                place=place,
                detail=f"no text index on the field {pair.text.key!r}",
                why=(
                    "each keyword search reads every text"
                    if pair.vector is None
                    else "keywords are looked for among the nearest vectors only"
                ),
                remedy="have a payload index of the type text made on it",
                dataset_id=collection.spec.name,
            )
    paths = [collection.id, *collection.own.values()]
    for key in dict.fromkeys(path.key for path in paths if path is not None):
        if key not in collection.layout.indexes:
            yield Finding(
                check="tables.payload-index",
                place=place,
                detail=f"no payload index on the field {key!r}",
                why="points are looked for by it one by one",
                remedy="have a payload index of the type of its values made on it",
                dataset_id=collection.spec.name,
            )
