"""Old versions through the Service: on every backend, by settings, over processes, and erased."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.bare_store import BareStore
from support.forked import started
from support.store_jobs import put_editions
from triptych import (
    AsyncService,
    ConflictError,
    NewDocument,
    NotAvailableError,
    NotFoundError,
    Service,
    ServiceOptions,
    StoreError,
    ValidationError,
)
from triptych.errors import CorruptStoreError
from triptych_backends.filesystem import FilesStore
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing.fakes import FakeEmbedder

pytestmark = pytest.mark.process

Open = Callable[..., Service]


@pytest.fixture(params=["memory", "sqlite", "files"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    urls = {"memory": "memory://", "sqlite": "kb.db", "files": f"files://{tmp_path}/kb"}
    urls["sqlite"] = str(tmp_path / "kb.db")

    def opened(**options: Any) -> Service:
        return triptych.open(urls[request.param], **{"embedder": None, **options})

    return opened


@pytest.fixture
def kb(opened: Open) -> Iterator[Service]:
    with opened() as kb:
        yield kb


def versions(kb: Service, name: str = "a") -> list[int]:
    return [info.version for info in kb.history("d", name)]


def test_versions_are_listed_read_compared_and_restored(kb: Service) -> None:
    first = kb.put_document("d", "a", "one\ntwo\n", {"lang": "en"})
    second = kb.put_document("d", "a", "one\n2\n", {"lang": "de"})
    docs = kb.dataset("d")
    assert versions(kb) == [second.version, first.version]
    assert docs.history("a") == kb.history("d", "a")
    assert docs.get("a", first.version) == first
    assert docs.get("a", second.version) == docs.get("a") == second
    assert docs.diff("a", first.version) == (
        "--- a metadata (version 1)\n+++ a metadata (version 2)\n@@ -1 +1 @@\n"
        "-lang: 'en'\n+lang: 'de'\n"
        "--- a (version 1)\n+++ a (version 2)\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    )
    assert docs.diff("a", 2, 2) == ""
    assert "-2\n+two\n" in docs.diff("a", 2, 1)
    again = docs.restore("a", first.version)
    assert (again.content, again.metadata, again.version) == ("one\ntwo\n", {"lang": "en"}, 3)
    assert docs.get("a") == again
    assert versions(kb) == [3, 2, 1]
    assert kb.search("two", dataset_id="d").hits[0].sig.source_version == 3
    assert docs.restore("a", 1) == docs.restore("a", 3) == again
    assert versions(kb) == [3, 2, 1]


def test_a_diff_tells_of_a_missing_line_end_and_keeps_other_line_ends(kb: Service) -> None:
    kb.put_document("d", "a", "one\r\ntwo")
    kb.put_document("d", "a", "one\ntwo\n\u2028x")
    assert kb.diff("d", "a", 1).split("\n")[3:] == [
        "-one\r",
        "-two",
        "\\ No newline at end of file",
        "+one",
        "+two",
        "+\u2028x",
        "\\ No newline at end of file",
        "",
    ]


def test_what_is_not_kept_is_an_error_that_names_what_is(kb: Service) -> None:
    kb.put_document("d", "a", "one")
    kb.put_document("d", "a", "two")
    for call in (
        lambda: kb.get_document("d", "a", 7),
        lambda: kb.get_document("d", "a", 2**70),
        lambda: kb.diff("d", "a", 1, 7),
        lambda: kb.restore("d", "a", 7),
    ):
        with pytest.raises(NotFoundError, match=r"kept are: 2, 1$"):
            call()
    for dataset_id, name, said in (("d", "b", "no document 'b'"), ("e", "a", "no dataset 'e'")):
        for call in (
            lambda d=dataset_id, n=name: kb.get_document(d, n, 1),
            lambda d=dataset_id, n=name: kb.history(d, n),
            lambda d=dataset_id, n=name: kb.diff(d, n, 1),
            lambda d=dataset_id, n=name: kb.restore(d, n, 1),
        ):
            with pytest.raises(NotFoundError, match=said):
                call()


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", [1]])
def test_a_version_is_a_whole_number(kb: Service, version: Any) -> None:
    kb.put_document("d", "a", "one")
    for call in (kb.get_document, kb.diff, kb.restore):
        with pytest.raises(ValidationError, match="version"):
            call("d", "a", version)


def test_restoring_is_refused_where_the_document_has_changed(kb: Service) -> None:
    kb.put_document("d", "a", "one")
    kb.put_document("d", "a", "two")
    with pytest.raises(ConflictError):
        kb.restore("d", "a", 1, if_version=1)
    assert kb.restore("d", "a", 1, if_version=2).content == "one"


def test_restoring_embeds_what_was_changed_and_nothing_twice(opened: Open) -> None:
    embedder = FakeEmbedder()
    with opened(embedder=embedder) as kb:
        parts = [f"# Part {part}\n\n" + f"Sentence of {part}. " * 20 for part in "abcd"]
        kb.put_document("d", "a.md", "\n\n".join(parts))
        kb.put_document("d", "a.md", "\n\n".join([*parts[:3], "# Part d\n\nEdited."]))
        before = len(embedder.texts)
        kb.restore("d", "a.md", 1)
        assert len(embedder.texts) == before + 1
        calls = embedder.calls
        kb.restore("d", "a.md", 1)
        assert embedder.calls == calls
        assert kb.search("Part d", dataset_id="d").hits[0].stale is None


def test_what_a_parser_made_is_restored_with_its_origin(kb: Service) -> None:
    made = NewDocument(name="a", content="one", original_sha256="0" * 64, parser_sig="pdf/1")
    kb.put_documents("d", [made])
    kb.put_document("d", "a", "two")
    again = kb.restore("d", "a", 1)
    assert (again.original_sha256, again.parser_sig) == ("0" * 64, "pdf/1")


@pytest.mark.parametrize("most", [0, 1, 3])
def test_the_setting_says_how_many_are_kept(
    opened: Open, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPTYCH_HISTORY", str(most))
    with opened() as kb:
        for number in range(6):
            kb.put_document("d", "a", f"text {number}")
        assert versions(kb) == [6, 5, 4, 3, 2, 1][: most + 1]
    with pytest.raises(ValidationError, match="history"):
        opened(history=-1)


def test_keeping_fewer_cuts_at_the_next_change(opened: Open) -> None:
    with opened(history=5) as kb:
        if kb.list_datasets() or type(kb.documents).__name__ == "MemoryDocuments":
            pytest.skip("what is in memory is not opened twice")
        for number in range(6):
            kb.put_document("d", "a", f"text {number}")
    with opened(history=2) as kb:
        assert versions(kb) == [6, 5, 4, 3, 2, 1]
        kb.put_document("d", "a", "text 5")
        assert versions(kb) == [6, 5, 4, 3, 2, 1]
        kb.put_document("d", "a", "changed")
        assert versions(kb) == [7, 6, 5]
    with opened(history=0) as kb:
        kb.put_document("d", "a", "changed again")
        assert versions(kb) == [8]


@pytest.mark.parametrize("store", [MemoryStore, SqliteStore.open, FilesStore.open])
def test_a_store_checks_how_many_it_is_to_keep(store: Any, tmp_path: Path) -> None:
    places = [] if store is MemoryStore else [tmp_path / "kb"]
    for wrong in (-1, None, "3", True):
        with pytest.raises(ValidationError, match="history"):
            store(*places, history=wrong)


def test_deleted_documents_leave_no_versions(kb: Service) -> None:
    for content in ("one", "two"):
        kb.put_document("d", "a", content)
    kb.delete_document("d", "a")
    with pytest.raises(NotFoundError):
        kb.history("d", "a")
    kb.put_document("d", "a", "three")
    assert versions(kb) == [3]
    with pytest.raises(NotFoundError, match=r"kept are: 3$"):
        kb.restore("d", "a", 1)


def test_a_store_without_old_versions_says_so_at_once() -> None:
    store = BareStore(MemoryStore())
    with Service(store, options=ServiceOptions()) as kb:
        kb.put_document("d", "a", "one")
        for call in (
            lambda: kb.get_document("d", "a", 1),
            lambda: kb.history("d", "a"),
            lambda: kb.diff("d", "a", 1),
            lambda: kb.restore("d", "none", 1),
        ):
            with pytest.raises(NotAvailableError, match="keeps no old versions"):
                call()
        assert kb.get_document("d", "a").content == "one"


def test_a_closed_service_says_so(opened: Open) -> None:
    kb = opened()
    kb.close()
    for call in (kb.history, kb.diff, kb.restore):
        with pytest.raises(StoreError, match="closed"):
            call("d", "a", *([] if call == kb.history else [1]))


def test_async_service_has_them_too(kb: Service) -> None:
    async def use() -> list[str]:
        docs = AsyncService(kb)
        await docs.put_document("d", "a", "one\n")
        await docs.put_document("d", "a", "two\n")
        await docs.restore("d", "a", 1)
        found = [await docs.get_document("d", "a", info.version) for info in await history()]
        return [each.content for each in found] + [await docs.diff("d", "a", 2)]

    async def history() -> Any:
        return await AsyncService(kb).history("d", "a")

    *contents, diff = asyncio.run(use())
    assert contents == ["one\n", "two\n", "one\n"]
    assert diff.endswith("-two\n+one\n")


def noise(seed: int) -> str:
    """Text that compresses to bytes nobody else writes."""
    return random.Random(seed).randbytes(400).hex()


def holding(folder: Path, needle: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]


@pytest.mark.parametrize("whole", [False, True])
def test_purging_sqlite_leaves_no_byte_of_old_versions(tmp_path: Path, whole: bool) -> None:
    path = tmp_path / "kb.db"
    with triptych.open(path, embedder="hash") as kb:
        for seed in range(4):
            kb.put_document("d", "a", noise(seed))
            kb.put_document("d", "kept", f"{noise(seed)} kept")
        driver = sqlite3.connect(path)
        packed = driver.execute(
            "SELECT v.content FROM document_version v JOIN document d ON d.id = v.document_id "
            "WHERE d.name = 'a'"
        ).fetchall()
        driver.close()
        assert len(packed) == 3
        needles = [content[0][8:200] for content in packed]
        assert all(holding(tmp_path, needle) for needle in needles)
        receipt = kb.purge("d", None if whole else "a")
        assert (receipt.existed, receipt.versions) == (True, 6 if whole else 3)
        assert not any(holding(tmp_path, needle) for needle in needles)
        if not whole:
            assert [kb.get_document("d", "kept", at + 1).content for at in range(4)] == [
                f"{noise(seed)} kept" for seed in range(4)
            ]


@pytest.mark.parametrize("whole", [False, True])
def test_purging_files_leaves_no_old_version(tmp_path: Path, whole: bool) -> None:
    root = tmp_path / "kb"
    with FilesStore.open(root) as store, service(store) as kb:
        for seed in range(4):
            kb.put_document("d", "a", noise(seed))
            kb.put_document("d", "kept", "kept" * (seed + 1))
        files = sorted((root / ".triptych" / "history").rglob("*.gz"))
        assert len(files) == 6
        needles = [file.read_bytes()[20:200] for file in files]
        kb.purge("d", None if whole else "a")
        left = [file for file in files if file.exists()]
        assert len(left) == (0 if whole else 3)
        assert sum(not holding(root, needle) for needle in needles) == (6 if whole else 3)
        if whole:
            assert list((root / ".triptych" / "history").rglob("*")) == []


def service(store: Any) -> Service:
    return Service(store)


def test_versions_outlive_what_is_derived(tmp_path: Path) -> None:
    root = tmp_path / "kb"
    with FilesStore.open(root) as store:
        for content in ("one", "two", "three"):
            store.documents.put("d", NewDocument(name="a", content=content))
    shutil.rmtree(root / ".triptych" / "derived")
    with FilesStore.open(root) as store:
        found = store.documents.versions("d", "a")
        assert [info.version for info in found] == [3, 2, 1]
        old = store.documents.get_version("d", "a", 1)
        assert old is not None
        assert old.content == "one"
        store.documents.put("d", NewDocument(name="a", content="four"))
        assert [info.version for info in store.documents.versions("d", "a")] == [4, 3, 2, 1]


def test_an_edit_by_hand_keeps_what_was_there(tmp_path: Path) -> None:
    root = tmp_path / "kb"
    with FilesStore.open(root) as store, service(store) as kb:
        kb.put_document("d", "a.md", "one", {"k": "v"})
        (root / "d" / "a.md").write_text("by hand")
        assert [info.version for info in kb.history("d", "a.md")] == [2, 1]
        assert kb.get_document("d", "a.md", 1).content == "one"
        kb.restore("d", "a.md", 1)
        assert (root / "d" / "a.md").read_text() == "one"
        assert kb.get_document("d", "a.md", 2).content == "by hand"
        (root / "d" / "a.md").unlink()
        assert kb.list_documents("d") == []
        assert list((root / ".triptych" / "history").rglob("*.gz")) == []


def test_versions_of_what_was_deleted_unseen_are_nobodys(tmp_path: Path) -> None:
    root = tmp_path / "kb"
    with FilesStore.open(root) as store:
        for name in ("a", "b"):
            for content in ("one", "two"):
                store.documents.put("d", NewDocument(name=name, content=content))
    shutil.rmtree(root / ".triptych" / "derived")
    for name in ("a", "b"):
        (root / "d" / name).unlink()
        (root / ".triptych" / "datasets" / "d" / "sidecars" / f"{name}.json").unlink()
    with FilesStore.open(root) as store, service(store) as kb:
        kb.put_document("d", "a", "again")
        assert len(kb.history("d", "a")) == 1
        kb.purge("d", "b")
        assert list((root / ".triptych" / "history").rglob("*.gz")) == []


@pytest.mark.parametrize("deleted", [True, False])
def test_a_mirror_of_an_earlier_day_brings_back_no_deleted_text(
    tmp_path: Path, deleted: bool
) -> None:
    derived, before = tmp_path / "kb/.triptych/derived", tmp_path / "before"
    with triptych.open(f"files://{tmp_path}/kb", embedder=None) as kb:
        kb.put_document("d", "a", "first")
        kb.put_document("d", "b", "another")
    shutil.copytree(derived, before)
    with triptych.open(f"files://{tmp_path}/kb", embedder=None) as kb:
        kb.delete_document("d", "a" if deleted else "b")
        kb.put_document("d", "a", "second")
        told = versions(kb)
    shutil.rmtree(derived)
    shutil.move(before, derived)
    with triptych.open(f"files://{tmp_path}/kb", embedder=None) as kb:
        assert versions(kb) == told
        texts = [kb.get_document("d", "a", version).content for version in told]
        assert texts == (["second"] if deleted else ["second", "first"])


def test_a_damaged_version_is_named_and_the_document_is_not_lost(tmp_path: Path) -> None:
    root = tmp_path / "kb"
    with FilesStore.open(root) as store:
        for content in ("one", "two"):
            store.documents.put("d", NewDocument(name="a", content=content))
        (file,) = (root / ".triptych" / "history").rglob("*.gz")
        for damage in (b"", b"no gzip", file.read_bytes()[:-9]):
            file.write_bytes(damage)
            with pytest.raises(CorruptStoreError, match=r"1\.json\.gz"):
                store.documents.get_version("d", "a", 1)
        assert store.documents.put("d", NewDocument(name="a", content="three")).version == 3
    path = tmp_path / "kb.db"
    with SqliteStore.open(path) as sql:
        for content in ("one", "two"):
            sql.documents.put("d", NewDocument(name="a", content=content))
        driver = sqlite3.connect(path)
        for damage in (b"", b"no zlib", b"x\x9c\x03\x00\x00\x00\x00\x01"):
            driver.execute("UPDATE document_version SET content = ?", [damage])
            driver.commit()
            with pytest.raises(CorruptStoreError, match="version 1 of 'a'"):
                sql.documents.get_version("d", "a", 1)
        driver.close()
        assert sql.documents.put("d", NewDocument(name="a", content="three")).version == 3


@pytest.mark.parametrize("url", ["kb.db", "files://./kb"])
def test_two_processes_keep_one_history(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with triptych.open(url, embedder=None) as kb:
        writers = [started(put_editions, url, who) for who in ("left", "right")]
        for writer in writers:
            writer.join()
        assert [writer.exitcode for writer in writers] == [0, 0]
        assert [info.version for info in kb.history("d", "a")] == list(range(24, 13, -1))
        found = [kb.get_document("d", "a", version).content for version in range(14, 25)]
        assert len(set(found)) == 11
        for who in ("left", "right"):
            mine = [int(text.split()[1]) for text in found if text.startswith(who)]
            assert mine == sorted(mine)
