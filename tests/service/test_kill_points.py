"""A knowledge base killed at each of its write points, and at random: nothing told is lost.

Whatever was told as done is there; the call under way is there wholly, or not at all.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest

from support import kill_script
from support.kill_script import (
    LARGE,
    PARTS,
    SMALL,
    Key,
    Model,
    Step,
    churn,
    opened,
    steps,
    text,
    word,
)
from triptych.service import Service

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork"),
    pytest.mark.process,
]

SAMPLE = 8
STEPS = steps()
LAST = 6
"""The last edition that the steps put; what is put back is of an earlier one."""


class Script:
    """`kill_script` as a process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, kill_script.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def send(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command, default=str) + "\n")
        self._process.stdin.flush()

    def receive(self) -> list[Any]:
        assert self._process.stdout is not None
        told: list[Any] = json.loads(self._process.stdout.readline())
        return told

    def run(self, path: Path, last: int = 0) -> tuple[int, int, list[str]]:
        """Carry the steps out: how many were told as done, how it ended, and the points."""
        self.send(do="steps", path=path, last=last)
        done, points = 0, []
        while (told := self.receive())[0] != "ended":
            if told[0] == "done":
                done = told[1] + 1
            else:
                points = told[1]
        return done, told[1], points

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def script() -> Iterator[Script]:
    script = Script()
    yield script
    script.close()


