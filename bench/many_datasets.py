"""Search over thousands of small datasets: time and memory.

    python bench/many_datasets.py --datasets 3000

Times are of the processor, so that others on the machine do not count.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import triptych

FRUITS = "apple banana cherry damson elder fig grape hazel iris jasmine kiwi lemon mango nutmeg"
WORDS = tuple(FRUITS.split())


def megabytes() -> float:
    """The most memory that this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=3000)
    count: int = parser.parse_args().datasets
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kb.db"
        with triptych.open(path, embedder="hash") as kb:
            for number in range(count):
                text = " ".join(WORDS[number * step % len(WORDS)] for step in range(1, 30))
                kb.put_document(
                    f"d{number:05}", "a.md", f"# Note {number}\n\n{text} only{number}\n"
                )
        with triptych.open(path, embedder="hash") as kb:
            print(f"{count} datasets; held before: {megabytes():.0f} MB")

            def search(label: str, mode: str | None = None) -> None:
                began = time.process_time()
                assert kb.search("apple only7", scope="all", top_k=5, mode=mode).hits
                print(f"  {label:24} {time.process_time() - began:7.3f} s")

            search("first, hybrid")
            for mode in ("bm25", "vector", None):
                search(f"warm, {mode or 'hybrid'}", mode)
            kb.put_document("d00001", "b.md", "Something else.")
            search("after a put, hybrid")
            print(f"held at most: {megabytes():.0f} MB")


if __name__ == "__main__":
    main()
