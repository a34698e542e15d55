"""The measured process: one system, one corpus, one JSON file that grows with every phase.

    python -m harness.measure TASK --system NAME --corpus DIR --folder DIR --out FILE

`harness.run` starts it; a process of its own for each system is what makes memory comparable.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from harness.corpus import DIMENSION, FILTERS, Edit, Feed, Given, Vectors, document_of, metadata_of
from harness.machine import peak_mb, reset_peak, resident_mb
from harness.system import System
from harness.systems import system_of
from harness.threads import WORTH_TIMING, beside_a_writer, rate, threads

LIMIT = 10
COMPARED = 100
"""Queries of each lane whose hits are compared with the exact ranking."""
WARMING = 10
LANE_SECONDS = 6.0
SETTLED = 8.0  # after these, what a system does behind an ingest is done
UPDATE_SECONDS = 15.0
FIND_SECONDS = 5.0
FSYNC_CHUNKS = 10_000
SCANS = 20

Numbers = dict[str, Any]


def percentiles(seconds: Sequence[float]) -> Numbers:
    """Milliseconds at the median, the 95th and 99th percentile (nearest rank), and the count.

    A percentile that fewer than twenty (95th) or a hundred (99th) times stand for is None.
    """
    ordered = sorted(seconds)
    found: Numbers = {"p50": round(1e3 * statistics.median(ordered), 3)}
    for share, least in ((95, 20), (99, 100)):
        value = ordered[int(share / 100 * (len(ordered) - 1))]
        found[f"p{share}"] = round(1e3 * value, 3) if len(ordered) >= least else None
    return {**found, "count": len(ordered)}


def lane(
    system: System, asked: Sequence[tuple[str, Vectors]], name: str
) -> tuple[Numbers, list[list[tuple[str, int]]]]:
    """Times of one lane, ``cpu`` of all threads, and what it found: ids and digests of texts."""
    for text, vector in asked[:WARMING]:
        system.search(name, text, vector, LIMIT)
    taken: list[float] = []
    found: list[list[tuple[str, int]]] = []
    stop = time.perf_counter() + LANE_SECONDS
    cpu = time.process_time()
    for text, vector in asked:
        began = time.perf_counter()
        hits = system.search(name, text, vector, LIMIT)
        taken.append(time.perf_counter() - began)
        if len(found) < COMPARED:
            found.append([(hit, zlib.crc32(content.encode())) for hit, content in hits])
        if time.perf_counter() > stop and len(taken) >= 20:
            break
    cpu = time.process_time() - cpu
    return {**percentiles(taken), "cpu": round(1e3 * cpu / len(taken), 3)}, found


def shapes(system: System, feed: Feed, report: Report) -> None:
    """The lanes by frequent and by rare words, and among 1% and 50% of the documents."""
    words = report.numbers["words"] = {"frequent": {}, "rare": {}}
    for kind, numbers in words.items():
        for name in system.lanes:
            if name != "vector":
                report.phase(f"{name} search by {kind} words")
                numbers[name] = lane(system, feed.asked[kind], name)[0]
    if not system.filters:
        return
    filters = report.numbers["filters"] = {}
    outside = 0
    for share, (field, value) in FILTERS.items():
        system.where, filters[share] = (field, value), {}
        for name in system.lanes:
            report.phase(f"{name} search among {share}")
            filters[share][name], found = lane(system, feed.asked["mixed"], name)
            hits = (hit for query in found for hit, _ in query)
            outside += sum(metadata_of(document_of(hit))[field] != value for hit in hits)
    system.where = None
    report.numbers["outside_filter"] = outside


def replace(system: System, edit: Edit) -> bool:
    """Replace a document and search until it is found; False when it is not in five seconds."""
    system.replace(edit)
    searched = "keyword" if "keyword" in system.lanes else "vector"
    stop = time.perf_counter() + FIND_SECONDS
    while True:
        hits = system.search(searched, edit.needle, edit.chunk.vector, LIMIT)
        # The first hit by words; by vectors another chunk may be nearer to a graph's taste.
        for hit, text in hits[: 1 if searched == "keyword" else LIMIT]:
            if document_of(hit) == edit.document.name and edit.needle in text:
                return True
        if time.perf_counter() > stop:
            return False


def delete(system: System, edit: Edit) -> bool:
    """Delete a document; True when a search for its words or vector no longer finds it."""
    system.delete(edit.document.name)
    searched = "keyword" if "keyword" in system.lanes else "vector"
    hits = system.search(searched, edit.needle, edit.chunk.vector, LIMIT)
    return all(document_of(hit) != edit.document.name for hit, _ in hits)


def repeated(act: Callable[[Any], bool], inputs: Sequence[Any]) -> Numbers:
    """Times of an act over inputs, and how often it did not come true."""
    taken: list[float] = []
    missed = 0
    stop = time.perf_counter() + UPDATE_SECONDS
    for one in inputs:
        began = time.perf_counter()
        missed += not act(one)
        taken.append(time.perf_counter() - began)
        if time.perf_counter() > stop and len(taken) >= 3:
            break
    return {**percentiles(taken), "missed": missed}


def disk_mb(folder: Path) -> float:
    return round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6, 1)


class Report:
    """What has been measured, written down after every phase so that a timeout keeps the rest."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.numbers: Numbers = {}

    def phase(self, name: str) -> None:
        self.numbers["phase"] = name
        self.write()

    def write(self) -> None:
        scratch = self._out.with_suffix(".part")
        scratch.write_text(json.dumps(self.numbers))
        scratch.replace(self._out)


