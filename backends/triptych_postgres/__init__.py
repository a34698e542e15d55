"""A store on a PostgreSQL server; it needs the extra ``postgres``."""

from triptych_postgres.location import parse_url
from triptych_postgres.store import PostgresStore

__all__ = [
    "PostgresStore",
    "parse_url",
]
