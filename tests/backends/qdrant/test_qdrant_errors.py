"""A server that answers otherwise than Qdrant does, and processes that remove collections."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")

import grpc

import triptych
from support.qdrant_local import LocalMode
from triptych._internal.one_state import one_state
from triptych.errors import StoreError, ValidationError
from triptych_backends.sqlite import SqliteStore
from triptych_qdrant import AwayError, ClientCollections, Found, QdrantStore, parse_url
from triptych_testing.builders import fill, vector_of, vector_query

pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")

ANSWERS: dict[str, tuple[int, bytes, str]] = {
    "a page": (200, b"<html>hello</html>", "the answer is not Qdrant's"),
    "other JSON": (200, b'{"ok": true}', "the answer is not Qdrant's"),
    "too many": (429, b'{"status": {"error": "Rate limiting"}}', "HTTP 429"),
    "a full disk": (
        500,
        b'{"status": {"error": "Service internal error: No space left on device"}}',
        "No space left on device.*see to the server",
    ),
    "a wrong key": (401, b"Must provide an API key", "HTTP 401.*check the option api_key"),
    "no such page": (404, b"", "HTTP 404"),
}


class Handler(BaseHTTPRequestHandler):
    answer = ANSWERS["a page"]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        status, body, _ = Handler.answer
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "3")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_GET  # noqa: N815  # the names that the server looks for


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def stub() -> Iterator[str]:
    with serving(Handler) as address:
        yield address


@pytest.mark.parametrize("answer", ANSWERS)
def test_another_answer_is_one_of_a_qdrant_that_is_away(
    tmp_path: Path, stub: str, answer: str
) -> None:
    Handler.answer = ANSWERS[answer]
    url = f"qdrant://{stub}?truth={quote(str(tmp_path / 'kb.db'))}&api_key=hidden"
    with triptych.open(url, embedder="hash") as kb:
        kb.put_document("d", "a", "the salmon river")
        with pytest.raises(StoreError, match=Handler.answer[2]) as caught:
            kb.search("salmon", dataset_id="d", mode="vector")
        assert "hidden" not in str(caught.value)
    with triptych.open(f"{url}&fallback=local", embedder="hash") as kb:
        result = kb.search("salmon", dataset_id="d", mode="vector")
        assert [hit.doc_name for hit in result.hits] == ["a"]
        assert "searched without Qdrant" in result.warnings[0]


def test_a_collection_is_spread_over_a_cluster_as_the_url_says() -> None:
    asked: list[dict[str, object]] = []

    class Cluster(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            version = {"title": "qdrant", "version": "1.20.0"}
            exists = {"status": "ok", "time": 0.1, "result": {"exists": False}}
            self._say(version if self.path == "/" else exists)

        def do_PUT(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            done = {"operation_id": 1, "status": "completed"} if "/index" in self.path else True
            self._say({"status": "ok", "time": 0.1, "result": done})

        def _say(self, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Cluster) as address:
        found = parse_url(f"qdrant://{address}?truth=kb.db&shard_number=6&replication_factor=2")
        ClientCollections(
            found.connect,
            found.where,
            shard_number=found.shard_number,
            replication_factor=found.replication_factor,
        ).make("name", 3)
    assert (asked[0]["shard_number"], asked[0]["replication_factor"]) == (6, 2)


class Refusing(grpc.GenericRpcHandler):
    """Answers every call of gRPC with an error."""

    def __init__(self, code: grpc.StatusCode, said: str) -> None:
        self.code, self.said = code, said

    def service(self, _: object) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(self.refuse)

    def refuse(self, _: object, context: grpc.ServicerContext) -> None:
        context.abort(self.code, self.said)


@pytest.mark.parametrize(
    ("code", "said", "shown"),
    [
        ("UNAVAILABLE", "shutting down", "start it, or check its address"),
        ("UNAUTHENTICATED", "Invalid API key hidden-key-123", "check the option api_key"),
        ("INTERNAL", "No space left on device", "No space left on device.*see to the server"),
        ("RESOURCE_EXHAUSTED", "Too many requests", "Too many requests.*try again later"),
    ],
)
def test_errors_over_grpc_are_those_of_a_qdrant_that_is_away(
    tmp_path: Path, code: str, said: str, shown: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, [Refusing(grpc.StatusCode[code], said)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        truth = quote(str(tmp_path / "kb.db"))
        url = f"qdrant://127.0.0.1:1?grpc=true&grpc_port={port}&api_key=hidden-key-123"
        with triptych.open(f"{url}&truth={truth}", embedder="hash") as kb:
            kb.put_document("d", "a", "salmon")
            with pytest.raises(StoreError, match=shown) as caught:
                kb.search("salmon", dataset_id="d", mode="vector")
        server.stop(None).wait()
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert code in str(caught.value)
    assert "hidden-key" not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["hidden\n-key", "hidd\N{LATIN SMALL LETTER E WITH ACUTE}n", "hidden "]
)
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(ValidationError, match="api_key") as caught:
        parse_url(f"qdrant://h?truth=kb.db&api_key={quote(key)}")
    assert "hidd" not in str(caught.value)


def test_a_message_shows_no_key(tmp_path: Path, stub: str) -> None:
    Handler.answer = (500, b'{"status": {"error": "not the key hidden-key-123"}}', "")
    url = f"qdrant://{stub}?truth={quote(str(tmp_path / 'kb.db'))}&api_key=hidden-key-123"
    with triptych.open(url, embedder="hash") as kb:
        kb.put_document("d", "a", "salmon")
        with pytest.raises(StoreError, match="not the key") as caught:
            kb.search("salmon", dataset_id="d", mode="vector")
        assert "hidden-key" not in str(caught.value)


def test_messages_name_the_port_that_is_asked() -> None:
    assert parse_url("qdrant://h:1?truth=kb.db&grpc=true&grpc_port=7").where == "h:7"


class Hooked(LocalMode):
    """Does something once, before the next search."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[], object] | None = None

    def nearest(self, *args: Any, **options: Any) -> Sequence[Found]:
        hook, self.hook = self.hook, None
        if hook is not None:
            hook()
        return super().nearest(*args, **options)


