"""Changes as an access shows them: its documents, and cursors that count no others."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

import triptych
from triptych.access import Access
from triptych.access.changes import CursorSeal
from triptych.contracts.defaults import Repositories
from triptych.errors import CancelledError, NotAvailableError, StoreLockedError
from triptych.records import ChangeCursor, ChangePage
from triptych.service import Service
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    store = MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "kb.db")
    with Service(store) as service:
        yield service


def page(service: Service, since: str | None = None, limit: int = 100) -> ChangePage:
    reader = service.capabilities.changes
    assert reader is not None
    cursor = None if since is None else ChangeCursor.parse(since)
    return reader.read_changes(cursor, dataset_id=None, limit=limit)


def said(found: ChangePage) -> list[tuple[str, str, str]]:
    return [(each.dataset_id, each.name, each.kind) for each in found.changes]


@pytest.mark.parametrize("access", [Access(dataset_ids=["kb"]), Access(where={"doc_prefix": "a/"})])
def test_only_the_callers_changes_are_shown(kb: Service, access: Access) -> None:
    ours = kb.restricted(access)
    for at in range(12):
        kb.put_document("kb", f"a/{at}.md", "Ours.")
        kb.put_document("other", f"b/{at}.md", "Theirs.")
    names = [("kb", f"a/{at}.md", "added") for at in range(12)]
    assert said(page(ours)) == names
    # In pages: each is full, and the last one knows that it is.
    found, since, pages = [], None, 0
    while True:
        one = page(ours, since, limit=5)
        found += said(one)
        since, pages = one.cursor, pages + 1
        if not one.more:
            break
    assert (found, pages) == (names, 3)
    kb.delete_document("other", "b/1.md")
    kb.put_document("other", "b/2.md", "Changed.")
    assert (said(page(ours, since)), page(ours, since).more) == ([], False)
    kb.put_document("kb", "a/3.md", "Changed.")
    kb.delete_document("kb", "a/4.md")
    assert said(page(ours, since)) == [("kb", "a/3.md", "updated"), ("kb", "a/4.md", "deleted")]
    for each in page(ours, since).changes:
        assert said(page(ours, each.cursor)) in ([("kb", "a/4.md", "deleted")], [])
    assert not page(ours, since).reset


def test_a_cursor_counts_nothing_that_can_be_read(kb: Service) -> None:
    ours = kb.restricted(Access(dataset_ids=["kb"]))
    kb.put_document("kb", "a.md", "Ours.")
    quiet = {page(ours).cursor for _ in range(20)}
    kb.put_documents("other", {f"{at}.md": "Theirs." for at in range(50)})
    busy = {page(ours).cursor for _ in range(20)}
    assert len(quiet | busy) == 40  # no two are alike, whatever happened between them
    assert {ChangeCursor.parse(each).number for each in quiet | busy} == {0}
    assert {len(each) for each in quiet | busy} <= {len(next(iter(quiet))), len(next(iter(busy)))}


def test_a_cursor_that_is_not_the_accesss_begins_again(kb: Service) -> None:
    ours = kb.restricted(Access(dataset_ids=["kb"]))
    kb.put_document("kb", "a.md", "Ours.")
    sealed = page(ours).cursor
    for foreign in (page(kb).cursor, "1-abc", "0-abc", "0-", sealed[:-1], sealed[:-1] + "0"):
        if foreign == sealed:
            continue
        found = page(ours, foreign)
        assert (found.reset, said(found)) == (True, [("kb", "a.md", "added")])
    again = kb.restricted(Access(dataset_ids=["kb"]))
    assert (page(again, sealed).reset, said(page(again, sealed))) == (False, [])


def test_whoever_follows_reads_the_callers_changes(kb: Service) -> None:
    ours = kb.restricted(Access(dataset_ids=["kb"]))
    kb.put_document("other", "b.md", "Theirs.")
    kb.put_document("kb", "a.md", "Ours.")
    assert [(each.dataset_id, each.name) for each in ours.changes().changes] == [("kb", "a.md")]
    assert ours.changes(dataset_id="other").changes == ()
    assert said(next(iter(ours.follow(poll=0.01)))) == [("kb", "a.md", "added")]


def test_what_others_purge_lets_nobody_begin_again(kb: Service) -> None:
    ours = kb.restricted(Access(dataset_ids=["kb", "notes"]))
    for dataset_id in ("kb", "notes", "other"):
        kb.put_documents(dataset_id, {"a.md": "One.", "b.md": "Two."})
    since = ours.changes().cursor
    middle = ours.changes(limit=1).cursor
    kb.purge("other", "a.md")
    kb.purge("other")
    found = ours.changes(since)
    assert (said(found), found.reset, found.more) == ([], False, False)
    assert said(ours.changes(middle)) == [
        ("kb", "b.md", "added"), ("notes", "a.md", "added"), ("notes", "b.md", "added")
    ]  # fmt: skip
    for each in (None, "kb", "other", "none"):
        assert not ours.changes(since, dataset_id=each).reset
        assert not ours.changes(middle, dataset_id=each).reset
    again = ours.restricted(Access(dataset_ids=["notes", "other"]))
    assert (said(again.changes(middle)), again.changes(since).reset) == (
        [("notes", "a.md", "added"), ("notes", "b.md", "added")],
        False,
    )
    kb.purge("notes", "a.md")
    found = ours.changes(since)
    assert (found.reset, said(found)) == (
        True,
        [("kb", "a.md", "added"), ("kb", "b.md", "added"), ("notes", "b.md", "added")],
    )
    assert not ours.changes(since, dataset_id="kb").reset


def test_a_dataset_of_others_is_one_that_is_not_there(kb: Service) -> None:
    ours, nobody = kb.restricted(Access(dataset_ids=["kb"])), kb.restricted(Access(dataset_ids=[]))
    kb.put_document("kb", "a.md", "Ours.")
    kb.put_document("other", "a.md", "Theirs.")
    since = ours.changes().cursor
    kb.delete_document("other", "a.md")
    for service, dataset_id in ((ours, "other"), (ours, "none"), (nobody, None)):
        assert said(service.changes(dataset_id=dataset_id)) == []
        for cursor, reset in ((since, False), ("0-", True), ("7-abc", True)):
            found = service.changes(cursor, dataset_id=dataset_id)
            assert (said(found), found.reset, found.more) == ([], reset, False)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("prefix", ["", "1"])
def test_a_callers_copy_stays_right_whatever_comes_between_pages(
    kb: Service, seed: int, prefix: str
) -> None:
    chance = random.Random(seed)
    ours = kb.restricted(Access(dataset_ids=["a", "b", "c"]))
    ours = ours.restricted(
        Access(dataset_ids=["a", "b", "d"], where={"doc_prefix": prefix} if prefix else None)
    )
    cursor: str | None = None
    copy: dict[tuple[str, str], int] = {}

    def turn(limit: int) -> bool:
        nonlocal cursor
        found = ours.changes(cursor, limit=limit)
        assert len(found.changes) <= limit
        if found.reset:
            copy.clear()
        for change in found.changes:
            copy[change.dataset_id, change.name] = change.version
            if change.kind == "deleted":
                del copy[change.dataset_id, change.name]
        cursor = found.cursor
        return found.more

    def is_right() -> bool:
        return copy == {
            (dataset_id, info.name): info.version
            for dataset_id in kb.list_datasets()
            if dataset_id in "ab"
            for info in kb.list_documents(dataset_id, prefix=prefix)
        }

    for step in range(60):
        dataset_id, name = chance.choice("abcd"), chance.choice(["1", "12", "13", "2", "3"])
        done = chance.random()
        if done < 0.5:
            kb.put_document(dataset_id.replace("d", "c"), name, f"{step}")
        elif done < 0.68:
            kb.delete_document(dataset_id, name)
        elif done < 0.7:
            kb.delete_dataset(dataset_id)
        elif done < 0.72:
            kb.purge(dataset_id, name)
        elif done < 0.74:
            while turn(3):
                pass
            assert is_right()
        else:
            turn(chance.choice([1, 2, 3]))
    while turn(2):
        pass
    assert is_right()
    cursor = None
    copy.clear()
    while turn(1):
        pass
    assert is_right()


def test_restricted_again_it_shows_what_both_show(kb: Service) -> None:
    for dataset_id in ("kb", "other"):
        for name in ("a/1.md", "b/1.md"):
            kb.put_document(dataset_id, name, "Text.")
    ours = kb.restricted(Access(dataset_ids=["kb"]))
    for one in (ours.restricted(Access(where={"doc_prefix": "a/"})), ours.restricted(Access())):
        first = page(one, limit=1)
        assert said(first) == [("kb", "a/1.md", "added")]
        found = said(page(one, first.cursor))
        assert found == ([("kb", "b/1.md", "added")] if first.more else [])


def test_a_filter_on_metadata_has_no_changes(kb: Service) -> None:
    for where in ({"team": "ours"}, {"doc_prefix": "a/", "team": "ours"}):
        with pytest.raises(NotAvailableError, match=r"versions of list_documents.*doc_prefix"):
            page(kb.restricted(Access(where=where)))
    assert page(kb.restricted(Access())).cursor == page(kb).cursor


numbers = st.integers(0, 2**47)


@given(st.tuples(numbers, numbers, numbers).map(sorted), st.sampled_from([8, 16]), st.booleans())
def test_a_sealed_cursor_opens_to_what_it_was(
    several: list[int], size: int, is_running: bool
) -> None:
    seal, other = CursorSeal(secrets.token_bytes(32)), CursorSeal(secrets.token_bytes(32))
    base, number, until = several
    cursor = ChangeCursor(
        number=number,
        mark=secrets.token_hex(size),
        base=base if is_running else None,
        until=until if is_running else None,
    )
    closed = ChangeCursor.parse(seal.close(str(cursor)))
    assert seal.open(closed) == cursor
    assert other.open(closed) != cursor


# The secret of a store


def test_a_store_that_is_only_read_needs_its_secret(tmp_path: Path) -> None:
    access = Access(dataset_ids=["kb"])

    def opened(*, read_only: bool = True) -> Service:
        return Service(SqliteStore.open(tmp_path / "kb.db", read_only=read_only))

    with opened(read_only=False) as kb:
        kb.put_document("kb", "a.md", "Ours.")
        with opened() as reader, pytest.raises(NotAvailableError, match="open for writing"):
            page(reader.restricted(access))
        since = page(kb.restricted(access)).cursor
    with opened() as one, opened() as other:
        assert not page(one.restricted(access), since).reset
        since = page(one.restricted(access)).cursor
        assert not page(other.restricted(access), since).reset


class _Busy:
    def get_setting(self, key: str) -> str | None:
        raise StoreLockedError("another process writes")

    set_setting = list_settings = get_setting


def test_a_busy_store_makes_no_secret_of_its_own() -> None:
    with MemoryStore() as store:

        def changes(settings: Any) -> ChangePage:
            can = attrs.evolve(store.capabilities, settings=settings)
            over = attrs.evolve(Repositories.over(store), capabilities=can)
            return Service(over).restricted(Access(dataset_ids=["kb"])).changes()

        with pytest.raises(StoreLockedError):
            changes(_Busy())
        with pytest.raises(NotAvailableError, match="no settings"):
            changes(None)


def test_changes_under_a_filter_end_at_the_deadline(kb: Service) -> None:
    kb.put_document("kb", "theirs/a.md", "Theirs.")
    ours = kb.restricted(Access(where={"doc_prefix": "ours/"}))
    with triptych.deadline() as scope:
        scope.cancel()
        with pytest.raises(CancelledError):
            page(ours)
