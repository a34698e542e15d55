"""A streaming replica of a PostgreSQL server of the tests."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.postgres import PostgresServer


@contextmanager
def running_replica(primary: PostgresServer, *settings: str) -> Iterator[PostgresServer]:
    """A replica made by pg_basebackup, which streams from ``primary``; it ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    replica = None
    try:
        replica = PostgresServer(folder, settings, copied=primary)
        replica.start()
        yield replica
    finally:
        if replica is not None:
            replica.stop()
        shutil.rmtree(folder, ignore_errors=True)


def replay_position(server: PostgresServer) -> int:
    """How far a server is, in bytes of the log: what it replayed, or what it wrote."""
    with server.connect() as driver:
        row = driver.execute(
            "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
            "ELSE pg_current_wal_insert_lsn() END, '0/0')::bigint"
        ).fetchone()
    assert row is not None
    return int(row[0])


def wait_until(replica: PostgresServer, primary: PostgresServer) -> None:
    """Wait until a replica has replayed what the primary has written by now."""
    wanted = replay_position(primary)
    deadline = time.monotonic() + 60
    while replay_position(replica) < wanted:
        assert time.monotonic() < deadline, "the replica does not follow"
        time.sleep(0.01)
