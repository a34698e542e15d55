"""Nothing of what was purged stays in any file of the server's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import triptych
from support.postgres import PostgresServer
from triptych.errors import StoreError, StoreLockedError
from triptych.service import Service

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

NAME, HEADING, WORD, OLD, META = NEEDLES = (
    "zqname", "zqheading", "zqwordling", "zqolder", "zqmetadata",
)  # fmt: skip
PAGE = f"# {HEADING}\n\nThe {WORD} sat by the kettle.\n"


@contextmanager
def opened(url: str, **options: object) -> Iterator[Service]:
    with triptych.open(url, embedder="hash", **options) as kb:  # type: ignore[arg-type]
        yield kb


def fill(kb: Service, kept: int = 20) -> None:
    """A document of all needles in every place that keeps text, and others beside it."""
    for number in range(kept):
        kb.put_document("d", f"folder/kept{number}", f"# Kept\n\nThe kettle {number} sings.\n")
    name = f"folder/{NAME}"
    kb.put_document("d", name, f"# Once\n\nIt was {OLD} before.\n", {"by": META})
    kb.put_document("d", name, PAGE, {"by": META})
    kb.put_document_layer("d", name, "L0", f"About a {WORD}.")
    kb.put_document_layer("d", name, "L1", f"More about a {WORD}.")


def analyze(server: PostgresServer, schema: str) -> None:
    """What the server does by itself from time to time."""
    with server.connect() as driver:
        for (table,) in driver.execute(
            "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables WHERE schemaname = %s",
            (schema,),
        ).fetchall():
            driver.execute(f"ANALYZE {table}")


def found(kb: Service, text: str) -> list[str]:
    """The names of the documents that have a word of ``text``."""
    return [hit.doc_name for hit in kb.search(text, mode="bm25", dataset_id="d").hits]


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


WAYS: dict[str, Callable[[Service], object]] = {
    "document": lambda kb: kb.purge("d", f"folder/{NAME}"),
    "dataset": lambda kb: kb.purge("d"),
    "after a delete": lambda kb: (
        kb.delete_document("d", f"folder/{NAME}"), kb.purge("d", f"folder/{NAME}")
    ),
    "after an edit": lambda kb: (
        kb.put_document("d", f"folder/{NAME}", "Nothing."), kb.purge("d", f"folder/{NAME}")
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kept", [0, 20])
def test_no_file_of_the_server_holds_what_was_purged(
    postgres_server: PostgresServer, postgres_url: str, way: str, kept: int
) -> None:
    with opened(postgres_url) as kb:
        fill(kb, kept)
        analyze(postgres_server, schema_of(postgres_url))
        assert {each.rpartition(" ")[2] for each in postgres_server.holders(*NEEDLES)} >= {
            NAME, HEADING, WORD, META,
        }  # fmt: skip
        WAYS[way](kb)
        assert postgres_server.holders(*NEEDLES) == []
        kb.put_document("d", "later", "# Later\n\nThe kettle and a wordling.\n")
        assert kb.doctor().clean
        assert kb.search("wordling", dataset_id="d").hits[0].doc_name == "later"
        if kept and way != "dataset":
            assert kb.search("sings", dataset_id="d", top_k=50).hits


def test_a_purge_waits_for_whoever_may_still_read_what_was_deleted(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with opened(postgres_url, lock_timeout=0.5) as kb, postgres_server.connect() as other:
        fill(kb)
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1 FROM pg_class").fetchall()  # its moment is now
        with pytest.raises(StoreLockedError, match=r"(?s)backend_xmin.*purge again"):
            kb.purge("d", f"folder/{NAME}")
        assert postgres_server.holders(*NEEDLES) != []
        other.execute("COMMIT")
        kb.purge("d", f"folder/{NAME}")
        assert postgres_server.holders(*NEEDLES) == []


def test_words_that_a_purge_removed_can_be_put_again_by_whoever_knew_them(
    postgres_url: str,
) -> None:
    with opened(postgres_url) as kb, opened(postgres_url) as other:
        other.put_document("d", "first", PAGE)
        assert other.search(WORD, dataset_id="d").hits
        kb.purge("d", "first")
        other.put_document("d", "second", PAGE)
        for each in (kb, other):
            assert found(each, WORD) == ["second"]
        assert kb.doctor().clean


def test_words_that_another_learns_while_a_purge_runs_are_kept_or_made_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triptych_postgres import database

    with opened(postgres_url) as kb, opened(postgres_url) as other:
        kb.put_document("d", "gone", PAGE)

        def between(session: object, **options: bool) -> None:
            other.put_document("d", "brief", PAGE)  # it looks the ids up, and lets go of the words
            other.delete_document("d", "brief")
            fold(session, **options)  # type: ignore[arg-type]

        fold = database.fold
        monkeypatch.setattr(database, "fold", between)
        kb.purge("d", "gone")
        other.put_document("d", "second", PAGE)
        assert found(kb, WORD) == ["second"]
        assert kb.doctor().clean


def test_a_column_keeps_its_collation_and_its_storage(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    def columns() -> list[tuple[object, ...]]:
        with postgres_server.connect() as driver:
            return driver.execute(
                "SELECT relname, attname, atttypid, attcollation, attstorage, attnotnull "
                "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
                "WHERE c.relnamespace = %s::regnamespace AND a.attnum > 0 ORDER BY 1, 2",
                (schema_of(postgres_url),),
            ).fetchall()

    with opened(postgres_url) as kb:
        fill(kb, 0)
        before = columns()
        kb.purge("d")
        assert columns() == before


def test_a_user_who_may_not_rewrite_the_servers_statistics_is_told(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    schema = schema_of(postgres_url)
    with postgres_server.connect() as driver:
        driver.execute("CREATE EXTENSION IF NOT EXISTS vector")
        for name in ("owner", "other"):
            driver.execute(f"CREATE ROLE {schema}_{name} LOGIN")
            driver.execute(f"GRANT CREATE ON DATABASE postgres TO {schema}_{name}")

    def url_of(user: str) -> str:
        return postgres_url.replace("//postgres@", f"//{schema}_{user}@")

    with opened(url_of("owner")) as kb:
        fill(kb)
        receipt = kb.purge("d", f"folder/{NAME}")
        assert any("pg_statistic" in each for each in receipt.beyond)
        assert kb.doctor().clean
        fill(kb)
    with postgres_server.connect() as driver:
        driver.execute(f"GRANT USAGE ON SCHEMA {schema} TO {schema}_other")
        for what in ("TABLES", "SEQUENCES"):
            driver.execute(f"GRANT ALL ON ALL {what} IN SCHEMA {schema} TO {schema}_other")
    refused = pytest.raises(StoreError, match="another user's: purge again as its owner")
    with opened(url_of("other")) as kb, refused:
        kb.purge("d", f"folder/{NAME}")
    with opened(postgres_url) as kb:
        receipt = kb.purge("d", f"folder/{NAME}")
        assert not any("pg_statistic" in each for each in receipt.beyond)
        assert postgres_server.holders(*NEEDLES) == []
