"""The local index on disk: published, adopted, damaged, deleted, unwritable, killed."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from support.index_model import MemoryChangeLog, WordAnalyzer, assert_ranked_as, bm25_scores
from triptych_backends.index import LocalIndex, compact, dataset, folder as folders
from triptych_backends.index.folder import try_lock


@pytest.fixture(autouse=True)
def several_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few units are in several segments, as many are."""
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)


def filled(count: int = 40, *, seed: int = 0) -> MemoryChangeLog:
    generator = np.random.default_rng(seed)
    feed = MemoryChangeLog()
    for owner in range(count):
        change(feed, owner, generator)
    return feed


def change(feed: MemoryChangeLog, owner: int, generator: np.random.Generator) -> None:
    texts = [" ".join(generator.choice(list("abcdefgh"), 6)) for _ in range(3)]
    rows = generator.normal(size=(3, 8)).astype(np.float32)
    feed.put(
        "x",
        owner,
        f"doc {owner}",
        texts,
        vectors=list(rows / np.linalg.norm(rows, axis=1, keepdims=True)),
        headings=[("One",), ("Two", "three"), ()],
    )


def assert_right(index: LocalIndex, feed: MemoryChangeLog) -> None:
    corpora = {"x": feed.live("x")}
    expected = bm25_scores(corpora, "a b", WordAnalyzer())
    assert_ranked_as(index.bm25(["x"], "chunk", "a b", limit=17).rows, expected, corpora, 17)
    query = np.ones(8, np.float32)
    near = {
        ("x", unit.key): float(unit.vector.astype(np.float64) @ query)
        for unit in corpora["x"]
        if unit.vector is not None
    }
    assert_ranked_as(index.vector(["x"], "chunk", query, limit=17), near, corpora, 17)


def opened(feed: MemoryChangeLog, folder: Path) -> LocalIndex:
    return LocalIndex(feed, folder, analyzers=WordAnalyzer)


def segments(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.segment"))


def test_what_is_published_is_not_read_from_the_truth_again(tmp_path):
    feed = filled()
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
        index.publish()
        assert index.stats("x").pending == 0
        assert index.stats("x").units == {"chunk": 120}
    feed.calls.clear()
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
        assert feed.calls["units"] == 0
        change(feed, 3, np.random.default_rng(9))
        assert_right(index, feed)
        assert feed.calls["units"] == 1
        assert index.stats("x").dead == 3


def test_a_large_delta_is_published_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "PUBLISH_AT", 100)
    feed = filled()
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
    assert len(segments(tmp_path)) == 1
    feed.calls.clear()
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
    assert feed.calls["units"] == 0


def test_what_is_published_with_little_effort_is_not_rewritten(tmp_path, monkeypatch):
    monkeypatch.setattr(compact, "ONE_SEGMENT", 10_000)
    monkeypatch.setattr(dataset, "PUBLISH_AT", 10)
    feed, generator = MemoryChangeLog(), np.random.default_rng(2)
    with opened(feed, tmp_path) as index:
        for first in (0, 100, 200):
            for owner in range(first, first + 40):
                change(feed, owner, generator)
            assert index.publish("x", "little")
    with opened(feed, tmp_path) as index:
        assert len(index.views("x", "chunk")) == 3
        assert_right(index, feed)


def test_another_process_is_followed_and_its_work_is_kept(tmp_path):
    feed, generator = filled(), np.random.default_rng(1)
    with opened(feed, tmp_path) as one, opened(feed, tmp_path) as two:
        for turn in range(6):
            first, second = (one, two) if turn % 2 else (two, one)
            change(feed, turn, generator)
            assert_right(first, feed)
            first.publish()
            feed.calls.clear()
            change(feed, 20 + turn, generator)
            assert_right(second, feed)
            # Only the document that changed after the publication was read.
            assert feed.calls["units"] == 1
            second.publish()
            assert second.stats("x").pending == 0


def test_old_files_go_and_size_classes_are_merged(tmp_path):
    feed, generator = filled(), np.random.default_rng(2)
    with opened(feed, tmp_path) as index:
        for turn in range(30):
            change(feed, 100 + turn, generator)
            index.publish()
            assert index.stats("x").segments <= 8
            assert_right(index, feed)
        assert len(segments(tmp_path)) <= 16
        assert len(list(tmp_path.rglob("*.arrays"))) <= 2


