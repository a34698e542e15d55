"""Qdrant collections that are not ours: searched where they are, or followed (extra ``qdrant``)."""

from triptych_backends.collections.connection import (
    ClientPoints,
    FoundPoint,
    Layout,
    PointReader,
    VectorSpace,
    reader_of,
)
from triptych_backends.collections.follow import CollectionRows
from triptych_backends.collections.store import CollectionStore

__all__ = [
    "ClientPoints",
    "CollectionRows",
    "CollectionStore",
    "FoundPoint",
    "Layout",
    "PointReader",
    "VectorSpace",
    "reader_of",
]
