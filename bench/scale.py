"""How a store on PostgreSQL grows: ingest, index, searches, recall, disk and memory at one size.

    python bench/scale.py --chunks 100000 --folder /data/scale [--url postgresql+psycopg://…]
    python bench/scale.py --plot

Text is drawn by Zipf's law and vectors of 384 dimensions by a digest of it, as for
``bench/peers.py``. Without ``--url`` it starts a server of its own in ``--folder``, with settings
for a bulk load (`BULK`). Each stage is kept in bench/results/scale/CHUNKS.json as soon as it is
done, and the same command goes on after the last one; a half-filled store is filled up. ``--plot``
draws what is there as docs/explanation/scale.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

import plot
import triptych
from harness.corpus import DIMENSION, SECTIONS, Given, ZipfText, key_of
from harness.measure import percentiles, scanned
from triptych import NewDocument
from triptych.service import Service
from triptych_postgres import PostgresStore

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.postgres import PostgresServer

RESULTS = Path(__file__).parent / "results" / "scale"
SVG = Path(__file__).parents[1] / "docs" / "explanation" / "scale.svg"
DATASET = "bench"
AT_ONCE = 1_000
QUERIES, WARM_UP = 200, 20
EXACT = 40
REPLACED = 20
TOP = 10
MODES = {"keyword": "bm25", "vector": "vector", "hybrid": "hybrid"}

BULK = (
    "shared_buffers=4GB",
    "maintenance_work_mem=4GB",
    "max_parallel_maintenance_workers=2",
    "max_wal_size=16GB",
    "checkpoint_timeout=30min",
    "wal_level=minimal",
    "max_wal_senders=0",
    "effective_cache_size=12GB",
)
"""For a machine of 16 GB or more. Each commit is on the disk all the same."""

Numbers = dict[str, Any]


class Results:
    """What was measured at one size, on the disk after each stage."""

    def __init__(self, chunks: int) -> None:
        self.path = RESULTS / f"{chunks}.json"
        self.held: Numbers = {"chunks": chunks}
        if self.path.exists():
            self.held = json.loads(self.path.read_text("utf-8"))

    def keep(self, stage: str, numbers: Numbers) -> None:
        """Add a stage."""
        self.held[stage] = numbers
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.held, indent=1) + "\n", "utf-8")
        print(f"{stage}: {json.dumps(numbers)}", flush=True)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="of the server's data; made if need be")
    parser.add_argument("--url", help="a store on another server, empty at first")
    parser.add_argument("--note", default="", help="kept with the results, such as the machine")
    parser.add_argument("--plot", action="store_true", help="draw what was measured, and end")
    given = parser.parse_args()
    if given.plot:
        SVG.write_text(_drawn(), "utf-8")
        return
    if given.url is None and given.folder is None:
        parser.error("give a --folder for the server's data, or the --url of a store")
    results = Results(given.chunks)
    with ExitStack() as stack:
        url = given.url
        if url is None:
            server = stack.enter_context(_server(given.folder / str(given.chunks)))
            url = server.schema_url("bench")
        kb = stack.enter_context(triptych.open(url, embedder=Given()))
        stages: dict[str, Callable[[], Numbers]] = {
            "ingest": lambda: _ingest(kb, given.chunks, results),
            "folding": lambda: _fold(kb),
            "index": lambda: _index(kb),
            "disk": lambda: _disk(kb),
            "searches": lambda: _searches(kb, given.chunks),
            "replace": lambda: _replace(kb, given.chunks // SECTIONS),
            "memory": lambda: _memory(kb),
            "recall": lambda: _recall(kb),
        }
        for stage, measure in stages.items():
            if stage not in results.held:
                began = time.monotonic()
                numbers = measure()
                results.keep(stage, {**numbers, "wall_s": round(time.monotonic() - began, 1)})
        about = {"cores": os.cpu_count(), "dimension": DIMENSION, "note": given.note}
        results.keep("about", {**about, "settings": list(BULK) if given.url is None else []})


@contextmanager
def _server(folder: Path) -> Iterator[PostgresServer]:
    for each in (folder, *folder.parents):  # another user runs the server
        if each.exists():
            break
        each.mkdir(parents=True)
    folder.mkdir(parents=True, exist_ok=True)
    server = PostgresServer(folder, BULK)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _ingest(kb: Service, chunks: int, results: Results) -> Numbers:
    """Put what is not there yet; the seconds in which text is drawn do not count."""
    known = {each.dataset_id: each for each in kb.stats()}
    done = known[DATASET].documents if DATASET in known else 0
    before = results.held.get("ingest_so_far", {"chunks": 0, "seconds": 0.0})
    began_with = known[DATASET].chunks if DATASET in known else 0
    if began_with != before["chunks"]:
        before = {"chunks": began_with, "seconds": 0.0}  # its time is not known
    drawn = islice(ZipfText().documents(chunks // SECTIONS), done, None)
    seconds, put = before["seconds"], began_with
    timed_from = began_with if not before["seconds"] else 0
    while batch := [NewDocument(name=n, content=c) for n, c in islice(drawn, AT_ONCE)]:
        began = time.monotonic()
        report = kb.put_documents(DATASET, batch)
        seconds += time.monotonic() - began
        if report.failed:
            raise SystemExit(f"a put failed: {report.failed[0]}")
        put += len(batch) * SECTIONS
        results.keep("ingest_so_far", {"chunks": put, "seconds": round(seconds, 1)})
    return {
        "seconds": round(seconds, 1),
        "chunks_per_second": round((put - timed_from) / seconds) if seconds else None,
        "documents_at_once": AT_ONCE,
    }


def _fold(kb: Service) -> Numbers:
    """Join the rows of postings, and let the server gather its statistics."""
    began = time.monotonic()
    _store(kb).build_indexes(least=1 << 62)
    seconds = time.monotonic() - began
    with _connection(kb) as driver:
        driver.execute("VACUUM ANALYZE")
    return {"seconds": round(seconds, 1)}


def _index(kb: Service) -> Numbers:
    began = time.monotonic()
    _store(kb).build_indexes(least=1)
    return {"seconds": round(time.monotonic() - began, 1)}


def _searches(kb: Service, chunks: int) -> Numbers:
    """Times of each lane, also as shares of one scan of all vectors by NumPy."""
    queries = ZipfText(seed=99).queries(QUERIES + WARM_UP)
    scan = scanned(chunks)["p50"]
    numbers: Numbers = {"scan_ms": scan}
    for name, mode in MODES.items():
        taken = []
        for query in queries:
            began = time.monotonic()
            kb.search(query, dataset_id=DATASET, mode=mode)
            taken.append((time.monotonic() - began) * 1_000)
        ordered = sorted(taken[WARM_UP:])
        numbers[name] = {
            "p50_ms": round(statistics.median(ordered), 2),
            "p95_ms": round(ordered[int(len(ordered) * 0.95)], 2),
            "of_a_scan": round(statistics.median(ordered) / scan, 4),
        }
    return numbers


def _replace(kb: Service, documents: int) -> Numbers:
    """Put a document again, and find it by its new word."""
    taken, text = [], ZipfText(seed=98)
    for turn in range(REPLACED):
        name, word = f"doc{turn * documents // REPLACED:07}.md", f"replaced{time.time_ns()}"
        content = f"{text.document()} {word}"
        began = time.perf_counter()
        kb.put_document(DATASET, name, content)
        hits = kb.search(word, dataset_id=DATASET, mode="bm25", top_k=1).hits
        if [hit.doc_name for hit in hits] != [name]:
            raise SystemExit(f"{name} was replaced and not found")
        taken.append(time.perf_counter() - began)
    return percentiles(taken)


def _recall(kb: Service) -> Numbers:
    """How many of the ten nearest chunks a search by vector finds, beside a scan of all."""
    found = wanted = 0
    scans = []
    queries = ZipfText(seed=100).queries(EXACT)
    rows = Given().rows([key_of(query) for query in queries])
    with _connection(kb) as driver:
        for query, row in zip(queries, rows, strict=True):
            began = time.monotonic()
            # No index is over the type without a width.
            near = driver.execute(
                "SELECT d.name, c.position FROM (SELECT id FROM search_vector ORDER BY "
                "embedding <#> %s::halfvec LIMIT %s) n JOIN chunk c ON c.vector_id = n.id "
                "JOIN document d ON d.id = c.document_id",
                (f"[{','.join(map(str, row.tolist()))}]", TOP),
            ).fetchall()
            scans.append(time.monotonic() - began)
            hits = kb.search(query, dataset_id=DATASET, mode="vector", top_k=TOP).hits
            found += len({(hit.doc_name, hit.chunk_index) for hit in hits} & set(near))
            wanted += len(near)
    return {
        "recall_at_10": round(found / wanted, 4),
        "queries": EXACT,
        "scan_p50_ms": round(statistics.median(scans) * 1_000, 1),
    }


def _disk(kb: Service) -> Numbers:
    """Bytes of each table, of its large values, and of its indexes."""
    with _connection(kb) as driver:
        rows = driver.execute(
            "SELECT c.relname, pg_relation_size(c.oid), coalesce(pg_total_relation_size("
            "nullif(c.reltoastrelid, 0)), 0), pg_indexes_size(c.oid) FROM pg_class c "
            "WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'"
        ).fetchall()
        indexes = driver.execute(
            "SELECT relname, pg_relation_size(oid) FROM pg_class "
            "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'i'"
        ).fetchall()
        (rest,) = driver.execute("SELECT sum(size)::bigint FROM pg_ls_waldir()").fetchone() or (0,)
    tables = {
        name: {"rows": heap, "large_values": large, "indexes": held}
        for name, heap, large, held in rows
        if heap + large + held >= 1 << 20
    }
    return {
        "tables": tables,
        "indexes": {name: size for name, size in indexes if size >= 1 << 20},
        "total": sum(heap + large + held for _, heap, large, held in rows),
        "write_ahead_log": rest,
    }


def _memory(kb: Service) -> Numbers:
    """Bytes of each relation in the server's buffers after the searches; this process's peak."""
    cached: Numbers = {}
    with _connection(kb) as driver:
        try:
            driver.execute("CREATE EXTENSION IF NOT EXISTS pg_buffercache WITH SCHEMA public")
        except psycopg.Error:
            pass  # not on every server
        else:
            cached = dict(
                driver.execute(
                    "SELECT c.relname, count(*) * 8192 FROM public.pg_buffercache b "
                    "JOIN pg_class c ON b.relfilenode = pg_relation_filenode(c.oid) "
                    "WHERE c.relnamespace = current_schema()::regnamespace "
                    "GROUP BY 1 HAVING count(*) >= 128 ORDER BY 2 DESC"
                ).fetchall()
            )
    status = Path("/proc/self/status")
    peak = 0
    if status.exists():
        (line,) = (row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        peak = int(line.split()[1]) * 1024
    return {"buffers": cached, "client_peak": peak}


def _store(kb: Service) -> PostgresStore:
    assert isinstance(kb.store, PostgresStore)
    return kb.store


@contextmanager
def _connection(kb: Service) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    driver = _store(kb).database.connect()
    try:
        driver.execute("SET statement_timeout = 0")
        yield driver
    finally:
        driver.close()


# The plot

CHARTS = (
    ("Hybrid search, p50 and p95 (ms)", ("searches", "hybrid", "p50_ms"), "p95_ms"),
    ("Keyword search, p50 and p95 (ms)", ("searches", "keyword", "p50_ms"), "p95_ms"),
    ("Vector search, p50 and p95 (ms)", ("searches", "vector", "p50_ms"), "p95_ms"),
    ("Ingest (chunks a second)", ("ingest", "chunks_per_second"), ""),
    ("Build of the vector index (s)", ("index", "seconds"), ""),
    ("Disk (bytes a chunk)", ("disk", "total"), ""),
)
WIDE, HIGH, GAP, PAD = 270, 150, 50, 46


def _drawn() -> str:
    """One small chart for each measure, over the size on a logarithmic scale."""
    measured = sorted(
        (json.loads(path.read_text("utf-8")) for path in RESULTS.glob("*.json")),
        key=lambda each: each["chunks"],
    )
    parts = []
    for at, (title, path, other) in enumerate(CHARTS):
        x = PAD + at % 3 * (WIDE + GAP)
        y = PAD + at // 3 * (HIGH + GAP + 30)
        parts.append(_chart(x, y, title, measured, path, other))
    width, height = PAD * 2 + 3 * WIDE + 2 * GAP, PAD + 2 * (HIGH + GAP + 30)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Growth on PostgreSQL"><style>{plot.STYLE}</style>{"".join(parts)}</svg>\n'
    )


def _chart(
    x: float, y: float, title: str, measured: Sequence[Numbers], path: Sequence[str], other: str
) -> str:
    lines = [(path, "mark own")] + ([((*path[:-1], other), "mark")] if other else [])
    series = [(_points(measured, each), style) for each, style in lines]
    every = [value for points, _ in series for _, value in points]
    if not every:
        return ""
    top = 1.15 * max(every)
    sizes = [np.log10(each["chunks"]) for each in measured]
    low, span = min(sizes), max(max(sizes) - min(sizes), 1e-9)

    def place(size: float, value: float) -> tuple[float, float]:
        return x + WIDE * (np.log10(size) - low) / span, y + HIGH * (1 - value / top)

    parts = [f'<text x="{x}" y="{y - 12}" class="title">{title}</text>']
    for share in (0, 0.5, 1):
        height = y + HIGH * (1 - share)
        parts.append(f'<path class="grid" d="M{x} {height:.1f}H{x + WIDE}"/>')
        parts.append(_text(x - 6, height + 4, f"{top * share:,.3g}", "end"))
    parts += [
        _text(place(each["chunks"], 0)[0], y + HIGH + 18, f"{each['chunks']:,}")
        for each in measured
    ]
    for points, style in series:
        drawn = [place(*point) for point in points]
        joined = "L".join(f"{left:.1f} {up:.1f}" for left, up in drawn)
        parts.append(f'<path class="{style} hollow" d="M{joined}"/>')
        parts += [
            f'<circle class="{style}" cx="{left:.1f}" cy="{up:.1f}" r="3"/>' for left, up in drawn
        ]
    return "".join(parts)


def _points(measured: Sequence[Numbers], path: Sequence[str]) -> list[tuple[float, float]]:
    found = []
    for each in measured:
        value: Any = each
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            size = each["chunks"]
            found.append((size, value / size if path == ("disk", "total") else value))
    return found


def _text(x: float, y: float, said: str, anchor: str = "middle") -> str:
    return f'<text class="note" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{said}</text>'


if __name__ == "__main__":
    main()
