"""How many processes serve a store, unless somebody says."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest

from support.postgres import PostgresServer
from triptych_factory import Settings
from triptych_server.http import listen, processes
from triptych_server.http.processes import available_memory, default_workers

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight cores, 16 GiB free, and no limits of a container."""
    monkeypatch.setattr(processes, "available_cores", lambda: 8)
    monkeypatch.setattr(processes, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(processes, "_CGROUP", tmp_path)
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {16 * GIB >> 10} kB\n")
    return tmp_path


def workers(url: str) -> int:
    return default_workers(Settings.resolve({"url": url, "embedder": "hash"}))


def test_each_core_has_a_process(machine: Path) -> None:
    assert (workers("kb.db"), workers("files://./kb")) == (8, 8)


def test_there_are_no_more_than_the_memory_holds(machine: Path) -> None:
    (machine / "meminfo").write_text(f"MemAvailable: {2 * GIB >> 10} kB\n")
    assert workers("kb.db") == 3
    (machine / "meminfo").write_text("MemAvailable: 1000 kB\n")
    assert workers("kb.db") == 1


def test_a_container_has_its_own_memory(machine: Path) -> None:
    (machine / "memory.stat").write_text(f"anon {GIB}\nfile {9 * GIB}\n")
    (machine / "memory.max").write_text("max\n")
    assert available_memory() == 16 * GIB
    (machine / "memory.max").write_text(f"{4 * GIB}\n")
    assert available_memory() == 3 * GIB
    assert workers("kb.db") == 5


def test_where_nobody_says_how_much_is_free_it_is_half_of_the_memory(machine: Path) -> None:
    """As on macOS, which has no such file."""
    (machine / "meminfo").unlink()
    found = available_memory()
    assert found is None or found > 0
    assert workers("kb.db") >= 1


@pytest.mark.parametrize("url", ["memory://", "http://kb.example:8400"])
def test_what_is_of_one_process_has_one(machine: Path, url: str) -> None:
    assert workers(url) == 1


def test_connections_that_come_together_are_left_to_other_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """asyncio accepts until it hears that there is none."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(processes, "_BURST", 60.0)
    with (
        processes._Shared(fileno=listen("127.0.0.1", 0).detach()) as listening,
        socket.create_connection(listening.getsockname()),
        socket.create_connection(listening.getsockname()),
    ):
        for paused in (0, 1):
            connection, _ = listening.accept()
            connection.close()
            with pytest.raises(BlockingIOError):
                listening.accept()
            assert len(pauses) == paused


def test_windows_has_one(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert workers("kb.db") == 1


def test_their_pools_have_half_of_the_connections_of_postgresql(
    machine: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    with postgres_server.connect() as driver:
        row = driver.execute("SHOW max_connections").fetchone()
    assert row is not None
    assert workers(f"{postgres_url}&pool_size={int(row[0]) // 6}") == 3
    assert workers(f"{postgres_url}&pool_size={row[0]}") == 1
    assert workers("postgresql://127.0.0.1:9/none") == 8  # opening it says what is wrong
