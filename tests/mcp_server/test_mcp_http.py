"""The server over HTTP, asked by the SDK's own client in both eras of the protocol."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import httpx
import pytest

from support.mcp_clients import ERAS, Connected, connected, served
from support.rows import each_row
from triptych import deadlines
from triptych.access import Access
from triptych.errors import (
    AuthenticationError,
    CancelledError,
    CorruptStoreError,
    ProviderError,
    StoreAwayError,
    StoreLockedError,
    TooManyRequestsError,
    ValidationError,
)
from triptych.proposals import Proposals
from triptych.service import Service, ServiceOptions
from triptych_adapters.tools import TOOL_NAMES, knowledge_tools
from triptych_backends.memory import MemoryStore
from triptych_server.http import listen
from triptych_server.mcp.http import check_binding, make_app
from triptych_server.mcp.server import ServerOptions, make_server
from triptych_testing.fakes import FakeEmbedder

mcp = pytest.importorskip("mcp")
mcp_types = pytest.importorskip("mcp_types")


class Odd(Service):
    """A Service whose searches take long, or fail, where the query says so."""

    cancelled = threading.Event()
    started = threading.Event()

    def search(self, query: Any, **options: Any) -> Any:
        if query.text == "fail":
            raise RuntimeError("the secret of the house")
        if query.text == "damaged":
            raise CorruptStoreError("the secret of the house")
        if query.text == "away":
            raise StoreAwayError("the secret of the house")
        if query.text == "locked":
            raise StoreLockedError("the secret of the house")
        if query.text.startswith("wait"):
            self.started.set()
            until = time.monotonic() + float(query.text.split()[1])
            try:
                while time.monotonic() < until:
                    deadlines.check("the search")
                    time.sleep(0.01)
            except CancelledError:
                self.cancelled.set()
                raise
        return super().search(query, **options)


def authenticate(authorization: str | None) -> Service:
    """Two keys, a dataset each; others ask too often, or when the store is damaged."""
    if authorization == "Bearer often":
        raise TooManyRequestsError("too many requests", retry_after=2.5)
    if authorization == "Bearer away":
        raise StoreAwayError("the secret of the house")
    if authorization == "Bearer damaged":
        raise CorruptStoreError("the secret of the house")
    service = _SERVICES.get(authorization or "")
    if service is None:
        raise AuthenticationError("give a key: Authorization: Bearer KEY")
    return service


_SERVICES: dict[str, Service] = {}


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """A server that may write, one that reads one dataset in haste, one with keys."""
    with ExitStack() as stack:
        service = stack.enter_context(Odd(MemoryStore()))
        service.put_document("docs", "guide/ä b.md", "# Kettle\n\nOne.")
        service.put_document("docs", "guide/ä b.md", "# Kettle\n\nTwo, for \U0001f375.")
        service.put_document_layer("docs", "guide/ä b.md", "L0", "About kettles.")
        service.put_documents("many", {f"{at:03}.txt": f"kettle {at}" for at in range(130)})
        shared = stack.enter_context(Service(MemoryStore()))
        for name in ("anna", "ben"):
            shared.put_document(name, "diary.md", f"{name} has a kettle")
            access = Access(dataset_ids=(name,), can_write=name == "ben")
            _SERVICES[f"Bearer {name}"] = shared.restricted(access)
        Proposals.of(shared).set_reviewed("ben", True)
        agent = Access(dataset_ids=("ben",), can_write=True, agent=True)
        _SERVICES["Bearer agent"] = shared.restricted(agent)
        whole = make_server(service, ServerOptions(write=True))
        hasty = make_server(service, ServerOptions(dataset_id="docs", seconds=0.2))
        keyed = make_server(None, ServerOptions(write=True))
        apps = {
            "whole": make_app(whole),
            "hasty": make_app(hasty, hosts=["kb.example"], origins=["https://app.example"]),
            "keyed": make_app(keyed, authenticate=authenticate),
        }
        yield {name: stack.enter_context(served(app)) for name, app in apps.items()}


@pytest.fixture(scope="module", params=ERAS)
def client(urls: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Connected]:
    with connected(urls["whole"], request.param) as client:
        yield client


# Tools


def test_tools_are_declared_with_schemas_and_hints(client: Connected) -> None:
    tools = {tool.name: tool for tool in client.list_tools().tools}
    assert tuple(tools) == TOOL_NAMES
    for name, tool in tools.items():
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations.read_only_hint is (name != "knowledge_put")
        assert tool.annotations.destructive_hint is (name == "knowledge_put")
        assert tool.annotations.open_world_hint is False
        assert tool.title
    # Each session of a model reads it.
    sent = [each.model_dump_json(by_alias=True, exclude_none=True) for each in tools.values()]
    assert sum(map(len, sent)) <= 10_000


def test_an_answer_is_text_and_structure_of_the_same(client: Connected) -> None:
    answer = client.call_tool("knowledge_search", {"query": "kettle", "dataset_id": "docs"})
    assert not answer.is_error
    assert json.loads(answer.content[0].text) == answer.structured_content
    (hit,) = answer.structured_content["hits"]
    assert (hit["doc_name"], hit["version"]) == ("guide/ä b.md", 2)
    assert hit["content"].endswith("\U0001f375.")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("knowledge_search", {"query": "kettle", "limit": 3}, '"limit"'),
        ("knowledge_search", {}, "'query' is missing"),
        ("knowledge_search", {"query": "kettle", "mode": "vector"}, "set embedder (TRIPTYCH_EM"),
        ("knowledge_get", {"name": "none.md"}, "none.md"),
        ("knowledge_search", {"query": "fail"}, "an unforeseen failure"),
        ("knowledge_search", {"query": "damaged"}, "the store failed"),
        ("knowledge_search", {"query": "away"}, "may have committed a write: try again later"),
        ("knowledge_search", {"query": "locked"}, "busy: try again later"),
    ],
)
def test_what_goes_wrong_is_an_answer_that_says_so(
    client: Connected,
    caplog: pytest.LogCaptureFixture,
    name: str,
    arguments: dict[str, Any],
    said: str,
) -> None:
    with caplog.at_level(logging.ERROR, "triptych.mcp"):
        answer = client.call_tool(name, arguments)
    assert answer.is_error
    assert said in answer.structured_content["error"]["message"]
    assert json.loads(answer.content[0].text) == answer.structured_content
    assert "secret" not in answer.content[0].text
    # Whoever runs the server reads what a client does not.
    assert ("the secret of the house" in caplog.text) is (
        arguments.get("query") in ("fail", "damaged", "away", "locked")
    )


def test_a_resource_and_a_warning_do_not_show_the_inside(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: Any, **given: Any) -> Any:
        raise CorruptStoreError("the secret of the house")

    failing = FakeEmbedder(failures=dict.fromkeys(range(2, 9), ProviderError("the secret")))
    options = ServiceOptions(embedder=failing)
    with Service(MemoryStore(), options=options) as service, ExitStack() as stack:
        service.put_document("docs", "a.md", "kettle")
        monkeypatch.setattr(service, "get_document", down)
        url = stack.enter_context(served(make_app(make_server(service, ServerOptions()))))
        client = stack.enter_context(connected(url, ERAS[1]))
        for name in ("knowledge_search", "knowledge_context"):
            answer = client.call_tool(name, {"query": "kettle"}).structured_content
            assert answer["warnings"]
            assert "secret" not in json.dumps(answer)
        with pytest.raises(mcp.MCPError, match=r"^the store failed$"):
            client.read_resource("triptych://dataset/docs/document/a.md")
    assert "the secret of the house" in caplog.text


def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(client: Connected) -> None:
    with pytest.raises(mcp.MCPError, match="there is no tool 'knowledge_drop'"):
        client.call_tool("knowledge_drop", {})
    with pytest.raises(mcp.MCPError, match="only one page"):
        client.list_tools(cursor="x")


def test_a_document_is_put_where_writing_is_served(client: Connected) -> None:
    put = client.call_tool(
        "knowledge_put", {"dataset_id": "new", "name": "new.md", "content": "samovar"}
    )
    assert put.structured_content["status"] in ("added", "unchanged")
    found = client.call_tool("knowledge_search", {"query": "samovar"}).structured_content
    assert [hit["doc_name"] for hit in found["hits"]] == ["new.md"]


def test_a_call_reports_its_progress_while_it_runs(client: Connected) -> None:
    told: list[tuple[float, str]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message or ""))

    client.call_tool("knowledge_search", {"query": "wait 1.2"}, progress_callback=note)
    assert len(told) >= 2
    assert [each for each, _ in told] == sorted(each for each, _ in told)
    assert all(message.startswith("knowledge_search") for _, message in told)


def test_a_call_that_its_client_gives_up_is_cancelled(client: Connected) -> None:
    Odd.cancelled.clear()
    Odd.started.clear()

    async def give_up() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.client.call_tool, "knowledge_search", {"query": "wait 60"})
            await anyio.to_thread.run_sync(Odd.started.wait)
            group.cancel_scope.cancel()

    client.portal.call(give_up)
    assert Odd.cancelled.wait(20)


# Resources


def test_all_pages_of_resources_are_read_by_their_cursors(client: Connected) -> None:
    page = client.list_resources()
    names = [each.name for each in page.resources]
    assert len(names) == 100
    while page.next_cursor is not None:
        page = client.list_resources(cursor=page.next_cursor)
        names += [each.name for each in page.resources]
    assert names.count("000.txt") == 1
    assert {f"{at:03}.txt" for at in range(130)} < set(names)
    (first,) = (each for each in client.list_resources().resources if each.name.startswith("guide"))
    assert first.uri == "triptych://dataset/docs/document/guide/%C3%A4%20b.md"
    assert (first.mime_type, first.size) == ("text/markdown", 24)
    assert first.annotations.last_modified
    with pytest.raises(mcp.MCPError, match="damaged"):
        client.list_resources(cursor="x")


def test_documents_versions_and_layers_are_resources(client: Connected) -> None:
    templates = client.list_resource_templates().resource_templates
    assert [each.name for each in templates] == [
        *("document", "document-version", "layer", "dataset-layer")
    ]
    for path, text in (
        ("document/guide/%C3%A4%20b.md", "# Kettle\n\nTwo, for \U0001f375."),
        ("version/1/guide/%C3%A4%20b.md", "# Kettle\n\nOne."),
        ("layer/L0/guide/%C3%A4%20b.md", "About kettles."),
    ):
        uri = f"triptych://dataset/docs/{path}"
        (content,) = client.read_resource(uri).contents
        assert (content.uri, content.text) == (uri, text)


def test_arguments_of_templates_are_completed(client: Connected) -> None:
    template = client.list_resource_templates().resource_templates[0].uri_template
    ref = mcp_types.ResourceTemplateReference(uri=template)
    asked = {"name": "name", "value": "gui"}
    done = client.complete(ref, asked, context_arguments={"dataset_id": "docs"}).completion
    assert (done.values, done.has_more) == (["guide/ä b.md"], False)
    with pytest.raises(mcp.MCPError, match="no such template"):
        client.complete(mcp_types.ResourceTemplateReference(uri="x://{y}"), asked)
    with pytest.raises(mcp.MCPError, match="no such template"):
        client.complete(mcp_types.PromptReference(name="greet"), asked)


def test_a_resource_that_is_not_there_has_the_code_of_its_era(client: Connected) -> None:
    code = -32002 if client.client.mode == "legacy" else -32602
    for uri in ("triptych://dataset/docs/document/none.md", "file:///etc/passwd"):
        with pytest.raises(mcp.MCPError) as raised:
            client.read_resource(uri)
        assert raised.value.error.code == code
        assert raised.value.error.data == {"uri": uri}
    with pytest.raises(mcp.MCPError) as raised:
        client.read_resource("triptych://dataset/docs/document/" + "%00" * 5000)
    assert len(raised.value.error.message) < 1000


# Limits


@pytest.mark.parametrize("era", ERAS)
def test_a_server_of_one_dataset_shows_no_other_and_keeps_its_time(
    urls: dict[str, str], era: str
) -> None:
    with connected(urls["hasty"], era) as client:
        tools = {tool.name: tool for tool in client.list_tools().tools}
        assert "knowledge_put" not in tools
        assert "dataset_id" not in tools["knowledge_search"].input_schema["properties"]
        names = [each.name for each in client.list_resources().resources]
        assert names == ["guide/ä b.md"]
        with pytest.raises(mcp.MCPError, match="there is no resource"):
            client.read_resource("triptych://dataset/many/document/000.txt")
        with pytest.raises(mcp.MCPError, match="there is no tool"):
            client.call_tool("knowledge_put", {"name": "a", "content": "b"})
        late = client.call_tool("knowledge_search", {"query": "wait 60"})
        assert late.is_error
        assert late.structured_content["error"]["type"] == "CancelledError"


def post(url: str, **headers: str) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accepted = {"accept": "application/json, text/event-stream"}
    return httpx.post(url, json=message, headers={**accepted, **headers})


def test_another_host_or_origin_is_refused(urls: dict[str, str]) -> None:
    url = urls["whole"]
    assert post(url, host="evil.example").status_code == 421
    assert post(url, host="127.0.0.1.evil.example:80").status_code == 421
    assert post(url, origin="https://evil.example").status_code == 403
    assert post(url, origin="null").status_code == 403
    own = post(url, origin="http://localhost:3000")
    assert (own.status_code, own.json()["error"]["code"]) == (400, -32600)  # there is no session


def test_hosts_and_origins_that_were_named_are_served(urls: dict[str, str]) -> None:
    url = urls["hasty"]
    for headers in (
        {"host": "kb.example"},
        {"host": "kb.example:8443"},
        {"origin": "https://app.example"},
    ):
        assert post(url, **headers).status_code == 400  # there is no session
    assert post(url, host="kb.example.evil.example").status_code == 421
    assert post(url, origin="https://app.example.evil.example").status_code == 403


def test_a_body_that_is_too_large_or_no_json_is_refused(urls: dict[str, str]) -> None:
    url = urls["whole"]
    types = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    large = httpx.post(url, content=b" " * (5 << 20), headers=types)
    assert large.status_code == 413
    deep = httpx.post(url, content=b"[" * 100_000, headers=types)
    assert deep.status_code == 400
    assert "Traceback" not in deep.text
    other = httpx.post(url, content=b"{}", headers={**types, "content-type": "text/plain"})
    assert other.status_code == 400


def test_two_tools_of_one_name_are_refused() -> None:
    with Service(MemoryStore()) as service:
        tools = knowledge_tools(service)
        with pytest.raises(ValidationError, match="'knowledge_search'"):
            make_server(service, ServerOptions(), tools[:1])


def test_small_answers_are_sent_at_once() -> None:
    # asyncio sets TCP_NODELAY only on sockets that say they are of TCP: 40 ms an answer.
    with listen("127.0.0.1", 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP
    with pytest.raises(ValidationError, match="there is no address"):
        listen("no.such.host.invalid", 0)


# Keys


def test_without_a_valid_key_nothing_is_answered(urls: dict[str, str]) -> None:
    for authorization in ("", "Bearer", "Bearer nobody", "Basic anna", "bearer anna"):
        refused = post(urls["keyed"], **({"authorization": authorization} if authorization else {}))
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer ")
        assert refused.json()["error"] == "invalid_token"
    often = post(urls["keyed"], authorization="Bearer often")
    assert (often.status_code, often.headers["retry-after"]) == (429, "3")
    damaged = post(urls["keyed"], authorization="Bearer damaged")
    assert damaged.status_code == 500
    assert "secret" not in damaged.text
    away = post(urls["keyed"], authorization="Bearer away")
    assert (away.status_code, away.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize("era", ERAS)
def test_an_agent_is_told_that_its_put_waits(urls: dict[str, str], era: str) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    asking = httpx2.AsyncClient(headers={"authorization": "Bearer agent"})
    with connected(streamable_http_client(urls["keyed"], http_client=asking), era) as client:
        arguments = {"dataset_id": "ben", "name": "plan.md", "content": "A zebra plan."}
        answer = client.call_tool("knowledge_put", arguments)
        assert answer.is_error
        assert "PendingReviewError" in answer.content[0].text
        found = client.call_tool("knowledge_search", {"query": "zebra"}).structured_content
        assert "plan.md" not in [hit["doc_name"] for hit in found["hits"]]
        client.portal.call(asking.aclose)


@pytest.mark.parametrize("era", ERAS)
def test_each_key_sees_what_is_its_own(urls: dict[str, str], era: str) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    for name in ("anna", "ben"):
        asking = httpx2.AsyncClient(headers={"authorization": f"Bearer {name}"})
        with connected(streamable_http_client(urls["keyed"], http_client=asking), era) as client:
            found = client.call_tool("knowledge_search", {"query": "kettle"}).structured_content
            assert [hit["content"] for hit in found["hits"]] == [f"{name} has a kettle"]
            uris = [each.uri for each in client.list_resources().resources]
            assert uris == [f"triptych://dataset/{name}/document/diary.md"]
            (content,) = client.read_resource(uris[0]).contents
            assert content.text == f"{name} has a kettle"
            for hidden in ("anna", "ben", "nobody"):
                if hidden != name:
                    uri = f"triptych://dataset/{hidden}/document/diary.md"
                    with pytest.raises(mcp.MCPError) as raised:
                        client.read_resource(uri)
                    # What is hidden is answered as what is not there.
                    said = raised.value.error.message.replace(hidden, "…")
                    assert said == f"there is no dataset '…'; the datasets are: '{name}'"
            tools = [tool.name for tool in client.list_tools().tools]
            assert ("knowledge_put" in tools) is (name == "ben")
            client.portal.call(asking.aclose)


def test_a_session_belongs_to_the_key_that_began_it(urls: dict[str, str]) -> None:
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": "Bearer anna",
    }
    began = httpx.post(urls["keyed"], json=begin, headers=headers)
    session = {"mcp-session-id": began.headers["mcp-session-id"]}
    assert post(urls["keyed"], authorization="Bearer anna", **session).status_code == 200
    assert post(urls["keyed"], authorization="Bearer ben", **session).status_code == 404


@pytest.mark.parametrize(
    ("host", "hosts", "keys"),
    [("0.0.0.0", [], False), ("example.com", ["example.com"], False), ("0.0.0.0", [], True)],
)
def test_others_are_served_with_keys_and_under_a_name_only(
    host: str, hosts: list[str], keys: bool
) -> None:
    with pytest.raises(ValidationError):
        check_binding(host, hosts, keys=keys)


@each_row(
    ("host", "hosts", "keys"),
    [
        ("127.0.0.1", [], False),
        ("::1", [], False),
        ("localhost", [], False),
        ("0.0.0.0", ["example.com"], True),
        ("192.0.2.1", [], True),
    ],
)
def test_what_is_safe_is_served(host: str, hosts: list[str], keys: bool) -> None:
    check_binding(host, hosts, keys=keys)
