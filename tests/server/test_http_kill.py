"""The server is killed under load: whatever it acknowledged is there."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest

import triptych
from support.servers import started

pytestmark = pytest.mark.process


def killed_under_load(folder: Path, seconds: float, clients: int) -> int:
    """Kill all processes of a server while clients write; how many writes it acknowledged."""
    acknowledged: dict[str, str] = {}
    deleted: set[str] = set()
    stopped = threading.Event()

    def write(client: int, url: str) -> None:
        number = 0
        with httpx.Client(timeout=120) as http:
            while not stopped.is_set():
                name, text = f"{client}/{number}.md", f"word{client}x{number} is here. " * 9
                path = f"{url}/v1/datasets/d/documents/{name}"
                try:
                    if not http.put(path, json={"content": text}).is_success:
                        continue
                    acknowledged[name] = text
                    if number % 7 == 6:
                        del acknowledged[name]
                        if http.delete(path).is_success:
                            deleted.add(name)
                except httpx.TransportError:
                    return
                number += 1

    with started(folder, "--write", "--workers", "2") as server:
        threads = [threading.Thread(target=write, args=(n, server.url)) for n in range(clients)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 120
        while not acknowledged and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(seconds)
        os.killpg(server.process.pid, signal.SIGKILL)
        stopped.set()
        for thread in threads:
            thread.join(60)
    with triptych.open(folder / "kb.db", embedder="hash") as service:
        stored = {each.name for each in service.list_documents("d")}
        assert not stored & deleted
        for name, text in acknowledged.items():
            assert service.get_document("d", name).content == text
            word = text.split()[0]
            found = service.search(word, dataset_id="d", mode="bm25", where={"doc_name": name})
            assert found.hits, name
        # What was not acknowledged may be stored and not derived: a rebuild does that.
        service.rebuild()
        assert service.doctor().clean
    return len(acknowledged)


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    assert killed_under_load(tmp_path, 0.7, 3)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(8))
def test_what_was_acknowledged_survives_many_kills(tmp_path: Path, round_: int) -> None:
    assert killed_under_load(tmp_path, 0.3 + 0.8 * round_, 8)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_the_others_serve_on(tmp_path: Path) -> None:
    with started(tmp_path, "--write", "--workers", "2") as server:
        httpx.put(f"{server.url}/v1/datasets/d/documents/a.md", json={"content": "x"}, timeout=60)
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        if not children.exists():
            pytest.skip("the children of a process are not listed here")
        workers = [
            pid
            for pid in children.read_text().split()
            if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()
        ]
        assert len(workers) == 2
        os.kill(int(workers[0]), signal.SIGKILL)
        answered = 0
        until = time.monotonic() + 60
        while answered < 20 and time.monotonic() < until:
            try:
                answered += httpx.get(f"{server.url}/v1/datasets", timeout=30).json() == ["d"]
            except httpx.TransportError:
                time.sleep(0.05)
        assert answered == 20
        assert server.stop() == 0
