"""A server under load: many clients at once, writers beside them, on one store.

    python bench/server.py [--chunks 100000] [--clients 200] [--seconds 60] [--workers 2]

Fills a store with the generated text of ``bench/peers.py`` (the embedder ``hash``), starts
``triptych serve --write`` on it as processes of their own, and asks hybrid searches from
``--clients`` connections at once while ``--writers`` put documents and read each of them back.
Prints how many answers came a second, their latencies, every failure, and whether each write that
was acknowledged is there at the end, by a search for a word that it alone holds. Then one client
asks alone, over HTTP and by the library in this process, the same searches one after another: what
HTTP adds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import httpx

import triptych
from harness.corpus import SECTIONS, ZipfText
from triptych import NewDocument

DATASET = "bench"
ALONE = 300


@attrs.define
class Tally:
    """What came of the requests."""

    searches: list[float] = attrs.field(factory=list)
    writes: list[float] = attrs.field(factory=list)
    failures: Counter[str] = attrs.field(factory=Counter)
    acknowledged: list[str] = attrs.field(factory=list)
    unread: list[str] = attrs.field(factory=list)


def filled(store: Path, chunks: int) -> Sequence[str]:
    """The store with so many chunks, and queries for it."""
    text = ZipfText()
    with triptych.open(store, embedder="hash") as kb:
        kb.put_documents(
            DATASET,
            [
                NewDocument(name=name, content=content)
                for name, content in text.documents(chunks // SECTIONS)
            ],
        )
        queries = list(text.queries(ALONE))
        kb.search(queries[0], dataset_id=DATASET)
    return queries


def started(store: Path, workers: int, log: Path) -> tuple[subprocess.Popen[str], str]:
    """The server's process, and its URL."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "triptych_adapters.cli", "serve", "--store", str(store)),
            *("--write", "--port", "0", "--workers", str(workers)),
        ],
        stdout=subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    if not url:
        raise SystemExit(f"the server did not start: {log.read_text()[-2000:]}")
    return process, url


async def search(
    url: str, queries: Sequence[str], until: float, tally: Tally, seed: int, mode: str
) -> None:
    """Ask one search after another, by a client that takes a tenth of a server's time."""
    chance = random.Random(seed)
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/search HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    while time.monotonic() < until:
        asked = {"query": chance.choice(queries), "dataset_id": DATASET, "mode": mode}
        body = json.dumps(asked).encode()
        began = time.perf_counter()
        try:
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            (length,) = (each[15:] for each in lines if each.startswith(b"content-length:"))
            await reader.readexactly(int(length))
        except (OSError, EOFError) as error:
            tally.failures[type(error).__name__] += 1
            return
        status = lines[0].split()[1].decode()
        if status == "200":
            tally.searches.append(time.perf_counter() - began)
        else:
            tally.failures[f"search: {status}"] += 1
    writer.close()


async def write(client: httpx.AsyncClient, until: float, tally: Tally, writer: int) -> None:
    """Put one document after another; each must be found as soon as it is acknowledged."""
    for number in itertools.count():
        if time.monotonic() >= until:
            return
        word = f"needle{writer}x{number}"
        path = f"/v1/datasets/{DATASET}/documents/written/{word}.md"
        began = time.perf_counter()
        try:
            answer = await client.put(path, json={"content": f"The word is {word}.\n"})
            if answer.status_code not in (200, 201):
                tally.failures[f"write: {answer.status_code}"] += 1
                continue
            tally.writes.append(time.perf_counter() - began)
            tally.acknowledged.append(word)
            found = await client.post(
                "/v1/search", json={"query": word, "dataset_id": DATASET, "mode": "bm25"}
            )
            names = [hit["doc_name"] for hit in found.json().get("hits", [])]
            if f"written/{word}.md" not in names:
                tally.unread.append(word)
        except httpx.HTTPError as error:
            tally.failures[type(error).__name__] += 1


async def loaded(url: str, queries: Sequence[str], options: argparse.Namespace) -> Tally:
    """All clients at once."""
    tally = Tally()
    until = time.monotonic() + options.seconds
    limits = httpx.Limits(max_connections=max(options.writers, 1))
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        await asyncio.gather(
            *(
                search(url, queries, until, tally, each, options.mode)
                for each in range(options.clients)
            ),
            *(write(client, until, tally, each) for each in range(options.writers)),
        )
    return tally


