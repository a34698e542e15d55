"""A store in SQLite or PostgreSQL whose vectors are searched in Qdrant."""

from triptych_qdrant.client import ClientCollections
from triptych_qdrant.location import QdrantLocation, parse_url
from triptych_qdrant.points import (
    AwayError,
    BusyError,
    Collections,
    Found,
    MissingError,
    Point,
)
from triptych_qdrant.store import QdrantStore

__all__ = [
    "AwayError",
    "BusyError",
    "ClientCollections",
    "Collections",
    "Found",
    "MissingError",
    "Point",
    "QdrantLocation",
    "QdrantStore",
    "parse_url",
]
