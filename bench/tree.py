"""A tree of real documents is synced, edited and renamed at random, and never shown stale as fresh.

    python bench/tree.py --docs FOLDER --rounds 40

Copies the text files of FOLDER, syncs the copy, and then edits, renames, moves and deletes at
random, by one file or by whole folders. After each round, and in between while a sync runs, it
asks for words out of the files: a hit that says it is fresh must be text of its document as it is
stored; and once a sync has returned, text of its file. At the end the store must equal a fresh
sync of the folder.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import triptych
from triptych.parsing import decode_text
from triptych.service import Service
from triptych.sync import DirectorySync, SyncReport, SyncRoot

WORD = re.compile(r"[^\W\d_]{5,}")
KEY = "tree"


def sync_of(kb: Service, folder: Path, state: Path | None) -> DirectorySync:
    root = SyncRoot(path=folder, dataset_id="tree", key=KEY)
    return DirectorySync(kb, [root], state=state)


def change(folder: Path, chance: random.Random) -> str:
    """Something that happens to a tree."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    folders = sorted(path for path in folder.rglob("*") if path.is_dir())
    file = chance.choice(files)
    what = chance.choice(["edit", "edit", "edit", "append", "rename", "move", "delete", "copy"])
    if what in ("edit", "append"):
        paragraphs = file.read_text(encoding="utf-8", errors="replace").split("\n\n")
        at = chance.randrange(len(paragraphs)) if what == "edit" else len(paragraphs)
        paragraphs[at : at + 1] = [f"Paragraph {chance.random()} written again."]
        file.write_text("\n\n".join(paragraphs), encoding="utf-8")
    elif what == "rename":
        file.rename(file.with_name(f"renamed{chance.randrange(10**6)}{file.suffix}"))
    elif what == "move" and folders:
        source, target = chance.choice(folders), chance.choice([folder, *folders])
        if not target.is_relative_to(source) and not (target / source.name).exists():
            source.rename(target / source.name)
    elif what == "copy":
        shutil.copy(file, file.with_name(f"copy{chance.randrange(10**6)}{file.suffix}"))
    elif what == "delete" and len(files) > 20:
        file.unlink()
    return what


class Checker:
    """Asks, and counts what is wrong."""

    def __init__(self, kb: Service, folder: Path) -> None:
        self.kb, self.folder = kb, folder
        self.asked = self.hits = self.stale = self.wrong = 0

    def ask(self, words: str, mode: str, *, settled: bool) -> None:
        result = self.kb.search(words, dataset_id="tree", mode=mode, top_k=10)
        self.asked += 1
        for hit in result.hits:
            self.hits += 1
            if hit.stale is not None:
                self.stale += 1
                self.wrong += settled
                continue
            document = self.kb.documents.get("tree", hit.doc_name)
            if document is not None and document.version == hit.sig.source_version:
                self.wrong += document.content[hit.start : hit.end] != hit.content
            if settled:
                found = decode_text((self.folder / hit.doc_name).read_bytes(), hit.doc_name)
                self.wrong += found is None or found.text[hit.start : hit.end] != hit.content


def words_of(folder: Path, chance: random.Random) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = WORD.findall(chance.choice(files).read_text(encoding="utf-8", errors="replace"))
    return " ".join(chance.sample(found, min(3, len(found)))) or "documentation"


def state_of(kb: Service) -> dict[str, Any]:
    return {
        info.name: (
            info.content_sha256,
            dict(info.metadata),
            [
                (c.start, c.end, c.content, c.heading_path, c.vector is not None)
                for c in kb.chunks.iter_chunks("tree", info.name, vectors=True)
            ],
        )
        for info in kb.documents.list("tree")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    place = Path(tempfile.mkdtemp(prefix="bench-tree-"))
    folder = place / "tree"
    try:
        shutil.copytree(options.docs, folder)
        with triptych.open(place / "kb.db", embedder="hash") as kb:
            began = time.perf_counter()
            first = sync_of(kb, folder, place / "state").sync()
            print(
                f"first sync: {first.added} documents, {first.chunks} chunks, "
                f"{len(first.skipped)} skipped, {len(first.failed)} failed, "
                f"{time.perf_counter() - began:.1f} s",
                flush=True,
            )
            checker, total = Checker(kb, folder), first
            changes = 0
            for _ in range(options.rounds):
                for _ in range(chance.randint(1, 6)):
                    change(folder, chance)
                    changes += 1
                sync = sync_of(kb, folder, place / "state")
                reports: list[SyncReport] = []
                worker = threading.Thread(target=lambda s=sync, r=reports: r.append(s.sync()))
                worker.start()
                while worker.is_alive():
                    words = words_of(folder, chance)
                    checker.ask(words, chance.choice(["bm25", "hybrid", "vector"]), settled=False)
                worker.join()
                total += reports[0]
                for mode in ("bm25", "vector", "hybrid"):
                    checker.ask(words_of(folder, chance), mode, settled=True)
            with triptych.open("memory://", embedder="hash") as fresh:
                sync_of(fresh, folder, None).sync()
                equal = state_of(fresh) == state_of(kb)
            print(
                f"{options.rounds} rounds, {changes} changes: {total.updated} updated, "
                f"{len(total.renamed)} renamed, {len(total.deleted)} deleted, "
                f"{total.embedded - first.embedded} chunks embedded, {len(total.failed)} failed"
            )
            print(
                f"{checker.asked} searches, {checker.hits} hits, {checker.stale} marked stale, "
                f"{checker.wrong} wrong; equal to a fresh sync: {equal}"
            )
            if checker.wrong or not equal:
                raise SystemExit(1)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
