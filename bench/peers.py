"""Triptych beside what people would use instead, in one run: ratios, and JSON to plot.

    python bench/peers.py --chunks 10000 100000
    python bench/peers.py --chunks 100000 --chunks-per-document 1 10 --text docs ../data/book.zip
    python bench/peers.py --chunks 100000 --only triptych --tree ../before --rounds 3
    python bench/peers.py --chunks 100000 --again --write

Every system is given the same chunks and the same vectors; embedding is not counted. Each runs
in processes of its own, one after the other, and in turn where there are several ``--rounds``.
``--tree`` measures another checkout too, by its own ``.venv``. Results are written as each system
finishes; run the command again to go on where it stopped. ``--write`` puts all results of this
machine into the documentation, in the place of the tables before, and draws the plot. What a
system cannot do is left out, what is not installed is skipped with a word:
``pip install -r bench/requirements-peers.txt`` has them all.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import plot
from harness.corpus import SECTIONS, prepare
from harness.machine import ROOT, describe
from harness.results import Results, median_of, provenance, read_all
from harness.run import Bench, Limits, missing
from harness.systems import MORE, NAMES, VARIANTS, system_of
from harness.table import Document, beside, brief, line, shapes, write

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"
COMPARISON = PAGE.with_name("comparison.md")
ORDER = (NAMES[0], *VARIANTS, *NAMES[1:], *MORE)


def measure(name: str, bench: Bench, chunks: int) -> dict[str, Any]:
    """One system's numbers, or why there are none."""
    system = system_of(name)
    if (module := missing(system)) is not None:
        return {"skipped": f"{module} is not installed"}
    if system.most is not None and chunks > system.most:
        return {"skipped": f"more than {system.most:,} chunks take it hours"}
    root = bench.roots.get(name, ROOT)
    about = {"setup": system.setup, "updates": system.updates, **provenance(name, system, root)}
    load = round(os.getloadavg()[0], 2)
    began = time.monotonic()
    numbers = bench.measure(name)
    seconds = round(time.monotonic() - began, 1)
    return {**about, "load_before": load, "took_seconds": seconds, **numbers}


def run(
    chunks: int, text: Path | None, options: argparse.Namespace, per_document: int = SECTIONS
) -> Document:
    """Every system over one corpus."""
    if options.work is not None:
        options.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.work, prefix="triptych-bench-") as scratch:
        corpus, stores = Path(scratch, "corpus"), Path(scratch, "stores")
        corpus.mkdir()
        stores.mkdir()
        kind = str(text or f"generated text, {per_document} a document")
        print(f"preparing {chunks:,} chunks of {kind}", flush=True)
        about = prepare(corpus, chunks=chunks, text=text, per_document=per_document)
        results = Results(options.results, about, describe(stores))
        bench = Bench(corpus, stores, Limits(seconds=options.timeout), options.tree)
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in options.only}
        turns = [(turn, name) for turn in range(options.rounds) for name in options.only]
        for number, (turn, name) in enumerate(turns, 1):
            progress = f"[{number}/{len(turns)}] {about['chunks']:,} chunks, {name}: "
            print(progress, end="", flush=True)
            again = options.again or options.tree or turn
            if not again and results.stands(name, system_of(name)):
                print(f"as measured before: {line(results.systems[name])}", flush=True)
                continue
            began = time.monotonic()
            rounds[name].append(measure(name, bench, about["chunks"]))
            results.put(name, median_of(rounds[name]), ORDER)
            took = time.monotonic() - began
            print(f"{line(rounds[name][-1])} ({took:.0f} s)", flush=True)
    said = "In brackets: how many times better Triptych is; below 1 the other is ahead."
    print(f"\n{beside(results.document)}\n\n{said}\nwritten to {results.path}\n", flush=True)
    return results.document


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
    parser.add_argument(
        "--text", type=Path, nargs="*", default=[], help="also folders or zips of real text"
    )
    parser.add_argument("--text-chunks", type=int, default=100_000, help="at most so many of it")
    parser.add_argument("--only", nargs="+", choices=NAMES + MORE, default=list(NAMES))
    parser.add_argument("--tree", type=Path, help="another checkout, as triptych-before")
    parser.add_argument("--rounds", type=_positive, default=1, help="so many turns, their median")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a system and corpus")
    parser.add_argument("--again", action="store_true", help="measure again what has been measured")
    parser.add_argument("--write", action="store_true", help=f"the tables into {PAGE.name}")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, help="where the stores are made (default: temporary)")
    options = parser.parse_args()
    if options.tree is not None:
        options.tree = options.tree.resolve()
        if "triptych" not in options.only or not (options.tree / "knowledge" / "triptych").is_dir():
            parser.error(f"--tree measures triptych and {options.tree}, a checkout of it")
        options.only.insert(options.only.index("triptych") + 1, "triptych-before")
    # Ended from outside, it still ends the measured process and takes its stores away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    documents = [
        run(size, None, options, count)
        for count in sorted(set(options.chunks_per_document), reverse=True)
        for size in sorted(set(options.chunks))
    ]
    for text in options.text:
        if text.exists():
            documents.append(run(options.text_chunks, text, options))
        else:
            print(f"{text} does not exist: it is skipped")
    if len(documents) > 1:
        print(shapes(documents))
    if options.write:
        held = read_all(options.results, documents[0]["machine"])
        write(PAGE, held)
        write(COMPARISON, held, brief)
        plot.OUT.write_text(
            plot.draw([each for each in held if each["corpus"]["name"] == "generated"] or held)
        )
        print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
