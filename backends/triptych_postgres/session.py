"""How statements run on a connection to PostgreSQL, and how PostgreSQL writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import psycopg

from triptych_backends.sql import Session, Statement, Upsert, key_of, resolve
from triptych_postgres.errors import is_lost
from triptych_postgres.watched import WatchedConnection

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Insert
    from sqlalchemy.engine import interfaces


class PostgresDialect:
    """Lists are arrays; see `triptych_backends.sql.Dialect`."""

    @cached_property
    def engine(self) -> interfaces.Dialect:
        """See `Dialect.engine`."""
        from sqlalchemy.dialects.postgresql import psycopg

        # SQLAlchemy annotates no constructor of its dialects.
        return psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]  # has no annotations

    def in_list(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """See `Dialect.in_list`."""
        from sqlalchemy import BigInteger, LargeBinary, Text, any_, bindparam
        from sqlalchemy.dialects.postgresql import ARRAY
        from sqlalchemy.types import Integer, TypeEngine

        element: TypeEngine[Any] = Text()
        if isinstance(column.type, Integer):
            element = BigInteger()
        elif isinstance(column.type, LargeBinary):
            element = LargeBinary()
        return column == any_(bindparam(name, type_=ARRAY(element)))

    def bind_list(self, values: Sequence[int] | Sequence[str]) -> list[Any]:
        """See `Dialect.bind_list`."""
        return [*values]

    def upsert(self, upsert: Upsert) -> Insert:
        """See `Dialect.upsert`."""
        from sqlalchemy.dialects import postgresql

        statement = postgresql.insert(upsert.table)
        return statement.on_conflict_do_update(
            index_elements=upsert.key, set_=upsert.assignments(statement.excluded)
        )


DIALECT = PostgresDialect()


class CopyTarget(NamedTuple):
    """Where COPY can put the rows of an INSERT: the statement, and the types of its columns."""

    sql: str
    types: tuple[str, ...]


class BulkUpsert(NamedTuple):
    """An upsert of rows that are given as one list for each column; no two may have one key.

    ``key`` has the places of the key's columns in a row.
    """

    sql: str
    key: tuple[int, ...]


class Compiled(NamedTuple):
    """The text of a statement, the names of its parameters in order, those that are constants,
    how COPY does the same, where it can, and how one statement upserts many rows."""

    sql: str
    names: tuple[str, ...]
    constants: dict[str, Any]
    copy: CopyTarget | None
    bulk: BulkUpsert | None


@lru_cache(maxsize=1024)
def compiled(statement: Statement) -> Compiled:
    """``statement`` as PostgreSQL takes it."""
    from triptych_backends.sql import compile_statement

    made = compile_statement(statement, DIALECT)
    names = tuple(made.positiontup or ())
    bulk = _bulk_upsert(statement, str(made), names) if isinstance(statement, Upsert) else None
    target = _copy_target(statement, names)
    return Compiled(str(made), names, dict(made.params), target, bulk)


def _bulk_upsert(upsert: Upsert, sql: str, names: tuple[str, ...]) -> BulkUpsert | None:
    """``sql`` with arrays in place of its one row."""
    columns: dict[str, Any] = {column.name: column for column in resolve(upsert.table).columns}
    head, found, rest = sql.partition(" VALUES (")
    _, conflict, action = rest.partition(") ON CONFLICT ")
    if not found or not conflict or set(names) != set(columns):
        return None
    engine = DIALECT.engine
    types = [columns[name].type.compile(dialect=engine).partition(" COLLATE")[0] for name in names]
    arrays = ", ".join(f"%s::{each}[]" for each in types)
    return BulkUpsert(
        f"{head} SELECT * FROM unnest({arrays}) ON CONFLICT {action}",
        tuple(at for at, name in enumerate(names) if name in upsert.key),
    )


def _copy_target(statement: Statement, names: tuple[str, ...]) -> CopyTarget | None:
    """Only an INSERT of whole rows is one: it has nothing to compute, and nothing to replace."""
    from sqlalchemy import Insert

    if isinstance(statement, Upsert):
        return None
    found: Any = resolve(statement)
    if not isinstance(found, Insert):
        return None
    columns = list(found.table.columns)
    if [column.name for column in columns] != list(names):
        return None
    quote = DIALECT.engine.identifier_preparer.quote
    listed = ", ".join(quote(name) for name in names)
    return CopyTarget(
        f"COPY {quote(found.table.name)} ({listed}) FROM STDIN (FORMAT BINARY)",
        tuple(_copy_type(column.type) for column in columns),
    )


def _copy_type(type_: object) -> str:
    from sqlalchemy.types import BigInteger, Boolean, Float, Integer, LargeBinary

    for kind, name in (
        (Boolean, "bool"),
        (BigInteger, "int8"),
        (Integer, "int4"),
        (Float, "float8"),
        (LargeBinary, "bytea"),
    ):
        if isinstance(type_, kind):
            return name
    return "text"


Driver: TypeAlias = WatchedConnection
Reconnect: TypeAlias = Callable[[], Driver]
T = TypeVar("T")

COPIED = 32
"""Rows from which on COPY beats one INSERT after another."""


class PostgresSession(Session):
    """Runs statements on one connection of the driver.

    With ``reconnect``, which gives another connection in place of a lost one, a statement that the
    connection was lost in runs again. It is for sessions in which each statement stands alone.
    """

    __slots__ = ("_reconnect", "driver")

    def __init__(self, driver: Driver, reconnect: Reconnect | None = None) -> None:
        self.driver = driver
        self._reconnect = reconnect

    def begin_reading(self) -> None:
        """See `WatchedConnection.begin_reading`."""
        self._again(lambda: self.driver.begin_reading())

    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """See `Session.all`."""
        sql, values = _bound(statement, parameters)
        return self._again(lambda: self._cursor(sql, values).fetchall())

    def run(self, statement: Statement, **parameters: Any) -> int:
        """See `Session.run`."""
        sql, values = _bound(statement, parameters)
        return self._again(lambda: self._cursor(sql, values).rowcount)

    def text(
        self,
        sql: str,
        values: Sequence[Any] | Mapping[str, Any] = (),
        *,
        prepare: bool | None = None,
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement written in PostgreSQL's own words; none of one that has none."""

        def ask() -> list[tuple[Any, ...]]:
            cursor = self.driver.reader.execute(sql, values, prepare=prepare)
            return cursor.fetchall() if cursor.description else []

        return self._again(ask)

    def run_many(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """See `Session.run_many`; many whole rows go by COPY."""
        if not rows:
            return
        known = compiled(statement)
        if known.copy is not None and len(rows) >= COPIED:
            self.copy(known.copy.sql, known.copy.types, rows)
            return
        bulk = known.bulk
        if bulk is not None and len(rows) > 1:
            keys = {tuple(row[at] for at in bulk.key) for row in rows}
            if len(keys) == len(rows):
                self._cursor(bulk.sql, [list(column) for column in zip(*rows, strict=True)])
                return
        with self.driver.cursor() as cursor:
            cursor.executemany(known.sql, rows)

    def copy(self, sql: str, types: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Put ``rows`` into a table by COPY in the binary format."""
        with self.driver.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def _cursor(self, sql: str, values: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.driver.reader.execute(sql, values)

    def _again(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except psycopg.Error as error:
            if self._reconnect is None or not is_lost(error):
                raise
        self.driver = self._reconnect()
        return ask()


class CachedSession(PostgresSession):
    """Reads in the transaction of a call, each statement with the same parameters once for each
    state of the database. See `WatchedConnection.begin_reading`."""

    __slots__ = ("rows",)

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.rows = driver.rows

    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """See `Session.all`; the rows are shared."""
        key = key_of(statement, parameters)
        found = self.rows.get(key)
        if found is None:
            found = self.rows[key] = super().all(statement, **parameters)
        return found


def lock_writers(session: PostgresSession, dataset: str | None = None) -> None:
    """Have the turn of ``dataset`` among its writers, or that of the store among all, until the
    transaction ends."""
    name = "'triptych writers ' || current_schema() || %s"  # no name of `PostgresDatabase.turn`
    mine = f"pg_advisory_xact_lock{{}}(hashtextextended({name}, 0))"
    if dataset is None:
        session.text(f"SELECT {mine.format('')}", ("",))
    else:
        both = f"SELECT {mine.format('_shared')}, {mine.format('')}"
        session.text(both, ("", f" {dataset}"))


def milliseconds(seconds: float) -> str:
    """A wait as the server's settings take it."""
    return str(min(max(int(seconds * 1000), 1), 2**31 - 1))


def _bound(statement: Statement, parameters: dict[str, Any]) -> tuple[str, list[Any]]:
    known = compiled(statement)
    return known.sql, [
        parameters[name] if name in parameters else known.constants[name] for name in known.names
    ]
