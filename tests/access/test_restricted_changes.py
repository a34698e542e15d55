"""Changes as an access shows them: its documents, and cursors that count no others."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from triptych.access import Access
from triptych.access.changes import CursorSeal
from triptych.errors import NotAvailableError
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
        with pytest.raises(NotAvailableError, match="doc_prefix"):
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
