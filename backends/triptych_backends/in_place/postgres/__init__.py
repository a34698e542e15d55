"""The driver for existing tables in PostgreSQL (extra ``postgres``)."""

from triptych_backends.in_place.postgres.connections import ForeignDatabase
from triptych_backends.in_place.postgres.source import TableSource

__all__ = ["ForeignDatabase", "TableSource"]
