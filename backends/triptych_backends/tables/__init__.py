"""Tables that are not ours, in PostgreSQL: searched where they are (extra ``postgres``)."""

from triptych_backends.tables.distinct import DistinctRows
from triptych_backends.tables.spec import ColumnPair, TableSpec, parse_name
from triptych_backends.tables.store import TableStore

__all__ = ["ColumnPair", "DistinctRows", "TableSpec", "TableStore", "parse_name"]
