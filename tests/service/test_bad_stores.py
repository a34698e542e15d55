"""Damage, locks, rights and races: each is named, and what was stored stays."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import triptych
from triptych import ConflictError, NewDocument, Service, StoreError, TriptychError, ValidationError
from triptych.errors import CorruptStoreError, StoreLockedError

pytestmark = pytest.mark.process

TEXTS = {f"doc{i}": f"# Heading {i}\n\nNumber{i} zebra. " + "lorem ipsum " * 40 for i in range(20)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kb.db"
    with triptych.open(path, embedder="hash") as kb:
        kb.put_documents("d", TEXTS)
        kb.search("zebra", dataset_id="d")
    return path


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = "memory://" if request.param == "memory" else tmp_path / "kb.db"
    with triptych.open(url, embedder="hash") as kb:
        yield kb


def named_or_right(call: Any) -> None:
    """A damaged store may answer, and may refuse by name; nothing else."""
    with contextlib.suppress(TriptychError):
        call()


def all_right(kb: Service) -> None:
    for name, text in TEXTS.items():
        assert kb.get_document("d", name).content == text


@pytest.mark.parametrize("seed", range(16))
def test_a_damaged_file_is_named_and_never_answers_wrongly(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    if seed % 4 == 0:
        del data[chance.randrange(len(data)) :]
    else:
        # The first page too: SQLite's messages then quote bytes that are no text.
        start = 0 if seed % 4 == 1 else 8192
        for _ in range(200):
            data[chance.randrange(start, len(data))] = chance.randrange(256)
    path.write_bytes(data)
    try:
        kb = triptych.open(path, embedder="hash")
    except StoreError:
        return
    with kb:
        named_or_right(lambda: all_right(kb))
        named_or_right(lambda: kb.search("zebra", dataset_id="d"))
        named_or_right(lambda: kb.list_documents("d"))
        named_or_right(lambda: kb.put_document("d", "doc1", "changed"))
        named_or_right(lambda: kb.rebuild())
        named_or_right(lambda: kb.delete_document("d", "doc2"))
        named_or_right(lambda: kb.stats())


def test_text_that_is_no_utf8_is_damage(path: Path) -> None:
    driver = sqlite3.connect(path)
    driver.execute("UPDATE document SET content_sha256 = CAST(x'ff' AS TEXT)")
    driver.commit()
    driver.close()
    with (
        triptych.open(path, embedder="hash") as kb,
        pytest.raises(CorruptStoreError, match="is damaged"),
    ):
        kb.list_documents("d")


def test_a_lost_clock_is_damage_to_writers_too(path: Path) -> None:
    driver = sqlite3.connect(path)
    driver.execute("DELETE FROM clock")
    driver.commit()
    driver.close()
    with (
        triptych.open(path, embedder="hash") as kb,
        pytest.raises(CorruptStoreError, match="the clock is missing"),
    ):
        kb.put_document("d", "new", "text")


def test_what_is_no_database_is_told_apart_from_damage(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n" * 100)
    with pytest.raises(CorruptStoreError, match=r"not an SQLite database.*check the path"):
        triptych.open(path, embedder="hash")
    assert path.read_text() == "# Notes\n" * 100


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b"3", b'{"version": 1, "dataset": "d"}', b"\xff"],
    ids=["empty", "list", "number", "lacking", "bytes"],
)
def test_a_manifest_that_says_nonsense_is_made_again(path: Path, body: bytes) -> None:
    with triptych.open(path, embedder="hash") as kb:
        kb.put_documents("d", {f"short{i}": f"owl {i}" for i in range(250)})
        kb.search("owl", dataset_id="d")
    (manifest,) = path.with_name("kb.db.index").glob("*/manifest")
    manifest.write_bytes(b"%08x\n%s" % (zlib.crc32(body), body))
    with triptych.open(path, embedder="hash") as kb:
        assert kb.search("number7", dataset_id="d").hits[0].doc_name == "doc7"


def test_a_store_whose_file_is_gone_is_not_made_again_behind_its_back(path: Path) -> None:
    together = threading.Barrier(4)

    def read(kb: Service) -> None:
        # Several at once: some of them need a connection that is not open yet.
        together.wait()
        with contextlib.suppress(StoreError):
            kb.stats()

    with triptych.open(path, embedder="hash") as kb:
        path.unlink()
        threads = [threading.Thread(target=read, args=(kb,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not path.exists()


def test_a_locked_store_is_named_whatever_is_written(path: Path) -> None:
    hold = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('BEGIN IMMEDIATE'); print(flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder, triptych.open(path, embedder="hash", lock_timeout=0.05) as kb:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        for write in (
            lambda: kb.put_document("d", "new", "text"),
            lambda: kb.put_documents("d", {"new": "text", "newer": "text"}),
            lambda: kb.put_document_layer("d", "doc1", "L0", "text"),
            lambda: kb.delete_document("d", "doc1"),
            lambda: kb.delete_dataset("d"),
            lambda: kb.purge("d", "doc1"),
            lambda: kb.configure_dataset("d", language="german"),
        ):
            with pytest.raises(StoreLockedError, match="lock_timeout"):
                write()
        assert kb.search("number7", dataset_id="d").hits[0].doc_name == "doc7"
        holder.stdin.close()
        holder.wait()
        all_right(kb)
        assert kb.delete_document("d", "doc1") is True


@pytest.mark.parametrize(
    "url",
    ["x\ud800.db", 3, b"kb.db", ":memory:", "x" * 300, "x/" * 3000 + "kb.db", "\0", " ", ""],
    ids=lambda url: repr(url)[:12].encode("ascii", "replace").decode(),
)
def test_what_names_no_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValidationError):
        triptych.open(url, embedder="hash")
    assert list(tmp_path.iterdir()) == []


def test_names_that_look_alike_or_like_paths_are_kept_apart(kb: Service) -> None:
    names = ["../x", "/etc/passwd", "a//b", ".", "..", "%", "_", "é", "e\u0301", "A", "a", "Ａ"]
    names += ["ß", "ss", "\ufeff", "x" * 1024, "'; DROP TABLE document; --"]
    for name in names:
        kb.put_document(name, name, f"zebra of {name}")
        kb.put_document("d", name, f"zebra of {name}")
    assert kb.list_datasets() == sorted([*names, "d"])
    assert [info.name for info in kb.list_documents("d")] == sorted(names)
    for name in names:
        assert kb.get_document("d", name).content == f"zebra of {name}"
        hits = kb.search("zebra", dataset_id="d", where={"doc_name": name}).hits
        assert {hit.doc_name for hit in hits} == {name}
        assert {hit.doc_name for hit in kb.search("zebra", dataset_id=name).hits} == {name}
    assert [info.name for info in kb.list_documents("d", prefix="%")] == ["%"]


def test_a_stream_that_breaks_loses_no_batch_before_it(kb: Service) -> None:
    def stream() -> Iterator[NewDocument]:
        for i in range(256):
            yield NewDocument(name=f"doc{i}", content=f"zebra {i}")
        raise RuntimeError("the reader broke")

    with pytest.raises(RuntimeError, match="the reader broke"):
        kb.put_documents("d", stream())
    assert kb.stats("d")[0].documents == 256
    assert kb.stats("d")[0].stale == 0


def test_one_name_many_times_in_one_call(kb: Service) -> None:
    puts: list[tuple[str, str, int | None]] = [
        ("a", "one", None),
        ("a", "two", None),
        ("a", "two", None),
        ("b", "one", 0),
        ("b", "two", 0),
    ]
    report = kb.put_documents(
        "d", [NewDocument(name=n, content=c, if_version=v) for n, c, v in puts]
    )
    assert (report.added, report.updated, report.unchanged) == (2, 1, 1)
    assert [type(failure.error) for failure in report.failed] == [ConflictError]
    assert kb.get_document("d", "a").content == "two"
    assert kb.get_document("d", "b").content == "one"
    assert kb.stats("d")[0].stale == 0


def test_ten_thousand_keys_and_many_values_are_only_slow(kb: Service) -> None:
    metadata = {f"key{i}": f"value{i}\0" for i in range(10_000)}
    kb.put_document("d", "a", "zebra", metadata)
    assert kb.get_document("d", "a").metadata == metadata
    wanted = {"key9999": ["value9999\0", *map(str, range(9_999))]}
    assert len(kb.search("zebra", dataset_id="d", where=wanted).hits) == 1


def test_closing_while_threads_work_ends_each_with_a_named_error(kb: Service) -> None:
    ended: list[BaseException] = []

    def work(call: Any) -> None:
        try:
            while True:
                call()
        except BaseException as error:  # noqa: BLE001 - judged by the test
            ended.append(error)

    kb.put_document("d", "a", "zebra")
    threads = [
        threading.Thread(target=work, args=(call,))
        for call in (
            lambda: kb.put_document("d", "b", f"zebra {random.random()}"),
            lambda: kb.search("zebra", dataset_id="d"),
            lambda: kb.delete_document("d", "b"),
            lambda: kb.rebuild(),
        )
    ]
    for thread in threads:
        thread.start()
    threading.Event().wait(0.2)
    kb.close()
    for thread in threads:
        thread.join(20)
    # A put whose source was stored before the close says so.
    assert [type(error) for error in ended if not isinstance(error, TriptychError)] == []
    assert len(ended) == len(threads)


def test_a_chunk_size_below_the_default_overlap_asks_for_both(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="overlap 64 does not fit chunk size 50: give both"):
        triptych.open(tmp_path / "kb.db", embedder="hash", chunk_size=50)
    assert list(tmp_path.iterdir()) == []
