"""What is done to a knowledge base that is killed meanwhile, and what it must then hold.

Run as a program it reads lines of JSON, forks a process for each, and lets that process carry
the steps out. Every finished step is told on the standard output; at the n-th write point the
process kills itself. Write points are seen from outside of Triptych: statements that SQLite
runs, file operations that Python audits, syncs of files, and the telling of a finished step.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import attrs

import triptych
from triptych.records import NewDocument
from triptych.service import Service
from triptych_backends.index import compact

PARTS = 3
SMALL, LARGE = 160, 400
KEPT = 2
"""Old versions that are kept of each document."""
Key = tuple[str, str]
Edition = tuple[int, str]


def word(*parts: object) -> str:
    """A word that nothing else has, and that stemming leaves alone."""
    digits = "/".join(map(str, parts)).encode().hex()
    return "zq" + digits.translate(str.maketrans("0123456789", "ghijklmnop")) + "x"


def text(key: Key, edition: int) -> str:
    """A document of a section a part, of which an edition changes the second."""
    marks = [word(*key, part, edition if part == 1 else 0) for part in range(PARTS)]
    body = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen."
    return "".join(f"# Part {mark}\n\n{body}\n{body}\n\n" for mark in marks)


@attrs.frozen
class Model:
    """What a knowledge base holds: editions and metadata of documents, texts of layers.

    ``old`` has what documents were before, newest first.
    """

    documents: dict[Key, Edition] = attrs.field(factory=dict)
    old: dict[Key, tuple[Edition, ...]] = attrs.field(factory=dict)
    layers: dict[tuple[str, str, str], str] = attrs.field(factory=dict)

    def put(self, key: Key, edition: int, mark: str) -> Model:
        new, before = (edition, mark), self.documents.get(key)
        old = self.old
        if before is not None and before != new:
            old = {**old, key: (before, *old.get(key, ()))[:KEPT]}
        return attrs.evolve(self, documents={**self.documents, key: new}, old=old)

    def restore(self, key: Key) -> Model:
        return self.put(key, *self.old[key][-1])

    def layer(self, key: Key, layer: str, content: str) -> Model:
        return attrs.evolve(self, layers={**self.layers, (*key, layer): content})

    def without(self, gone: Callable[[Key], bool]) -> Model:
        return Model(
            {key: value for key, value in self.documents.items() if not gone(key)},
            {key: value for key, value in self.old.items() if not gone(key)},
            {where: value for where, value in self.layers.items() if not gone(where[:2])},
        )


@attrs.frozen
class Step:
    """One call, and what it makes of the model. `size` is how large chunks are from then on.

    `halfway` is what a call of two writes makes of the model by the first.
    """

    name: str
    act: Callable[[Service], object]
    effect: Callable[[Model], Model] = lambda model: model
    size: int | None = None
    halfway: Callable[[Model], Model] | None = None


def put(key: Key, edition: int, mark: str = "first") -> Step:
    return Step(
        f"put {key}",
        lambda kb: kb.put_document(*key, text(key, edition), {"mark": mark}),
        lambda model: model.put(key, edition, mark),
    )


def put_many(keys: list[Key], edition: int) -> Step:
    def act(kb: Service) -> None:
        news = [
            NewDocument(name=key[1], content=text(key, edition), metadata={"mark": "many"})
            for key in keys
        ]
        assert not kb.put_documents(keys[0][0], news).failed

    def effect(model: Model) -> Model:
        for key in keys:
            model = model.put(key, edition, "many")
        return model

    return Step(f"put {len(keys)}", act, effect)


def restore(key: Key) -> Step:
    """The oldest version that is kept, put back."""
    return Step(
        f"restore {key}",
        lambda kb: kb.restore(*key, kb.history(*key)[-1].version),
        lambda model: model.restore(key),
    )


def delete(key: Key, *, purge: bool = False) -> Step:
    name = "purge" if purge else "delete_document"

    def above_gone(model: Model) -> Model:
        """The layers of what is above a purged document go before it does: of all, the dataset."""
        return model.without(lambda other: purge and other == (key[0], ""))

    return Step(
        f"{name} {key}",
        lambda kb: getattr(kb, name)(*key),
        lambda model: above_gone(model).without(lambda other: other == key),
        halfway=above_gone if purge else None,
    )


def layer(key: Key, layer: str, content: str) -> Step:
    def act(kb: Service) -> None:
        if key[1]:
            kb.put_document_layer(*key, layer, content)
        else:
            kb.put_dataset_layer(key[0], layer, content)

    return Step(f"layer {layer} of {key}", act, lambda model: model.layer(key, layer, content))


def publish(kb: Service) -> None:
    """What closing does to an index that has grown."""
    index = kb.documents.searcher.index  # type: ignore[attr-defined]  # a SqlDocuments
    for dataset in kb.list_datasets():
        index.publish(dataset)


def steps() -> list[Step]:
    """One of everything, in an order in which each meets what the others left."""
    a, b, c, other = ("d", "a"), ("d", "b"), ("d", "c"), ("e", "a")
    many = [("d", f"many {number}") for number in range(4)]
    drop = Step(
        "drop e",
        lambda kb: kb.delete_dataset("e"),
        lambda model: model.without(lambda key: key[0] == "e"),
    )
    issue = Step("publish", publish)
    return [
        put(a, 1),
        put(b, 1),
        put(c, 1),
        put(other, 1),
        issue,
        put(a, 2),
        put(b, 1, "second"),
        put(c, 1),
        put_many(many, 1),
        layer(a, "L0", "Abstract of a."),
        layer(a, "L1", "Overview of a."),
        layer(("d", ""), "L0", "All of d."),
        issue,
        delete(b),
        layer(a, "L0", "Another abstract of a."),
        put(b, 3),
        issue,
        Step("rebuild", lambda kb: kb.rebuild(), size=LARGE),
        put_many([*many, c], 2),
        issue,
        Step("language", lambda kb: kb.configure_dataset("d", language="german")),
        put(a, 4),
        restore(a),
        drop,
        put(other, 5),
        delete(many[0], purge=True),
        issue,
        put(c, 6),
    ]


def churn(seed: int) -> Iterator[Step]:
    """Random steps on documents of its own, without end."""
    chance = random.Random(seed)
    keys = [("d", f"{seed} {number}") for number in range(6)]
    yield put(keys[0], 0)
    for edition in count(1):
        kind = chance.choice(["put", "put", "put", "many", "delete", "publish"])
        key = chance.choice(keys)
        if kind == "many":
            yield put_many(chance.sample(keys, 3), edition)
        elif kind == "publish":
            yield Step("publish", publish)
        else:
            yield delete(key) if kind == "delete" else put(key, edition)


def opened(path: Path, size: int) -> Service:
    """The knowledge base at `path`."""
    return triptych.open(path, embedder="hash", chunk_size=size, chunk_overlap=0, history=KEPT)


class WritePoints:
    """Counts write points under a folder, and kills the process at one of them."""

    def __init__(self, folder: Path, last: int) -> None:
        self.count = 0
        self.names: list[str] = []
        self._folder = str(folder)
        self._last = last
        connect, sync = sqlite3.connect, os.fsync

        def connect_traced(*arguments: Any, **named: Any) -> sqlite3.Connection:
            driver: sqlite3.Connection = connect(*arguments, **named)
            driver.set_trace_callback(self._statement)
            return driver

        def fsync(descriptor: int) -> None:
            self.reached("before fsync")
            sync(descriptor)
            self.reached("after fsync")

        sqlite3.connect = connect_traced  # type: ignore[assignment]  # in this process alone
        os.fsync = fsync  # type: ignore[assignment]  # of a descriptor, which is all we give it
        sys.addaudithook(self._audited)

    def reached(self, name: str) -> None:
        self.count += 1
        self.names.append(name)
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def _statement(self, sql: str) -> None:
        # What only reads leaves the disk as it was at the point before.
        verb = sql.lstrip().partition(" ")[0].upper()
        if verb not in ("SELECT", "--", "PRAGMA") or "journal_mode" in sql or "checkpoint" in sql:
            self.reached(verb)

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            writes = (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not writes:
                return
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
            path = arguments[0]
        else:
            return
        if isinstance(path, str | os.PathLike) and self._is_ours(os.fspath(path)):
            self.reached(event)

    def _is_ours(self, path: str) -> bool:
        # What shutil.rmtree removes, it names relative to a folder that it has open.
        return path.startswith(self._folder) or os.sep not in path


def tell(*said: object) -> None:
    """One line, whole, also beside other processes."""
    os.write(1, (json.dumps(said) + "\n").encode())


def run_steps(path: Path, last: int) -> None:
    """All of `steps`, killed at the write point `last`; then tell the points there were."""
    points = WritePoints(path.parent, last)
    size = SMALL
    kb = opened(path, size)
    for number, step in enumerate(steps()):
        if step.size not in (None, size):
            size = step.size or size
            kb.close()
            kb = opened(path, size)
        step.act(kb)
        points.reached("tell")
        tell("done", number)
    kb.close()
    points.reached("tell")
    tell("points", points.names)


def run_churn(path: Path, seed: int) -> None:
    """Steps without end."""
    with opened(path, SMALL) as kb:
        for number, step in enumerate(churn(seed)):
            step.act(kb)
            tell("done", seed, number)


def run_searches(path: Path, seeds: list[int]) -> None:
    """Searches without end: whatever is found has what was searched for, and is whole."""
    with opened(path, SMALL) as kb:
        chance = random.Random(0)
        tell("done", "searcher", 0)
        while True:
            key = ("d", f"{chance.choice(seeds)} {chance.randrange(6)}")
            mark = word(*key, chance.choice([0, 2]), 0)
            found = kb.search(mark, scope="all", mode="bm25", top_k=50).hits
            assert [hit.doc_name for hit in found] in ([], [key[1]]), (key, found)
            assert all(mark in hit.content for hit in found)
            time.sleep(0.001)


def warm_up() -> None:
    """Import here, once, what every forked process needs."""
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "kb.db", SMALL) as kb:
        for step in steps()[:6]:
            step.act(kb)
        kb.search("warm", scope="all")


def main() -> None:
    """Fork a process for each line; tell its id, and how it ended if that is waited for."""
    # A few units are in several segments, some of them dead, as many are.
    compact.ONE_SEGMENT = 0
    warm_up()
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "reap":
            waited = [os.waitpid(child, 0)[1] for child in command["children"]]
            tell("reaped", [os.waitstatus_to_exitcode(status) for status in waited])
            continue
        path = Path(command["path"])
        run: Callable[[], None] = {
            "steps": partial(run_steps, path, command.get("last", 0)),
            "churn": partial(run_churn, path, command.get("seed", 0)),
            "search": partial(run_searches, path, command.get("seeds", [])),
        }[command["do"]]
        child = os.fork()
        if not child:
            status = 1
            try:
                run()
                status = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        if command["do"] == "steps":
            tell("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        else:
            tell("started", child)


if __name__ == "__main__":
    main()
