"""How long a plain search waits while another key sends one dear request after the other.

    python bench/neighbours.py [--chunks 20000] [--workers 1 2] [--seconds 10] [--only explain]

Fills a store, and starts `triptych serve` on it for each dear request (`triptych mcp --http` for
that of an agent). ``--senders`` connections of one reading key repeat the request. Another reading
key sends a plain search every 50 ms, whether the last one has been answered or not. Prints the
median and the maximum of these searches, how often the dear request was answered and with which
status, and the greatest memory of a server process (VmHWM). Fails if a median is above 0.5 s.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

import triptych
from harness.corpus import ZipfText
from server import processes_of
from triptych import NewDocument

DATASET = "bench"
MOST = 0.5  # seconds
EVERY = 0.05
FIELDS = 10
NONCE = "drawn for each request"
JSON = {"Content-Type": "application/json"}
MCP = {
    **JSON,
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}

Request = tuple[str, str, dict[str, str], bytes]


def filled(store: Path, chunks: int) -> None:
    """The store with so many chunks, whose documents have fields to filter by."""
    text = ZipfText(sections=1)
    with triptych.open(store, embedder="hash") as kb:
        kb.put_documents(
            DATASET,
            [
                NewDocument(
                    name=name,
                    content=content,
                    metadata={f"field{at}": f"{name} {at}" for at in range(FIELDS)},
                )
                for name, content in text.documents(chunks)
            ],
        )
        kb.search("warm", dataset_id=DATASET)


def words(count: int, seed: int = 0) -> str:
    """Different words, as many as can be had."""
    return " ".join(dict.fromkeys(ZipfText(seed).draw(count)))


def posted(path: str, **body: Any) -> Request:
    return "POST", path, JSON, json.dumps(body).encode()


def dear_requests() -> dict[str, Request]:
    """What takes the most of a server within its other limits."""
    at = {"dataset_id": DATASET}
    long = " ".join(ZipfText(1).words[:11_000])[:100_000]
    many = " ".join(long.split()[:1_900])
    several = [words(140, seed)[:950] for seed in range(1_000)]
    contains = [{f"field{at % FIELDS}": {"$contains": f"{NONCE} {at}"}} for at in range(400)]
    indexed = [{f"field{at % FIELDS}": {"$ne": f"{NONCE} {at}"}} for at in range(400)]
    page = {"q": many[:12_000], "d": DATASET, "k": 100, "lanes": 1, "steps": 1}
    tool = {"query": many, "top_k": 100, "why": "doc0000001.md"}
    call = {"name": "knowledge_search", "arguments": tool}
    return {
        "search-many, 1,000 long queries": posted("/v1/search-many", queries=several, **at),
        "search-many, 1,000 queries, top_k 10,000": posted(
            "/v1/search-many", queries=["section word"] * 1_000, top_k=10_000, **at
        ),
        "search-many, 1,000 queries, top_k 20": posted(
            "/v1/search-many", queries=["section word"] * 1_000, top_k=20, **at
        ),
        "search, 1,900 words": posted("/v1/search", query=many, **at),
        "search, 50 words, top_k 10,000": posted("/v1/search", query=words(55), top_k=10_000, **at),
        "search, 100,000 characters": posted("/v1/search", query=long, **at),
        "search, 100,000 characters, top_k 10,000": posted(
            "/v1/search", query=long, top_k=10_000, **at
        ),
        "search, 400 conditions": posted("/v1/search", query="a b", where={"$or": contains}, **at),
        "search, 400 indexed conditions": posted(
            "/v1/search", query="a b", where={"$and": indexed}, **at
        ),
        "search, the deepest page": posted(
            "/v1/search", query=words(20), top_k=10, offset=9_990, **at
        ),
        "documents, 1,900 words": posted("/v1/search-documents", query=many, top_k=250, **at),
        "explain, 1,900 words": posted(
            "/v1/explain", query=many, doc_name="doc0000001.md", top_k=250, **at
        ),
        "explain, 400 conditions": posted(
            "/v1/explain", query="a b", doc_name="doc0000001.md", where={"$or": contains}, **at
        ),
        "context, a million tokens": posted(
            "/v1/context", query=many, token_budget=1_000_000, **at
        ),
        "console, all of its searches": (
            "GET",
            f"/?{urlencode(page | {'why': 'doc0000001.md'})}",
            {"Accept": "text/html"},
            b"",
        ),
        "mcp, search and why": (
            "POST",
            "/mcp",
            MCP,
            json.dumps(
                {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            ).encode(),
        ),
    }


def triptych_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "triptych_adapters.cli", *arguments]


def added_key(store: Path, name: str) -> str:
    command = triptych_command("admin", "keys", "add", name, "--store", str(store), "--json")
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return str(json.loads(made.stdout)["key"])


def started(
    store: Path, workers: int, log: Path, *, mcp: bool
) -> tuple[subprocess.Popen[str], str]:
    """The server's process and its URL."""
    how = ("mcp", "--http") if mcp else ("serve",)
    process = subprocess.Popen(
        triptych_command(*how, "-s", str(store), "--port", "0", "--workers", str(workers)),
        stdout=subprocess.DEVNULL if mcp else subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
    )
    if not mcp:
        assert process.stdout is not None
        return process, process.stdout.readline().strip()
    for _ in range(600):
        time.sleep(0.1)
        for word in log.read_text().replace('"', " ").split():
            if word.startswith("http://127.0.0.1"):
                return process, word.split("/mcp")[0].rstrip(".,/")
    raise SystemExit(log.read_text())


