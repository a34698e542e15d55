"""The OpenAPI document says what is served, and how it fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import triptych
from support.asgi import Client
from support.wire_calls import CALLS
from triptych import Rerank, Service
from triptych.records.serialization import to_json
from triptych_adapters.wire import OPERATIONS, ROUTES
from triptych_models import HashEmbedder
from triptych_server.http import create_app
from triptych_testing import ScriptedLLM, failures

METHODS = {"get", "put", "post", "patch", "delete"}


@pytest.fixture
def service() -> Iterator[Service]:
    with triptych.open("memory://", embedder="none") as service:
        yield service


def described(service: Service, **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = Client(create_app(service, **options))("GET", "/v1/openapi.json").json()
    return made


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        assert set(item) <= METHODS
        for method, operation in item.items():
            yield method.upper(), path, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_what_is_served_is_described_and_the_other_way_round(service: Service) -> None:
    app = create_app(service)
    served = {
        (method, route.path.replace(":path}", "}"))
        for route in app.routes
        for method in (route.methods or set()) - {"HEAD"}
    }
    document = described(service)
    assert document["openapi"] == "3.1.0"
    assert {(method, path) for method, path, _ in operations(document)} == served
    names = [operation["operationId"] for *_, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert set(OPERATIONS) < set(names)


def test_every_reference_leads_somewhere(service: Service) -> None:
    document = described(service)
    for reference in references(document):
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place


def test_answers_are_as_they_are_described() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    llm = ScriptedLLM("tea", "It is tea [1].")
    with triptych.open("memory://", embedder=HashEmbedder(), llm=llm) as service:
        document = described(service)
        for name, arguments, _ in CALLS:
            operation = OPERATIONS[name]
            answer = to_json(operation.run(service, **operation.read(arguments)))
            route = ROUTES[name]
            item = document["paths"][route.path.replace(":path}", "}")][route.method.lower()]
            schema = item["responses"]["200"]["content"]["application/json"]["schema"]
            whole = {**schema, "components": document["components"]}
            jsonschema.validate(answer, whole)
            if "$ref" in schema:
                kind = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                assert set(answer) == set(kind["properties"]) == set(kind["required"]), name


def test_every_argument_of_an_operation_is_described_once(service: Service) -> None:
    document = described(service)

    def is_described_once(name: str) -> None:
        route = ROUTES[name]
        operation = document["paths"][route.path.replace(":path}", "}")][route.method.lower()]
        body = operation.get("requestBody", {"content": {}})["content"].get("application/json", {})
        in_body = list(body.get("schema", {}).get("properties", {}))
        elsewhere = [each["name"] for each in operation.get("parameters", [])]
        assert sorted(in_body + elsewhere) == sorted(OPERATIONS[name].parameters["properties"])

    assert failures(OPERATIONS, is_described_once) == []


def test_every_failure_has_the_envelope(service: Service) -> None:
    document = described(service)
    for method, path, operation in operations(document):
        assert {"400", "404", "405", "413", "500", "503"} <= set(operation["responses"]), path
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert response == {"$ref": f"#/components/responses/{status}"}, (method, path)
    for response in document["components"]["responses"].values():
        schema = response["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Error"}


def test_keys_are_described_where_they_are_checked(service: Service) -> None:
    open_, keyed = described(service), described(service, authenticate=lambda header: service)
    assert not any(operation["security"] for *_, operation in operations(open_))
    for _, path, operation in operations(keyed):
        free = path in ("/v1/live", "/v1/openapi.json", "/healthz")
        assert operation["security"] == ([] if free else [{"bearer": []}])
        assert ("401" in operation["responses"]) != free


def test_a_rerank_is_described_where_there_is_a_reranker(service: Service) -> None:
    def rerank(document: dict[str, Any]) -> Any:
        body = document["paths"]["/v1/query"]["post"]["requestBody"]
        return body["content"]["application/json"]["schema"]["properties"]["rerank"].get("enum")

    class Scorer:
        signature = "scorer"

        def scores(self, query: str, texts: Any) -> Any:
            return [0.0] * len(texts)

    assert rerank(described(service)) == [False]
    with triptych.open("memory://", embedder="none", postprocessors=[Rerank(Scorer())]) as other:
        assert rerank(described(other)) is None


def test_the_document_is_made_once_for_it_needs_no_key(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def counted(*args: Any) -> dict[str, Any]:
        made.append(args)
        return {"openapi": "3.1.0", "paths": {}}

    monkeypatch.setattr("triptych_server.http.app.document", counted)
    client = Client(create_app(service))
    first, second = (client("GET", "/v1/openapi.json") for _ in range(2))
    assert first.content == second.content
    assert len(made) == 1
    again = client("GET", "/v1/openapi.json", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
