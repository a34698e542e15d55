"""``triptych serve`` as a process: connections, signals, workers, logs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import triptych
from support.cli_run import fresh_shell
from support.console import TOKEN
from support.provider_server import Asked, Reply, serving as provider
from support.servers import Served, started
from support.sync_folder import until
from support.two_workers import workers_of
from triptych.sync import SyncRoot
from triptych_adapters.wire.errors import Exit
from triptych_factory import Settings, remembered_roots, wire
from triptych_server.http import listen
from triptych_server.keys import KeyStore

pytestmark = pytest.mark.process

LIMIT = 20_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with started(folder, "--write", "--workers", "2", "--max-body", str(LIMIT)) as server:
        document = {"content": "# Tea\n\nTea is hot.\n"}
        httpx.put(f"{server.url}/v1/datasets/d/documents/a.md", json=document, timeout=60)
        yield server


def post(length: str, body: bytes = b"", **headers: str) -> bytes:
    lines = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Connection": "close",
        **({"Content-Length": length} if length else {}),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /v1/search HTTP/1.1\r\n{head}\r\n".encode() + body


def code(answer: bytes) -> tuple[int, str]:
    """Status and error code of an answer as it came."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/json" in head.lower(), answer
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def test_it_answers_at_the_url_that_it_prints(server: Served) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert httpx.get(f"{server.url}/v1/live").json() == {"status": "ok"}
    found = httpx.post(f"{server.url}/v1/search", json={"query": "tea", "dataset_id": "d"})
    assert found.json()["hits"][0]["doc_name"] == "a.md"


def test_every_process_reads_what_another_wrote(server: Served) -> None:
    for number in range(12):
        with httpx.Client() as one, httpx.Client() as other:
            name = f"many/{number}.md"
            text = {"content": f"number{number} of them"}
            assert one.put(f"{server.url}/v1/datasets/d/documents/{name}", json=text).is_success
            query = {"query": f"number{number}", "dataset_id": "d", "mode": "bm25"}
            found = other.post(f"{server.url}/v1/search", json=query).json()
            assert found["hits"][0]["doc_name"] == name


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Served) -> None:
    assert code(server.raw(post(str(LIMIT + 1)))) == (413, "CONTENT_TOO_LARGE")


def test_a_chunked_body_that_is_too_large_is_refused(server: Served) -> None:
    chunk = b"%x\r\n" % 4096 + b" " * 4096 + b"\r\n"
    request = post("", chunk * 8 + b"0\r\n\r\n", Transfer_Encoding="chunked")
    assert code(server.raw(request)) == (413, "CONTENT_TOO_LARGE")


def test_a_compressed_body_is_refused(server: Served) -> None:
    request = post("3", b"{} ", Content_Encoding="gzip")
    assert code(server.raw(request)) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_head_that_is_too_large_is_refused(server: Served) -> None:
    head = b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
    assert code(server.raw(head + b"x" * 40_000 + b"\r\n\r\n")) == (431, "HEADERS_TOO_LARGE")
    assert code(server.raw(head + b"x" * 90_000)) == (431, "HEADERS_TOO_LARGE")


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\x00\r\n\r\n",
        b"GET /v1/live HTTP/1.1\r\n\r\n",
        b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Content-Length: 3\r\n\r\n{}",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /v1/live\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_in_the_same_form(server: Served, request_: bytes) -> None:
    assert code(server.raw(request_, ends=True)) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "localhost.evil.example"])
def test_another_host_is_refused(server: Served, host: str) -> None:
    request = f"GET /v1/datasets HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert code(server.raw(request.encode())) == (421, "MISDIRECTED_REQUEST")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1"])
