"""The driver for existing tables in PostgreSQL (extra ``postgres``)."""

from triptych_inplace.postgres.connections import ForeignDatabase
from triptych_inplace.postgres.source import TableSource

__all__ = ["ForeignDatabase", "TableSource"]
