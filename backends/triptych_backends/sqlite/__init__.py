"""The SQLite store: documents, chunks, vectors and layers in one file, searched by an index."""

from triptych_backends.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