def test_a_page_of_another_origin_is_refused(server: Served, origin: str) -> None:
    answer = httpx.get(f"{server.url}/v1/datasets", headers={"Origin": origin})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_this_server_may_ask_and_no_other_is_let_in_by_cors(
    server: Served,
) -> None:
    answer = httpx.get(f"{server.url}/v1/datasets", headers={"Origin": server.url})
    assert "d" in answer.json()
    preflight = {"Origin": server.url, "Access-Control-Request-Method": "POST"}
    answer = httpx.options(f"{server.url}/v1/search", headers=preflight)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/v1/../../etc/passwd", "/v1/datasets/..%2f..%2fetc/documents/passwd"],
)
def test_a_path_leads_out_of_nothing(server: Served, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    status, name = code(server.raw(request.encode()))
    assert (status, name) in ((404, "NOT_FOUND"), (404, "NOT_FOUND_ERROR"))


def test_what_a_client_calls_its_request_comes_back_and_injects_nothing(
    server: Served,
) -> None:
    answer = httpx.get(f"{server.url}/v1/live", headers={"X-Request-Id": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    for bad in (
        b"a b",
        b"a\tSet-Cookie: x",
        b"x" * 65,
        "é".encode(),
        b"tk_0a1b2c3d4e5f_0a1b2c",
        b"Bearer.TK_0a1b",
    ):
        answer = httpx.get(f"{server.url}/v1/live", headers=[(b"X-Request-Id", bad)])
        assert len(answer.headers["x-request-id"]) == 32


def test_requests_are_logged_as_json_without_what_is_secret(server: Served) -> None:
    httpx.get(
        f"{server.url}/v1/datasets?key=secret1",
        headers={"Authorization": "Bearer secret2", "X-Request-Id": "logged"},
    )
    end = time.monotonic() + 20
    while not (found := [e for e in server.lines() if e.get("request_id") == "logged"]):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert found[0]["method"] == "GET"
    assert found[0]["path"] == "/v1/datasets"
    assert found[0]["route"] == "list_datasets"
    assert found[0]["status"] == 400
    assert "secret" not in server.log.read_text(encoding="utf-8")


def test_an_ingest_syncs_the_remembered_folders(server: Served) -> None:
    folder = server.log.parent
    assert httpx.post(f"{server.url}/ingest").status_code == 404
    (folder / "notes").mkdir()
    (folder / "notes" / "milk.md").write_text("Milk is white.\n", encoding="utf-8")
    settings = Settings.resolve({"url": str(folder / "kb.db"), "embedder": "hash"})
    with wire(settings) as service:
        remembered_roots(service, settings).add([SyncRoot(path=folder / "notes", dataset_id="n")])
    counts = [httpx.post(f"{server.url}/ingest").json() for _ in range(2)]
    assert [(each["added"], each["unchanged"]) for each in counts] == [(1, 0), (0, 1)]
    found = httpx.get(f"{server.url}/v1/datasets/n/documents").json()
    assert [each["name"] for each in found] == ["milk.md"]


def test_a_stop_answers_what_is_under_way(tmp_path: Path) -> None:
    with started(tmp_path, "--write") as server:
        documents = [
            {"name": f"{n}.md", "content": f"word{n} and other words. " * 40} for n in range(300)
        ]
        answers: list[httpx.Response] = []
        sent = threading.Event()

        def body() -> Iterator[bytes]:
            yield json.dumps({"documents": documents}).encode()
            sent.set()

        def put() -> None:
            url = f"{server.url}/v1/datasets/d/documents"
            kind = {"Content-Type": "application/json"}
            answers.append(httpx.post(url, content=body(), headers=kind, timeout=60))

        httpx.get(f"{server.url}/v1/live", timeout=60).raise_for_status()  # it has started
        with socket.create_connection(server.address):  # one that asks nothing
            thread = threading.Thread(target=put)
            thread.start()
            assert sent.wait(30)
            time.sleep(0.3)
            assert server.stop() == 0
            thread.join()
        assert answers[0].json()["added"] == 300


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stop_ends_a_stream_of_changes_with_its_place(workers: str, tmp_path: Path) -> None:
    with started(tmp_path, "--write", "--workers", workers) as server:
        httpx.put(f"{server.url}/v1/datasets/d/documents/a", json={"content": "x"}, timeout=60)
        url, accept = f"{server.url}/v1/changes", {"Accept": "text/event-stream"}
        with httpx.stream("GET", url, headers=accept, timeout=60) as answer:
            lines = answer.iter_lines()
            assert "id: " in next(lines)
            server.process.send_signal(signal.SIGTERM)
            rest = list(lines)  # which fails where the connection is cut
        assert rest[-3].startswith("id: ")
        assert rest[-2:] == [": ", ""]
        assert server.process.wait(60) == 0


def test_a_stop_ends_the_work_of_a_console_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for its model is not waited for."""
    asked, free = threading.Event(), threading.Event()

    def answer(_: Asked) -> Reply:
        asked.set()
        return Reply(hold=free)

    with triptych.open(tmp_path / "kb.db", embedder="hash") as kb:
        kb.put_document("d", "a", "# A text\n\nWith words.")
    with provider(answer) as model:
        monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("TRIPTYCH_LLM", "openai:m")
        with started(tmp_path, "--write", "--workers", "1") as server:
            url = f"{server.url}/console/work/stream"
            form = {"do": "layers", "dataset": "d", "form_token": "token"}
            with httpx.stream("POST", url, data=form, headers=TOKEN, timeout=60) as reply:
                assert asked.wait(30)
                server.process.send_signal(signal.SIGTERM)
                text = "".join(reply.iter_text())  # which fails where the connection is cut
            assert "the server was stopped" in text
            assert server.process.wait(60) == 0
        free.set()


@pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc")
def test_workers_that_die_are_replaced_at_once(tmp_path: Path) -> None:
    """One is killed, and while its replacement starts that and the other one."""
    with started(tmp_path, "--write", "--workers", "2") as server:
        pid = server.process.pid
        until(lambda: len(workers_of(pid)) == 2)
        one, other = workers_of(pid)
        httpx.get(f"{server.url}/v1/live", timeout=60).raise_for_status()
        os.kill(one, signal.SIGKILL)
        until(lambda: {*workers_of(pid)} - {one, other})
        (third,) = {*workers_of(pid)} - {one, other}
        os.kill(third, signal.SIGSTOP)
        time.sleep(2)  # by now it has been asked whether it lives, and has not answered
        for each in (third, other):
            os.kill(each, signal.SIGKILL)
        until(lambda: is_live(server.url), seconds=40)


def is_live(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/v1/live", timeout=1).is_success
    return False


def test_keys_of_the_store_are_checked(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as service:
        service.put_document("mine", "a.md", "Tea is hot.")
        service.put_document("theirs", "b.md", "Milk is white.")
        keys = KeyStore.of(service)
        reader = keys.add("reader", dataset_ids=["mine"]).token
        writer = keys.add("writer", dataset_ids=["mine"], can_write=True).token
    with started(tmp_path, "--write") as server:

        def asked(key: str, method: str, path: str, **options: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}", "Host": "kb.example"}
            return httpx.request(method, server.url + path, headers=headers, **options)

        assert httpx.get(f"{server.url}/v1/datasets").status_code == 401
        assert asked("tk_bad", "GET", "/v1/datasets").status_code == 401
        assert asked(reader, "GET", "/v1/datasets").json() == ["mine"]
        hidden = asked(reader, "GET", "/v1/datasets/theirs/documents/b.md")
        none = asked(reader, "GET", "/v1/datasets/nothing/documents/b.md")
        assert (hidden.status_code, none.status_code) == (404, 404)
        assert hidden.text.replace("theirs", "nothing") == none.text
        put = {"json": {"content": "x"}}
        path = "/v1/datasets/mine/documents/c.md"
        assert asked(reader, "PUT", path, **put).status_code == 403
        assert asked(writer, "PUT", path, **put).status_code == 201
        assert asked(writer, "PUT", path.replace("mine", "theirs"), **put).status_code == 404
        with triptych.open(tmp_path / "kb.db", embedder="hash") as service:
            KeyStore.of(service).revoke(KeyStore.of(service).list()[1].id)
        assert asked(writer, "PUT", path, **put).status_code == 401
        assert reader not in server.log.read_text(encoding="utf-8")


def test_what_comes_too_slowly_is_cut_off(tmp_path: Path) -> None:
    from support import slow_server

    command = [sys.executable, slow_server.__file__, str(tmp_path / "kb.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = Served(process, process.stdout.readline().strip(), tmp_path / "none")
        try:
            assert server.raw(b"GET /v1/live HT") == b""
            assert server.raw(b"") == b""
            body = post("100", b"{")
            assert code(server.raw(body)) == (408, "REQUEST_TIMEOUT")
            assert httpx.get(f"{server.url}/v1/live").is_success
        finally:
            process.kill()


def test_without_keys_only_this_machine_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        done = shell("serve", "--write", "--host", host)
        assert done.code == Exit.USAGE
        assert "without keys only this machine has access" in done.err
        assert "triptych admin keys add" in done.err


def test_what_cannot_be_served_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    done = shell("serve")
    assert (done.code, done.out) == (Exit.NOT_FOUND, b"")
    assert not (tmp_path / "kb.db").exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = shell("serve", "--write", "--port", str(taken.getsockname()[1]))
    assert done.code == Exit.USAGE
    assert "give another --port" in done.err
    done = shell("-s", "memory://", "serve", "--write", "--workers", "2", "--port", "0")
    assert done.code == Exit.USAGE
    assert "a store in memory belongs to one process" in done.err
    done = shell("serve", "--write", "--host", "no such host")
    assert "there is no address" in done.err


def test_small_answers_are_sent_at_once() -> None:
    """asyncio sets TCP_NODELAY only where a socket knows that it is TCP."""
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
