"""A store on a PostgreSQL server whose searches run in Qdrant."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")
pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed: the extra dev has it")

from support.postgres import PostgresServer
from support.qdrant_edge import EdgeCollections
from triptych.errors import StoreLockedError
from triptych_backends.memory import MemoryStore
from triptych_postgres import PostgresStore
from triptych_qdrant import QdrantStore
from triptych_testing import Harness, assert_backends_rank_alike


@pytest.mark.slow
def test_it_ranks_as_memory_does(postgres_server: PostgresServer, tmp_path: Path) -> None:
    def open_store() -> QdrantStore:
        return QdrantStore(
            PostgresStore.open(postgres_server.schema_url("qdrant_ranked")),
            EdgeCollections(tmp_path),
        )

    assert_backends_rank_alike(
        Harness(open=MemoryStore), Harness(open=open_store), tolerance=2.5e-6
    )


def test_one_process_at_a_time_has_the_turn(postgres_server: PostgresServer) -> None:
    url = postgres_server.schema_url("qdrant_turns")
    with (
        PostgresStore.open(url) as one,
        PostgresStore.open(url, lock_timeout=0.05) as other,
    ):
        with one.database.turn("qdrant"):
            # What the turn is for is done by other connections.
            assert one.documents.list_datasets() == []
            with other.database.turn("another"):
                pass
            with pytest.raises(StoreLockedError), other.database.turn("qdrant"):
                pass
        with other.database.turn("qdrant"):
            pass


def test_settings_are_those_of_the_truth(postgres_server: PostgresServer, tmp_path: Path) -> None:
    url = postgres_server.schema_url("qdrant_settings")
    with (
        PostgresStore.open(url) as plain,
        QdrantStore(PostgresStore.open(url), EdgeCollections(tmp_path)) as searched,
    ):
        assert plain.set_setting("key", "value", expected=None)
        assert searched.get_setting("key") == searched.list_settings()["key"] == "value"
