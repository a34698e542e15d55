"""`Service.changes` and `follow`: what a program that follows a knowledge base relies on."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import triptych
from triptych import AsyncService, Service
from triptych.contracts.defaults import Repositories
from triptych.errors import CancelledError, NotAvailableError, StoreError, ValidationError
from triptych.records import ChangePage
from triptych_backends.memory import MemoryStore
from triptych_backends.memory.document_changes import DocumentLog
from triptych_backends.sql.transaction import prune_deletions
from triptych_backends.sqlite import SqliteStore

Opened = Callable[[], Service]


@pytest.fixture(params=["sqlite", "files"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    url = str(tmp_path / "kb.db") if request.param == "sqlite" else f"files:///{tmp_path}/kb"
    return lambda: triptych.open(url, embedder=None)


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder=None) as service:
        yield service


def told(page: ChangePage) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in page.changes]


def test_what_the_service_does_to_documents_is_a_change(opened: Opened) -> None:
    with opened() as kb:
        docs = kb.dataset("d")
        docs.put_many({"a": "one", "b": "two", "c": "three", "d": "four"})
        page = kb.changes()
        assert told(page) == [("added", name) for name in "abcd"]
        docs.update_metadata({"lang": "en"}, names=["a"])
        docs.put("b", "two, changed")
        docs.restore("b", 1)
        docs.put("c", "three", expires_at=datetime.now(UTC) - timedelta(seconds=1))
        page = kb.changes(page.cursor)
        assert told(page) == [("updated", "a"), ("updated", "b"), ("updated", "c")]
        kb.rebuild()
        page = kb.changes(page.cursor)
        assert told(page) == [("deleted", "c")]
        kb.recreate("d")
        page = docs.changes(page.cursor)
        assert sorted(told(page)) == [("deleted", name) for name in "abd"]
        assert kb.stats() == []
        assert told(docs.changes()) == []


def test_bad_arguments_are_refused_by_name(kb: Service) -> None:
    for since in ("yesterday", "", 5, f"{2**64 - 1}-aa"):
        with pytest.raises(ValidationError, match="cursor"):
            kb.changes(since)  # type: ignore[arg-type]
        with pytest.raises(ValidationError, match="cursor"):
            next(kb.follow(since))  # type: ignore[arg-type]
    for limit in (0, -1, 10_001, True, "5"):
        with pytest.raises(ValidationError, match="limit"):
            kb.changes(limit=limit)  # type: ignore[arg-type]
    for poll in (0, -1, float("nan"), "1", True):
        with pytest.raises(ValidationError, match="poll"):
            kb.follow(poll=poll)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="dataset_id"):
        kb.changes(dataset_id="")


def test_a_store_without_a_log_says_so() -> None:
    with MemoryStore() as store:
        parts = Repositories(documents=store.documents, chunks=store.chunks, layers=store.layers)
        with Service(parts) as kb:
            for call in (kb.changes, kb.follow):
                with pytest.raises(NotAvailableError, match="no change log"):
                    call()


@pytest.mark.parametrize("whole", [False, True])
def test_a_purge_leaves_no_name_and_no_text(tmp_path: Path, opened: Opened, whole: bool) -> None:
    secret, words = "very-secret-name", "nobody may read this"
    with opened() as kb:
        kb.put_document("d", "kept", "one")
        kb.put_document("d", secret, words)
        kb.put_document("d", f"{secret} before", words)
        kb.put_document("e", "kept", "one")
        before = kb.changes().cursor
        kb.delete_document("d", f"{secret} before")
        seen = kb.changes().cursor
        kb.purge("d", None if whole else secret)
        page = kb.changes(seen)
        assert page.reset
        assert ("added", "kept") in told(page)
        assert told(kb.changes(before, dataset_id="e")) == []
        assert not kb.changes(before, dataset_id="e").reset
        assert kb.doctor().clean
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert files
    for each in files:
        data = each.read_bytes()
        for text in (secret, words):
            assert text.encode() not in data, each


def test_a_cursor_that_a_restored_backup_does_not_have_is_a_reset(tmp_path: Path) -> None:
    path, backup = tmp_path / "kb.db", tmp_path / "backup.db"
    with triptych.open(path, embedder=None) as kb:
        kb.put_document("d", "a", "one")
        older = kb.changes().cursor
    shutil.copy(path, backup)
    with triptych.open(path, embedder=None) as kb:
        kb.put_documents("d", {"b": "lost", "c": "lost"})
        newer = kb.changes().cursor
        within = kb.changes(limit=2).cursor
    shutil.copy(backup, path)
    for extra in ("-wal", "-shm"):
        path.with_name(f"kb.db{extra}").unlink(missing_ok=True)
    with triptych.open(path, embedder=None) as kb:
        assert kb.changes(newer).reset
        kb.put_documents("d", dict.fromkeys("wxyz", "after the backup"))
        for cursor in (newer, within):
            page = kb.changes(cursor)
            assert page.reset
            assert told(page) == [("added", name) for name in "awxyz"]
        page = kb.changes(older)
        assert not page.reset
        assert told(page) == [("added", name) for name in "wxyz"]


def test_edits_by_hand_are_changes(tmp_path: Path) -> None:
    with triptych.open(f"files:///{tmp_path}/kb", embedder=None) as kb:
        kb.put_documents("d", {"a.md": "one", "b.md": "two"})
        since = kb.changes().cursor
        (tmp_path / "kb" / "d" / "a.md").write_text("by hand")
        (tmp_path / "kb" / "d" / "b.md").unlink()
        (tmp_path / "kb" / "d" / "c.md").write_text("new")
        (tmp_path / "kb" / "other").mkdir()
        (tmp_path / "kb" / "other" / "z.md").write_text("of a dataset that is new")
        page = kb.changes(since)
        assert sorted(told(page)) == [
            ("added", "c.md"),
            ("added", "z.md"),
            ("deleted", "b.md"),
            ("updated", "a.md"),
        ]
        assert told(kb.changes(page.cursor)) == []


def test_old_deletions_are_forgotten_and_who_missed_them_begins_again(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as kb:
        store = kb.store
        assert isinstance(store, SqliteStore)
        kb.put_documents("d", {f"{number:02}": "one" for number in range(20)})
        kb.put_document("e", "a", "one")
        cursors = [kb.changes().cursor]
        for number in range(20):
            kb.delete_document("d", f"{number:02}")
            cursors.append(kb.changes().cursor)
        with store.database.writing() as tx:
            prune_deletions(tx, 20)
        assert not kb.changes(cursors[0]).reset
        with store.database.writing() as tx:
            prune_deletions(tx, 10)  # 9 are left
        assert [kb.changes(cursor).reset for cursor in cursors] == [True] * 11 + [False] * 10
        assert not kb.changes(cursors[0], dataset_id="e").reset
        assert told(kb.changes(cursors[11])) == [
            ("deleted", f"{number}") for number in range(11, 20)
        ]
        with store.database.reading() as session:
            (count,) = session.driver.execute("SELECT count(*) FROM document_change").fetchone()
        assert count == 9 + 1 + 1  # deletions, a document, where the forgotten ones end
        kb.put_document("d", "00", "again")
        assert told(kb.changes(cursors[-1])) == [("added", "00")]
        assert kb.doctor().clean


def test_the_memory_log_forgets_its_oldest_deletions() -> None:
    log, number = DocumentLog(), 0
    for name in range(50):
        log.put("d", f"{name}", 1, number := number + 1)
        log.put("d", f"{name}", 2, number := number + 1)
        log.delete("d", f"{name}", number := number + 1)
    log.put("e", "kept", 1, number := number + 1)
    log.forget(10)
    assert log.deletions == len(log.deleted) == 10
    assert log.forgotten == {"d": 120}
    assert len(log.entries) == 11
    assert len(log.numbers) <= 2 * len(log.entries) + 200
    assert [entry.name for entry in log.after(120)] == [*map(str, range(40, 50)), "kept"]


def test_many_changes_of_one_document_take_no_room(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as kb:
        for number in range(30):
            kb.put_document("d", "a", f"{number}")
        store = kb.store
        assert isinstance(store, SqliteStore)
        with store.database.reading() as session:
            (count,) = session.driver.execute("SELECT count(*) FROM document_change").fetchone()
        assert count == 1


def test_followers_get_pages_as_they_come(opened: Opened) -> None:
    with opened() as kb, opened() as other:
        kb.put_documents("d", {"a": "one", "b": "two", "c": "three"})
        with triptych.deadline(60):
            pages = kb.follow(limit=2, poll=0.01)
            assert told(next(pages)) == [("added", "a"), ("added", "b")]
            assert told(next(pages)) == [("added", "c")]
            writer = threading.Timer(0.1, other.put_document, ("d", "a", "from elsewhere"))
            writer.start()
            assert told(next(pages)) == [("updated", "a")]
            writer.join()
            kb.purge("d", "b")
            page = next(pages)
            assert page.reset
            assert told(page) == [("added", "c"), ("added", "a")]


def test_a_follower_of_one_dataset_is_not_woken_by_others(kb: Service) -> None:
    kb.put_document("e", "a", "one")
    with triptych.deadline(0.2), pytest.raises(CancelledError):
        next(kb.dataset("d").follow(poll=0.01))


def test_a_deadline_a_cancellation_and_closing_end_a_follower(kb: Service) -> None:
    with triptych.deadline(0.05), pytest.raises(CancelledError):
        list(kb.follow())
    with triptych.deadline() as scope:
        threading.Timer(0.05, scope.cancel).start()
        with pytest.raises(CancelledError):
            list(kb.follow(poll=0.01))
    threading.Timer(0.05, kb.close).start()
    with pytest.raises(StoreError):
        list(kb.follow(poll=0.01))


async def test_changes_are_followed_with_async_for(kb: Service) -> None:
    service = AsyncService(kb)
    seen: list[list[tuple[str, str]]] = []

    async def follow(name: str) -> None:
        pages = service.dataset(name).follow(poll=0.01)
        seen.extend([told(await anext(pages))])
        await anext(pages)

    tasks = [asyncio.create_task(follow(name)) for name in ("d", "e")]
    await service.put_document("d", "a", "one")
    until = time.monotonic() + 30
    while len(seen) < 1 and time.monotonic() < until:
        await asyncio.sleep(0.01)
    await service.put_document("e", "b", "two")
    while len(seen) < 2 and time.monotonic() < until:
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in done)
    assert seen == [[("added", "a")], [("added", "b")]]
    pages = service.follow(poll=0.01)
    assert len((await anext(pages)).changes) == 2
    with pytest.raises(ValidationError, match="poll"):
        service.follow(poll=0)


async def test_a_deadline_ends_an_async_follower_however_long_it_waits(kb: Service) -> None:
    async def follow() -> None:
        with triptych.deadline(0.1):
            async for _ in AsyncService(kb).follow(poll=3600):
                pass

    with pytest.raises(CancelledError):
        await asyncio.wait_for(follow(), 60)
