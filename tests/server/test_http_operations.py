"""Every operation of a Service over HTTP: as JSON, of which records come back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import triptych
from support.asgi import Client
from support.rows import each_row
from support.wire_calls import CALLS
from triptych import Service, ServiceOptions
from triptych.answers import ContextPack
from triptych.records.serialization import from_dict, to_dict, to_json
from triptych_adapters.wire import OPERATIONS, ROUTES, query_pairs
from triptych_backends.memory import MemoryStore
from triptych_models import HashEmbedder
from triptych_server.http import create_app
from triptych_testing.fakes import ScriptedLLM

LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=9)
STORED = "# Tea\n\nTea is hot.\n"


def ask(client: Client, name: str, arguments: dict[str, Any], **headers: str) -> httpx.Response:
    """Call an operation as a client does: each argument where its route has it."""
    route = ROUTES[name]
    others = {key: value for key, value in arguments.items() if key not in route.in_path}
    if route.has_body:
        return client(route.method, route.url(arguments), json=others, headers=headers)
    pairs = query_pairs(route.called.parameters, others)
    return client(route.method, route.url(arguments), params=pairs, headers=headers)


@pytest.fixture
def service() -> Iterator[Service]:
    llm = ScriptedLLM("tea", "It is tea [1].")
    with triptych.open("memory://", embedder=HashEmbedder(), llm=llm) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Client:
    return Client(create_app(service, write=True))


def test_every_operation_is_served_as_json_of_which_records_come_back(client: Client) -> None:
    for name, arguments, holds in CALLS:
        answer = ask(client, name, arguments)
        assert answer.is_success, (name, answer.text)
        assert answer.headers["content-type"] == "application/json"
        assert holds(answer.json()), (name, answer.text)
        record = from_dict(OPERATIONS[name].result, answer.json())
        assert to_json(record) == answer.json(), name
        if name == "ask":
            again = ask(client, "replay", {"receipt": answer.json()["receipt"]})
            assert again.json()["identical"]
    pack = ask(client, "context", {"query": "tea", "token_budget": 99, "scope": "all"}).json()
    assert {name for name, *_ in CALLS} == set(OPERATIONS) - {"replay", "verify"}
    if pack["pieces"]:
        citation = {"citation": pack["pieces"][0]["citation"]}
        assert ask(client, "verify", citation).json()["status"] == "fresh"


def test_null_for_an_optional_argument_is_as_if_left_out(client: Client) -> None:
    for name, arguments, holds in CALLS:
        parameters = OPERATIONS[name].parameters
        optional = set(parameters["properties"]) - set(parameters["required"])
        nulls = {
            each: None
            for each in optional - set(arguments) - ({"name"} if name == "purge" else set())
            # In the query of a URL a text is written as it is.
            if ROUTES[name].has_body or parameters["properties"][each].get("type") != "string"
        }
        answer = ask(client, name, {**nulls, **arguments})
        assert answer.is_success, (name, answer.text)
        assert holds(answer.json()), (name, answer.text)


def test_null_is_no_value_of_a_required_argument(service: Service, client: Client) -> None:
    missing = client("POST", "/v1/search", json={"query": None, "dataset_id": "d"})
    assert (missing.status_code, missing.json()["error"]["message"][:44]) == (
        400,
        "search: the argument 'query' is missing: The",
    )
    service.put_document("d", "a.md", "tea")
    path = "/v1/datasets/d/documents"
    unnamed = client("POST", path, json={"documents": [{"name": None, "content": "x"}]})
    assert "lacks 'name'" in unnamed.json()["error"]["message"]
    # Without a name all is purged: a variable that is not set must not do that.
    purged = client("POST", "/v1/datasets/d/purge", json={"name": None})
    assert (purged.status_code, service.count_documents("d")) == (400, 1)
    assert client("POST", "/v1/datasets/d/purge", json={"dataset_id": None}).json()["existed"]


def test_null_says_what_it_said_where_it_is_a_value(service: Service, client: Client) -> None:
    service.put_document("d", "a.md", "tea", {"lang": "en", "day": "monday"}, expires_at=LATER)
    given = {"name": "a.md", "content": "tea!", "metadata": None, "expires_at": None}
    client("POST", "/v1/datasets/d/documents", json={"documents": [given]})
    kept = service.get_document("d", "a.md")
    assert (kept.metadata, kept.system.expires_at) == ({"lang": "en", "day": "monday"}, LATER)
    changes = {"names": ["a.md"], "where": None, "changes": {"day": None}}
    assert client("POST", "/v1/datasets/d/metadata", json=changes).json()["updated"] == 1
    assert service.get_document("d", "a.md").metadata == {"lang": "en"}
    refused = client(
        "PUT", "/v1/datasets/d/documents/a.md", json={"content": "x", "metadata": {"lang": None}}
    )
    assert "'metadata'['lang'] must be" in refused.json()["error"]["message"]


def test_records_are_those_of_the_service(service: Service, client: Client) -> None:
    for name in ("a.md", "g/b.md"):
        service.put_document("d", name, STORED, {"lang": "en"})
    for name, arguments in (
        ("get_document", {"dataset_id": "d", "name": "g/b.md"}),
        ("list_documents", {"dataset_id": "d"}),
        ("history", {"dataset_id": "d", "name": "a.md"}),
        ("search", {"query": "tea", "dataset_id": "d"}),
        ("search_many", {"queries": ["tea", "hot"], "dataset_id": "d"}),
        ("stats", {}),
        ("health", {"probe": False}),
        ("layer", {"dataset_id": "d", "name": "a.md", "layer": "L0"}),
    ):
        record = from_dict(OPERATIONS[name].result, ask(client, name, arguments).json())
        assert record == OPERATIONS[name].run(service, **arguments), name
        assert to_dict(record) == to_dict(OPERATIONS[name].run(service, **arguments)), name


@pytest.mark.parametrize("format", ["text", "json", "xml"])
def test_a_context_renders_as_it_does_on_the_server(
    service: Service, client: Client, format: str
) -> None:
    service.put_documents("d", {f"{n}.md": f"# Tea {n}\n\nTea is hot, {n}.\n" for n in range(9)})
    asked = {"query": "tea", "token_budget": 120, "dataset_id": "d", "format": format}
    plain = ask(client, "context", asked).json()
    own = service.context("tea", 120, dataset_id="d", format=format)
    for counter in (plain["counter"], "of another kind"):
        pack = from_dict(ContextPack, plain | {"counter": counter})
        assert pack.render() == own.render()
        assert pack.fitted() == own.fitted()
        assert attrs.evolve(pack.receipt, query=own.receipt.query) == own.receipt


def test_failures_in_a_report_come_back_as_errors(client: Client) -> None:
    documents = [
        {"name": "a.md", "content": "x", "if_version": 7},
        {"name": "b.md", "content": "y"},
    ]
    answer = ask(client, "put_documents", {"dataset_id": "d", "documents": documents})
    report = from_dict(OPERATIONS["put_documents"].result, answer.json())
    assert (report.added, len(report.failed)) == (1, 1)
    error = report.failed[0].error
    assert isinstance(error, triptych.ConflictError)
    assert (error.expected, error.actual) == (7, 0)


@each_row(
    ("method", "path", "options", "status", "code", "message"),
    [
        ("GET", "/v1/nothing", {}, 404, "NOT_FOUND", "does not exist"),
        ("PATCH", "/v1/search", {"json": {}}, 405, "METHOD_NOT_ALLOWED", "POST"),
        ("POST", "/v1/search", {"json": {}}, 400, "INVALID_REQUEST", "'query' is missing"),
        ("POST", "/v1/search", {"json": []}, 400, "INVALID_REQUEST", "one JSON object"),
        (
            "POST",
            "/v1/search",
            {"content": b"\xff", "headers": {"Content-Type": "application/json"}},
            400,
            "INVALID_REQUEST",
            "not UTF-8",
        ),
        (
            "POST",
            "/v1/search",
            {
                "content": b'{"query": "a", "query": "b"}',
                "headers": {"Content-Type": "application/json"},
            },
            400,
            "INVALID_REQUEST",
            "'query' twice",
        ),
        (
            "POST",
            "/v1/search",
            {"content": b'{"query": NaN}', "headers": {"Content-Type": "application/json"}},
            400,
            "INVALID_REQUEST",
            "NaN is not a number",
        ),
        ("POST", "/v1/search?top_k=1", {"json": {"query": "x"}}, 400, "INVALID_REQUEST", "body"),
        ("POST", "/v1/search", {"content": b"query=x"}, 415, "UNSUPPORTED_MEDIA_TYPE", "JSON"),
        ("GET", "/v1/datasets/d/documents/%FF", {}, 400, "INVALID_REQUEST", "not UTF-8"),
        ("GET", "/v1/datasets/d/documents?limit=x", {}, 400, "INVALID_REQUEST", "not JSON"),
        ("GET", "/v1/datasets/d/documents?limit=1&limit=2", {}, 400, "INVALID_REQUEST", "twice"),
        (
            "GET",
            '/v1/datasets/d/documents?where={"a":1,"a":2}',
            {},
            400,
            "INVALID_REQUEST",
            "'a' twice",
        ),
        ("GET", "/v1/datasets/d/documents?dataset_id=x", {}, 400, "INVALID_REQUEST", "in the path"),
        ("GET", "/v1/datasets/none/documents", {}, 404, "NOT_FOUND_ERROR", "no dataset 'none'"),
        (
            "PUT",
            "/v1/datasets/d/documents/a.md",
            {"json": {"content": "x", "if_version": 4}},
            409,
            "CONFLICT_ERROR",
            "version",
        ),
    ],
)
def test_a_failure_says_what_is_wrong(
    client: Client,
    method: str,
    path: str,
    options: dict[str, Any],
    status: int,
    code: str,
    message: str,
) -> None:
    answer = client(method, path, **options)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert message in error["message"]
    assert set(error) <= {"code", "message", "hint", "details"}
    assert 'rel="service-desc"' in answer.headers["link"]
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize("root", ["", "/kb"])
@pytest.mark.parametrize(
    ("names", "meant"),
    [
        ("docs redoc swagger openapi.json Docs/ v1/docs", "/v1/openapi.json"),
        ("health ready readyz v1/healthz v1/readyz", "/healthz"),
        ("livez live", "/v1/live"),
        ("metrics v1/metrics", "/metrics is there with `triptych serve --metrics`"),
    ],
)
def test_a_usual_path_that_is_not_there_names_the_one_that_is(
    service: Service, root: str, names: str, meant: str
) -> None:
    app: Any = create_app(service)
    if root:
        app = Starlette(routes=[Mount(root, app)])
    for name in names.split():
        answer = Client(app)("GET", f"{root}/{name}")
        message = answer.json()["error"]["message"]
        assert answer.status_code == 404
        assert message.startswith(f"this path does not exist: {root}{meant}"), message
    if "metrics" not in names:
        assert Client(app)("GET", root + meant).is_success
    assert Client(app)("GET", f"{root}/x").json()["error"]["message"] == "this path does not exist"


def test_a_method_that_is_not_there_names_those_of_every_route_of_the_path(client: Client) -> None:
    answer = client("POST", "/v1/datasets/d/documents/a.md", json={})
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PUT"


def test_names_may_hold_what_separates_in_a_path(client: Client) -> None:
    for dataset, name in (
        ("a/b", "x/../y.md"),
        ("..", "a?b#c%.md"),
        ("d e", "Ü/日.md"),
        ("%2F", "50%41.md"),
    ):
        arguments = {"dataset_id": dataset, "name": name}
        assert ask(client, "put_document", {**arguments, "content": "x"}).is_success
        found = ask(client, "get_document", arguments).json()
        assert (found["dataset_id"], found["name"]) == (dataset, name)


def test_what_writes_is_served_only_where_it_is_asked_for(service: Service) -> None:
    client = Client(create_app(service))
    service.put_document("d", "a.md", "x")
    for name, arguments, _ in CALLS:
        answer = ask(client, name, arguments)
        refused = answer.status_code == 403 and answer.json()["error"]["code"] == "READ_ONLY"
        assert refused == (OPERATIONS[name].effect != "reads"), name
    assert service.get_document("d", "a.md").version == 1


def test_an_unforeseen_failure_is_not_echoed(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Service, **options: Any) -> None:
        raise RuntimeError("the secret of /srv/kb.db")

    monkeypatch.setattr(Service, "list_datasets", broken)
    answer = Client(create_app(service))("GET", "/v1/datasets", headers={"X-Request-Id": "abc"})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "INTERNAL_ERROR"
    assert "secret" not in answer.text
    assert "/srv/kb.db" not in answer.text
    assert answer.headers["x-request-id"] == "abc"
    record = next(each for each in caplog.records if each.name == "triptych.http")
    assert record.exc_info
    assert record.fields["request_id"] == "abc"  # type: ignore[attr-defined]  # given by the log


def test_the_files_of_the_server_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Tea is hot.")
    options = ServiceOptions(locate=lambda: lambda document: tmp_path / document.name)
    with Service(MemoryStore(), options=options) as service:
        service.put_document("d", "a.md", "Tea is hot.")
        assert service.search("tea", dataset_id="d").hits[0].path == tmp_path / "a.md"
        client = Client(create_app(service))
        for name, query in (("search", {"query": "tea"}), ("search_many", {"queries": ["tea"]})):
            answer = ask(client, name, {**query, "dataset_id": "d"})
            assert "a.md" in answer.text
            assert str(tmp_path) not in answer.text


def test_a_store_that_fails_is_not_echoed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Service, **options: Any) -> None:
        raise triptych.StoreError("cannot read /srv/kb.db: malformed")

    monkeypatch.setattr(Service, "list_datasets", broken)
    answer = Client(create_app(service))("GET", "/v1/datasets")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "STORE_ERROR")
    assert "/srv" not in answer.text
