"""Searching existing tables and collections, with two drivers.

`postgres` (extra ``postgres``) reads tables, `qdrant` (extra ``qdrant``) collections. The modules
beside them import no driver; a driver brings a source and an `OpenTable`.
"""

from triptych_inplace.spec import TableSpec
from triptych_inplace.store import DistinctRows, InPlaceStore

__all__ = ["DistinctRows", "InPlaceStore", "TableSpec"]
