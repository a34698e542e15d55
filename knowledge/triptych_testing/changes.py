"""Tests of the change log: followers end up with the store's documents."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from triptych.contracts import ChangeReader, Store
from triptych.errors import StoreError, ValidationError
from triptych.records import ChangeCursor, ChangePage, DocumentChange, NewDocument
from triptych_testing.builders import derive, fill, put, set_config
from triptych_testing.change_heads import ChangeHeadTests
from triptych_testing.harness import Harness, or_skip
from triptych_testing.work import Worker

Versions = dict[tuple[str, str], int]
"""The version of each document, by dataset and name."""

_LATER = datetime.now(UTC) + timedelta(days=1)


def reader_of(store: Store) -> ChangeReader:
    return or_skip(store.capabilities.changes)


def read(
    store: Store, since: str | None = None, *, dataset_id: str | None = None, limit: int = 1000
) -> ChangePage:
    cursor = None if since is None else ChangeCursor.parse(since)
    return reader_of(store).read_changes(cursor, dataset_id=dataset_id, limit=limit)


def told(page: ChangePage) -> list[tuple[str, str, str]]:
    return [(each.dataset_id, each.name, each.kind) for each in page.changes]


def snapshot(store: Store, datasets: Collection[str] | None = None) -> Versions:
    """What is there: of these datasets, or of all."""
    return {
        (dataset_id, info.name): info.version
        for dataset_id in store.documents.list_datasets()
        if datasets is None or dataset_id in datasets
        for info in store.documents.list(dataset_id)
    }


@attrs.define
class Follower:
    """Somebody who has the versions of documents, and keeps them by the changes alone.

    With ``datasets``, all other datasets are another's.
    """

    datasets: Collection[str] | None = None
    cursor: str | None = None
    copy: Versions = attrs.field(factory=dict)

    def turn(self, store: Store, limit: int = 1000) -> ChangePage:
        """Read a page, and apply it."""
        page = read(store, self.cursor, limit=limit)
        assert len(page.changes) <= limit
        if page.reset:
            self.copy.clear()
        for change in page.changes:
            if self.datasets is not None and change.dataset_id not in self.datasets:
                continue
            if change.kind == "deleted":
                self.copy.pop((change.dataset_id, change.name), None)
            else:
                self.copy[change.dataset_id, change.name] = change.version
        self.cursor = page.cursor
        return page

    def catch_up(self, store: Store, limit: int = 1000) -> None:
        """Read pages until there are no more."""
        while self.turn(store, limit).more:
            pass


def assert_difference(
    store: Store, since: str, before: Versions, now: Versions, *, limit: int
) -> str:
    """Check that the pages after ``since`` are just what became of ``before``; the new cursor."""
    changes: list[DocumentChange] = []
    page = read(store, since, limit=limit)
    mine = {dataset_id for dataset_id, _ in (*before, *now)}
    while True:
        assert not page.reset
        changes += [each for each in page.changes if each.dataset_id in mine]
        if not page.more:
            break
        page = read(store, page.cursor, limit=limit)
    kinds = {(each.dataset_id, each.name): (each.kind, each.version) for each in changes}
    assert len(kinds) == len(changes), "a document comes twice"
    gone = {place: at for place, at in kinds.items() if at[0] == "deleted"}
    assert gone.keys() == before.keys() - now.keys()
    assert all(version >= before[place] for place, (_, version) in gone.items())
    assert {place: at for place, at in kinds.items() if at[0] != "deleted"} == {
        place: ("updated" if place in before else "added", version)
        for place, version in now.items()
        if before.get(place) != version
    }
    return page.cursor


class ChangeTests(ChangeHeadTests):
    """What every store with the capability `ChangeReader` does."""

    def test_what_is_there_is_added_from_the_beginning(self, store: Store) -> None:
        assert told(read(store)) == []
        put(store, "d", "b", "one")
        put(store, "d", "a", "two")
        put(store, "e", "a", "three")
        put(store, "d", "b", "one, changed")
        page = read(store)
        expected = [("d", "a", "added"), ("e", "a", "added"), ("d", "b", "added")]
        assert told(page) == expected
        of_d = [each for each in page.changes if each.dataset_id == "d"]
        assert [(each.name, each.version) for each in of_d] == [("a", 1), ("b", 2)]
        assert (page.reset, page.more) == (False, False)

    def test_the_last_change_of_each_document_comes_once(self, store: Store) -> None:
        put(store, "d", "a", "one")
        put(store, "d", "b", "two")
        put(store, "d", "gone", "three")
        since = read(store).cursor
        assert told(read(store, since)) == []
        put(store, "d", "a", "changed")
        put(store, "d", "new", "four")
        store.documents.delete("d", "gone")
        put(store, "d", "a", "changed again")
        page = read(store, since)
        assert told(page) == [
            ("d", "new", "added"),
            ("d", "gone", "deleted"),
            ("d", "a", "updated"),
        ]
        assert [each.version for each in page.changes] == [1, 1, 3]
        assert told(read(store, page.cursor)) == []
        assert told(read(store, since)) == told(page)

    def test_metadata_and_expiry_are_changes_and_the_same_again_is_none(self, store: Store) -> None:
        put(store, "d", "a", "one")
        put(store, "d", "b", "two")
        since = read(store).cursor
        put(store, "d", "a", "one")
        store.documents.put_many("d", [NewDocument(name="b", content="two")])
        assert told(read(store, since)) == []
        put(store, "d", "a", "one", lang="en")
        assert told(read(store, since)) == [("d", "a", "updated")]
        since = read(store).cursor
        store.documents.put("d", NewDocument(name="b", content="two", expires_at=_LATER))
        assert told(read(store, since)) == [("d", "b", "updated")]

    def test_what_is_derived_is_no_change(self, store: Store) -> None:
        fill(store, "d", {"a": "one", "b": "two"})
        since = read(store).cursor
        set_config(store, "d")
        derive(store, "d", "a")
        store.chunks.delete_by_doc("d", "b")
        store.documents.create_dataset("e")
        assert told(read(store, since)) == []

    def test_a_document_that_was_not_there_is_not_deleted(self, store: Store) -> None:
        put(store, "d", "a", "one")
        since = read(store).cursor
        put(store, "d", "b", "two")
        store.documents.delete("d", "b")
        put(store, "d", "c", "three")
        store.documents.delete_many("d", {"c": store.documents.list("d")[-1].version})
        assert told(read(store, since)) == []
        assert told(read(store)) == [("d", "a", "added")]

    def test_a_document_that_is_put_again_was_there(self, store: Store) -> None:
        put(store, "d", "a", "one")
        first = read(store).cursor
        store.documents.delete("d", "a")
        second = read(store).cursor
        put(store, "d", "a", "two")
        third = read(store).cursor
        assert told(read(store, first)) == [("d", "a", "updated")]
        assert told(read(store, second)) == [("d", "a", "added")]
        store.documents.delete("d", "a")
        assert told(read(store, first)) == [("d", "a", "deleted")]
        assert told(read(store, second)) == []
        assert told(read(store, third)) == [("d", "a", "deleted")]

    def test_a_deleted_dataset_is_so_many_deletions(self, store: Store) -> None:
        for name in ("a", "b"):
            put(store, "d", name, name)
            put(store, "e", name, name)
        since = read(store).cursor
        store.documents.delete_dataset("d")
        put(store, "d", "b", "again")
        page = read(store, since)
        assert told(page) == [("d", "a", "deleted"), ("d", "b", "updated")]
        assert told(read(store, since, dataset_id="e")) == []

    def test_changes_of_one_dataset(self, store: Store) -> None:
        put(store, "d", "a", "one")
        put(store, "e", "a", "two")
        assert told(read(store, dataset_id="d")) == [("d", "a", "added")]
        since = read(store, dataset_id="d").cursor
        put(store, "e", "b", "three")
        assert told(read(store, since, dataset_id="d")) == []
        assert told(read(store, since, dataset_id="e")) == [("e", "b", "added")]
        assert told(read(store, dataset_id="none")) == []
        store.documents.delete_dataset("d")
        assert told(read(store, since, dataset_id="d")) == [("d", "a", "deleted")]

    def test_pages_of_any_size_say_the_same(self, store: Store) -> None:
        for number in range(7):
            put(store, "d", f"{number}", "one")
        put(store, "d", "0", "changed")
        put(store, "d", "3", "changed")
        since = read(store).cursor
        store.documents.delete("d", "1")
        put(store, "d", "2", "changed")
        store.documents.delete("d", "5")
        put(store, "d", "5", "again")
        put(store, "d", "new", "new")
        for start in (None, since):
            whole = read(store, start)
            for limit in (1, 2, 3):
                page = read(store, start, limit=limit)
                found = told(page)
                while page.more:
                    page = read(store, page.cursor, limit=limit)
                    found += told(page)
                assert found == told(whole)
                assert page.cursor == whole.cursor
            for at, change in enumerate(whole.changes, 1):
                rest = read(store, change.cursor)
                assert told(rest) == told(whole)[at:]

    def test_writes_between_pages_come_with_the_pages_after(self, store: Store) -> None:
        for number in range(6):
            put(store, "d", f"{number}", "one")
        follower = Follower()
        follower.turn(store, 2)  # 0 and 1
        store.documents.delete("d", "0")
        put(store, "d", "5", "changed")
        store.documents.delete("d", "4")
        put(store, "d", "6", "new")
        follower.turn(store, 2)
        put(store, "d", "0", "again")
        store.documents.delete("d", "6")
        follower.catch_up(store, 2)
        assert follower.copy == snapshot(store)

    def test_a_cursor_of_another_log_is_noticed(self, store: Store) -> None:
        put(store, "d", "a", "one")
        put(store, "d", "b", "two")
        put(store, "d", "c", "three")
        page = read(store, limit=1)
        last = ChangeCursor.parse(read(store).cursor)
        run = ChangeCursor.parse(page.cursor)
        for cursor in (
            attrs.evolve(last, mark="0123456789abcdef"),
            attrs.evolve(last, number=last.number + 100),
            attrs.evolve(run, mark="0123456789abcdef"),
            attrs.evolve(run, until=(run.until or 0) + 100),
        ):
            page = read(store, str(cursor), limit=2)
            assert page.reset
            assert told(page) == [("d", "a", "added"), ("d", "b", "added")]
            page = read(store, page.cursor)
            assert not page.reset
            assert told(page) == [("d", "c", "added")]

    def test_what_is_no_cursor_is_refused(self) -> None:
        for text in ("", "5", "x-y", "5-é", "5-a-6-7", "5-a-1", "9" * 30 + "-a"):
            with pytest.raises(ValidationError, match="cursor"):
                ChangeCursor.parse(text)

    def test_a_scrubbed_log_keeps_no_deletion_and_says_so(self, store: Store) -> None:
        put(store, "d", "a", "one")
        put(store, "d", "b", "two")
        put(store, "e", "a", "three")
        before = read(store).cursor
        store.documents.delete("d", "a")
        after = read(store).cursor
        store.scrub()
        page = read(store, before)
        assert page.reset
        assert told(page) == [("d", "b", "added"), ("e", "a", "added")]
        # Who had seen the deletion, or follows another dataset, goes on.
        for cursor, dataset_id in ((after, None), (before, "e")):
            page = read(store, cursor, dataset_id=dataset_id)
            assert (page.reset, told(page)) == (False, [])
        put(store, "d", "c", "four")
        assert told(read(store, after)) == [("d", "c", "added")]

    def test_the_head_differs_after_each_change(self, store: Store) -> None:
        reader = reader_of(store)
        seen = [reader.change_head()]
        for change in (
            lambda: put(store, "d", "a", "one"),
            lambda: put(store, "d", "a", "one", lang="en"),
            lambda: store.documents.delete("d", "a"),
            lambda: store.documents.delete_dataset("d"),
        ):
            assert reader.change_head() == seen[-1]
            change()
            seen.append(reader.change_head())
        # There was nothing left in the dataset.
        assert len(set(seen[:-1])) == len(seen) - 1

    def test_a_store_that_is_opened_again_goes_on(self, lasting: Harness) -> None:
        with closing(lasting.open()) as store:
            put(store, "d", "a", "one")
            put(store, "d", "b", "two")
            since = read(store).cursor
            put(store, "d", "c", "three")
        with closing(lasting.open()) as again:
            page = read(again, since)
            every = [("d", name, "added") for name in "abc"]
            kept = lasting.keeps_log
            assert (page.reset, told(page)) == (not kept, every[2:] if kept else every)
            again.documents.delete("d", "a")
            assert told(read(again, page.cursor)) == [("d", "a", "deleted")]

    def test_a_closed_store_says_so(self, harness: Harness) -> None:
        store = harness.open()
        reader = reader_of(store)
        store.close()
        for call in (
            reader.change_head,
            lambda: reader.read_changes(None, dataset_id=None, limit=1),
            lambda: reader.read_changes(None, dataset_id="d", limit=1),
        ):
            with pytest.raises(StoreError):
                call()

    def test_a_follower_beside_writers_misses_nothing(self, store: Store) -> None:
        reader_of(store)

        def work(number: int) -> None:
            for count in range(12):
                name = f"{(number * 5 + count) % 7}"
                put(store, "de"[count % 2], name, f"{number} {count}")
                if count % 4 == number:
                    store.documents.delete("de"[count % 2], name)

        follower, slow = Follower(), Follower()
        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(work, number) for number in range(3)]
            while not all(future.done() for future in futures):
                follower.turn(store)
                slow.turn(store, 2)
            for future in futures:
                future.result()
        for each in (follower, slow):
            each.catch_up(store, 3)
            assert each.copy == snapshot(store)

    def test_a_follower_beside_another_process_misses_nothing(
        self, store: Store, worker: Worker
    ) -> None:
        reader_of(store)
        follower, seen = Follower(), []
        worker.send({"do": "put", "times": 12})
        for number in range(12):
            put(store, "d", f"mine {number}", "one")
            follower.turn(store)
            # What is written is read at once.
            assert ("d", f"mine {number}") in follower.copy
            seen.append(follower.copy.get(("d", "a"), 0))
        versions = worker.receive()
        follower.turn(store)
        assert follower.copy["d", "a"] == max(versions)
        assert seen == sorted(seen)
        for name in ("b", "c"):
            worker.ask({"do": "write", "name": name, "text": "two"})
            assert told(follower.turn(store)) == [("d", name, "added")]
            worker.ask({"do": "delete", "name": name})
            assert told(follower.turn(store)) == [("d", name, "deleted")]
        worker.close()
        assert follower.copy == snapshot(store)
