"""Documents, chunks, vectors and layers in the tables of a relational database, whichever it is.

A store of one database brings a `Database` with its `Dialect`, and a `Searcher`; the store and the
repositories over these are here.
"""

from triptych_backends.sql.change_log import SqlChangeLog
from triptych_backends.sql.chunks import SqlChunks
from triptych_backends.sql.database import Database, Searcher
from triptych_backends.sql.deferred import Dialect, Upsert
from triptych_backends.sql.documents import SqlDocuments
from triptych_backends.sql.layers import SqlLayers
from triptych_backends.sql.store import SqlStore
from triptych_backends.sql.transaction import Session, Transaction

__all__ = [
    "Database",
    "Dialect",
    "Searcher",
    "Session",
    "SqlChangeLog",
    "SqlChunks",
    "SqlDocuments",
    "SqlLayers",
    "SqlStore",
    "Transaction",
    "Upsert",
]