@pytest.fixture
def qdrant() -> Iterator[Hooked]:
    collections = Hooked()
    yield collections
    collections.client.close()


def open_store(folder: Path, qdrant: LocalMode) -> QdrantStore:
    return QdrantStore(SqliteStore.open(folder / "kb.db", background_index=False), qdrant)


def remade_in_part(store: QdrantStore) -> None:
    """Another process makes the points from the beginning, and is killed."""
    fill(store, "e", {"a": "stone"})  # the log moves on
    store.projection._empty("d")


def scrubbed_and_made_in_part(store: QdrantStore) -> None:
    store.scrub()
    put, store.collections.put = store.collections.put, refuse  # type: ignore[method-assign]
    with pytest.raises(AwayError, match="cut off"):
        store.projection.up_to_date("d")
    store.collections.put = put  # type: ignore[method-assign]


def refuse(*_: object, **__: object) -> None:
    raise AwayError("cut off")


@pytest.mark.parametrize("how", [QdrantStore.scrub, remade_in_part, scrubbed_and_made_in_part])
def test_a_search_whose_points_are_removed_starts_over(
    tmp_path: Path, qdrant: Hooked, how: Callable[[QdrantStore], object]
) -> None:
    with open_store(tmp_path, qdrant) as one, open_store(tmp_path, qdrant) as other:
        fill(one, "d", {"a": "salmon"})
        near = vector_query(vector_of("salmon"), "d")
        assert [each.doc_name for each in one.chunks.search(near)] == ["a"]
        qdrant.hook = lambda: how(other)
        assert [each.doc_name for each in one.chunks.search(near)] == ["a"]
        assert qdrant.hook is None


def test_a_search_whose_points_another_replaces_reads_what_they_are_of(
    tmp_path: Path, qdrant: Hooked
) -> None:
    """It starts over once, in the newer state; whoever writes all the time does not hold it up."""
    with (
        open_store(tmp_path, qdrant) as one,
        open_store(tmp_path, qdrant) as other,
        ThreadPoolExecutor(1) as somebody_else,
    ):
        fill(one, "d", {"a": "salmon", "b": "trout"})
        near = vector_query(vector_of("salmon"), "d")
        edits = iter(range(9))

        def edit() -> None:
            fill(other, "d", {"a": f"salmon {next(edits)}"})
            other.chunks.search(near)

        def found() -> set[str]:
            with one_state():
                keys = [each.key for each in one.chunks.search(near)]
                assert len(keys) == 2
                units = one.chunks.fetch(keys).values()
                return {unit.chunk.content for unit in units if unit.chunk is not None}

        def once() -> None:
            somebody_else.submit(edit).result()

        def always() -> None:
            once()
            qdrant.hook = always

        qdrant.hook = once
        assert found() == {"salmon 0", "trout"}
        qdrant.hook = always
        assert found() <= {"trout", "salmon 1", "salmon 2"}


def test_a_collection_that_is_removed_again_and_again_is_an_error(
    tmp_path: Path, qdrant: Hooked
) -> None:
    with open_store(tmp_path, qdrant) as store:
        fill(store, "d", {"a": "salmon"})

        def remove() -> None:
            for name in qdrant.names():
                qdrant.drop(name)
            qdrant.hook = remove

        qdrant.hook = remove
        with pytest.raises(AwayError, match="keeps deleting"):
            store.chunks.search(vector_query(vector_of("salmon"), "d"))
