"""What the doctor sees of a store on PostgreSQL, and repairs."""

from __future__ import annotations

import pytest

from support.postgres import PostgresServer
from triptych.records import Mode
from triptych_postgres import PostgresStore
from triptych_testing.builders import fill, keyword_query, layer_of, put, vector_of, vector_query


@pytest.mark.parametrize(
    ("harm", "check"),
    [
        ("DELETE FROM search_unit WHERE field = 0", "index.missing"),
        ("DELETE FROM search_unit WHERE field = 2", "index.missing"),
        (
            "INSERT INTO search_unit SELECT 999999, dataset_id, 0, owner, 0, 0, '{}', '{}', '{}' "
            "FROM search_unit LIMIT 1",
            "index.surplus",
        ),
        (
            "INSERT INTO search_posting SELECT id, 1, 1, 1, '' FROM search_term LIMIT 1",
            "index.words",
        ),
        ("UPDATE search_recent SET block = block || block", "index.words"),
        ("UPDATE search_stat SET length = 1", "index.words"),
        ("DELETE FROM search_vector", "index.vectors"),
    ],
)
def test_harm_to_the_search_tables_is_found_and_repaired(
    postgres_url: str, postgres_server: PostgresServer, harm: str, check: str
) -> None:
    with PostgresStore.open(postgres_url) as store:
        fill(store, "d", {"a": "storm at sea", "b": "the tide"})
        assert store.layers.put(layer_of(store, "d", "a", "storm"))
        diagnostics = store.capabilities.diagnostics
        assert diagnostics is not None
        assert list(diagnostics.check_integrity(["d"])) == []
        with postgres_server.connect() as driver:
            driver.execute(f"SET search_path = {store.database.schema}, public")
            driver.execute(harm)
        found = {finding.check for finding in diagnostics.check_integrity(["d"])}
        assert check in found
        assert diagnostics.repair(found, ["d"])
        assert list(diagnostics.check_integrity(["d"])) == []
        for query in (keyword_query("storm", "d"), vector_query(vector_of("storm"), "d")):
            assert store.chunks.search(query)[0].doc_name in ("a", "b"), Mode(query.mode)
        put(store, "d", "c", "after the repair")


def test_health_names_server_and_extension(postgres_url: str) -> None:
    with PostgresStore.open(postgres_url) as store:
        diagnostics = store.capabilities.diagnostics
        assert diagnostics is not None
        (check,) = diagnostics.check_health()
    assert check.status == "ok"
    assert "pgvector 0." in check.detail
