"""Keys over HTTP: what a key learns by any route, and what it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.access_pair import DOCUMENTS, OURS, options
from support.asgi import Client
from triptych.search import Pipeline
from triptych.service import Effect, Service
from triptych_adapters.wire import OPERATIONS, ROUTES
from triptych_backends.memory import MemoryStore
from triptych_server.keys import KeyAuthenticator, KeyStore, authenticator

pytest.importorskip("starlette")

ARGUMENTS: dict[str, Any] = {
    "query": "zebra anchor", "queries": ["zebra", "anchor rope"], "question": "zebra?",
    "token_budget": 400, "old": 1, "layer": "L0",
}  # fmt: skip
PLACES = [("kb", "zebra.md"), ("kb", "tide.md"), ("zoo", "animals.md"), ("none", "none.md")]


def base(mine: Any) -> Service:
    documents = [each for each in DOCUMENTS if mine(each[0], each[3])]
    pipelines = [Pipeline(name="all"), Pipeline(name="zoo", datasets=["zoo"])]
    if all(dataset_id != "zoo" for dataset_id, *_ in documents):
        pipelines.pop()
    made = Service(MemoryStore(), options=options(pipelines=pipelines))
    for document in documents:
        made.put_document(*document)
    return made


@pytest.fixture(scope="module")
def whole() -> Iterator[Service]:
    with base(lambda dataset_id, metadata: True) as service:
        yield service


@pytest.fixture(scope="module")
def twin() -> Iterator[Service]:
    """A store of our documents alone, whose key is to everything in it."""
    with base(lambda dataset_id, metadata: metadata.get("team") == "ours") as service:
        yield service


def client(service: Service, **key: Any) -> Client:
    from triptych_server.http import create_app

    keys = KeyStore.of(service)
    made = keys.add("test", **key)
    app = create_app(service, authenticate=KeyAuthenticator(service, keys), write=True)
    return Client(app, Authorization=f"Bearer {made.token}")


def requests() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests to every route that reads, at each place."""
    for name, operation in OPERATIONS.items():
        route = ROUTES[name]
        if operation.effect is not Effect.READS or name in ("cache_stats", "ask", "changes"):
            continue
        for dataset_id, document in PLACES:
            known = {**ARGUMENTS, "dataset_id": dataset_id, "name": document}
            required = operation.parameters["required"]
            if not all(each in known for each in required):
                continue
            takes = operation.parameters["properties"]
            given = {each: known[each] for each in known if each in required}
            if "dataset_id" in takes:
                given["dataset_id"] = dataset_id
            url = route.url(given)
            rest = {key: value for key, value in given.items() if key not in route.in_path}
            yield route.method, url, {"json": rest} if route.has_body else {"params": rest}
    yield "GET", "/v1/service", {}
    yield "GET", "/v1/openapi.json", {}
    yield "GET", "/v1/live", {}
    yield "GET", "/v1/stats", {}
    yield "GET", "/v1/pipelines", {}
    yield "GET", "/v1/doc/zebra.md", {}
    yield "POST", "/v1/query", {"json": {"query": "zebra anchor", "k": 5}}
    yield "POST", "/search", {"json": {"query": "zebra anchor"}}
    yield "POST", "/v1/pipelines/all", {"json": {"query": "zebra anchor"}}
    yield "POST", "/v1/pipelines/zoo", {"json": {"query": "zebra anchor"}}
    yield "POST", "/v1/pipelines/all/search", {"json": {"query": "zebra anchor"}}
    yield "POST", "/v1/pipelines/zoo/search", {"json": {"query": "zebra anchor"}}


def test_a_key_with_a_filter_learns_nothing_of_others_by_any_route(
    whole: Service, twin: Service
) -> None:
    ours, alone = client(whole, where=OURS), client(twin)
    whole.context("anchor", 100, dataset_id="kb")  # a process warns once that it estimates
    seen = set()
    for method, url, given in requests():
        found, wanted = (each(method, url, **given) for each in (ours, alone))
        assert (found.status_code, said(found)) == (wanted.status_code, said(wanted)), url
        seen.add(found.status_code)
        if method == "GET" and "openapi" not in url and "zebra" not in url:
            assert "zebra" not in found.text.lower()
    assert {200, 404} <= seen


def test_changes_over_http_are_the_callers(whole: Service) -> None:
    reader = client(whole, dataset_ids=["kb"])
    found = reader("GET", "/v1/changes", params={"limit": 100})
    assert found.status_code == 200
    assert {each["dataset_id"] for each in found.json()["changes"]} == {"kb"}
    since = found.json()["cursor"]
    whole.put_document("zoo", "more.md", "A zebra.")
    later = reader("GET", "/v1/changes", params={"since": since}).json()
    assert (later["changes"], later["more"]) == ([], False)
    filtered = client(whole, where=OURS)("GET", "/v1/changes")
    assert filtered.status_code == 501
    assert "doc_prefix" in filtered.text


