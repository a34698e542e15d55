"""``triptych mcp --http`` in two processes: whichever answers, it is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.mcp_clients import ERAS, connected
from support.servers import Served
from support.two_workers import Worker, two_workers
from triptych_server.keys import KeyStore

pytest.importorskip("mcp")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc"),
]
ACCEPT = {"Accept": "application/json, text/event-stream"}


@contextmanager
def started(store: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "triptych_adapters.cli", "-s", str(store), "mcp", "--http"]
    with subprocess.Popen(
        [*command, "--port", "0", "--workers", "2", "--embedder", "none"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith("serving http://"), line
            yield Served(process, line.split()[1].removesuffix("/mcp"), store)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def begin(worker: Worker, **headers: str) -> int:
    """Begin as a client of the older era does."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = worker.ask("POST", "/mcp", message, **ACCEPT, **headers)
    answer.read()
    assert answer.headers["mcp-session-id"] is None
    return answer.status


def test_any_process_answers_clients_of_both_eras(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as service:
        service.put_document("docs", "kettle.md", "# Kettle\n\nIt whistles.")
    asked: dict[str, Any] = {"query": "kettle", "dataset_id": "docs"}
    with started(tmp_path / "kb.db") as server:
        with two_workers(server) as (one, other):
            assert begin(one) == 200
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
            params = {"name": "knowledge_search", "arguments": asked}
            for worker in (other, one):
                answer = worker.ask("POST", "/mcp", message | {"params": params}, **ACCEPT).read()
                assert b"kettle.md" in answer
        for era in ERAS:
            with connected(f"{server.url}/mcp", era) as client:
                found = client.call_tool("knowledge_search", asked)
                assert [hit["doc_name"] for hit in found.structured_content["hits"]] == [
                    "kettle.md"
                ]
        assert server.stop() == 0


def test_the_rate_of_a_key_is_of_both_processes(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as service:
        token = KeyStore.of(service).add("few", requests_per_minute=1).token
    with started(tmp_path / "kb.db") as server, two_workers(server) as (one, other):
        key = {"Authorization": f"Bearer {token}"}
        assert [begin(each, **key) for each in (one, other, one)] == [200, 429, 429]
