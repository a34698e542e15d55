"""The conformance kit on PostgreSQL, searched in the server and in each process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from support.postgres import PostgresServer
from triptych_testing import BackendConformance, Child, Contents, Harness, ServiceTests

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from triptych_backends.memory import MemoryStore
from triptych_postgres import PostgresStore


def raw_of(server: PostgresServer, url: str) -> Callable[[PostgresStore, str], Contents]:
    schema = url.partition("&schema=")[2].partition("&")[0]

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
                content={str(name): bytes(data) for name, data in content},
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
    def harness(self, postgres_server: PostgresServer, postgres_url: str) -> Harness:
        return Harness(
            open=lambda: PostgresStore.open(postgres_url),
            persistent=True,
            shared=True,
            child=Child(opener="triptych_postgres:PostgresStore.open", argument=postgres_url),
            raw=raw_of(postgres_server, postgres_url),
        )


@pytest.fixture
def local_url(postgres_url: str, tmp_path: Path) -> str:
    """The URL of a store that each process searches by an index in one folder."""
    return f"{postgres_url}&search=local&index={quote(str(tmp_path))}"


class TestPostgresLocal(BackendConformance):
    @pytest.fixture
    def harness(self, postgres_server: PostgresServer, local_url: str) -> Harness:
        return Harness(
            open=lambda: PostgresStore.open(local_url),
            persistent=True,
            shared=True,
            child=Child(opener="triptych_postgres:PostgresStore.open", argument=local_url),
            raw=raw_of(postgres_server, local_url),
        )


class TestPostgresLocalService(ServiceTests):
    @pytest.fixture
    def harness(self, postgres_url: str) -> Harness:
        return Harness(
            open=lambda: PostgresStore.open(f"{postgres_url}&search=local"),
            persistent=True,
            scratch=MemoryStore,
        )


class TestPostgresService(ServiceTests):
    @pytest.fixture
    def harness(self, postgres_url: str) -> Harness:
        return Harness(
            open=lambda: PostgresStore.open(postgres_url), persistent=True, scratch=MemoryStore
        )
