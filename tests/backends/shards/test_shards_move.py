"""A dataset moves while others write to it and read it, and whoever moves it may be killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from support.postgres import PostgresServer
from triptych.errors import NotFoundError
from triptych.records import Layer
from triptych.replication.states import StoreStates, state_digest
from triptych.repositories import capabilities_of
from triptych.testing.builders import (
    derive,
    fill,
    keyword_query,
    layer_of,
    put,
    vector_of,
    vector_query,
)
from triptych.testing.changes import Follower, snapshot

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from support.shards import make_sharded
from triptych_backends.shards import ShardedStore
from triptych_backends.shards.move import move_dataset

SCRIPT = Path(__file__).parents[2] / "support" / "move_script.py"
STEPS = ("arriving", "copied", "leaving", "compared", "left", "here", "placed", "deleted")
DOCUMENTS = 6


@pytest.fixture
def url(postgres_server: PostgresServer, postgres_url: str) -> Iterator[str]:
    other = f"{postgres_url.rpartition('=')[2]}_other"
    yield make_sharded([postgres_url, postgres_server.schema_url(other)])
    with postgres_server.connect() as driver:
        driver.execute(f"DROP SCHEMA IF EXISTS {other} CASCADE")


def fill_richly(store: ShardedStore) -> None:
    """A dataset ``d`` with old versions, vectors and layers, and another beside it."""
    fill(store, "d", {f"{at}.md": f"text {at} of many" for at in range(DOCUMENTS)})
    put(store, "d", "0.md", "text 0 again")
    derive(store, "d", "0.md")
    assert store.documents.delete("d", "5.md")
    assert store.layers.put(layer_of(store, "d", "1.md", "an abstract of 1"))
    assert store.layers.put(layer_of(store, "d", "", "an abstract of all"))
    fill(store, "e", {"1.md": "another dataset"})


def digests(store: ShardedStore) -> dict[str, bytes]:
    states = StoreStates(store)
    return {state.name: state_digest(state) for state in states.states("d")}


@attrs.define
class Writer:
    """Writes to ``d`` until it ends, with a map of its own; what was acknowledged is kept."""

    url: str
    acknowledged: dict[str, tuple[int, str]] = attrs.field(factory=dict)
    failures: list[BaseException] = attrs.field(factory=list)
    ended: threading.Event = attrs.field(factory=threading.Event)
    rounds: int = 0

    @contextmanager
    def working(self) -> Iterator[None]:
        with ShardedStore.open(self.url) as store:
            store.documents.get("d", "1.md")  # it knows where the dataset is, and is not told
            threads = [
                threading.Thread(target=self._guarded, args=(run, store))
                for run in (self._write, self._read)
            ]
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self.ended.set()
                for thread in threads:
                    thread.join()
        assert not self.failures, self.failures

    def _guarded(self, run: object, store: ShardedStore) -> None:
        try:
            while not self.ended.wait(0.02):
                run(store)  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failures.append(error)

    def _write(self, store: ShardedStore) -> None:
        name = f"w{self.rounds % 5}"
        text = f"round {self.rounds} was written"
        before = self.acknowledged.get(name, (0, ""))[0]
        stored = put(store, "d", name, text)
        assert stored.version > before, "a version was given twice"
        self.acknowledged[name] = stored.version, text
        found = store.documents.get("d", name)
        assert found is not None
        assert (found.version, found.content) == (stored.version, text), "it is not read"
        assert derive(store, "d", name)
        self.rounds += 1

    def _read(self, store: ShardedStore) -> None:
        # What nobody writes is there, whole, at every moment.
        names = [info.name for info in store.documents.list("d") if info.name.endswith(".md")]
        assert names == [f"{at}.md" for at in range(DOCUMENTS - 1)]
        found = store.chunks.search(keyword_query("text", "d", top_k=50))
        assert {each.doc_name for each in found} == set(names)
        near = vector_query(vector_of("text 3 of many"), "d", "e", top_k=500)
        assert {*names, "1.md"} <= {each.doc_name for each in store.chunks.search(near)}
        chunks = {each.doc_name for each in store.chunks.iter_chunks("d")}
        assert set(names) <= chunks
        assert store.documents.list_datasets() == ["d", "e"]
        layer = store.layers.get("d", "", Layer.ABSTRACT)
        assert layer is not None

    def check(self, store: ShardedStore) -> None:
        assert self.rounds
        for name, (version, text) in self.acknowledged.items():
            found = store.documents.get("d", name)
            assert found is not None
            assert (found.version, found.content) == (version, text)


def test_a_move_takes_everything_and_others_follow_it(url: str) -> None:
    with ShardedStore.open(url) as store, ShardedStore.open(url) as other:
        fill_richly(store)
        before, listed = digests(store), snapshot(store)
        follower = Follower()
        follower.catch_up(other)
        head = other.change_head()
        key = other.chunks.search(keyword_query("text", "d"))[0].key
        writer = Writer(url)
        with writer.working():
            # Who follows reads past the copy that is being made, and begins again after it.
            report = move_dataset(
                store.router,
                "d",
                "server2",
                step=lambda name: follower.catch_up(other) if name == "copied" else None,
            )
        assert (report.source, report.destination) == ("first", "server2")
        writer.check(store)
        for name in writer.acknowledged:
            store.documents.delete("d", name)
        assert digests(store) == before
        assert snapshot(other) == listed
        assert other.router.place("d").server.name == "server2"
        assert store.router.first.store.documents.list_datasets() == []
        assert other.chunks.fetch([key]) == {}, "a key of where it was"
        assert other.change_head() != head
        follower.catch_up(other)
        assert follower.copy == listed

        assert other.chunks.config("d") == store.chunks.config("d")
        with ShardedStore.open(url) as again:
            assert move_dataset(again.router, "d", "first").source == "server2"
            assert move_dataset(again.router, "d", "first").source == ""
        assert digests(other) == before
        follower.catch_up(other)
        assert follower.copy == listed
        found = capabilities_of(store).versions
        assert found is not None
        assert [info.version for info in found.versions("d", "0.md")] == [2, 1]
        assert put(other, "d", "5.md", "a deleted one").version > 1
        with pytest.raises(NotFoundError, match="no dataset 'x'"):
            move_dataset(store.router, "x", "first")
        with pytest.raises(NotFoundError, match="no server 'x'"):
            move_dataset(store.router, "d", "x")


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_is_killed_goes_on(url: str, step: str) -> None:
    with ShardedStore.open(url) as store:
        fill_richly(store)
        before = digests(store)
        writer = Writer(url)
        with writer.working():
            killed = subprocess.run(
                [sys.executable, SCRIPT, url, "d", "server2", step], timeout=120, check=False
            )
            assert killed.returncode == -signal.SIGKILL
            # Writers go on before anybody moves it again: they wait for the fence at most.
            rounds = writer.rounds
            while writer.rounds < rounds + 2 and not writer.failures:
                threading.Event().wait(0.02)
            move_dataset(store.router, "d", "server2")
        writer.check(store)
        for name in writer.acknowledged:
            store.documents.delete("d", name)
        assert digests(store) == before
        assert store.router.place("d").server.name == "server2"
        assert store.router.first.store.documents.list_datasets() == []


@pytest.mark.slow
def test_a_move_that_is_given_up_leaves_nothing(url: str) -> None:
    class GivenUp(BaseException):
        pass

    def stop(step: str) -> None:
        if step == "leaving":
            raise GivenUp

    with ShardedStore.open(url) as store:
        fill_richly(store)
        with pytest.raises(GivenUp):
            move_dataset(store.router, "d", "server2", step=stop)
        put(store, "d", "1.md", "changed at once")
        assert store.documents.list_datasets() == ["d", "e"]
        assert move_dataset(store.router, "d", "first").source == ""
        there = store.router.server("server2").store
        assert there.documents.list_datasets() == ["e"]
        assert move_dataset(store.router, "d", "server2").source == "first"
        found = store.documents.get("d", "1.md")
        assert found is not None
        assert found.content == "changed at once"
