"""Two processes serve one store: whatever is asked of one holds for the other."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.chat_server import chat
from support.servers import Served
from support.sync_folder import until
from support.two_workers import Worker, started_workers, two_workers
from triptych_server.keys import KeyStore

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc"),
]
PATH = "/v1/datasets/d/documents/"
EVENTS = "text/event-stream"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with chat(["Tea ", "is hot [1]."]) as llm, started_workers(folder, f"{llm.url}/v1") as server:
        yield server


@pytest.fixture
def pair(server: Served) -> Iterator[tuple[Worker, Worker]]:
    with two_workers(server) as pair:
        yield pair


def test_a_write_with_an_idempotency_key_is_done_once(pair: tuple[Worker, Worker]) -> None:
    one, other = pair
    for worker, replayed in ((one, None), (other, "true")):
        answer = worker.ask("PUT", f"{PATH}once.md", {"content": "Tea."}, Idempotency_Key="k")
        assert (answer.status, answer.headers["idempotent-replayed"]) == (201, replayed)
        answer.read()
    status, error = other.json("PUT", f"{PATH}once.md", {"content": "Milk."}, Idempotency_Key="k")
    assert (status, error["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_a_version_of_one_is_a_condition_of_the_other(pair: tuple[Worker, Worker]) -> None:
    one, other = pair
    one.ask("PUT", f"{PATH}tag.md", {"content": "First."}).read()
    answer = one.ask("GET", f"{PATH}tag.md")
    tag = answer.headers["etag"]
    answer.read()
    assert other.json("PUT", f"{PATH}tag.md", {"content": "Second."}, If_Match=tag)[0] == 200
    assert one.json("PUT", f"{PATH}tag.md", {"content": "Third."}, If_Match=tag)[0] == 412


def test_a_change_feed_tells_of_what_the_other_wrote(pair: tuple[Worker, Worker]) -> None:
    one, other = pair
    feed = one.ask("GET", "/v1/changes", Accept=EVENTS)
    other.ask("PUT", f"{PATH}fed.md", {"content": "Fed."}).read()
    line = b""
    while b'"fed.md"' not in line:
        line = feed.readline()
        assert line, "the stream has ended"
    feed.close()


def test_an_answer_of_the_semantic_cache_is_that_of_both(pair: tuple[Worker, Worker]) -> None:
    one, other = pair
    one.ask("PUT", "/v1/datasets/cached/documents/a.md", {"content": "Tea is hot."}).read()
    asked = {"query": "is the tea hot", "dataset_id": "cached"}

    def search(worker: Worker) -> tuple[bool, int]:
        _, found = worker.json("POST", "/v1/search", asked)
        return found["cache_similarity"] is not None, len(found["hits"])

    assert search(one) == (False, 1)
    until(lambda: one.json("GET", "/v1/cache-stats")[1]["entries"])  # a thread writes it
    assert search(other) == (True, 1)
    other.ask("PUT", "/v1/datasets/cached/documents/b.md", {"content": "Hot tea."}).read()
    assert search(one) == (False, 2)


def test_both_stream_the_answer_of_a_model(pair: tuple[Worker, Worker]) -> None:
    for number, worker in enumerate(pair):
        worker.ask("PUT", f"{PATH}tea{number}.md", {"content": "Tea is hot."}).read()
        asked = {"question": "how is tea?", "dataset_id": "d"}
        answer = worker.ask("POST", "/v1/ask", asked, Accept=EVENTS).read().decode()
        events = [line for line in answer.splitlines() if line.startswith("event: ")]
        assert events[0] == "event: context"
        assert events[-1] == "event: answer"
        assert "Tea " in answer


def test_keys_hold_at_both(tmp_path: Path) -> None:
    """Their rates count together, a revoked one is refused by both, each share is of a process."""
    with triptych.open(tmp_path / "kb.db", embedder="hash") as service:
        service.put_document("d", "a.md", "Tea is hot.")
        keys = KeyStore.of(service)
        few, gone, much, free = (
            keys.add("few", requests_per_minute=1),
            keys.add("gone"),
            keys.add("much"),
            keys.add("free"),
        )
        with started_workers(tmp_path) as server, two_workers(server) as (one, other):

            def status(worker: Worker, token: str) -> int:
                header = {"Authorization": f"Bearer {token}"}
                return worker.json("GET", "/v1/datasets", **header)[0]

            assert status(one, few.token) == 200
            assert [status(each, few.token) for each in (other, one)] == [429, 429]
            assert [status(each, gone.token) for each in (one, other)] == [200, 200]
            keys.revoke(gone.key.id)
            assert [status(each, gone.token) for each in (one, other)] == [401, 401]

            header = {"Authorization": f"Bearer {much.token}", "Accept": EVENTS}
            with two_workers(server) as first, two_workers(server) as second:
                busy = [each for each in (*first, *second) if each.pid == one.pid]
                for each in busy:
                    assert each.ask("GET", "/v1/changes", **header).status == 200
                assert status(one, much.token) == 429
                assert status(one, free.token) == 200
                assert status(other, much.token) == 200


def test_a_worker_that_is_stopped_holds_up_no_stop(tmp_path: Path) -> None:
    with started_workers(tmp_path) as server, two_workers(server) as (one, other):
        os.kill(one.pid, signal.SIGSTOP)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    for pid in (one.pid, other.pid):
        assert not Path(f"/proc/{pid}").exists()
