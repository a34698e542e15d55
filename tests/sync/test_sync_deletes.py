"""Many files that are gone at once, and what has to go with their documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.sync_folder import Desk, desk as made_desk
from triptych.contracts.defaults import DocumentRepoBase, Repositories
from triptych.errors import StoreError
from triptych.service import Service
from triptych.sync.target import DELETED_AT_ONCE, delete_documents
from triptych_testing.fakes import Failing


@pytest.fixture(params=["memory://", "kb.db", "files"])
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    url = request.param
    with made_desk(tmp_path, f"files:///{tmp_path}/kb" if url == "files" else url) as made:
        yield made


def test_many_files_that_are_gone_take_their_documents_along(desk: Desk) -> None:
    count = 2 * DELETED_AT_ONCE + 2
    for number in range(count):
        desk.write(f"{number:03}.md", f"text {number}")
    desk.sync()
    for number in range(1, count):
        (desk.root / f"{number:03}.md").unlink()
    report = desk.sync()
    assert report.deleted == tuple(f"{number:03}.md" for number in range(1, count))
    assert (desk.names, report.failed) == (["000.md"], ())
    assert desk.kb.stats("d")[0].chunks == 1
    assert desk.kb.search("text", dataset_id="d", mode="bm25", top_k=9).hits[0].doc_name == "000.md"
    assert desk.kb.doctor().findings == ()


def over(documents: Any, kb: Service) -> Repositories:
    """The store of a Service, with other documents."""
    return Repositories.over(kb.store, documents=documents)


@pytest.mark.parametrize("url", ["kb.db", "files"])
def test_what_others_have_changed_meanwhile_stays(tmp_path: Path, url: str) -> None:
    url = f"files:///{tmp_path}/kb" if url == "files" else str(tmp_path / url)
    with triptych.open(url, embedder=None) as kb:
        kb.put_documents("d", {"a": "old", "b": "text"})
        infos = kb.documents.list("d")
        kb.put_document("d", "a", "new")
        assert delete_documents(kb, "d", infos) == (["b"], [])
        assert [info.name for info in kb.documents.list("d")] == ["a"]
        assert delete_documents(kb, "d", []) == ([], [])


class OneByOne(DocumentRepoBase):
    """Documents of a store that deletes one after the other; others may write in between."""

    def __init__(self, inner: Any, before: Callable[[], object]) -> None:
        self._before = before
        for name in dir(inner):
            if not name.startswith("_") and name not in ("delete", "delete_many"):
                setattr(self, name, getattr(inner, name))
        self._delete = inner.delete

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        self._before()
        return bool(self._delete(dataset_id, name, if_version=if_version))


def test_one_by_one_too_what_others_have_changed_meanwhile_stays(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as store:
        documents = OneByOne(store.documents, lambda: store.put_document("d", "b", "new text"))
        kb = Service(over(documents, store))
        kb.put_documents("d", {"a": "text", "b": "text", "kept": "text"})
        infos = [info for info in kb.documents.list("d") if info.name != "kept"]
        assert delete_documents(kb, "d", infos) == (["a"], [])
        assert [info.name for info in kb.documents.list("d")] == ["b", "kept"]
        assert list(kb.chunks.doc_names("d")) == ["b", "kept"]


def test_documents_that_cannot_be_deleted_are_reported_by_name(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as store:
        store.put_documents("d", {"a": "text", "b": "text"})
        infos = store.documents.list("d")
        full = StoreError("the disk is full")
        documents = Failing(store.documents, {"delete_many": full})
        kb = Service(over(documents, store))
        deleted, failed = delete_documents(kb, "d", infos)
        assert (deleted, [each.name for each in failed]) == ([], ["a", "b"])
        documents.errors.clear()
        assert delete_documents(kb, "d", infos) == (["a", "b"], [])


def test_one_by_one_only_what_is_left_is_reported_as_failed(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as store:
        store.put_documents("d", {"a": "text", "b": "text", "c": "text"})
        infos = store.documents.list("d")
        turns = iter([None, StoreError("the disk is full")])

        def fail() -> None:
            if error := next(turns):
                raise error

        kb = Service(over(OneByOne(store.documents, fail), store))
        deleted, failed = delete_documents(kb, "d", infos)
        assert (deleted, [each.name for each in failed]) == (["a"], ["b", "c"])
        assert [info.name for info in store.documents.list("d")] == ["b", "c"]


def test_a_sync_deletes_what_has_expired_but_for_its_own_files(desk: Desk) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    desk.write("file.md", "of the folder")
    desk.sync()
    desk.kb.put_document("d", "file.md", "of the folder", expires_at=past)
    desk.kb.put_document("d", "note", "a note", expires_at=past)
    desk.kb.put_document("d", "late", "a note", expires_at=datetime(2999, 1, 1, tzinfo=UTC))
    desk.kb.put_document("other", "note", "a note", expires_at=past)
    report = desk.sync()
    assert (report.expired, report.deleted, report.failed) == (1, (), ())
    assert report.as_rebuild().expired == 1
    assert [info.name for info in desk.kb.documents.list("d")] == ["file.md", "late"]
    assert [info.name for info in desk.kb.documents.list("other")] == ["note"]
    assert desk.sync().expired == 0
