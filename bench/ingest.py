"""What a bulk put costs: chunking, `memory://`, and processor time of SQLite and its index.

    python bench/ingest.py
    python bench/ingest.py --tree ../before --rounds 3
    python bench/ingest.py --only chunking

Chunking is microseconds of processor time, the least of many; memory is what the process has grown
by once 100,000 chunks of 14 words, with vectors of 384 dimensions, have been put and searched; an
ingest is chunks a second of processor time until the first search has answered, of the writing
process and of the process that indexes beside it. ``--tree`` measures another checkout of the
same schema in turn, by this one's environment.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SHAPES = ("plain", "digits", "one chunk")


def least(work: Callable[[], object], times: int = 30) -> float:
    """Microseconds of processor time."""
    found = []
    for _ in range(10):
        began = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - began) / times)
    return round(1e6 * min(found), 1)


def chunking() -> dict[str, float]:
    from triptych.chunking import DefaultChunker, MarkdownChunker

    texts = {
        "50 sections": "".join(
            f"## Section {at}\n\nText of section {at} says something short.\n\n" for at in range(50)
        ),
        "1,000 paragraphs": "\n\n".join(
            f"This is paragraph {at} with some text that goes on for a bit longer."
            for at in range(1000)
        ),
    }
    ways = {"Markdown": MarkdownChunker(), "DefaultChunker": DefaultChunker()}
    return {
        f"{name}, {way}, µs": least(lambda text=text, chunker=chunker: chunker.chunk(text))
        for name, text in texts.items()
        for way, chunker in ways.items()
    }


def memory(chunks: int) -> dict[str, float]:
    import triptych
    from harness.corpus import Given
    from harness.machine import peak_mb, reset_peak, resident_mb

    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(3, 8))) for _ in range(5000)]

    def documents() -> Iterator[triptych.NewDocument]:
        for at in range(chunks // 100):
            sections = [f"# s{of}\n\n{' '.join(draw.choices(words, k=14))}" for of in range(100)]
            yield triptych.NewDocument(name=f"{at}.md", content="\n\n".join(sections))

    options = {"llm": None, "language": "english", "chunker": "markdown-sections"}
    with triptych.open("memory://", embedder=Given(), **options) as kb:
        kb.put_document("first", "a.md", "what is imported at the first use")
        kb.search("first", dataset_id="first")
        gc.collect()
        before = resident_mb()
        reset_peak()
        kb.put_documents("many", documents())
        gc.collect()
        put = resident_mb()
        kb.search("anything", dataset_id="many")
        gc.collect()
        after, peak = resident_mb(), peak_mb()
    return {
        "memory:// after the put, MB": round(put - before),
        "memory:// after a search, MB": round(after - before),
        "memory:// at most, MB": round(peak - before),
    }


def ingest(shape: str, chunks: int) -> dict[str, float]:
    import harness.corpus as corpus
    from harness.machine import peak_mb, reset_peak, resident_mb
    from harness.systems import system_of

    if shape == "digits":  # each third word has some in its middle
        words, shares = corpus.words()
        mixed = [
            word if at % 3 else f"{word[:3]}{at % 9973}{word[3:]}" for at, word in enumerate(words)
        ]
        corpus.words = lambda: (mixed, shares)  # type: ignore[assignment]  # it was cached
    with tempfile.TemporaryDirectory(prefix="triptych-bench-") as scratch:
        folder = Path(scratch)
        per_document = 1 if shape == "one chunk" else corpus.SECTIONS
        corpus.prepare(folder, chunks=chunks, text=None, per_document=per_document)
        given = corpus.Given()
        documents = list(corpus.Feed(folder, given).documents())
        kind = system_of("triptych")
        kind.load()
        before = resident_mb()
        reset_peak()
        system = kind(folder, given)
        began = time.process_time()
        system.ingest(iter(documents))
        took, peak = time.process_time() - began, peak_mb() - before
        system.close()
    helper = resource.getrusage(resource.RUSAGE_CHILDREN)
    both = took + helper.ru_utime + helper.ru_stime
    return {
        f"{shape}: chunks/s of the writer": round(chunks / took),
        f"{shape}: chunks/s of both processes": round(chunks / both),
        f"{shape}: peak of the writer, MB": round(peak),
    }


def measured(part: str, tree: Path, chunks: int) -> dict[str, float]:
    """One part, in a process of its own over the packages of ``tree``."""
    packages = [str(tree / each) for each in ("knowledge", "backends", "factory", "adapters")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(packages)}
    command = [sys.executable, __file__, "--part", part, "--chunks", str(chunks)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("chunking", "memory", *SHAPES)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--tree", type=Path, help="another checkout, measured in turn")
    parser.add_argument("--rounds", type=int, default=1, help="so many turns, their median")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        parts_of: dict[str, Callable[[], dict[str, Any]]] = {
            "chunking": chunking,
            "memory": lambda: memory(options.chunks),
        }
        work = parts_of.get(options.part, lambda: ingest(options.part, options.chunks))
        print(json.dumps(work()))
        return
    trees = [ROOT] if options.tree is None else [options.tree.resolve(), ROOT]
    for part in options.only:
        rounds = [[measured(part, t, options.chunks) for t in trees] for _ in range(options.rounds)]
        for name in rounds[0][0]:
            numbers = [
                statistics.median(each[at][name] for each in rounds) for at in range(len(trees))
            ]
            ratio = f"  ({numbers[-1] / numbers[0]:.2f} of before)" if len(trees) > 1 else ""
            shown = " -> ".join(f"{number:,.0f}" for number in numbers)
            print(f"{re.sub(' +', ' ', name):45} {shown}{ratio}", flush=True)


if __name__ == "__main__":
    main()
