"""The SQL store: documents, chunks, vectors and layers in one database, searched by an index."""

from triptych_backends.sql.store import SqlStore

__all__ = ["SqlStore"]
