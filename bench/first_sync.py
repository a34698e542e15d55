"""The first sync of a folder: seconds to the first hit by keyword and to all vectors, and what
kills cost.

    python bench/first_sync.py                                  a generated tree, a slow embedder
    python bench/first_sync.py FOLDER --embedder local          a folder of one's own, a real model

A second process syncs; this one searches its store every 50 ms. For the kills, the process is
killed at random moments and started again until it is done; the embedder writes down what it is
asked, and the table says how many texts were asked for twice.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import triptych
from triptych.sync import DirectorySync, SyncRoot

CONCURRENCY = 4
WORDS = ["river", "stone", "harbour", "lantern", "meadow", "copper", "willow", "ember", "falcon"]


class Slowed:
    """An embedder that takes a fixed time for each text, and writes down what it is asked."""

    def __init__(self, inner: Any, log: Path, seconds: float) -> None:
        self._inner = inner
        self._log = log
        self._seconds = seconds
        self.signature = inner.signature
        self.dimension = inner.dimension

    def embed(self, texts: Sequence[str], *, kind: str) -> NDArray[np.float32]:
        """Embed, after a while."""
        if kind == "document":
            lines = "".join(f"{text!r}\n" for text in texts)
            with open(self._log, "ab", buffering=0) as file:
                file.write(lines.encode())
            time.sleep(self._seconds * len(texts))
        rows: NDArray[np.float32] = self._inner.embed(texts, kind=kind)
        return rows


def generate(folder: Path, files: int) -> None:
    """A tree of Markdown pages of about ten chunks each."""
    chance = random.Random(1)
    for number in range(files):
        parts = [f"# Page {number}"]
        for part in range(10):
            words = " ".join(chance.choices(WORDS, k=150))
            parts.append(f"## Part {part} of {number}\n\n{words}")
        path = folder / f"{number % 10}" / f"page{number:04}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(parts))


def embedder_of(name: str, log: Path, seconds: float) -> Any:
    """The embedder, which writes to ``log``."""
    with triptych.open("memory://", embedder="hash" if name == "slow" else name) as kb:
        return Slowed(kb.options.embedder, log, seconds if name == "slow" else 0.0)


def sync(folder: Path, store: Path, log: Path, name: str, seconds: float) -> None:
    """What the second process does."""
    embedder = embedder_of(name, log, seconds)
    with triptych.open(store, embedder=embedder, embed_concurrency=CONCURRENCY) as kb:
        print("ready", flush=True)
        DirectorySync(kb, [SyncRoot(path=folder, dataset_id="d")]).sync()


def start(folder: Path, store: Path, log: Path, options: argparse.Namespace) -> Any:
    """Begin the second process; it is ready when this returns."""
    arguments = ["--child", str(store), str(log), "--embedder", options.embedder]
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder), *arguments, "--seconds", str(options.seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def watch(folder: Path, place: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds, from the start of the sync, to the first hit, all chunks and all vectors."""
    store, log = place / "kb.db", place / "asked.log"
    embedder = embedder_of(options.embedder, log, 0.0)
    with triptych.open(store, embedder=embedder):
        pass
    with triptych.open("memory://", embedder=None) as kb:  # imports are not measured
        kb.put_document("warm", "a.md", options.query)
        kb.search(options.query, dataset_id="warm")
    process = start(folder, store, log, options)
    began = time.monotonic()
    found: dict[str, float] = {}
    with triptych.open(store, embedder=embedder) as kb:
        last = 0
        while True:
            ended = process.poll() is not None
            now = time.monotonic() - began
            if "d" in kb.list_datasets():
                if kb.search(options.query, dataset_id="d", mode="bm25").hits:
                    found.setdefault("first hit", now)
                (stats,) = kb.stats("d")
                if stats.chunks > last:
                    last, found["all chunks"] = stats.chunks, now
            if ended:
                found["all vectors"] = now
                break
            time.sleep(0.05)
        (stats,) = kb.stats("d")
        assert (stats.pending, stats.stale, process.returncode) == (0, 0, 0)
        found |= {"documents": stats.documents, "chunks": stats.chunks, "vectors": stats.vectors}
    return found


def kill(folder: Path, place: Path, options: argparse.Namespace, seconds: float) -> dict[str, int]:
    """Kill the sync at random moments until it ends by itself; what was asked for twice."""
    store, log = place / "kb.db", place / "asked.log"
    chance = random.Random(options.seed)
    kills = 0
    while True:
        process = start(folder, store, log, options)
        try:
            process.wait(
                chance.uniform(0.05, max(seconds / 4, 0.2)) if kills < options.kills else None
            )
            break
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    times = Counter(log.read_bytes().splitlines())
    return {"kills": kills, "texts": len(times), "asked twice": sum(times.values()) - len(times)}


def main() -> None:
    """Run both parts and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--files", type=int, default=150, help="of the generated tree")
    parser.add_argument("--embedder", default="slow", help="slow, local, hash, …")
    parser.add_argument("--seconds", type=float, default=0.02, help="for each text, of slow")
    parser.add_argument("--query", default="river stone", help="what the first hit is of")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sync(options.folder, *options.child, options.embedder, options.seconds)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch) / "tree"
        if options.folder is None:
            generate(folder, options.files)
        places = [Path(scratch) / each for each in ("watched", "killed")]
        for place in places:
            place.mkdir()
        found = watch(folder, places[0], options)
        lost = kill(folder, places[1], options, found["all vectors"])
    counts = " / ".join(str(found[key]) for key in ("documents", "chunks", "vectors"))
    rows = [
        ("documents, chunks, vectors", counts),
        *((f"{key}, s", f"{found[key]:.2f}") for key in ("first hit", "all chunks", "all vectors")),
        *((key, str(value)) for key, value in lost.items()),
        ("texts in flight at most, at each kill", str(CONCURRENCY * 64)),
    ]
    print(f"| {options.folder or 'generated tree'}, embedder {options.embedder} | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