@pytest.fixture(scope="module")
def points(script: Script, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The write points of a run that nobody kills."""
    path = tmp_path_factory.mktemp("whole") / "kb.db"
    done, ended, points = script.run(path)
    assert (done, ended) == (len(STEPS), 0)
    check_rows(path)
    model = after(STEPS)
    with opened(path, LARGE) as kb:
        check(kb, [model])
    return points


def test_every_kind_of_write_is_a_point(points: list[str]) -> None:
    assert {"BEGIN", "COMMIT", "INSERT", "UPDATE", "DELETE", "VACUUM", "tell"} <= set(points)
    assert {"open", "os.mkdir", "os.rename", "os.remove", "before fsync"} <= set(points)


def test_killed_at_points_spread_over_all(
    script: Script, points: list[str], tmp_path: Path
) -> None:
    killed_at_each([1 + at * len(points) // SAMPLE for at in range(SAMPLE)], script, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_every_point(script: Script, points: list[str], tmp_path: Path) -> None:
    killed_at_each(range(1, len(points) + 1), script, tmp_path)


def killed_at_each(points: Iterable[int], script: Script, folder: Path) -> None:
    failed = []
    for last in points:
        path = folder / f"{last}" / "kb.db"
        path.parent.mkdir()
        try:
            killed_at(last, script, path)
        except Exception as error:  # noqa: BLE001 - all are told, at the end
            failed.append(error)
        else:
            shutil.rmtree(path.parent)
    if failed:
        raise ExceptionGroup("not survived", failed)


def killed_at(last: int, script: Script, path: Path) -> None:
    done, ended, points = script.run(path, last)
    where = f"killed at write point {last}, after {done} steps"
    # How much of the index is written at a time depends on the clock: a run may have fewer points.
    assert ended == (0 if 0 < len(points) < last else -signal.SIGKILL), where
    before = after(STEPS[:done])
    models = [before]
    if done < len(STEPS):
        models.append(STEPS[done].effect(before))
        if (halfway := STEPS[done].halfway) is not None:
            models.append(halfway(before))
    begun = [step.size for step in STEPS[: done + 1] if step.size]
    try:
        rebuilding = done < len(STEPS) and STEPS[done].size is not None
        survives(path, models, begun[-1] if begun else SMALL, rebuilding=rebuilding)
    except BaseException as error:
        error.add_note(where)
        raise


def after(done: list[Step]) -> Model:
    """What the steps make of an empty knowledge base."""
    model = Model()
    for step in done:
        model = step.effect(model)
    return model


def survives(path: Path, models: list[Model], size: int, *, rebuilding: bool) -> None:
    """The store at `path` is as one of `models` says, repairs itself, and takes new writes."""
    check_rows(path)
    with opened(path, size) as kb:
        model = check(kb, models, rebuilding=rebuilding)
        assert not kb.rebuild().failed
        check(kb, [model], fresh=True)
        new = kill_script.put(("d", "new"), 9)
        new.act(kb)
        model = new.effect(model)
        kill_script.publish(kb)
    check_rows(path)
    with opened(path, size) as kb:
        check(kb, [model], fresh=True)
        assert all(
            kb.documents.searcher.index.stats(dataset).pending == 0  # type: ignore[attr-defined]  # a SqlDocuments
            for dataset in kb.list_datasets()
        )
        # Files of the manifest before stay for those who may still be opening them.
        newer = kill_script.put(("d", "new"), 10)
        for step in (newer, kill_script.put(("e", "new"), 10)):
            step.act(kb)
            kb.search("new", scope="all")
        kill_script.publish(kb)
        kb.put_document("d", "new", "Last.")
        kb.put_document("e", "new", "Last.")
        kill_script.publish(kb)
    check_files(path)


def check(
    kb: Service, models: list[Model], *, fresh: bool = False, rebuilding: bool = False
) -> Model:
    """Which of `models` is what is stored; what is derived and searched goes with it.

    Documents that are the same in all models were told as done: they are fresh as well, unless
    a rebuild was under way.
    """
    stored = {
        (dataset, info.name): (
            kb.get_document(dataset, info.name).content,
            info.metadata.get("mark"),
        )
        for dataset in kb.list_datasets()
        for info in kb.list_documents(dataset)
    }
    old = {key: tuple(old_editions(kb, key)) for key in stored}
    layers = {
        (dataset, layer.doc_name, str(layer.layer)): layer.content
        for dataset in kb.list_datasets()
        for layer in kb.layers(dataset)
    }
    found = [
        model
        for model in models
        if stored == {key: (text(key, e), mark) for key, (e, mark) in model.documents.items()}
        and {key: found for key, found in old.items() if found} == old_in(model)
        and layers == model.layers
    ]
    assert found, (list(stored), [len(found) for found in old.values()], list(layers))
    model = found[0]
    for key, value in model.documents.items():
        settled = all(other.documents.get(key) == value for other in models)
        check_document(kb, key, value[0], fresh=fresh or (settled and not rebuilding))
    for key in {key for other in models for key in other.documents} - model.documents.keys():
        assert hits(kb, word(*key, 0, 0)) == []
    check_stats(kb, model, fresh=fresh)
    for (dataset, name, kind), content in layers.items():
        named = kb.search(content, dataset_id=dataset, layer=kind, mode="bm25").hits
        assert (name, content) in [(hit.doc_name, hit.content) for hit in named]
    return model


def old_editions(kb: Service, key: Key) -> Iterator[tuple[str, str | None]]:
    for info in kb.history(*key)[1:]:
        yield kb.get_document(*key, info.version).content, info.metadata.get("mark")


def old_in(model: Model) -> dict[Key, tuple[tuple[str, str], ...]]:
    return {
        key: tuple((text(key, edition), mark) for edition, mark in old)
        for key, old in model.old.items()
    }


def hits(kb: Service, mark: str) -> list[Any]:
    return list(kb.search(mark, scope="all", mode="bm25", top_k=50).hits)


def check_document(kb: Service, key: Key, edition: int, *, fresh: bool) -> None:
    """Its chunk set is whole: of this edition, or of one before and marked stale, or missing."""
    chunks = list(kb.chunks.iter_chunks(*key))
    held = {
        made
        for made in range(max(edition, LAST) + 2)
        if any(word(*key, 1, made) in chunk.content for chunk in chunks)
    }
    sig = kb.chunks.get_doc_sig(*key)
    assert len(held) == (sig is not None), (key, held)
    if fresh:
        assert held == {edition}
    for made in held:
        source = text(key, made)
        assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
        assert all(source[chunk.start : chunk.end] == chunk.content for chunk in chunks)
        assert " ".join(chunk.content for chunk in chunks).split() == source.split()
    lately = sorted(held | set(range(max(edition - 2, 0), edition + 1)))
    for part in range(PARTS):
        for made in lately if part == 1 else [0]:
            mark = word(*key, part, made)
            found = hits(kb, mark)
            there = [chunk.index for chunk in chunks if mark in chunk.content]
            assert sorted(hit.chunk_index for hit in found) == there, (key, mark)
            assert bool(there) == bool(held and (part != 1 or made in held))
            for hit in found:
                assert (hit.dataset_id, hit.doc_name) == key
                assert mark in hit.content
                if fresh:
                    assert hit.stale is None
                if held != {edition}:
                    assert hit.stale is not None
    if fresh:
        marked = next(chunk for chunk in chunks if word(*key, 1, edition) in chunk.content)
        near = kb.search(marked.content, dataset_id=key[0], mode="vector", top_k=50).hits
        # The hash of another's words may be the same: then there is a tie.
        nearest = [hit for hit in near if hit.score > near[0].score - 1e-5]
        assert (key[1], marked.index) in [(hit.doc_name, hit.chunk_index) for hit in nearest]
        whole = kb.search_documents(word(*key, 1, edition), dataset_id=key[0], mode="bm25").hits
        assert [hit.doc_name for hit in whole] == [key[1]]


def check_stats(kb: Service, model: Model, *, fresh: bool) -> None:
    for dataset in kb.list_datasets():
        stats = kb.stats(dataset)[0]
        mine = [key for key in model.documents if key[0] == dataset]
        chunks = [c for key in mine for c in kb.chunks.iter_chunks(*key, vectors=True)]
        assert stats.documents == len(mine)
        assert stats.chunks == len(chunks) == len(list(kb.chunks.iter_chunks(dataset)))
        assert stats.vectors == sum(chunk.vector is not None for chunk in chunks)
        assert stats.layers == sum(where[0] == dataset for where in model.layers)
        sources = [text(key, model.documents[key][0]) for key in mine]
        assert stats.size == sum(len(source.encode()) for source in sources)
        if fresh:
            assert stats.stale == 0


def check_rows(path: Path) -> None:
    """What always holds in the database, read by the driver alone."""
    if not path.exists():
        return
    with closing(sqlite3.connect(path)) as driver:
        assert driver.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert driver.execute("PRAGMA foreign_key_check").fetchall() == []
        if driver.execute("PRAGMA user_version").fetchone() == (0,):
            assert driver.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
            return
        for broken in (
            "SELECT id FROM vector v WHERE NOT EXISTS (SELECT 1 FROM chunk WHERE vector_id = v.id)"
            " AND NOT EXISTS (SELECT 1 FROM layer WHERE vector_id = v.id)",
            "SELECT document_id FROM derivation d WHERE (chunks, vectors) <> "
            "(SELECT count(*), count(vector_id) FROM chunk c WHERE c.document_id = d.document_id)",
            "SELECT id FROM chunk WHERE document_id NOT IN (SELECT document_id FROM derivation)",
            "SELECT seq FROM change WHERE seq > (SELECT tick FROM clock)",
            "SELECT id FROM document d WHERE NOT EXISTS (SELECT 1 FROM change "
            "WHERE field = 'document' AND owner = d.id AND seq >= d.revision)",
            "SELECT document_id FROM derivation WHERE document_id NOT IN "
            "(SELECT owner FROM change WHERE field = 'chunk')",
            "SELECT id FROM layer l WHERE NOT EXISTS (SELECT 1 FROM change "
            "WHERE field IN ('abstract', 'overview') AND owner = l.id AND seq >= l.revision)",
            "SELECT first FROM epoch WHERE first > (SELECT tick FROM clock)",
            "SELECT version FROM document_version v WHERE NOT EXISTS "
            "(SELECT 1 FROM document d WHERE d.id = v.document_id AND d.version > v.version)",
        ):
            assert driver.execute(broken).fetchall() == [], broken


def check_files(path: Path) -> None:
    """Beside the database there is its index alone, and in that what its manifests name."""
    index = path.with_name("kb.db.index")
    assert sorted(path.parent.iterdir()) == [path, index]
    for folder in index.iterdir():
        manifest = json.loads((folder / "manifest").read_bytes().partition(b"\n")[2])
        kinds: dict[str, int] = {}
        for file in folder.iterdir():
            kinds[file.name.partition("-")[0]] = kinds.get(file.name.partition("-")[0], 0) + 1
        named = {kind: len(files) for kind, files in manifest["fields"].items()}
        assert kinds.pop("manifest") == kinds.pop("lock") == 1
        assert kinds.pop("dead", 0) <= 2
        assert manifest["tombstones"] is None or (folder / manifest["tombstones"]).exists()
        assert kinds.keys() <= {"chunk", "document", "abstract", "overview"}
        assert all(number <= named.get(kind, 0) + 8 for kind, number in kinds.items())


def killed_at_random(
    script: Script, path: Path, chance: random.Random, models: dict[int, int]
) -> None:
    """Two writers and a searcher run on one store until they are killed, one after the other."""
    seeds = [chance.randrange(10**6) for _ in range(2)]
    children: list[int] = []
    for seed in seeds:
        script.send(do="churn", path=path, seed=seed)
    script.send(do="search", path=path, seeds=seeds)
    models.update(dict.fromkeys(seeds, 0))
    ready: set[object] = set()
    while len(children) < 3 or len(ready) < 3:
        told = script.receive()
        if told[0] == "started":
            children.append(told[1])
        else:
            ready.add(told[1])
            if told[1] in seeds:
                models[told[1]] = told[2] + 1
    time.sleep(chance.uniform(0, 0.3))
    for child in chance.sample(children, 3):
        os.kill(child, signal.SIGKILL)
        time.sleep(chance.choice([0, 0, 0.05]))
    script.send(do="reap", path=path, children=children)
    while (told := script.receive())[0] != "reaped":
        if told[1] in seeds:
            models[told[1]] = told[2] + 1
    assert told[1] == [-signal.SIGKILL] * 3


def random_rounds(script: Script, path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(rounds):
        done: dict[int, int] = {}
        killed_at_random(script, path, chance, done)
        check_rows(path)
        models = [
            after_churns(dict(zip(done, numbers, strict=True)))
            for numbers in product(*((number, number + 1) for number in done.values()))
        ]
        with opened(path, SMALL) as kb:
            check(kb, models)
            assert not kb.rebuild().failed
            model = check(kb, models, fresh=True)
            for key in model.documents:
                kb.delete_document(*key)


def after_churns(done: dict[int, int]) -> Model:
    """What both writers' steps come to: each has documents of its own."""
    both = Model()
    for seed, number in done.items():
        one = after(list(islice(churn(seed), number)))
        both = Model({**both.documents, **one.documents}, {**both.old, **one.old})
    return both


def test_two_writers_and_a_searcher_killed_at_random(script: Script, tmp_path: Path) -> None:
    random_rounds(script, tmp_path / "kb.db", 3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_writers_and_a_searcher_killed_at_random_at_length(
    script: Script, tmp_path: Path
) -> None:
    for seed in range(10):
        random_rounds(script, tmp_path / f"{seed}.db", 20, seed)