def send_dear(url: str, key: str, request: Request, until: float, told: Connection) -> None:
    """Send a request again and again; tell how often each status came."""
    method, path, headers, body = request
    counts: Counter[str] = Counter()
    while time.time() < until:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=150)
        try:
            headers = {**headers, "Authorization": f"Bearer {key}"}
            drawn = body.replace(NONCE.encode(), secrets.token_hex(4).encode())
            connection.request(method, path, drawn or None, headers)
            answer = connection.getresponse()
            while answer.read(1 << 16):
                pass
            counts[str(answer.status)] += 1
            if answer.status >= 400:
                time.sleep(0.01)
        except (OSError, http.client.HTTPException) as error:
            counts[type(error).__name__] += 1
            time.sleep(0.05)
        finally:
            connection.close()
    told.send(counts)


async def measured(url: str, key: str, seconds: float, *, mcp: bool) -> list[float]:
    """The seconds of each plain search; of one without an answer, until now."""
    chosen = ZipfText(7).queries(50)
    taken: list[float] = []
    headers = {"Authorization": f"Bearer {key}"}

    def plain(at: int) -> Request:
        query = chosen[at % len(chosen)]
        if not mcp:
            return posted("/v1/search", query=query, dataset_id=DATASET)
        call = {"name": "knowledge_search", "arguments": {"query": query}}
        method = {"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": call}
        return "POST", "/mcp", MCP, json.dumps(method).encode()

    async def search(client: httpx.AsyncClient, at: int) -> None:
        method, path, own, body = plain(at)
        began = time.perf_counter()
        try:
            answer = await client.request(method, path, headers=own, content=body)
            answer.raise_for_status()
        finally:
            taken.append(time.perf_counter() - began)

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=60, limits=limits
    ) as client:
        begun, end = [], time.monotonic() + seconds
        for at in range(int(seconds / EVERY)):
            begun.append(asyncio.ensure_future(search(client, at)))
            await asyncio.sleep(max(0, end - seconds + (at + 1) * EVERY - time.monotonic()))
        failed = await asyncio.gather(*begun, return_exceptions=True)
        for error in Counter(repr(each) for each in failed if each is not None).items():
            print("the plain search failed:", error)
    return taken


def most_memory(pid: int) -> int:
    """The greatest memory that a process of a server has had, in MB (Linux)."""
    return max(
        int(line.split()[1]) >> 10
        for each in processes_of(pid)
        for line in Path(f"/proc/{each}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )


def attacked(
    store: Path, keys: Sequence[str], name: str, request: Request | None, workers: int, options: Any
) -> bool:
    """Measure one dear request, and print its row; False where searches wait for too long."""
    mcp = name.startswith("mcp")
    process, url = started(store, workers, store.parent / "log", mcp=mcp)
    senders, ears = [], []
    try:
        asyncio.run(measured(url, keys[0], 1, mcp=mcp))
        before = most_memory(process.pid)
        until = time.time() + options.seconds + 1
        for _ in range(options.senders if request is not None else 0):
            ear, told = multiprocessing.Pipe(duplex=False)
            ears.append(ear)
            arguments = url, keys[1], request, until, told
            senders.append(multiprocessing.Process(target=send_dear, args=arguments))
            senders[-1].start()
        time.sleep(1)
        taken = asyncio.run(measured(url, keys[0], options.seconds, mcp=mcp))
        after = most_memory(process.pid)
        counts: Counter[str] = Counter()
        for ear in ears:
            counts += ear.recv() if ear.poll(1) else Counter({"none": 1})
    finally:
        for each in senders:
            each.terminate()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    median = statistics.median(taken)
    print(
        f"| {name} | {workers} | {median * 1e3:,.0f} ms | {max(taken) * 1e3:,.0f} ms "
        f"| {dict(counts)} | {before:,} → {after:,} MB |",
        flush=True,
    )
    return median < MOST


def main() -> None:
    """Fill, then serve, attack and measure for each request."""
    parser = argparse.ArgumentParser(description="what one key's requests cost another")
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="requests whose names hold this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "kb.db")
        filled(store, options.chunks)
        keys = [added_key(store, name) for name in ("victim", "sender")]
        print(f"{options.chunks:,} chunks, {options.senders} senders, {os.cpu_count()} cores")
        print("| dear request | workers | median | maximum | its answers | memory |")
        print("|---|---|---|---|---|---|")
        rows = [
            attacked(store, keys, name, request, workers, options)
            for name, request in {"nothing": None, **dear_requests()}.items()
            for workers in options.workers
            # With one process a session would be needed.
            if options.only in name and (workers > 1 or not name.startswith("mcp"))
        ]
    sys.exit(not all(rows))


if __name__ == "__main__":
    main()
