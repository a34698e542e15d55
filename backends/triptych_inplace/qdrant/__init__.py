"""The driver for existing collections in Qdrant (extra ``qdrant``)."""

from triptych_inplace.qdrant.connection import (
    FoundPoint,
    Layout,
    PointReader,
    VectorSpace,
    reader_of,
)
from triptych_inplace.qdrant.source import CollectionSource

__all__ = [
    "CollectionSource",
    "FoundPoint",
    "Layout",
    "PointReader",
    "VectorSpace",
    "reader_of",
]
