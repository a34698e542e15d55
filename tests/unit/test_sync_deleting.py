"""Many files that are gone at once, and what has to go with their documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import triptych
from sync_folder import Desk, desk as made_desk
from triptych.errors import StoreError
from triptych.service import Service, ServiceOptions
from triptych.sync.deleting import DELETED_AT_ONCE, delete_documents
from triptych.testing.fakes import FakeEmbedder


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


class Elsewhere:
    """Documents of a store that holds no chunks: their deletes take nothing with them."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.gone: set[str] = set()
        self.error: Exception | None = None

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        if self.error is not None:
            raise self.error
        self.gone |= versions.keys()
        return sorted(versions)

    def get_info(self, dataset_id: str, name: str) -> Any:
        return None if name in self.gone else self.inner.get_info(dataset_id, name)

    def get(self, dataset_id: str, name: str) -> Any:
        return None if name in self.gone else self.inner.get(dataset_id, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_chunks_and_layers_in_another_store_go_too(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=FakeEmbedder()) as store:
        documents = Elsewhere(store.documents)
        kb = Service(
            documents,
            store.chunks,
            store.layer_repo,
            options=ServiceOptions(embedder=FakeEmbedder()),
            close=lambda: None,
        )
        kb.put_documents("d", {"a": "text", "b": "text", "empty": "", "kept": "text"})
        kb.put_document_layer("d", "empty", "L0", "nothing in it", prompt_sig="p")
        infos = [info for info in kb.documents.list("d") if info.name != "kept"]
        documents.error = StoreError("the disk is full")
        deleted, failed = delete_documents(kb, "d", infos)
        assert (deleted, [each.name for each in failed]) == ([], ["a", "b", "empty"])
        documents.error = None
        assert delete_documents(kb, "d", infos) == (["a", "b", "empty"], [])
        assert list(kb.chunks.doc_names("d")) == ["kept"]
        assert kb.layer_repo.list("d") == []