def said(answer: Any) -> tuple[str, str]:
    """What an answer says, without times."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)?", "TIME", answer.text)
    return text, answer.headers["content-type"]


def test_a_key_of_a_dataset_may_not_write_when_it_reads(whole: Service) -> None:
    reader, writer = (
        client(whole, dataset_ids=["kb"]),
        client(whole, dataset_ids=["kb"], where=OURS, can_write=True),
    )
    url = "/v1/datasets/kb/documents/new.md"
    document = {"content": "New.", "metadata": OURS}
    assert reader("PUT", url, json=document).status_code == 403
    assert writer("PUT", "/v1/datasets/zoo/documents/new.md", json=document).status_code == 404
    refused = writer("PUT", "/v1/datasets/kb/documents/zebra.md", json=document)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert writer("PUT", url, json=document).status_code == 201
    assert writer("DELETE", url).status_code == 200


def test_bad_keys_are_refused_alike(whole: Service) -> None:
    from triptych_server.http import create_app

    keys = KeyStore.of(whole)
    gone = keys.add("gone")
    keys.revoke(gone.key.id)
    bad = [
        None, "Bearer", "Bearer x", f"Bearer {gone.token}", "Basic Zm9v", "Bearer " + "x" * 5000,
        f"Bearer tk_{'0' * 12}_{'0' * 48}",
    ]  # fmt: skip
    ask = Client(create_app(whole, authenticate=authenticator(whole)))
    answers = set()
    for header in bad:
        headers = {} if header is None else {"Authorization": header}
        answer = ask("GET", "/v1/datasets", headers=headers)
        body = json.loads(answer.text)
        body["error"].pop("request_id", None)
        answers.add((answer.status_code, json.dumps(body), answer.headers.get("www-authenticate")))
    assert len(answers) == 1
    ((status, text, challenge),) = answers
    assert (status, json.loads(text)["error"]["code"]) == (401, "UNAUTHORIZED")
    assert challenge is not None
    assert challenge.startswith("Bearer")


def test_a_key_that_asks_too_often_is_told_when(whole: Service) -> None:
    often = client(whole, requests_per_minute=2)
    statuses = [often("GET", "/v1/datasets").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    answer = often("GET", "/v1/datasets")
    assert answer.json()["error"]["code"] == "RATE_LIMITED"
    assert 1 <= int(answer.headers["retry-after"]) <= 30


def test_a_key_that_ends_is_refused_from_then_on(whole: Service) -> None:
    from triptych_server.http import create_app

    keys = KeyStore.of(whole)
    made = keys.add("web", expires_at=datetime.now(UTC) + timedelta(hours=1))
    app = create_app(whole, authenticate=KeyAuthenticator(whole, keys))
    ask = Client(app, Authorization=f"Bearer {made.token}")
    assert ask("GET", "/v1/datasets").status_code == 200
    keys.revoke(made.key.id)
    assert ask("GET", "/v1/datasets").status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
@pytest.mark.parametrize("door", ["http", "mcp"])
def test_a_key_is_refused_where_none_are_checked(door: str, scheme: str) -> None:
    """As after the first key was made: a server that ignored it would let an agent do all."""
    from triptych_server.http import create_app

    with base(lambda dataset_id, metadata: True) as service:
        app: Any = create_app(service, write=True)
        if door == "mcp":
            pytest.importorskip("mcp")
            from triptych_server.mcp.http import make_app
            from triptych_server.mcp.server import ServerOptions, make_server

            app = make_app(make_server(service, ServerOptions(write=True)))
        token = KeyStore.of(service).add("the bot", can_write=True, agent=True).token
        ask = Client(app)
        path = "/mcp" if door == "mcp" else "/v1/datasets/kb/documents/new.md"
        method = "POST" if door == "mcp" else "PUT"
        body = {"content": "Written past every review."}
        refused = ask(method, path, json=body, headers={"Authorization": f"{scheme} {token}"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "UNAUTHORIZED")
        assert "start the server again" in refused.json()["error"]["hint"]
        assert "new.md" not in [each.name for each in service.list_documents("kb")]
        others = ask("PUT", "/v1/live", headers={"Authorization": "Bearer of a proxy"})
        assert others.status_code != 401
        if door == "http":  # until it is started again, who sends no key is served as before
            assert ask("GET", "/v1/datasets").status_code == 200
            again = Client(create_app(service, write=True, authenticate=authenticator(service)))
            assert again("GET", "/v1/datasets").status_code == 401
            header = {"Authorization": f"{scheme} {token}"}
            assert again("GET", "/v1/datasets", headers=header).status_code == 200
