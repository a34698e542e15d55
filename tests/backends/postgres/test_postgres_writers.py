"""Writers of different datasets do not wait for each other, and the log keeps one order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.postgres import PostgresServer, running_server
from triptych.errors import StoreLockedError
from triptych.records import ChangeCursor, NewDocument
from triptych_backends.sql import SqlDocuments, Transaction
from triptych_testing.builders import fill_at_once, keyword_query

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from triptych_postgres import PostgresStore


@attrs.frozen
class _Open:
    """A database whose transactions stand open, all written but the log, while a step runs."""

    database: Any
    step: Callable[[], object]

    @contextmanager
    def writing(self, dataset: str | None = None, *, durable: bool = True) -> Iterator[Transaction]:
        with self.database.writing(dataset, durable=durable) as tx:
            yield tx
            self.step()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)


def put_with(store: PostgresStore, dataset: str, name: str, step: Callable[[], object]) -> None:
    """Put a document, and run ``step`` while its transaction stands open."""
    open_documents = SqlDocuments(_Open(store.database, step), store.searcher)
    open_documents.put(dataset, NewDocument(name=name, content=f"text of {name}"))


@pytest.fixture(params=["server", "local"])
def store(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[PostgresStore]:
    url = f"{postgres_url}&search={request.param}"
    with PostgresStore.open(url, lock_timeout=1.0) as found:
        yield found


def test_a_put_returns_while_a_transaction_in_another_dataset_stands_open(
    store: PostgresStore,
) -> None:
    def others() -> None:
        fill_at_once(store, "b", {"b": "a kettle"})
        store.documents.delete("c", "c")
        assert store.documents.get("a", "late") is None
        assert len(store.chunks.search(keyword_query("kettle", "b"))) == 1
        with pytest.raises(StoreLockedError):
            store.documents.put("a", NewDocument(name="other", content="of the same dataset"))
        with pytest.raises(StoreLockedError):
            store.scrub()

    fill_at_once(store, "c", {"c": "a lamp"})
    with store.database.turn("b"):  # another thing of that name
        put_with(store, "a", "late", others)
    assert store.documents.get("a", "late") is not None
    store.documents.put("a", NewDocument(name="other", content="its turn"))
    diagnostics = store.capabilities.diagnostics
    assert diagnostics is not None
    assert not list(diagnostics.check_integrity(["a", "b", "c"]))


def test_what_commits_late_comes_late_in_the_feed(store: PostgresStore) -> None:
    """Its ids were drawn first: whether a document is new is not told by them."""
    store.documents.put("b", NewDocument(name="first", content="text"))
    before = store.read_changes(None, dataset_id=None, limit=100).cursor
    between = []

    def others() -> None:
        store.documents.put("b", NewDocument(name="second", content="text"))
        page = store.read_changes(ChangeCursor.parse(before), dataset_id=None, limit=100)
        assert [change.name for change in page.changes] == ["second"]
        between.append(page.cursor)

    put_with(store, "a", "late", others)
    (change,) = store.read_changes(
        ChangeCursor.parse(between[0]), dataset_id=None, limit=100
    ).changes
    assert (change.name, change.kind) == ("late", "added")
    page = store.read_changes(ChangeCursor.parse(before), dataset_id=None, limit=100)
    assert [change.name for change in page.changes] == ["second", "late"]


def test_ids_are_drawn_again_where_an_older_copy_takes_the_place_of_the_store() -> None:
    """Beneath a connection, which had drawn ids that the copy does not know."""
    names = [f"{number}" for number in range(20)]
    with running_server() as server:
        url = f"{server.schema_url('kb')}&search=local"
        with PostgresStore.open(url) as one:
            older = server.dump()
            one.documents.put("a", NewDocument(name="lost", content="text"))
            with server.connect() as driver:
                driver.execute("DROP SCHEMA kb CASCADE")
            server.run_script(older)
            with PostgresStore.open(url) as other:
                other.documents.put_many("a", [NewDocument(name=n, content=n) for n in names])
            one.documents.put_many("b", [NewDocument(name=n, content=n) for n in names])
            assert len(one.documents.list("a")) == len(one.documents.list("b")) == len(names)


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from("xy"),
        st.sampled_from(["put", "delete", "follow"]),
        st.integers(0, 3),
    ),
    max_size=12,
)


@attrs.define
class _Follower:
    """A copy that is kept by the feed, some pages of two at a time."""

    store: PostgresStore
    names: set[tuple[str, str]] = attrs.field(factory=set)
    cursor: str | None = None

    def follow(self) -> None:
        while True:
            since = None if self.cursor is None else ChangeCursor.parse(self.cursor)
            page = self.store.read_changes(since, dataset_id=None, limit=2)
            assert not page.reset
            for change in page.changes:
                place = (change.dataset_id, change.name)
                assert (change.kind == "added") == (place not in self.names)
                if change.kind == "deleted":
                    self.names.remove(place)
                else:
                    self.names.add(place)
            self.cursor = page.cursor
            if not page.more:
                return


def _run(follower: _Follower, steps: list[tuple[str, str, str, int]], taken: str) -> None:
    """Run the steps, each with some of those after it while its transaction stands open."""
    store, number = follower.store, 0
    while steps:
        dataset, name, what, within = steps.pop(0)
        if what == "follow":
            follower.follow()
        if what == "follow" or dataset in taken:
            continue
        inner = [steps.pop(0) for _ in range(min(within, len(steps)))]
        number += 1
        documents = SqlDocuments(
            _Open(store.database, lambda i=inner, d=dataset: _run(follower, i, taken + d)),
            store.searcher,
        )
        if what == "put":
            content = f"{taken} {number} {id(inner)}"
            documents.put(dataset, NewDocument(name=name, content=content))
        else:
            documents.delete(dataset, name)


@pytest.mark.property
@settings(max_examples=examples(40))
@given(steps=STEPS)
def test_who_follows_all_datasets_misses_nothing_of_writers_that_overlap(
    postgres_server: PostgresServer, steps: list[tuple[str, str, str, int]]
) -> None:
    with postgres_server.connect() as driver:
        driver.execute("DROP SCHEMA IF EXISTS followed CASCADE")
    url = f"{postgres_server.schema_url('followed')}&search=local"
    with PostgresStore.open(url, lock_timeout=5.0) as store:
        follower = _Follower(store)
        _run(follower, list(steps), "")
        follower.follow()
        stored = {
            (dataset, info.name)
            for dataset in store.documents.list_datasets()
            for info in store.documents.list(dataset)
        }
        assert follower.names == stored
        fresh = _Follower(store)
        fresh.follow()
        assert fresh.names == stored


_LOADS = """
import sys
from triptych.records import NewDocument
from triptych_postgres import PostgresStore
from triptych_testing.builders import fill_at_once
with PostgresStore.open(sys.argv[1], lock_timeout=2.0) as store:
    for number in range(30):
        fill_at_once(store, sys.argv[2], {f"{number}.md": f"the kettle {number} of {sys.argv[2]}"})
"""


@pytest.mark.process
def test_two_processes_load_two_datasets(store: PostgresStore, postgres_url: str) -> None:
    def load() -> None:
        both = [
            subprocess.Popen([sys.executable, "-c", _LOADS, postgres_url, dataset])
            for dataset in ("b", "c")
        ]
        assert [each.wait() for each in both] == [0, 0]

    store.documents.put("a", NewDocument(name="first", content="text"))
    put_with(store, "a", "late", load)  # they do not wait for it either
    diagnostics = store.capabilities.diagnostics
    assert diagnostics is not None
    assert not list(diagnostics.check_integrity(["a", "b", "c"]))
    for dataset in ("b", "c"):
        assert len(store.chunks.search(keyword_query("kettle", dataset, top_k=100))) == 30
    changes = store.read_changes(None, dataset_id=None, limit=1_000).changes
    assert len(changes) == 62
    assert changes[-1].name == "late"
