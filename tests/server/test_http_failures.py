"""A failure of the server at every route: its status, when to come again, and the log's reason."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import triptych
from support.asgi import Client
from support.console import TOKEN
from support.wire_calls import CALLS
from triptych import Service, errors
from triptych.search import Pipeline
from triptych_adapters.wire import OPERATIONS, query_pairs
from triptych_adapters.wire.errors import error_form
from triptych_server.http import create_app
from triptych_testing.fakes import ScriptedLLM

REASON = "the reason that the log alone has"
FOREIGN: dict[str, dict[str, Any]] = {
    "embed_index": {"documents": [{"id": "a", "text": "x"}]},
    "embed_delete_by_query": {"id": "a"},
    "embed_query": {"text": "tea"},
    "run_pipeline": {"query": "tea"},
    "nadir_search": {"query": "tea"},
    "replay": {"receipt": {}},
}
FORMS = {"console_put_post": {"dataset": "d", "name": "a.md", "content": "x"}}
PLACES = {"dataset_id": "d", "name": "a.md", "layer": "L0", "folder": "g/", "pipeline": "p"}
PLACES |= {"id": "a", "page": "1", "file": "style.css"}
# What asks nothing of the Service, or takes what only a call before it has made.
OTHERS = {"live", "openapi", "service", "list_pipelines", "verify", "replay", "embed_stats"}
OTHERS |= {"healthz"}  # which shows the checks that fail


@pytest.fixture
def service() -> Iterator[Service]:
    with triptych.open(
        "memory://", embedder="hash", llm=ScriptedLLM("tea"), pipelines=[Pipeline(name="p")]
    ) as service:
        service.put_document("d", "a.md", "tea")
        yield service


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let every call of a Service, and of its pipelines, fail."""

    def broken(*args: Any, **options: Any) -> Any:
        raise error

    for name, _ in inspect.getmembers(Service, inspect.isfunction):
        if not name.startswith("_") and name not in ("close", "pipeline"):
            monkeypatch.setattr(Service, name, broken)


def requests(service: Service) -> Iterator[tuple[Any, str, str, dict[str, Any]]]:
    """A request of each route and method, with arguments that it takes."""
    arguments = {name: given for name, given, _ in reversed(CALLS)}
    routes: Any = create_app(service, write=True, console=True, sync=_sync).routes
    for route in routes:
        method = sorted(route.methods)[0]
        name = route.name.removesuffix("_by_pipeline")
        path = route.path.replace(":path", "")
        given = {**arguments.get(name, {}), **FOREIGN.get(name, {})}
        others = {key: each for key, each in given.items() if f"{{{key}" not in path}
        options: dict[str, Any] = {"headers": {"Authorization": "x", "X-Request-Id": "r"}}
        if path.startswith(("/console", "/?")) or path == "/":
            options["headers"] |= TOKEN | {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
            if method == "POST":
                options["data"] = {"form_token": "token"} | FORMS.get(name, {})
            else:
                options["params"] = {"q": "tea", "dataset": "d"}
        elif method in ("POST", "PUT", "PATCH"):
            options["json"] = others
        elif name in OPERATIONS:
            options["params"] = query_pairs(OPERATIONS[name].parameters, others)
        else:
            options["params"] = others
        path = path.replace("/v1/pipelines/{name}", "/v1/pipelines/p").format(**PLACES)
        yield name, method, path, options
        if name in ("ask", "run_pipeline"):
            accepts = {**options["headers"], "Accept": "text/event-stream"}
            yield name, method, path, {**options, "headers": accepts}


def _sync(*args: Any) -> Any:
    raise AssertionError("it is replaced")


@pytest.mark.parametrize(
    "kind",
    [
        *(errors.StoreError, errors.StoreAwayError, errors.StoreLockedError),
        *(errors.ProviderError, errors.ProviderTimeoutError, errors.DerivationError),
        RuntimeError,
    ],
)
def test_what_fails_at_a_route_is_logged_with_its_reason(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
) -> None:
    caplog.set_level(logging.INFO, "triptych.http")
    error = kind(REASON)

    def broken(*args: Any) -> Any:
        raise error

    client = Client(create_app(service, write=True, console=True, sync=broken))
    asked = list(requests(service))
    fail(monkeypatch, error)
    form = error_form(error)
    status = 500 if form is None else form.status
    reached = set()
    for name, method, path, options in asked:
        caplog.clear()
        answer = client(method, path, **options)
        records = [each for each in caplog.records if each.name == "triptych.http"]
        assert len(records) == 1, (name, answer.text)
        (record,) = records
        assert record.fields["request_id"] == "r"  # type: ignore[attr-defined]  # by the log
        if name == "healthz":  # it answers which checks fail
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
            continue
        told = "server&#39;s log" in answer.text or "server's log" in answer.text
        if answer.status_code >= 500 or told:
            reached.add(name)
            assert REASON not in answer.text, name
            assert record.levelname == "ERROR", (name, answer.text)
            assert record.exc_info is not None
            assert record.exc_info[1] is error
            assert answer.status_code == status, (name, answer.text)
            assert ("retry-after" in answer.headers) == (status == 503), (name, answer.headers)
    assert {name for name, *_ in asked if not name.startswith("console")} - reached <= OTHERS
