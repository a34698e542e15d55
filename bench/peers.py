"""Triptych beside what people would use instead, in one run: ratios, and JSON to plot.

    python bench/peers.py --chunks 10000 100000
    python bench/peers.py --chunks 10000 --only triptych txtai --text docs
    python bench/peers.py --chunks 100000 --chunks-per-document 1 10

Every system is given the same chunks and the same vectors; embedding is not counted. Each runs
in processes of its own, one after the other. Results are written as each system finishes; run the
command again to go on where it stopped. What a system cannot do is left out, what is not
installed is skipped with a word: ``pip install -r bench/requirements-peers.txt`` has them all.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.corpus import SECTIONS, prepare
from harness.machine import describe
from harness.results import Results, provenance
from harness.run import Bench, Limits, missing
from harness.systems import MORE, NAMES, system_of
from harness.table import beside, growth, line, shapes

RESULTS = Path(__file__).parent / "results"


def measure(name: str, bench: Bench) -> dict[str, Any]:
    """One system's numbers, or why there are none."""
    system = system_of(name)
    if (module := missing(system)) is not None:
        return {"skipped": f"{module} is not installed"}
    about = {"setup": system.setup, "updates": system.updates, **provenance(name, system)}
    load = round(os.getloadavg()[0], 2)
    began = time.monotonic()
    numbers = bench.measure(name)
    seconds = round(time.monotonic() - began, 1)
    return {**about, "load_before": load, "took_seconds": seconds, **numbers}


def run(
    chunks: int, text: Path | None, options: argparse.Namespace, per_document: int = SECTIONS
) -> Results:
    """Every system over one corpus."""
    with tempfile.TemporaryDirectory(dir=options.work, prefix="triptych-bench-") as scratch:
        corpus, stores = Path(scratch, "corpus"), Path(scratch, "stores")
        corpus.mkdir()
        stores.mkdir()
        kind = str(text or f"generated text, {per_document} a document")
        print(f"preparing {chunks:,} chunks of {kind}", flush=True)
        about = prepare(corpus, chunks=chunks, text=text, per_document=per_document)
        results = Results(options.results, about, describe(stores))
        bench = Bench(corpus, stores, Limits(seconds=options.timeout))
        for number, name in enumerate(options.only, 1):
            progress = f"[{number}/{len(options.only)}] {about['chunks']:,} chunks, {name}: "
            print(progress, end="", flush=True)
            if not options.again and results.stands(name, system_of(name)):
                print(f"as measured before: {line(results.systems[name])}", flush=True)
                continue
            began = time.monotonic()
            results.put(name, measure(name, bench), NAMES + MORE)
            took = time.monotonic() - began
            print(f"{line(results.systems[name])} ({took:.0f} s)", flush=True)
    said = "In brackets: how many times better Triptych is; below 1 the other is ahead."
    print(f"\n{beside(results.document)}\n\n{said}\nwritten to {results.path}\n", flush=True)
    return results


def _positive(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--chunks", type=int, nargs="*", default=[10_000, 100_000], help="sizes of generated text"
    )
    parser.add_argument(
        "--chunks-per-document",
        type=_positive,
        nargs="+",
        default=[SECTIONS],
        help=f"shapes of generated text: 1 is notes and records, {SECTIONS} is pages (default)",
    )
    parser.add_argument("--text", type=Path, help="also a folder or zip of real text")
    parser.add_argument("--text-chunks", type=int, default=100_000, help="at most so many of it")
    parser.add_argument("--only", nargs="+", choices=NAMES + MORE, default=list(NAMES))
    parser.add_argument("--timeout", type=float, default=3600, help="seconds a system and corpus")
    parser.add_argument("--again", action="store_true", help="measure again what has been measured")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, help="where the stores are made (default: temporary)")
    options = parser.parse_args()
    # Ended from outside, it still ends the measured process and takes its stores away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sizes = sorted(set(options.chunks))
    per_document = sorted(set(options.chunks_per_document))
    documents = {
        (count, size): run(size, None, options, count).document
        for count in per_document
        for size in sizes
    }
    for count in per_document:
        for small, large in pairwise(documents[count, size] for size in sizes):
            both = f"{small['corpus']['chunks']:,} to {large['corpus']['chunks']:,} chunks"
            print(f"growth from {both}, {count} a document\n\n{growth(small, large)}\n")
    for size in sizes:
        for few, many in pairwise(per_document):
            compared = shapes(documents[few, size], documents[many, size])
            print(f"{size:,} chunks, {few} a document beside {many}\n\n{compared}\n")
    if options.text is not None and options.text.exists():
        run(options.text_chunks, options.text, options)
    elif options.text is not None:
        print(f"{options.text} does not exist: real text is skipped")


if __name__ == "__main__":
    main()