@pytest.mark.parametrize("kind", ["segment", "arrays", "manifest"])
@pytest.mark.parametrize("how", ["flip", "cut", "empty", "remove"])
def test_damage_is_named_and_repaired_from_the_truth(tmp_path, caplog, kind, how):
    feed = filled()
    with opened(feed, tmp_path) as index:
        index.bm25(["x"], "chunk", "a", limit=1)
        change(feed, 5, np.random.default_rng(3))
        index.publish()
        change(feed, 6, np.random.default_rng(3))
        index.publish()
    victim = next(
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and (path.suffix == f".{kind}" or path.name == kind)
        if kind != "arrays" or path.name in (tmp_path.rglob("manifest").__next__()).read_text()
    )
    content = bytearray(victim.read_bytes())
    if how == "flip":
        content[len(content) // 3] ^= 4
    victim.unlink()
    if how != "remove":
        victim.write_bytes({"flip": bytes(content), "cut": bytes(content[:-1]), "empty": b""}[how])
    with caplog.at_level(logging.WARNING, "triptych.index"), opened(feed, tmp_path) as index:
        assert_right(index, feed)
    warned = [record.getMessage() for record in caplog.records]
    if kind == "manifest" and how == "remove":
        assert warned == []
    else:
        assert len(warned) == 1
        assert victim.name in warned[0]
        caplog.clear()
        with opened(feed, tmp_path) as index:
            assert_right(index, feed)
        assert caplog.records == []


def test_an_index_of_another_version_is_made_again_without_a_word(tmp_path, caplog, monkeypatch):
    feed = filled()
    with monkeypatch.context() as older:
        older.setattr(folders, "VERSION", folders.VERSION - 1)
        older.setattr(folders, "CONTAINER_VERSION", folders.CONTAINER_VERSION - 1)
        with opened(feed, tmp_path) as index:
            index.bm25(["x"], "chunk", "a", limit=1)
            index.publish()
    before = segments(tmp_path)
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "triptych.index"), opened(feed, tmp_path) as index:
            assert_right(index, feed)
            index.publish()
    assert caplog.records == []
    assert not set(before) & set(segments(tmp_path))


def test_every_flipped_byte_of_a_segment_is_noticed_or_harmless(tmp_path):
    feed = filled(4)
    with opened(feed, tmp_path) as index:
        index.bm25(["x"], "chunk", "a", limit=1)
        index.publish()
    (victim,) = segments(tmp_path)
    content = victim.read_bytes()
    logging.getLogger("triptych.index").setLevel(logging.CRITICAL)
    try:
        for place in range(0, len(content), 23):
            victim.write_bytes(
                content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :]
            )
            index = opened(feed, tmp_path)
            assert_right(index, feed)
    finally:
        logging.getLogger("triptych.index").setLevel(logging.NOTSET)


def test_the_folder_can_be_deleted_under_a_running_index(tmp_path):
    feed = filled()
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
        index.publish()
        shutil.rmtree(tmp_path)
        assert_right(index, feed)
        change(feed, 2, np.random.default_rng(4))
        assert_right(index, feed)
        index.publish()
    feed.calls.clear()
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
        assert feed.calls["units"] == 0


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(dataset, "PUBLISH_AT", 50)
    (tmp_path / "file").write_text("in the way")
    feed, generator = filled(), np.random.default_rng(5)
    with opened(feed, tmp_path / "file") as index:
        for turn in range(30):
            change(feed, turn, generator)
            assert_right(index, feed)
        index.publish()
        assert_right(index, feed)
    assert len(caplog.records) == 1
    assert "kept in memory" in caplog.text


def test_a_busy_lock_leaves_the_delta(tmp_path):
    feed = filled()
    with opened(feed, tmp_path) as index:
        index.bm25(["x"], "chunk", "a", limit=1)
        index.publish()
        change(feed, 1, np.random.default_rng(6))
        assert_right(index, feed)
        with try_lock(next(tmp_path.rglob("lock"))) as locked:
            assert locked
            index.publish()
            assert index.stats("x").pending == 3
        index.publish()
        assert index.stats("x").pending == 0


def test_an_analyzer_or_space_of_another_version_rebuilds(tmp_path):
    feed = filled()
    with opened(feed, tmp_path) as index:
        index.bm25(["x"], "chunk", "a", limit=1)
        index.publish()

    class Newer(WordAnalyzer):
        def __init__(self, language: str) -> None:
            super().__init__(language)
            self.signature = "words:2"

    feed.calls.clear()
    with LocalIndex(feed, tmp_path, analyzers=Newer) as index:
        assert_right(index, feed)
        assert feed.calls["units"] == 1
        index.publish()
    feed.calls.clear()
    feed.profiles["x"] = type(feed.profile("x"))(language="english", space="other")
    with LocalIndex(feed, tmp_path, analyzers=Newer) as index:
        assert_right(index, feed)
        assert feed.calls["units"] == 1


