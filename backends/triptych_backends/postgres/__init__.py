"""A store on a PostgreSQL server; it needs the extra ``postgres``."""

from triptych_backends.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
