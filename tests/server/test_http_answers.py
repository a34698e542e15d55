"""Answers by a model over HTTP: pipelines, server-sent events, text in pieces."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

import triptych
from support.asgi import Client
from support.rows import each_row
from triptych import ProviderError, Service
from triptych.answers import Answer, ContextPack
from triptych.records import Generation, Message, NewDocument
from triptych.records.serialization import from_dict
from triptych.search import Pipeline
from triptych_models import HashEmbedder
from triptych_server.http import create_app
from triptych_server.http.foreign import nadir
from triptych_testing.fakes import ScriptedLLM

ANSWER = "Turn the lid\nto the left [1]."


class Breaking:
    """A model that breaks off after a word."""

    signature = "breaking"

    def generate(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Generation:
        raise ProviderError("key sk-123 of http://10.0.0.7 was refused")

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Iterator[str]:
        yield "Turn the "
        raise ProviderError("key sk-123 of http://10.0.0.7 was refused")


def opened(llm: Any) -> Service:
    pipelines = [Pipeline(name="support", description="Questions of users", datasets=["default"])]
    service = triptych.open("memory://", embedder="hash", llm=llm, pipelines=pipelines)
    service.put_document(
        "default", "kettle.md", "# Kettle\n\nTurn the lid to the left, and pull.\n"
    )
    return service


def client_of(llm: Any = None) -> Client:
    return Client(create_app(opened(ScriptedLLM(ANSWER, ANSWER) if llm is None else llm)))


def events(answer: httpx.Response) -> list[tuple[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n"):
        if block:
            *name, data = block.splitlines()
            assert data.startswith("data: ")
            found.append(
                ("".join(name).removeprefix("event: "), json.loads(data.removeprefix("data: ")))
            )
    return found


def test_pipelines_are_listed() -> None:
    assert client_of()("GET", "/v1/pipelines").json() == {
        "pipelines": [{"name": "support", "description": "Questions of users"}]
    }


def test_a_pipeline_answers() -> None:
    answer = client_of()("POST", "/v1/pipelines/support", json={"query": "How do I open the lid?"})
    found = answer.json()
    assert found["answer"] == ANSWER
    assert found["sources"][0]["id"] == "default/kettle.md"
    assert "Turn the lid" in found["sources"][0]["content"]
    assert found["tokens_used"] > 100
    assert 'rel="service-desc"' in answer.headers["link"]


def test_a_pipeline_answers_in_pieces() -> None:
    asked = {"query": "lid?", "stream": True}
    found = events(client_of()("POST", "/v1/pipelines/support", json=asked))
    kinds = [each["type"] for _, each in found]
    assert kinds[-2:] == ["sources", "done"]
    assert set(kinds[:-2]) == {"chunk"}
    assert "".join(each["content"] for _, each in found[:-2]) == ANSWER


@pytest.mark.parametrize("stream", [False, True])
def test_sources_have_their_score_and_are_left_out_on_request(stream: bool) -> None:
    client = client_of(ScriptedLLM(ANSWER, ANSWER, ANSWER))
    for given, shown in (
        ({}, True),
        ({"include_sources": True}, True),
        ({"include_sources": False}, False),
    ):
        asked = {"query": "lid?", "top_n": 0, "stream": stream, **given}
        answer = client("POST", "/v1/pipelines/support", json=asked)
        if stream:
            found = [each["sources"] for _, each in events(answer) if each["type"] == "sources"]
        else:
            found = [answer.json()["sources"]] if "sources" in answer.json() else []
        assert [[each["score"] > 0 for each in sources] for sources in found] == [[True]] * shown


def test_health_is_said_in_pgedges_word_too(monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened(None)
    client = Client(create_app(service))
    assert client("GET", "/v1/health").json()["status"] == "healthy"
    monkeypatch.setattr(service.documents, "list_datasets", lambda: 1 / 0)
    assert client("GET", "/v1/health").json()["status"] == "failed"


ROWS: dict[str, dict[str, Any]] = {
    "one": {"product": "pgAdmin", "version": 8},
    "two": {"product": "pgEdge", "version": 9.5},
    "three": {"product": "pgEdge", "beta": True},
}


@each_row(
    ("conditions", "logic", "names"),
    [
        ([("product", "=", "pgEdge")], None, {"two", "three"}),
        ([("product", "=", "pgEdge"), ("version", ">=", 9)], None, {"two"}),
        ([("product", "=", "pgAdmin"), ("beta", "=", True)], "or", {"one", "three"}),
        ([("product", "=", "pgEdge"), ("version", "<", 9)], "AND", set()),
        ([("version", "!=", 8)], None, {"two"}),  # as in SQL, not where it is NULL
        ([("version", "not in", [8])], None, {"two"}),
        ([("version", "IN", [8, 9.5])], None, {"one", "two"}),
        ([("version", "IS NULL", None)], None, {"three"}),
        ([("version", "is not null", None)], None, {"one", "two"}),
        ([("product", "LIKE", "%Adm%")], None, {"one"}),
        ([], None, {"one", "two", "three"}),
    ],
)
@each_row("own", [None, {"product": {"$ne": "pgAdmin"}}])
def test_a_filter_of_pgedge_selects_what_its_sql_would(
    conditions: Any, logic: Any, names: set[str], own: Any
) -> None:
    search = {"where": own} if own else {}
    pipelines = [Pipeline(name="docs", search=search)]
    with triptych.open("memory://", llm=ScriptedLLM(ANSWER), pipelines=pipelines) as service:
        service.put_documents(
            "d", [NewDocument(name=n, content=f"Turn {n}.", metadata=m) for n, m in ROWS.items()]
        )
        given = [
            {"column": column, "operator": operator, **({} if value is None else {"value": value})}
            for column, operator, value in conditions
        ]
        filter_ = {"conditions": given, **({"logic": logic} if logic else {})}
        asked = {"query": "turn", "filter": filter_}
        answer = Client(create_app(service))("POST", "/v1/pipelines/docs", json=asked)
    assert answer.status_code == 200, answer.text
    found = {each["id"].removeprefix("d/") for each in answer.json()["sources"]}
    assert found == names - ({"one"} if own else set())


@each_row(
    ("filter_", "said"),
    [
        ({"conditions": [{"column": "a", "operator": "~", "value": "x"}]}, "one of"),
        ({"conditions": [{"column": "a", "operator": "ILIKE", "value": "%x%"}]}, "one of"),
        ({"conditions": [{"column": "a", "operator": "LIKE", "value": "x%"}]}, "'%text%'"),
        ({"conditions": [{"column": "a", "operator": "="}]}, "None"),
        ({"conditions": [{"operator": "=", "value": 1}]}, "column"),
        ({"conditions": [{"column": "$and", "operator": "=", "value": 1}]}, "$and"),
        ({"conditions": [{"column": "a", "operator": "=", "value": 1}], "logic": "XOR"}, "XOR"),
        ("product = 'x'", "filter"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(filter_: Any, said: str) -> None:
    asked = {"query": "lid?", "filter": filter_}
    answer = client_of()("POST", "/v1/pipelines/support", json=asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert said in answer.json()["error"]["message"]


def test_a_pipeline_may_be_asked_in_a_conversation_and_for_fewer_sources() -> None:
    llm = ScriptedLLM("How do I open the lid?", ANSWER)
    asked = {
        "query": "And how?",
        "messages": [{"role": "user", "content": "Has it a lid?"}],
        "top_n": 1,
    }
    found = client_of(llm)("POST", "/v1/pipelines/support", json=asked).json()
    assert (found["answer"], len(found["sources"])) == (ANSWER, 1)


@each_row(
    ("path", "body", "status", "code"),
    [
        ("/v1/pipelines/none", {"query": "x"}, 404, "PIPELINE_NOT_FOUND"),
        ("/v1/pipelines/support", {}, 400, "INVALID_REQUEST"),
        ("/v1/pipelines/support", {"query": 5}, 400, "INVALID_REQUEST"),
        ("/v1/pipelines/support", {"query": "x", "colour": 1}, 400, "INVALID_REQUEST"),
        ("/v1/pipelines/support", {"query": "lid?"}, 502, "EXECUTION_ERROR"),
        ("/v1/pipelines/support", {"query": "lid?", "stream": False}, 502, "EXECUTION_ERROR"),
    ],
)
def test_a_pipeline_that_fails_has_its_code(path: str, body: Any, status: int, code: str) -> None:
    answer = client_of(Breaking())("POST", path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert "sk-123" not in answer.text


def test_a_pipeline_that_breaks_off_says_so_in_the_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = {"query": "lid?", "stream": True}
    answer = client_of(Breaking())("POST", "/v1/pipelines/support", json=asked)
    (_, first), (_, last) = events(answer)
    assert first == {"type": "chunk", "content": "Turn the"}
    assert (last["type"], last["error"]["code"]) == ("error", "STREAMING_ERROR")
    assert "sk-123" not in answer.text
    assert [each.levelname for each in caplog.records if each.name == "triptych.http"] == ["ERROR"]


class Refusing(Breaking):
    """A model that fails before its first word."""

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Iterator[str]:
        raise ProviderError("key sk-123 of http://10.0.0.7 was refused")
        yield ""


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/pipelines/support", {"query": "lid?", "stream": True}, "EXECUTION_ERROR"),
        ("/search", {"query": "lid?", "generate": True}, "PROVIDER_ERROR"),
    ],
)
def test_a_model_that_fails_before_its_first_word_has_a_status(
    caplog: pytest.LogCaptureFixture, path: str, body: Any, code: str
) -> None:
    answer = client_of(Refusing())("POST", path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, code)
    assert "sk-123" not in answer.text
    assert [each.levelname for each in caplog.records if each.name == "triptych.http"] == ["ERROR"]


def test_warnings_do_not_say_what_a_provider_said(monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(ScriptedLLM(ANSWER, ANSWER, ANSWER))

    def broken(self: Any, texts: Any, *, kind: str) -> Any:
        raise ProviderError("key sk-123 of http://10.0.0.7 was refused")

    monkeypatch.setattr(HashEmbedder, "embed", broken)
    for path, body in (
        ("/v1/pipelines/support", {"query": "lid?"}),
        ("/v1/pipelines/support", {"query": "lid?", "stream": True}),
        ("/v1/ask", {"question": "lid?", "dataset_id": "default"}),
        ("/v1/search", {"query": "lid?", "dataset_id": "default"}),
    ):
        answer = client("POST", path, json=body)
        assert answer.is_success, answer.text
        assert "the vector lane did not run" in answer.text, path
        assert "sk-123" not in answer.text, path


def test_an_unforeseen_failure_of_a_pipeline_is_internal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise KeyError("secret")

    monkeypatch.setattr(triptych.Service, "ask", broken)
    answer = client_of()("POST", "/v1/pipelines/support", json={"query": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert "secret" not in answer.text


def test_ask_answers_as_server_sent_events() -> None:
    asked = {"question": "How do I open the lid?", "dataset_id": "default"}
    accept = {"Accept": "text/event-stream"}
    found = events(client_of()("POST", "/v1/ask", json=asked, headers=accept))
    names = [name for name, _ in found]
    assert (names[0], names[-1], set(names[1:-1])) == ("context", "answer", {"text"})
    assert "".join(each["text"] for name, each in found if name == "text") == ANSWER
    answer = from_dict(Answer, found[-1][1])
    assert (answer.text, answer.pack) == (ANSWER, from_dict(ContextPack, found[0][1]))
    assert answer.citations[0].citation.doc_name == "kettle.md"


def test_what_fails_before_the_stream_has_a_status() -> None:
    asked = {"question": "x", "dataset_id": "none"}
    accept = {"Accept": "text/event-stream"}
    answer = client_of()("POST", "/v1/ask", json=asked, headers=accept)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND_ERROR")


def test_ask_that_breaks_off_ends_in_an_error() -> None:
    asked = {"question": "lid?", "dataset_id": "default"}
    accept = {"Accept": "text/event-stream"}
    found = events(client_of(Breaking())("POST", "/v1/ask", json=asked, headers=accept))
    assert found[-1][0] == "error"
    assert found[-1][1]["error"]["code"] == "PROVIDER_ERROR"


def test_a_search_with_generate_is_answered_as_text() -> None:
    answer = client_of()("POST", "/search", json={"query": "lid?", "generate": True, "top_k": 1})
    assert answer.text == ANSWER
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "content-length" not in answer.headers


def test_a_text_that_breaks_off_is_not_ended_as_a_whole_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="triptych.http")
    asked = {"query": "lid?", "generate": True}

    async def read() -> bytes:
        app = create_app(opened(Breaking()))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            return (await client.post("/search", json=asked)).content

    with pytest.raises(ProviderError):
        asyncio.run(read())
    (line,) = (each for each in caplog.records if each.getMessage() == "request")
    assert line.levelname == "ERROR"
    assert line.exc_info is not None
    assert line.exc_info[0] is ProviderError


def test_a_client_that_goes_away_ends_the_model() -> None:
    closed: list[str] = []

    class Endless:
        signature = "endless"

        def generate(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Generation:
            raise AssertionError

        def stream(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Iterator[str]:
            try:
                while True:
                    yield "word "
            finally:
                closed.append("model")

    app = create_app(opened(Endless()))
    body = json.dumps({"query": "lid?", "generate": True}).encode()
    received = 0

    async def run() -> None:
        gone = asyncio.Event()
        messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal received
            received += len(message.get("body", b""))
            if received > 50:
                gone.set()

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/search",
            "raw_path": b"/search",
            "query_string": b"",
            "headers": headers,
        }
        await asyncio.wait_for(app(scope, receive, send), 60)

    asyncio.run(run())
    assert closed == ["model"]


def test_a_server_that_stops_ends_the_model_between_two_pieces() -> None:
    closed: list[str] = []
    waits, go_on = threading.Event(), threading.Event()

    class Slow(Breaking):
        def stream(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Iterator[str]:
            try:
                yield "word "
                waits.set()
                go_on.wait(30)
                yield "word "
            finally:
                closed.append("model")

    app = create_app(opened(Slow()))

    async def run() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asked = {"question": "lid?", "dataset_id": "default"}
            headers = {"Accept": "text/event-stream"}
            task = asyncio.create_task(client.post("/v1/ask", json=asked, headers=headers))
            await asyncio.to_thread(waits.wait, 30)
            task.cancel()
            asyncio.get_running_loop().call_later(0.1, go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    assert closed == ["model"]


def test_search_results_are_those_of_nadir() -> None:
    client = client_of()
    answer = client("POST", "/search", json={"query": "lid", "top_k": 3})
    (found,) = answer.json()["results"]
    assert set(found) == {"file_path", "header", "line_start", "score", "text"}
    assert (found["file_path"], found["header"], found["line_start"]) == ("kettle.md", "Kettle", 1)
    for filter_, count in (
        ({"file_path": "kettle.md"}, 1),
        ({"file_path": "other.md"}, 0),
        ({"header": "Kettle"}, 1),
        ({"header": "Stove", "file_path": "kettle.md"}, 0),
    ):
        asked = {"query": "lid", "filter": filter_}
        assert len(client("POST", "/search", json=asked).json()["results"]) == count


@each_row(
    "asked",
    [
        {"keyword": "lid"},
        {"keyword": "lid", "top_k": 0},
        {"query": "", "keyword": "lid", "generate": True},
        {"query": "stove", "keyword": "lid"},
    ],
)
def test_a_keyword_of_nadir_is_searched_by_keyword(asked: Any) -> None:
    service = opened(None)
    service.put_document("default", "stove.md", "A stove is hot.\n")
    (found,) = Client(create_app(service))("POST", "/search", json=asked).json()["results"]
    assert found["file_path"] == "kettle.md"


def test_zero_is_nadirs_default_of_top_k() -> None:
    service = opened(None)
    service.put_documents("default", {f"{n}.md": f"Lid {n}." for n in range(9)})
    client = Client(create_app(service))
    for top_k, count in ((0, 5), (7, 7)):
        asked = {"query": "lid", "top_k": top_k}
        assert len(client("POST", "/search", json=asked).json()["results"]) == count


@pytest.mark.parametrize(
    "asked", [{}, {"query": "", "keyword": ""}, {"query": "a", "keyword": "b", "generate": True}]
)
def test_a_search_of_nadir_needs_one_question(asked: Any) -> None:
    answer = client_of()("POST", "/search", json=asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


def test_an_ingest_refuses_files_and_arguments_by_name() -> None:
    client = Client(create_app(opened(None), write=True))
    for options in (
        {"files": {"files": ("a.md", b"# A")}},
        {"json": {"path": "a.md"}},
        {"content": b"# A", "headers": {"Content-Type": "text/markdown"}},
    ):
        answer = client("POST", "/ingest", **options)
        assert answer.status_code == 415
        assert "takes no files" in answer.json()["error"]["message"]
    assert client("POST", "/ingest", json={}).status_code == 501  # as without a body


def test_healthz_looks_once_for_many_that_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened(None)
    looked: list[int] = []
    original = service.health

    def look(**options: Any) -> Any:
        looked.append(1)
        time.sleep(0.05)
        return original(**options)

    monkeypatch.setattr(service, "health", look)
    monkeypatch.setattr(nadir, "_FRESH", 60.0)

    async def many() -> None:
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await asyncio.gather(*(client.get("/healthz") for _ in range(8)))

    asyncio.run(many())
    assert len(looked) == 1


def test_healthz_says_whether_the_store_answers() -> None:
    service = opened(None)
    client = Client(create_app(service))
    assert client("GET", "/healthz").json() == {"status": "ok"}
    failing = opened(None)
    failing.close()
    answer = Client(create_app(failing))("GET", "/healthz")
    assert (answer.status_code, answer.json()) == (
        503,
        {"status": "failed", "failed": ["store"]},
    )