def test_a_truth_that_went_back_or_lost_its_log_rebuilds(tmp_path):
    feed = filled()
    older = feed.copy()
    change(feed, 1, np.random.default_rng(7))
    with opened(feed, tmp_path) as index:
        index.bm25(["x"], "chunk", "a", limit=1)
        index.publish()
        # A backup put back under a running index.
        feed.__dict__.update(older.copy().__dict__)
        assert_right(index, feed)
    with opened(older, tmp_path) as index:
        assert_right(index, older)
    older.nonce = "second"
    for owner in range(10):
        older.delete("x", owner)
    older.seq += 1_000
    with opened(older, tmp_path) as index:
        assert_right(index, older)


def test_drop_forgets_files_and_all(tmp_path):
    feed = filled()
    with opened(feed, tmp_path) as index:
        index.bm25(["x"], "chunk", "a", limit=1)
        index.publish()
        assert segments(tmp_path)
        index.drop("x")
        assert not list(tmp_path.iterdir())
        assert_right(index, feed)
        index.close()
        index.close()


def test_searches_during_changes_and_publications_are_right(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "PUBLISH_AT", 40)
    feed, generator = filled(), np.random.default_rng(8)
    failures, stop = [], threading.Event()

    def search(index: LocalIndex) -> None:
        try:
            while not stop.is_set():
                before = feed.head().seq
                hits = index.bm25(["x"], "chunk", "marker", limit=5).rows
                assert len(hits) == 1, hits
                # One state of the one document that has the word, no older than when asked.
                assert int(hits[0].name) >= before - 1
                assert len(index.bm25(["x"], "chunk", "a b c d e f g h", limit=200).rows) > 100
        except Exception as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)

    feed.put("x", 999, f"{feed.seq + 1}", ["marker"])
    with opened(feed, tmp_path) as one, opened(feed, tmp_path) as two:
        threads = [threading.Thread(target=search, args=(index,)) for index in (one, two, one)]
        for thread in threads:
            thread.start()
        begin = time.monotonic()
        while time.monotonic() - begin < 2 and not failures:
            change(feed, int(generator.integers(40)), generator)
            feed.put("x", 999, f"{feed.seq + 1}", ["marker"])
        stop.set()
        for thread in threads:
            thread.join()
        assert not failures, failures
        assert_right(one, feed)
        assert_right(two, feed)


def test_changes_during_a_publication_survive_it(tmp_path, monkeypatch):
    feed, generator = filled(), np.random.default_rng(10)
    with opened(feed, tmp_path) as index:
        index.bm25(["x"], "chunk", "a", limit=1)
        merge = dataset.compact

        def change_meanwhile(views, effort):
            merged = merge(views, effort)
            change(feed, 4, generator)
            feed.delete("x", 5)
            change(feed, 77, generator)
            assert_right(index, feed)
            return merged

        monkeypatch.setattr(dataset, "compact", change_meanwhile)
        index.publish()
        assert_right(index, feed)
        monkeypatch.undo()
        assert_right(index, feed)
        with opened(feed, tmp_path) as other:
            assert_right(other, feed)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_its_own(tmp_path):
    feed = filled()
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
        child = os.fork()
        if not child:
            try:
                index._lock.acquire()
                change(feed, 1, np.random.default_rng(1))
                index._datasets["x"]._replaying.acquire()
                index._process = -1
                assert_right(index, feed)
                index.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert_right(index, feed)


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import numpy as np
from test_index_folder import change, filled, opened
feed = filled()
generator = np.random.default_rng(11)
index = opened(feed, Path(sys.argv[1]))
print("ready", flush=True)
while True:
    change(feed, int(generator.integers(40)), generator)
    index.publish("x")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_process_killed_while_publishing_harms_nothing(tmp_path, caplog):
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path])}
    for turn in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(here)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.05 + 0.013 * turn)
            process.kill()
    # The writers' truths died with them; their log's name tells this one apart.
    feed = filled()
    feed.nonce = "survivor"
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
        index.publish()
        assert len(segments(tmp_path)) <= 10
    feed.calls.clear()
    with opened(feed, tmp_path) as index:
        assert_right(index, feed)
    assert feed.calls["units"] == 0
    assert caplog.records == []


def test_language_set_after_a_search_in_an_empty_truth(tmp_path):
    feed = MemoryChangeLog()
    with opened(feed, tmp_path) as index:
        assert index.bm25(["x"], "chunk", "a", limit=3).rows == []
        feed.set_profile("x", language="german")
        feed.put("x", 1, "doc", ["a"])
        assert [hit.name for hit in index.bm25(["x"], "chunk", "a", limit=3).rows] == ["doc"]