def saved(system: System) -> float | None:
    began = time.perf_counter()
    wrote = system.save()
    return round(time.perf_counter() - began, 3) if wrote else None


def build(kind: type[System], corpus: Path, folder: Path, report: Report) -> None:
    """Ingest, search, replace, delete, in this order; the store stays for `reopen`."""
    numbers = report.numbers
    given = Given()
    feed = Feed(corpus, given)
    began = time.perf_counter()
    kind.load()
    numbers["import_ms"] = round(1e3 * (time.perf_counter() - began), 1)
    memory = numbers["memory"] = {"base_mb": resident_mb()}
    reset_peak()
    report.phase("ingest")
    began = time.perf_counter()
    system = kind(folder, given)
    numbers["note"] = system.note()
    numbers["create_ms"] = round(1e3 * (time.perf_counter() - began), 1)
    began = time.perf_counter()
    system.ingest(feed.documents())
    seconds = time.perf_counter() - began - feed.seconds
    numbers["ingest"] = {
        "seconds": round(seconds, 3),
        "chunks_per_second": round(feed.chunks / seconds),
        "reading_the_corpus_seconds": round(feed.seconds, 3),
    }
    memory["ingest_peak_mb"] = peak_mb()
    report.phase("save")
    numbers["save"] = {"after_ingest_seconds": saved(system)}
    time.sleep(SETTLED if feed.size >= WORTH_TIMING else 0)
    numbers["disk_mb"] = disk_mb(folder) if kind.persists else None
    numbers["lanes"], numbers["found"] = {}, {}
    reset_peak()
    for name in kind.lanes:
        report.phase(f"{name} search")
        numbers["lanes"][name], numbers["found"][name] = lane(system, feed.asked["mixed"], name)
    shapes(system, feed, report)
    memory["search_peak_mb"] = peak_mb()
    report.phase("replace")
    numbers["replace"] = repeated(lambda edit: replace(system, edit), feed.edits)
    numbers["lanes_after_updates"] = {}
    for name in kind.lanes:
        report.phase(f"{name} search after updates")
        numbers["lanes_after_updates"][name] = lane(system, feed.asked["mixed"], name)[0]
    if kind.threads:
        report.phase("threads")
        numbers["threads"] = threads(system, feed)
        numbers["beside_a_writer"] = beside_a_writer(system, feed)
    report.phase("delete")
    # Documents that have been replaced: the needle tells whether they are gone.
    replaced = feed.edits[: min(30, numbers["replace"]["count"])]
    numbers["delete"] = repeated(lambda edit: delete(system, edit), replaced)
    report.phase("save")
    numbers["save"]["after_updates_seconds"] = saved(system)
    system.close()
    numbers["disk_after_updates_mb"] = disk_mb(folder) if kind.persists else None
    memory["peak_mb"] = max(memory["ingest_peak_mb"], memory["search_peak_mb"], peak_mb())
    report.phase("done")


