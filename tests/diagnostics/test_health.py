"""The health check says what is wrong with store, index, embedder and datasets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from triptych import Service
from triptych.contracts.defaults import Repositories
from triptych.errors import CancelledError, ProviderError, StoreError, StoreLockedError
from triptych.records import EmbedKind
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing.fakes import Failing, FakeEmbedder

MANY = {f"n{number:04}": f"text number {number}" for number in range(2100)}


class Silent(FakeEmbedder):
    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        raise ProviderError("the model does not answer: start it")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kb.db"


@pytest.fixture
def kb(path: Path) -> Iterator[Service]:
    with triptych.open(path, embedder=FakeEmbedder()) as kb:
        yield kb


def statuses(kb: Service) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for check in kb.health().checks:
        found.setdefault(check.name, []).append(check.status)
    return found


def problem_of(kb: Service) -> str:
    (problem,) = kb.health().problems
    return str(problem)


def test_all_is_well(kb: Service) -> None:
    kb.put_document("d", "a", "text")
    assert statuses(kb) == {
        "store": ["ok", "ok", "ok"],
        "index": ["ok"],
        "embedder": ["ok"],
        "dataset 'd'": ["ok"],
    }
    health = kb.health()
    assert health.ok
    assert health.problems == ()
    health.require()


def test_the_memory_store_is_checked_as_well() -> None:
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_document("d", "a", "text")
        assert statuses(kb) == {"store": ["ok"], "embedder": ["ok"], "dataset 'd'": ["ok"]}


def test_an_embedder_that_does_not_answer_is_told_before_anything_is_stored(path: Path) -> None:
    with triptych.open(path, embedder=Silent()) as kb:
        health = kb.health()
        assert not health.ok
        assert str(health.problems[0]) == "the model does not answer: start it"
        with pytest.raises(ProviderError, match="start it"):
            health.require()


def test_without_a_probe_no_model_is_called(path: Path) -> None:
    embedder = FakeEmbedder()
    with triptych.open(path, embedder=embedder) as kb:
        assert kb.health(probe=False).ok
        assert embedder.calls == 0
        assert kb.health().ok
        assert embedder.calls == 1


def test_an_embedder_that_returns_nonsense_is_reported(path: Path) -> None:
    class Wrong(FakeEmbedder):
        def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
            return super().embed(texts, kind=kind)[:, :-1]

    with triptych.open(path, embedder=Wrong()) as kb:
        assert "shape" in problem_of(kb)


def test_a_locked_store_fails_its_check(path: Path, kb: Service) -> None:
    kb.put_document("d", "a", "text")
    with (
        SqliteStore.open(path) as other,
        triptych.open(path, embedder=None, lock_timeout=0.05) as waiting,
        other.database.writing(),
    ):
        health = waiting.health()
        assert [type(check.error) for check in health.problems][:1] == [StoreLockedError]
        with pytest.raises(StoreLockedError):
            health.require()


def test_a_store_that_cannot_be_read_fails_its_check() -> None:
    with MemoryStore() as store:
        documents = Failing(store.documents, {"list_datasets": StoreError("gone")})
        with Service(Repositories.over(store, documents=documents)) as kb:
            (problem,) = kb.health().problems
            assert (problem.name, problem.status, problem.detail) == ("store", "failed", "gone")


def test_a_deadline_ends_the_check_and_is_no_finding() -> None:
    with MemoryStore() as store:
        documents = Failing(store.documents, {"list_datasets": CancelledError("cancelled")})
        with (
            Service(Repositories.over(store, documents=documents)) as kb,
            pytest.raises(CancelledError),
        ):
            kb.health()


def test_a_foreign_exception_is_a_finding_too() -> None:
    with MemoryStore() as store:

        class Odd:
            def __getattr__(self, name: str) -> Any:
                return getattr(store.chunks, name)

            def check_health(self) -> Any:
                raise KeyError("odd")

        chunks = Odd()
        assert Repositories.over(store, chunks=chunks).capabilities.diagnostics is chunks
        with Service(Repositories.over(store, chunks=chunks)) as kb:
            assert "KeyError" in problem_of(kb)
            with pytest.raises(KeyError):
                kb.health().require()


def test_a_read_only_store_is_well(path: Path, kb: Service) -> None:
    kb.put_document("d", "a", "text")
    with triptych.open(path, embedder=None, read_only=True) as reader:
        assert reader.health().ok


def test_stale_documents_and_another_model_are_warnings(path: Path, kb: Service) -> None:
    kb.put_document("d", "a", "text")
    with triptych.open(path, embedder=FakeEmbedder("other/1")) as other:
        health = other.health()
        assert health.ok
        assert [check.status for check in health.problems] == ["warning", "warning"]
        assert "vectors of fake/1, not of other/1" in str(health.problems[0])
        assert "1 of 1 document stale" in str(health.problems[1])


def test_a_damaged_index_is_reported_and_repaired_by_the_next_search(path: Path) -> None:
    with triptych.open(path, embedder=None) as kb:
        kb.put_documents("d", MANY)
        kb.search("text", dataset_id="d")
    (manifest,) = path.with_name("kb.db.index").glob("*/manifest")
    manifest.write_bytes(b"nonsense")
    with triptych.open(path, embedder=None) as kb:
        assert "the search index of dataset 'd' is damaged" in problem_of(kb)
        assert manifest.read_bytes() == b"nonsense", "a health check writes nothing"
        assert kb.search("number 7", dataset_id="d").hits
    with triptych.open(path, embedder=None) as kb:
        assert kb.health().problems == ()


def test_a_missing_index_of_many_documents_is_reported(path: Path) -> None:
    with triptych.open(path, embedder=None) as kb:
        kb.put_documents("d", MANY)
    shutil.rmtree(path.with_name("kb.db.index"), ignore_errors=True)
    with triptych.open(path, embedder=None) as kb:
        assert "is missing" in problem_of(kb)


def test_an_index_of_another_language_is_reported(path: Path) -> None:
    with triptych.open(path, embedder=None) as kb:
        kb.put_documents("d", MANY)
        kb.search("text", dataset_id="d")
    with triptych.open(path, embedder=None) as kb:
        kb.configure_dataset("d", language="german")
        assert "another analyzer" in problem_of(kb)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do all")
def test_an_index_that_cannot_be_written_is_reported(path: Path, kb: Service) -> None:
    kb.put_document("d", "a", "text")
    index = path.with_name("kb.db.index")
    index.mkdir(exist_ok=True)
    index.chmod(0o500)
    try:
        assert "cannot be written" in problem_of(kb)
    finally:
        index.chmod(0o700)
