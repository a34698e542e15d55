"""How soon a save can be found, and what a sync without changes costs.

    python bench/watch.py --files 10000    # ten chunks each

Fills a folder, syncs it into a SQLite store with the hashing embedder, and then measures:

- syncs of the unchanged folder: seconds and calls of the embedder, with the state of the run
  before (whose files were too young to be trusted by their times), with a settled state, without
  any, and in a sync that stays open;
- from the end of a save to the first search that finds it, with the reloader's default times, over
  saves of one file, and of 2, 20 and 100 at once: until the last of them is found.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import triptych
from harness.corpus import ZipfText
from triptych.events import EventReloader
from triptych.records import EmbedKind, Vector
from triptych.service import Service
from triptych.sync import DirectorySync, SyncRoot
from triptych_backends.watching import WatchfilesNotifier
from triptych_models import HashEmbedder


class Counting(HashEmbedder):
    """Counts its calls."""

    calls = 0

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> Vector:
        self.calls += 1
        return super().embed(texts, kind=kind)


def sync_of(kb: Service, folder: Path) -> DirectorySync:
    return DirectorySync(kb, [SyncRoot(path=folder / "files", key="bench")], state=folder / "state")


def timed_sync(what: str, sync: DirectorySync, embedder: Counting) -> None:
    calls, began = embedder.calls, time.perf_counter()
    report = sync.sync()
    seconds = time.perf_counter() - began
    print(
        f"{what}: {seconds:.2f} s, {report.unchanged} unchanged, "
        f"{embedder.calls - calls} calls of the embedder",
        flush=True,
    )


def found(kb: Service, token: str) -> bool:
    return bool(kb.search(token, mode="bm25", top_k=1, dataset_id="default").hits)


def needle() -> str:
    """A word that no document holds, nor any part of it."""
    return "".join(random.choices("bcdfghjklmnpqrstvwxz", k=16))


def latencies(kb: Service, files: Sequence[Path], *, at_once: int, rounds: int) -> list[float]:
    taken = []
    for number in range(rounds):
        tokens = [needle() for _ in range(at_once)]
        for token, file in zip(tokens, files[number * at_once :], strict=False):
            file.write_text(file.read_text() + f"\n{token}\n")
        saved = time.perf_counter()
        while not all(found(kb, token) for token in tokens):
            time.sleep(0.005)
        taken.append(time.perf_counter() - saved)
        time.sleep(0.3)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--saves", type=int, default=20)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-watch-"))
    embedder = Counting()
    try:
        files = []
        for number, (name, text) in enumerate(ZipfText().documents(options.files)):
            file = folder / "files" / f"{number % 100:02}" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            files.append(file)
        with triptych.open(folder / "kb.db", embedder=embedder) as kb:
            began = time.perf_counter()
            report = sync_of(kb, folder).sync()
            print(
                f"first sync: {time.perf_counter() - began:.1f} s, {report.added} documents, "
                f"{report.chunks} chunks"
            )
            time.sleep(2.5)
            timed_sync("again, with the state of the first sync", sync_of(kb, folder), embedder)
            timed_sync("again", sync_of(kb, folder), embedder)
            shutil.rmtree(folder / "state")
            timed_sync("again, without a state", sync_of(kb, folder), embedder)
            staying = sync_of(kb, folder)
            staying.sync()
            timed_sync("again, in a sync that stays open", staying, embedder)
            found(kb, "warm")
            notifier = WatchfilesNotifier(staying)
            with EventReloader(staying, notifier) as reloader:
                reloader.start()
                time.sleep(5)
                for at_once in (1, 2, 20, 100):
                    taken = latencies(kb, files, at_once=at_once, rounds=options.saves)
                    print(
                        f"{at_once} saved at once, until found: median "
                        f"{statistics.median(taken):.3f} s, most {max(taken):.3f} s, "
                        f"of {len(taken)}",
                        flush=True,
                    )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
