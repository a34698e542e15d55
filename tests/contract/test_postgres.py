"""The conformance kit on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from support.postgres import PostgresServer, running_server
from triptych.testing import BackendConformance, Child, Contents, Harness

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from triptych_backends.postgres import PostgresStore

_NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    """A store of its own."""
    schema = f"test_{next(_NUMBERS)}"
    yield server.schema_url(schema)
    with server.connect() as driver:
        driver.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def raw_of(server: PostgresServer, url: str) -> object:
    schema = url.rpartition("=")[2]

    def raw(_: PostgresStore, dataset: str) -> Contents:
        """A dataset's contents, read by the driver alone."""
        with server.connect() as driver:
            driver.execute(f"SET search_path = {schema}")

            def number(what: str) -> int:
                row = driver.execute(f"SELECT count(*) FROM {what}", {"name": dataset}).fetchone()
                assert row is not None
                return int(str(row[0]))

            mine = "(SELECT id FROM dataset WHERE name = %(name)s)"
            content = driver.execute(
                f"SELECT name, content FROM document WHERE dataset_id = {mine}", {"name": dataset}
            ).fetchall()
            return Contents(
                content={str(name): bytes(data) for name, data in content},  # type: ignore[arg-type]
                chunks=number(
                    "chunk WHERE document_id NOT IN "
                    f"(SELECT id FROM document WHERE dataset_id <> {mine})"
                ),
                # All but what layers alone have: an orphan would be counted.
                vectors=number(
                    f"vector WHERE space_id IN (SELECT id FROM space WHERE dataset_id = {mine}) "
                    "AND id NOT IN (SELECT vector_id FROM layer WHERE vector_id IS NOT NULL AND "
                    "vector_id NOT IN (SELECT vector_id FROM chunk WHERE vector_id IS NOT NULL))"
                ),
                layers=number(f"layer WHERE dataset_id = {mine}"),
            )

    return raw


class TestPostgres(BackendConformance):
    @pytest.fixture
    def harness(self, server: PostgresServer, url: str) -> Harness:
        return Harness(
            open=lambda: PostgresStore.open(url),
            persistent=True,
            shared=True,
            child=Child(opener="triptych_backends.postgres:PostgresStore.open", argument=url),
            raw=raw_of(server, url),
        )
