"""Tables that are not ours, in PostgreSQL: searched where they are (extra ``postgres``)."""

from triptych_backends.tables.follow import TableRows
from triptych_backends.tables.store import TableStore

__all__ = ["TableRows", "TableStore"]
