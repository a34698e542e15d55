"""What HTTP and MCP add to a search: processor time of one worker over that of one thread.

    python bench/over_http.py [--chunks 30000] [--seconds 3] [--rounds 3] [--clients 1 4 16]

Fills a store with the generated text of ``bench/peers.py``, starts ``triptych serve`` and
``triptych mcp --http`` on it with one worker each, and asks the same keyword searches in turns: in
this process by one thread, then over each of the two from so many connections. Prints, of the best
round of each, searches a second and processor time a search: the second says what the worker costs
where other processes take the cores, too.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import triptych
from server import DATASET, filled, processor_seconds

Request = Callable[[str], tuple[str, dict[str, str], dict[str, Any]]]
"""Path, headers and body of the request for one query."""


def plain(query: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    """A search over HTTP."""
    return "/v1/search", {}, {"query": query, "dataset_id": DATASET, "mode": "bm25"}


def tool(query: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    """A call of the tool of MCP, without a session."""
    version, name = "2026-07-28", "knowledge_search"
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    arguments = {"query": query, "dataset_id": DATASET, "mode": "bm25", "top_k": 10}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": version,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return "/mcp", headers, body


@contextmanager
def served(*command: str) -> Iterator[tuple[int, int]]:
    """The process of a server of one worker, and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "triptych_adapters.cli", *command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if "mcp" in command else subprocess.DEVNULL,
        text=True,
    )
    said = process.stderr or process.stdout
    assert said is not None
    line = next((each for each in said if "http://" in each), "")
    if not line:
        raise SystemExit(f"{command[0]} did not start")
    try:
        yield process.pid, int(line.split("http://")[1].split("/")[0].split()[0].split(":")[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


async def asked(port: int, request: Request, queries: Iterator[str], until: float) -> int:
    """Ask one search after another until then; how many were answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for answers in itertools.count():
        if time.monotonic() >= until:
            writer.close()
            return answers
        path, headers, asked = request(next(queries))
        body = json.dumps(asked).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{head}"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        (length,) = (each[15:] for each in lines if each.startswith(b"content-length:"))
        answer = await reader.readexactly(int(length))
        if b" 200 " not in lines[0] or b'"hits"' not in answer:
            raise SystemExit(f"{lines[0]!r}: {answer[:500]!r}")
    raise AssertionError("without end")


async def from_clients(
    port: int, request: Request, queries: Sequence[str], clients: int, seconds: float
) -> int:
    """Ask from so many connections; how many searches were answered."""
    turns, until = itertools.cycle(queries), time.monotonic() + seconds
    return sum(await asyncio.gather(*(asked(port, request, turns, until) for _ in range(clients))))


def in_program(kb: Any, queries: Sequence[str], seconds: float) -> tuple[float, float]:
    """Searches a second, and the milliseconds of processor time of one."""
    until, taken, answers = time.monotonic() + seconds, time.process_time(), 0
    for query in itertools.cycle(queries):
        if time.monotonic() >= until:
            break
        kb.search(query, dataset_id=DATASET, mode="bm25")
        answers += 1
    return answers / seconds, (time.process_time() - taken) / answers * 1e3


def main() -> None:
    """Fill, serve, ask in turns."""
    parser = argparse.ArgumentParser(description="what HTTP and MCP add to a search")
    parser.add_argument("--chunks", type=int, default=30_000)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "kb.db")
        queries = filled(store, options.chunks)
        with (
            triptych.open(store, read_only=True) as kb,
            served("serve", "--workers", "1", "--store", str(store)) as http,
            served("mcp", "--http", "--store", str(store)) as mcp,
        ):
            for _ in range(options.rounds + 1):  # the first one warms, and is dropped
                row = in_program(kb, queries, options.seconds)
                found.setdefault("in the program, one thread", []).append(row)
                for (pid, port), request in ((http, plain), (mcp, tool)):
                    for clients in options.clients:
                        before = processor_seconds(pid)
                        answers = asyncio.run(
                            from_clients(port, request, queries, clients, options.seconds)
                        )
                        taken = (processor_seconds(pid) - before) / answers * 1e3
                        name = "HTTP" if request is plain else "MCP"
                        found.setdefault(f"{name}, {clients} clients", []).append(
                            (answers / options.seconds, taken)
                        )
    rows = {
        name: (max(many for many, _ in each[1:]), min(taken for _, taken in each[1:]))
        for name, each in found.items()
    }
    rate, least = rows["in the program, one thread"]
    print("| | searches a second | of the program's | processor, ms | the program's of it |")
    print("|---|---|---|---|---|")
    for name, (many, taken) in rows.items():
        print(f"| {name} | {many:,.0f} | {many / rate:.2f} | {taken:.2f} | {least / taken:.2f} |")


if __name__ == "__main__":
    main()
