"""The server is killed under load and starts again: nothing acknowledged is lost."""

from __future__ import annotations

import random
import threading
import time

import pytest

from support.postgres import PostgresServer, running_server
from triptych.errors import StoreError
from triptych.records import NewDocument
from triptych_postgres import PostgresStore
from triptych_testing.builders import derive, keyword_query, set_config

DURABLE = ("fsync=on", "autovacuum=off")
WRITERS = 3
_LETTERS = str.maketrans("0123456789", "abcdefghij")
"""So that a name is one word."""


class _Load:
    """Threads that write and search until they are stopped, whatever fails in between."""

    def __init__(self, url: str) -> None:
        self.stores = [PostgresStore.open(url) for _ in range(2)]
        set_config(self.stores[0], "d")
        self.acknowledged: set[str] = set()
        self.searched = 0
        self.failures: list[BaseException] = []
        self._ended = threading.Event()
        self._threads = [
            *(threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)),
            threading.Thread(target=self._search),
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, number: int) -> None:
        store = self.stores[number % len(self.stores)]
        count = 0
        while not self._ended.is_set():
            name = f"w{number}x{count}q".translate(_LETTERS)
            count += 1
            try:
                store.documents.put("d", NewDocument(name=name, content=f"storm {name}"))
                if derive(store, "d", name):
                    self.acknowledged.add(name)
            except StoreError:
                time.sleep(0.01)  # the server is away: whether it was written is not known
            except BaseException as error:
                self.failures.append(error)
                raise

    def _search(self) -> None:
        while not self._ended.is_set():
            try:
                self.stores[0].chunks.search(keyword_query("storm", "d"))
                self.searched += 1
            except StoreError:
                time.sleep(0.01)
            except BaseException as error:
                self.failures.append(error)
                raise

    def wait_for(self, more: int) -> None:
        """Wait until so many more writes were acknowledged, and one more search answered."""
        wanted, searches = len(self.acknowledged) + more, self.searched
        deadline = time.monotonic() + 120
        while len(self.acknowledged) < wanted or self.searched == searches:
            assert not self.failures, self.failures
            assert time.monotonic() < deadline, "the clients have not recovered"
            time.sleep(0.01)

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def _rounds(server: PostgresServer, count: int) -> None:
    url = server.schema_url("killed")
    chance = random.Random(5)
    load = _Load(url)
    try:
        for at in range(count):
            load.wait_for(chance.randint(3, 12))
            server.kill()
            server.start()
            print(f"killed {at + 1} times, {len(load.acknowledged)} acknowledged")
        load.wait_for(10)
    finally:
        load.stop()
        for store in load.stores:
            store.close()
    assert not load.failures
    with PostgresStore.open(url) as store:
        names = {info.name for info in store.documents.list("d")}
        assert load.acknowledged <= names
        derived = set(store.chunks.get_doc_sigs("d", sorted(load.acknowledged)))
        assert derived == load.acknowledged
        for name in chance.sample(sorted(load.acknowledged), 10):
            found = store.chunks.search(keyword_query(name, "d"))
            assert [hit.doc_name for hit in found] == [name]
        with store.database.reading() as session:
            rows = session.text("SELECT count(*), count(DISTINCT seq) FROM document_change")
        assert rows[0][0] == rows[0][1] == len(names)


@pytest.mark.process
def test_a_killed_server_loses_nothing_acknowledged_and_its_clients_recover() -> None:
    with running_server(*DURABLE) as server:
        _rounds(server, 1)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_server_killed_fifty_times_loses_nothing_acknowledged() -> None:
    with running_server(*DURABLE) as server:
        _rounds(server, 50)