def reopen(kind: type[System], corpus: Path, folder: Path, report: Report) -> None:
    """From a new process to the first answer in the richest lane, then memory after searching."""
    given = Given()
    feed = Feed(corpus, given, chunks=0)
    began = time.perf_counter()
    kind.load()
    loaded = time.perf_counter()
    system = kind(folder, given)
    hits = system.search(kind.lanes[-1], *feed.asked["mixed"][0], LIMIT)
    answered = time.perf_counter()
    if not hits:
        raise RuntimeError("the reopened store found nothing")
    for name in kind.lanes:
        for text, vector in feed.asked["mixed"][:50]:
            system.search(name, text, vector, LIMIT)
    report.numbers |= {
        "open_to_first_answer_ms": round(1e3 * (answered - loaded), 1),
        "import_ms": round(1e3 * (loaded - began), 1),
        "resident_mb": resident_mb(),
    }
    system.close()
    report.phase("done")


def processes(kind: type[System], corpus: Path, folder: Path, report: Report) -> None:
    """Searches a second of one process, and of two at once, over the same store."""
    for count in (1, 2):
        one = partial(_process, kind, corpus, folder, count)
        with ProcessPoolExecutor(count, get_context("spawn")) as pool:
            rates = list(pool.map(one, range(count)))
        report.numbers[str(count)] = {
            name: round(sum(each[name] for each in rates), 1) for name in rates[0]
        }
    one, two = report.numbers["1"], report.numbers["2"]
    report.numbers["two_over_one"] = {name: round(two[name] / one[name], 2) for name in one}
    report.phase("done")


def _process(
    kind: type[System], corpus: Path, folder: Path, count: int, turn: int
) -> dict[str, float]:
    """Opens the store, waits until ``count`` have done so, and searches."""
    given = Given()
    feed = Feed(corpus, given, chunks=0)
    kind.load()
    system = kind(folder, given)
    rates = {}
    for name in dict.fromkeys((kind.lanes[0], kind.lanes[-1])):
        for text, vector in feed.asked["mixed"][:WARMING]:
            system.search(name, text, vector, LIMIT)
        ready = folder.parent / f"ready-{count}-{name}-{turn}"
        ready.touch()
        while len(list(folder.parent.glob(f"ready-{count}-{name}-*"))) < count:
            time.sleep(0.002)
        rates[name] = rate(system, feed, name, 1)["searches_per_second"]
    system.close()
    return rates


def scan(kind: type[System], corpus: Path, folder: Path, report: Report) -> None:
    """The unit of "a share of a scan"."""
    report.numbers |= scanned(json.loads((corpus / "about.json").read_text())["chunks"])
    report.phase("done")


def scanned(chunks: int) -> Numbers:
    """Times of one product of so many vectors in float32 with a query's, by NumPy."""
    given, rows = Given(), np.empty((chunks, DIMENSION), np.float32)
    taken = []
    for at in range(0, chunks, 50_000):
        rows[at : at + 50_000] = given.rows(range(at, min(at + 50_000, chunks)))
    for query in given.rows(range(SCANS + 3)):
        began = time.perf_counter()
        rows @ query
        taken.append(time.perf_counter() - began)
    return percentiles(taken[3:])


def fsyncs(kind: type[System], corpus: Path, folder: Path, report: Report) -> None:
    """The same writes at 10,000 chunks at most, with the times between which each was made."""
    given = Given()
    feed = Feed(corpus, given, chunks=FSYNC_CHUNKS)
    kind.load()
    spans = report.numbers["spans"] = {}
    began = time.time()
    system = kind(folder, given)
    # Only what has been ingested can be replaced.
    names = set()

    def noted() -> Any:
        for document in feed.documents():
            names.add(document.name)
            yield document

    system.ingest(noted())
    spans["ingest"] = [began, time.time(), 1]
    began = time.time()
    if system.save():
        spans["save"] = [began, time.time(), 1]
    edits = [edit for edit in feed.edits if edit.document.name in names][:40]
    for name, act in (("replace", replace), ("delete", delete)):
        # The first one warms up.
        if len(edits) > 1:
            act(system, edits[0])
            began = time.time()
            for edit in edits[1:]:
                act(system, edit)
            spans[name] = [began, time.time(), len(edits) - 1]
    report.numbers["chunks"] = feed.chunks
    system.close()
    report.phase("done")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    tasks = {task.__name__: task for task in (build, reopen, processes, fsyncs, scan)}
    parser.add_argument("task", choices=tasks)
    parser.add_argument("--system", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # peers warn of their own future; results are not theirs
    report = Report(options.out)
    tasks[options.task](system_of(options.system), options.corpus, options.folder, report)


if __name__ == "__main__":
    main()
