"""Tables that are not ours: a database of a test's own, filled with plain SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from triptych_models import HashEmbedder

if TYPE_CHECKING:
    import psycopg

    from support.postgres import PostgresServer

_NUMBERS = count()
EMBEDDER = HashEmbedder()


def vector_of(text: str) -> str:
    """The vector of a text by the embedder of the tests, as pgvector reads it."""
    row = EMBEDDER.embed([text], kind="document")[0]
    return "[" + ",".join(map(repr, np.asarray(row, np.float32).tolist())) + "]"


class ForeignTables:
    """A database, and a role that may only read it.

    Attributes:
        url: the database as the reading role sees it.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.database = f"foreign_{next(_NUMBERS)}"
        self.role = f"reader_{self.database}"
        self._server = server
        with server.connect() as driver:
            driver.execute(f"CREATE DATABASE {self.database}")
            driver.execute(f"CREATE ROLE {self.role} LOGIN")
            self._host = driver.info.host
        self.url = f"postgresql://{self.role}@/{self.database}?host={quote(self._host, safe='')}"
        self.owner = self.connect("postgres")
        self.owner.execute("CREATE EXTENSION vector")

    def connect(self, user: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection to the database."""
        import psycopg

        return psycopg.connect(host=self._host, user=user, dbname=self.database, autocommit=True)

    def execute(self, *statements: str) -> None:
        """Run statements as the owner; the role may read what they make."""
        for each in statements:
            self.owner.execute(each.encode())
        self.owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {self.role}")

    def insert(self, table: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
        """Insert rows by parameters; ``table`` and ``columns`` are SQL."""
        marks = ", ".join(["%s"] * len(rows[0]))
        with self.owner.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})".encode(), rows)

    def close(self) -> None:
        self.owner.close()
        with self._server.connect() as driver:
            driver.execute(f"DROP DATABASE {self.database} WITH (FORCE)")
            driver.execute(f"DROP ROLE {self.role}")


@contextmanager
def foreign_tables(server: PostgresServer) -> Iterator[ForeignTables]:
    """A database that ends with the block."""
    made = ForeignTables(server)
    try:
        yield made
    finally:
        made.close()