def processes_of(pid: int) -> list[int]:
    """A server's process, and those that it has started (Linux)."""
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(other for each in started for other in processes_of(int(each)))]


def processor_seconds(pid: int) -> float:
    """What the processes of a server have taken of the processor, all threads together."""
    ticks = 0
    for each in processes_of(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> list[int]:
    """The memory of each process, its part of what several map included (PSS)."""
    found = []
    for each in processes_of(pid):
        rows = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        (row,) = (line for line in rows if line.startswith("Pss:"))
        found.append(int(row.split()[1]) >> 10)
    return found


def alone(url: str, store: Path, queries: Sequence[str]) -> dict[str, float]:
    """The median of one search after another, in milliseconds."""
    found = {}
    with httpx.Client(base_url=url, timeout=60) as client:
        for name in ("warm", "HTTP, one client"):
            found[name] = measured(
                lambda query: client.post(
                    "/v1/search", json={"query": query, "dataset_id": DATASET}
                ).raise_for_status(),
                queries,
            )
        found["HTTP, the least that a request takes (/v1/live)"] = measured(
            lambda _: client.get("/v1/live").raise_for_status(), queries
        )
    with triptych.open(url) as remote:
        found["HTTP, triptych.open(URL)"] = measured(
            lambda query: remote.search(query, dataset_id=DATASET), queries
        )
    with triptych.open(store, read_only=True) as kb:
        for name in ("warm", "embedded"):
            found[name] = measured(lambda query: kb.search(query, dataset_id=DATASET), queries)
    found.pop("warm")
    return found


def measured(call: Callable[[str], object], queries: Sequence[str]) -> float:
    """The median of ``call`` over the queries, in milliseconds."""
    seconds = []
    for query in queries:
        began = time.perf_counter()
        call(query)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds) * 1e3


def main() -> None:
    """Fill, serve, load, check."""
    parser = argparse.ArgumentParser(description="a server under load")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--mode", default="hybrid")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "kb.db")
        queries = filled(store, options.chunks)
        process, url = started(store, options.workers, Path(folder, "log"))
        try:
            before = processor_seconds(process.pid)
            tally = asyncio.run(loaded(url, queries, options))
            taken = processor_seconds(process.pid) - before
            memory = megabytes(process.pid)
            lone = alone(url, store, queries)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        with triptych.open(store, read_only=True) as kb:
            lost = [
                word
                for word in tally.acknowledged
                if not kb.search(word, dataset_id=DATASET, mode="bm25").hits
            ]
    rows = report(tally, lost, lone, options)
    asked = len(tally.searches) + 2 * len(tally.writes)  # each write is read back
    rows["processor of the server, a request"] = f"{taken / max(asked, 1) * 1e3:.2f} ms"
    rows["memory of its processes (PSS)"] = f"{memory} MB"
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if tally.failures or lost or tally.unread or process.returncode not in (0, -signal.SIGTERM):
        sys.exit(1)


def report(
    tally: Tally, lost: Sequence[str], lone: dict[str, float], options: argparse.Namespace
) -> dict[str, object]:
    """Rows for a table."""

    def at(seconds: Sequence[float], share: float) -> str:
        ordered = sorted(seconds)
        return f"{ordered[int(share * (len(ordered) - 1))] * 1e3:,.0f} ms" if ordered else "none"

    return {
        "chunks, clients, writers, workers, cores": (
            f"{options.chunks:,}, {options.clients}, {options.writers}, {options.workers}, "
            f"{os.cpu_count()}"
        ),
        "searches a second": f"{len(tally.searches) / options.seconds:.0f}",
        "search p50": at(tally.searches, 0.5),
        "search p99": at(tally.searches, 0.99),
        "writes a second": f"{len(tally.writes) / options.seconds:.1f}",
        "write p50": at(tally.writes, 0.5),
        "write p99": at(tally.writes, 0.99),
        "failures": dict(tally.failures) or "none",
        "acknowledged writes": len(tally.acknowledged),
        "not found at once": len(tally.unread),
        "lost": len(lost),
        **{f"{name}, p50": f"{value:.2f} ms" for name, value in lone.items()},
    }


if __name__ == "__main__":
    main()
