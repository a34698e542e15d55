"""Who asks: keys, refusals, and what is answered without one."""

from __future__ import annotations

import asyncio
import functools
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import triptych
from support.asgi import Client
from support.rows import each_row
from support.servers import listening, served
from support.sync_folder import until
from triptych import ProviderError, Service, ServiceOptions, ValidationError
from triptych.errors import AccessDeniedError, AuthenticationError, TooManyRequestsError
from triptych.sync import SyncRoot
from triptych_adapters.wire import OPERATIONS, ROUTES
from triptych_backends.memory import MemoryStore
from triptych_factory import Settings, remembered_roots, sync_remembered, wire
from triptych_server.http import Limits, create_app
from triptych_server.keys import KeyStore, authenticator
from triptych_testing.fakes import FakeEmbedder


class Keys:
    """One key, which reads; others are refused, some of them for asking too often."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.asked = 0

    def __call__(self, authorization: str | None) -> Service:
        self.asked += 1
        if authorization == "Bearer good":
            return self.service
        if authorization == "Bearer often":
            raise TooManyRequestsError("too often", retry_after=2.4)
        if authorization == "Bearer elsewhere":
            raise AccessDeniedError("this key is for another dataset")
        raise AuthenticationError("give a key: Authorization: Bearer …")


@pytest.fixture
def service() -> Iterator[Service]:
    with triptych.open("memory://", embedder="none") as service:
        service.put_document("d", "a.md", "Tea is hot.")
        yield service


@each_row("operation", OPERATIONS)
def test_every_operation_needs_a_key_before_anything_is_read(
    service: Service, operation: str
) -> None:
    route = ROUTES[operation]
    url = route.url(dict.fromkeys(route.in_path, "x"))
    client = Client(create_app(service, authenticate=Keys(service), write=True))
    for headers in ({}, {"Authorization": "Bearer bad"}, {"Authorization": "Basic Zzo="}):
        answer = client(route.method, url, content=b"\xff", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_key_is_asked_for_by_each_request(service: Service) -> None:
    keys = Keys(service)
    client = Client(create_app(service, authenticate=keys), Authorization="Bearer good")
    for _ in range(2):
        assert client("GET", "/v1/datasets").json() == ["d"]
    assert keys.asked == 2


@pytest.mark.parametrize(
    ("key", "status", "code"),
    [("often", 429, "RATE_LIMITED"), ("elsewhere", 403, "FORBIDDEN")],
)
def test_a_refusal_says_why(service: Service, key: str, status: int, code: str) -> None:
    client = Client(create_app(service, authenticate=Keys(service)))
    answer = client("GET", "/v1/datasets", headers={"Authorization": f"Bearer {key}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers.get("retry-after") == ("3" if status == 429 else None)


def test_a_probe_and_the_description_need_no_key(service: Service) -> None:
    client = Client(create_app(service, authenticate=Keys(service)))
    assert client("GET", "/v1/live").json() == {"status": "ok"}
    assert client("GET", "/v1/openapi.json").json()["openapi"] == "3.1.0"


def test_with_keys_any_host_is_answered_unless_some_are_named(service: Service) -> None:
    keys = Keys(service)
    asked: dict[str, Any] = {"headers": {"Host": "kb.example:8400"}}
    assert Client(create_app(service, authenticate=keys))("GET", "/v1/live", **asked).is_success
    named = create_app(service, authenticate=keys, hosts=["kb.example"])
    assert Client(named)("GET", "/v1/live", **asked).is_success
    assert Client(named)("GET", "/v1/live", headers={"Host": "other"}).status_code == 421
    assert Client(create_app(service))("GET", "/v1/live", **asked).status_code == 421


def test_pages_of_named_origins_may_ask(service: Service) -> None:
    client = Client(create_app(service, origins=["https://app.example"]))
    for origin, status in (("https://app.example", 200), ("https://app.example.evil", 403)):
        assert client("GET", "/v1/live", headers={"Origin": origin}).status_code == status


@pytest.mark.parametrize(
    ("origin", "typed"),
    [
        ("https://app.example/", "https://app.example"),
        ("https://app.example/page", "https://app.example"),
        ("app.example", "https://app.example"),
        ("app.example:8080", "https://app.example:8080"),
        ("https://app.example:443", "https://app.example"),
        ("http://app.example:80", "http://app.example"),
        ("https://b\u00fccher.example", "https://xn--bcher-kva.example"),
        ("https://*.example", "each origin"),
        ("https://[app", "each origin"),
        ("", "https://app.example"),
        ("*", "each origin"),
    ],
)
def test_an_origin_that_no_page_has_is_refused(origin: str, typed: str, service: Service) -> None:
    with pytest.raises(ValidationError, match=re.escape(typed)):
        create_app(service, origins=[origin])


def test_every_page_may_ask_where_each_request_needs_a_key(service: Service) -> None:
    client = Client(create_app(service, authenticate=Keys(service), origins=["*"]))
    answer = client("GET", "/v1/live", headers={"Origin": "https://any.example"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers
    create_app(service, origins=["null", "http://localhost:3000", "app://obsidian.md"])


def test_it_is_mounted_below_a_path_of_another_app(service: Service) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    service.put_document("a/b", "c/d.md", "x")
    client = Client(Starlette(routes=[Mount("/kb", create_app(service))]))
    answer = client("GET", "/kb/v1/datasets/a%2Fb/documents/c/d.md")
    assert answer.json()["name"] == "c/d.md"
    assert answer.headers["link"] == '</kb/v1/openapi.json>; rel="service-desc"'
    assert client("GET", "/kb/v1/openapi.json").is_success


def test_a_request_may_ask_for_less_time(service: Service) -> None:
    service.put_documents("d", {f"{n}.md": "tea " * 200 for n in range(20)})
    client = Client(create_app(service, write=True))
    answer = client("POST", "/v1/doctor", json={}, headers={"Prefer": "wait=0"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "CANCELLED_ERROR")
    assert client("POST", "/v1/doctor", json={}).is_success
    with pytest.raises(triptych.ValidationError, match="seconds is a finite number above 0"):
        Limits(seconds=0)


@pytest.mark.parametrize("body", ["[" * 65, '{"a":' * 65, '{"query": ' + "[" * 500_000])
def test_nesting_is_bounded(service: Service, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = Client(create_app(service))("POST", "/v1/search", content=body, headers=headers)
    assert answer.status_code == 400
    assert "nested deeper than 64" in answer.json()["error"]["message"]


def test_queries_of_one_request_are_bounded(service: Service) -> None:
    client = Client(create_app(service, limits=Limits(queries=3)))
    for count, status in ((3, 200), (4, 400)):
        asked = {"queries": ["tea"] * count, "dataset_id": "d"}
        answer = client("POST", "/v1/search-many", json=asked)
        assert answer.status_code == status, answer.text
    assert "4 queries exceed the maximum of 3" in answer.text


@pytest.mark.parametrize(
    "body", [b'"' + b'\\"' * 400_000 + b"[" * 100, b'"' * 400_001 + b"[" * 65, b"[" * 65 + b'"\\']
)
def test_texts_that_never_end_cost_no_time(service: Service, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = Client(create_app(service))("POST", "/v1/search", content=body, headers=headers)
    assert answer.status_code == 400


def test_a_flood_of_bad_keys_leaves_the_server_serving(service: Service) -> None:
    app = create_app(service, authenticate=Keys(service), limits=Limits(threads=2))

    async def flood() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            keys = [*(f"Bearer {number}" for number in range(300)), "Bearer good"]
            asked = (client.get("/v1/datasets", headers={"Authorization": key}) for key in keys)
            return await asyncio.gather(*asked)

    *refused, answered = asyncio.run(flood())
    assert {each.status_code for each in refused} == {401}
    assert answered.json() == ["d"]


def test_a_client_that_goes_away_cancels_its_call(service: Service) -> None:
    import asyncio
    import threading

    from triptych import CancelledError, deadlines

    began, ended = threading.Event(), threading.Event()

    def endless() -> Any:
        began.set()
        try:
            while True:
                deadlines.check("the call")
        except CancelledError:
            ended.set()
            raise

    service.list_datasets = endless  # type: ignore[method-assign]  # to be slow
    app = create_app(service)

    async def asked() -> None:
        messages: list[Any] = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await asyncio.to_thread(began.wait, 30)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
        scope |= {"method": "GET", "scheme": "http", "path": "/v1/datasets"}
        scope |= {"raw_path": b"/v1/datasets", "query_string": b""}
        await asyncio.wait_for(
            app({**scope, "headers": [(b"host", b"localhost")]}, receive, send), 60
        )

    asyncio.run(asked())
    assert ended.is_set()


def test_brackets_in_a_text_are_no_nesting(service: Service) -> None:
    query = {"query": "[" * 1000 + '\\"{', "dataset_id": "d"}
    assert Client(create_app(service))("POST", "/v1/search", json=query).is_success


def test_more_requests_than_the_limit_are_refused_for_a_while(
    service: Service,
) -> None:
    app = create_app(service, limits=Limits(threads=1, waiting=2))
    held = threading.Event()
    original = service.list_datasets

    async def both() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = [asyncio.create_task(client.get("/v1/datasets")) for _ in range(2)]
            await asyncio.sleep(0.2)
            refused = await client.get("/v1/datasets")
            held.set()
            return [refused, *await asyncio.gather(*first)]

    def waits() -> Any:
        held.wait(30)
        return original()

    service.list_datasets = waits  # type: ignore[method-assign]  # to be slow
    refused, *answered = asyncio.run(both())
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "OVERLOADED")
    assert refused.headers["retry-after"] == "1"
    assert [each.status_code for each in answered] == [200, 200]


def test_requests_whose_key_is_to_be_checked_count_too(service: Service) -> None:
    checks, go_on = threading.Semaphore(0), threading.Event()

    def slow(authorization: str | None) -> Service:
        checks.release()
        go_on.wait(30)
        return service

    async def asked() -> list[httpx.Response]:
        app = create_app(service, authenticate=slow, limits=Limits(threads=2, waiting=2, share=1))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = [asyncio.create_task(client.get("/v1/datasets")) for _ in range(2)]
            for _ in first:
                await asyncio.to_thread(checks.acquire, timeout=30)
            others = [await client.get(path) for path in ("/v1/datasets", "/v1/live")]
            go_on.set()
            return [*others, *await asyncio.gather(*first)]

    answers = asyncio.run(asked())
    assert [each.status_code for each in answers] == [503, 200, 200, 200]


@each_row(
    "given",
    [
        {"threads": 0.5},
        {"waiting": 0.5},
        {"listed": 2.5},
        {"body": float("inf")},
        {"seconds": float("inf")},
        {"seconds": float("nan")},
        {"depth": True},
        {"idempotency_keys": 0},
    ],
)
def test_a_limit_that_is_none_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(given))):
        Limits(**given)


class Refusing(FakeEmbedder):
    """An embedder whose provider says too much."""

    def embed(self, texts: Any, *, kind: Any) -> Any:
        raise ProviderError("http://10.0.0.7:11434 refused, key sk-123 wrong")


def test_health_does_not_show_what_a_provider_said() -> None:
    with Service(MemoryStore(), options=ServiceOptions(embedder=Refusing())) as service:
        client = Client(create_app(service))
        answer = client("GET", "/v1/health")
        assert "a model's provider failed" in answer.text
        assert "sk-123" not in answer.text


def test_a_key_to_everything_that_writes_syncs_the_remembered_folders(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "milk.md").write_text("Milk is white.", encoding="utf-8")
    settings = Settings.resolve({"url": str(tmp_path / "kb.db"), "embedder": "hash"})
    with wire(settings) as service:
        remembered_roots(service, settings).add([SyncRoot(path=tmp_path / "notes")])
        keys = KeyStore.of(service)
        allowed = {
            200: keys.add("all", can_write=True).token,
            403: keys.add("one", can_write=True, dataset_ids=["default"]).token,
        }
        sync = functools.partial(sync_remembered, settings)
        app = create_app(service, authenticate=authenticator(service), write=True, sync=sync)
        for status, token in allowed.items():
            client = Client(app, Authorization=f"Bearer {token}")
            answer = client("POST", "/ingest")
            assert answer.status_code == status, answer.text
        reading = Client(app, Authorization=f"Bearer {keys.add('reads').token}")
        assert reading("POST", "/ingest").status_code == 403
        assert service.count_documents("default") == 1


def test_a_connection_forgets_the_deadline_of_a_request(service: Service) -> None:
    # A body this long is not read at once: the server goes on reading in the midst of the request.
    long = {"name": "long.md", "content": "word " * 40_000}
    with served(service, write=True) as url, httpx.Client(base_url=url, timeout=60) as client:
        hurried = {"Prefer": "wait=1"}
        client.post("/v1/datasets/d/documents", json={"documents": [long]}, headers=hurried)
        time.sleep(1.1)
        for _ in range(2):
            assert client.get("/v1/datasets").status_code == 200
            answer = client.put("/v1/datasets/d/documents/a.md", json={"content": "Tea."})
            assert answer.is_success, answer.text


def test_a_page_of_a_named_origin_asks_as_a_browser_does(service: Service) -> None:
    """The preflight, then a request with a key, whose answer and refusal the page may read."""
    page = {"Origin": "https://app.example"}
    client = Client(
        create_app(service, authenticate=Keys(service), write=True, origins=["https://App.example"])
    )
    url = "/v1/datasets/d/documents/a.md"
    asked = {
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "authorization,content-type,idempotency-key,if-match",
    }
    before = client("OPTIONS", url, headers=page | asked)
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == "https://app.example"
    assert "PUT" in before.headers["access-control-allow-methods"]
    for name in asked["Access-Control-Request-Headers"].split(","):
        assert name in before.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in before.headers
    for key, status in (("Bearer good", 200), ("Bearer bad", 401)):
        answer = client("GET", url, headers=page | {"Authorization": key})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert answer.headers["access-control-expose-headers"] == "*"
    large = client("PUT", url, headers=page, content=b"x" * (2 << 20))
    assert (large.status_code, large.headers["access-control-allow-origin"]) == (
        413,
        page["Origin"],
    )
    other = client("OPTIONS", url, headers=asked | {"Origin": "https://evil.example"})
    assert other.status_code == 400
    assert "access-control-allow-origin" not in other.headers


def test_without_named_origins_no_header_of_cors_is_sent(service: Service) -> None:
    client = Client(create_app(service))
    for headers in ({}, {"Origin": "http://localhost"}, {"Origin": "https://app.example"}):
        for method in ("GET", "OPTIONS"):
            answer = client(method, "/v1/datasets", headers=headers)
            assert not [name for name in answer.headers if name.startswith("access-control")]
            if method == "OPTIONS":
                refused = 403 if "app.example" in str(headers) else 405
                assert answer.status_code == refused


@pytest.mark.parametrize("path", ["/v1/datasets/d/documents/a.md", "/v1/search"])
def test_a_client_that_goes_away_with_its_body_is_no_failure(
    service: Service, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(service, write=True)
    head = f"{'PUT' if 'documents' in path else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\n"
    with caplog.at_level("INFO", "triptych.http"), listening(app) as url:
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port or 0)) as connection:
            connection.sendall(
                f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode()
            )
        until(lambda: caplog.records)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("INFO", None)
    assert record.__dict__["fields"]["status"] == 499


def test_what_is_not_available_is_no_failure_of_the_server(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(create_app(service, write=True))
    with caplog.at_level("INFO", "triptych.http"):
        answer = client("POST", "/v1/ask", json={"question": "tea?", "dataset_id": "d"})
    assert answer.status_code == 501
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("INFO", None)
