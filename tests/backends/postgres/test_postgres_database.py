"""What a store on PostgreSQL does beyond the kit: connections, waits, errors, numbers."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from psycopg.conninfo import conninfo_to_dict

import triptych
from support.postgres import PostgresServer, running_server
from triptych.errors import (
    NotFoundError,
    SchemaVersionError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    ValidationError,
)
from triptych.records import NewDocument
from triptych_postgres import PostgresStore, parse_url
from triptych_testing.changes import Follower


def test_a_url_says_all() -> None:
    found = parse_url(
        "postgresql+psycopg://me:secret@db.example:5433/kb?sslmode=verify-full&schema=notes"
        "&statement_timeout=5&pool_size=3&reconnect=0"
    )
    assert (found.schema, found.statement_timeout, found.pool_size) == ("notes", 5, 3)
    assert found.reconnect == 0
    assert "sslmode=verify-full" in found.conninfo
    assert "schema" not in found.conninfo
    assert "secret" not in f"{found.where} {found!r}"


def test_a_plus_sign_in_a_url_is_itself() -> None:
    found = parse_url("postgresql://u@h/kb?password=a+b%2Bc%20d%25&application_name=it+is")
    known = conninfo_to_dict(found.conninfo)
    assert (known["password"], known["application_name"]) == ("a+b+c d%", "it+is")


def test_a_url_may_name_a_socket_only() -> None:
    found = parse_url("postgresql+psycopg:///kb?host=/run/postgresql&schema=mine")
    known = conninfo_to_dict(found.conninfo)
    assert known == {"dbname": "kb", "host": "/run/postgresql"}
    assert found.where == "postgresql:///kb (schema mine)"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:secret@[::1/kb",
        "postgresql://u:sec#ret@h/kb",
        "postgresql://u:secret@h/kb?pool_size=3&pool_size=4",
        "postgresql://u:secret@h",
        "postgresql://u:secret@h/d?nonsense=1",
        "postgresql://u:secret@h/d?schema=a%20b",
        "postgresql://u:secret@h/d?schema=pg_x",
        "postgresql://u:secret@h/d?pool_size=many",
        "postgresql://u:secret@h/d?statement_timeout=-1",
        "mysql://u:secret@h/d",
    ],
)
def test_an_invalid_url_is_refused_and_keeps_its_secrets(url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_named(tmp_path: object) -> None:
    with pytest.raises(StoreError, match="check that the server runs") as caught:
        PostgresStore.open(f"postgresql://u:secret@/d?host={tmp_path}&connect_timeout=1")
    assert "secret" not in str(caught.value)


def test_a_full_disk_of_the_server_is_named(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    schema = parse_url(postgres_url).schema
    with PostgresStore.open(postgres_url) as store, postgres_server.connect() as driver:
        driver.execute(
            f"CREATE FUNCTION {schema}.fails() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END$$"
        )
        driver.execute(
            f"CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.document FOR EACH ROW "
            f"EXECUTE FUNCTION {schema}.fails()"
        )
        driver.commit()
        with pytest.raises(StoreFullError, match="disk is full: free some space"):
            store.documents.put("d", NewDocument(name="a", content="x"))


def test_open_waits_for_a_server_that_is_starting() -> None:
    with running_server() as server, ThreadPoolExecutor(1) as pool:
        server.kill()
        url = f"{server.schema_url('late')}&connect_timeout=60"
        opening = pool.submit(PostgresStore.open, url)
        time.sleep(0.3)
        # By this thread: a server ends with the thread that began it.
        server.start()
        with opening.result() as store:
            assert store.documents.list_datasets() == []


def _say_starting(listener: socket.socket, asked: list[int]) -> None:
    """Answer as a server does that is starting up."""
    message = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                asked.append(len(connection.recv(4096)))
                connection.sendall(b"E" + struct.pack(">i", len(message) + 4) + message)


def test_a_server_that_never_comes_up_is_waited_for_no_longer_than_asked() -> None:
    asked: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=_say_starting, args=(listener, asked))
        thread.start()
        url = f"postgresql://u:secret@127.0.0.1:{port}/d?connect_timeout=1&sslmode=disable"
        with pytest.raises(StoreError, match=r"did not answer for 1 s.*longer connect_timeout"):
            PostgresStore.open(f"{url}&gssencmode=disable")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert len(asked) > 2


def test_what_no_wait_helps_is_said_at_once(postgres_server: PostgresServer) -> None:
    began = time.monotonic()
    with pytest.raises(StoreError, match="does not exist"):
        PostgresStore.open(
            postgres_server.schema_url("x").replace("/postgres?", "/nowhere?")
            + "&connect_timeout=600"
        )
    assert time.monotonic() - began < 300


def test_a_store_that_is_closed_closes_what_is_in_use(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    with PostgresStore.open(f"{postgres_url}&application_name=closing") as store:
        with store.database.reading() as session:
            store.close()
            assert session.text("SELECT 1") == [(1,)]
        assert session.driver.closed
        with pytest.raises(StoreError, match="closed"):
            store.documents.list_datasets()


def test_a_full_pool_says_so(postgres_url: str) -> None:
    PostgresStore.open(postgres_url).close()
    with (
        PostgresStore.open(f"{postgres_url}&pool_size=2&statement_timeout=0.1") as store,
        store.database.reading(),
        store.database.reading(),
        pytest.raises(StoreError, match=r"all 2 connections.*greater pool_size"),
    ):
        store.documents.list_datasets()


def test_a_missing_store_is_not_made_for_reading(postgres_url: str) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        PostgresStore.open(postgres_url, read_only=True)
    PostgresStore.open(postgres_url).close()
    with PostgresStore.open(postgres_url, read_only=True) as store:
        assert store.documents.list_datasets() == []
        with pytest.raises(StoreError, match="read-only"):
            store.documents.put("d", NewDocument(name="a", content="x"))


def test_a_store_of_another_revision_is_refused(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    with PostgresStore.open(postgres_url) as store:
        schema = store.database.schema
    with postgres_server.connect() as driver:
        driver.execute(f"UPDATE {schema}.meta SET value = '9999' WHERE key = 'schema'")
    with pytest.raises(SchemaVersionError, match="9999"):
        PostgresStore.open(postgres_url)


def test_lost_connections_are_replaced(postgres_url: str, postgres_server: PostgresServer) -> None:
    with PostgresStore.open(postgres_url) as store:
        store.documents.put("d", NewDocument(name="a", content="x"))
        for act in (
            lambda: store.documents.get("d", "a"),
            lambda: store.documents.count("d"),
            lambda: store.documents.put("d", NewDocument(name="b", content=os.urandom(4).hex())),
        ):
            with postgres_server.connect() as driver:
                driver.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                    "WHERE application_name = 'triptych'"
                )
            assert act()


def test_what_takes_too_long_says_so(postgres_url: str) -> None:
    PostgresStore.open(postgres_url).close()
    with PostgresStore.open(f"{postgres_url}&statement_timeout=0.05") as store:
        with (
            pytest.raises(StoreError, match="statement timeout"),
            store.database.reading() as session,
        ):
            session.text("SELECT pg_sleep(30)")
        assert store.documents.list_datasets() == []


def test_writers_of_two_stores_take_turns_or_give_up(postgres_url: str) -> None:
    with (
        PostgresStore.open(postgres_url) as one,
        PostgresStore.open(postgres_url, lock_timeout=0.05) as other,
    ):
        with one.database.writing():
            with pytest.raises(StoreLockedError, match="longer lock_timeout"):
                other.documents.put("d", NewDocument(name="a", content="x"))
            assert other.documents.get("d", "a") is None
        other.documents.put("d", NewDocument(name="a", content="x"))


def test_no_more_connections_than_the_pool_allows(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    with PostgresStore.open(f"{postgres_url}&pool_size=2&application_name=two") as store:
        store.documents.put("d", NewDocument(name="a", content="x"))
        threads = [
            threading.Thread(target=lambda: [store.documents.get("d", "a") for _ in range(20)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with postgres_server.connect() as driver:
            row = driver.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'two'"
            ).fetchone()
        assert row is not None
        assert 1 <= row[0] <= 2


def test_who_follows_the_changes_misses_none_of_those_that_commit_meanwhile(
    postgres_url: str,
) -> None:
    """Numbers are committed in their order, whichever of several stores gives them out."""
    with PostgresStore.open(postgres_url) as reader:
        writers = [PostgresStore.open(postgres_url) for _ in range(3)]

        def write(number: int) -> None:
            for at in range(15):
                writers[number].documents.put(
                    f"d{number}", NewDocument(name=f"{at}", content=f"{number} {at}")
                )

        threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        follower = Follower()
        while any(thread.is_alive() for thread in threads):
            follower.turn(reader, limit=3)
        follower.catch_up(reader)
        assert len(follower.copy) == 45
        for writer in writers:
            writer.close()


FORKS = """
import os, sys
from triptych.records import NewDocument
from triptych_postgres import PostgresStore

store = PostgresStore.open(sys.argv[1])
store.documents.put("d", NewDocument(name="a", content="x"))
child = os.fork()
assert store.documents.get("d", "a") is not None
store.documents.put("d", NewDocument(name=f"of {bool(child)}", content="y"))
assert store.documents.get("d", f"of {bool(child)}") is not None
store.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_has_connections_of_its_own(postgres_url: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", FORKS, postgres_url], check=True)
    with PostgresStore.open(postgres_url) as store:
        names = [info.name for info in store.documents.list("d")]
    assert names == ["a", "of False", "of True"]


def test_a_schema_that_is_not_there_is_made_only_where_it_may_be(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.schema_url("not_there_yet")
    for _ in range(2):
        with pytest.raises(NotFoundError, match=r"there is no store at .*\(schema not_there_yet\)"):
            triptych.open(url, embedder=None, create=False)
    triptych.open(url, embedder=None).close()
    with triptych.open(url, embedder=None, create=False) as kb:
        kb.put_document("d", "a.md", "Written without making the schema.")
