"""The conformance kit on the filesystem store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from triptych_backends.filesystem import FilesStore
from triptych_backends.filesystem.formats import read_home, read_layer, read_sidecar
from triptych_testing import BackendConformance, Child, Contents, Harness


def raw(store: FilesStore, dataset: str) -> Contents:
    """A dataset's contents: documents and layers from the files, the rest by the driver alone."""
    content: dict[str, bytes] = {}
    layers = 0
    for home in (store.path / ".triptych" / "datasets").glob("*/dataset.json"):
        folder = home.parent.name
        if read_home(home.read_bytes(), folder).id != dataset:
            continue
        sides = [side for side in (home.parent / "sidecars").rglob("*") if side.is_file()]
        named = {}
        for side in sides:
            place = str(side.relative_to(home.parent / "sidecars")).removesuffix(".json")
            named[place] = read_sidecar(side.read_bytes(), place).name
        for file in (store.path / folder).rglob("*"):
            if file.is_file():
                place = str(file.relative_to(store.path / folder))
                content[named.pop(place)] = file.read_bytes()
        assert named == {}, "a sidecar without its file"
        files = [file for file in (store.path / "_layers" / folder).rglob("*") if file.is_file()]
        assert all(read_layer(file.read_bytes()).dataset_id == dataset for file in files)
        layers = len(files)
    driver = sqlite3.connect(store.path / ".triptych" / "derived" / "kb.db")
    try:
        mine = "(SELECT id FROM dataset WHERE name = ?)"
        chunks, vectors = (
            driver.execute(f"SELECT count(*) FROM {what}", [dataset]).fetchone()[0]
            for what in (
                f"chunk WHERE document_id NOT IN "
                f"(SELECT id FROM document WHERE dataset_id <> {mine})",
                f"vector WHERE space_id IN (SELECT id FROM space WHERE dataset_id = {mine}) "
                "AND id NOT IN (SELECT vector_id FROM layer WHERE vector_id IS NOT NULL "
                "AND vector_id NOT IN (SELECT vector_id FROM chunk WHERE vector_id IS NOT NULL))",
            )
        )
        return Contents(content=content, chunks=chunks, vectors=vectors, layers=layers)
    finally:
        driver.close()


class TestFilesystem(BackendConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        path = tmp_path / "kb"
        return Harness(
            open=lambda: FilesStore.open(path),
            persistent=True,
            shared=True,
            child=Child(opener="triptych_backends.filesystem:FilesStore.open", argument=str(path)),
            raw=raw,
        )
