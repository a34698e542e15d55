"""The API of gofastr's embed battery: its routes, its meanings, its security contract."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import triptych
from support.asgi import Client
from triptych import ProviderError, Rerank, Service, ServiceOptions
from triptych.errors import AuthenticationError
from triptych.records import QueryVariant
from triptych_backends.memory import MemoryStore
from triptych_models import HashEmbedder
from triptych_server.http import Limits, create_app

KEY = {"Authorization": "Bearer anything"}
DOCUMENTS = [
    {"id": "auth.go", "source": "auth.go", "text": "Auth middleware verifies sessions and JWTs."},
    {
        "id": "db.go",
        "source": "db.go",
        "text": "The pool of the database.",
        "metadata": {"kind": "code"},
    },
    {
        "id": "notes/é.md",
        "text": "Ünïcode words of sessions.",
        "metadata": {"kind": "doc", "year": 2026},
    },
]
ROUTES = [
    ("POST", "/v1/index", {"documents": [{"id": "x", "text": "x"}]}),
    ("POST", "/v1/query", {"text": "x"}),
    ("GET", "/v1/stats", None),
    ("DELETE", "/v1/doc/x", None),
    ("DELETE", "/v1/doc?id=x", None),
]


@pytest.fixture
def service() -> Iterator[Service]:
    with triptych.open("memory://", embedder=HashEmbedder()) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Client:
    client = Client(create_app(service, write=True), **KEY)
    assert client("POST", "/v1/index", json={"documents": DOCUMENTS}).json() == {"added": 3}
    return client


def hits(client: Client, **query: Any) -> list[Any]:
    answer = client("POST", "/v1/query", json=query)
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["hits"]
    return found


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_every_route_needs_a_header_that_is_not_empty(
    service: Service, method: str, path: str, body: Any
) -> None:
    client = Client(create_app(service, write=True))
    options = {} if body is None else {"json": body}
    for headers in ({}, {"Authorization": ""}, {"Authorization": "  "}):
        answer = client(method, path, headers=headers, **options)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    assert client(method, path, headers=KEY, **options).status_code in (200, 202, 204, 404)


def test_where_keys_are_checked_a_wrong_one_is_refused(service: Service) -> None:
    def nobody(authorization: str | None) -> Service:
        raise AuthenticationError("no such key")

    client = Client(create_app(service, write=True, authenticate=nobody), **KEY)
    for method, path, body in ROUTES:
        assert client(method, path, json=body).status_code == 401


@pytest.mark.parametrize("path", ["/v1/index", "/v1/query"])
def test_posts_need_their_content_type(client: Client, path: str) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/jsonx"}):
        answer = client("POST", path, content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (
            415,
            "UNSUPPORTED_MEDIA_TYPE",
        )


@pytest.mark.parametrize("path", ["/v1/index", "/v1/query"])
def test_bodies_have_a_mebibyte(client: Client, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    whole = b'{"text": "x", "documents": []}'
    for more, status in ((0, 400), (1, 413)):
        body = whole.ljust((1 << 20) + more)
        assert client("POST", path, content=body, headers=headers).status_code == status


def test_failures_are_never_echoed(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise RuntimeError("driver: password of postgres is hunter2")

    for name in ("put_documents", "search", "stats", "delete_document"):
        monkeypatch.setattr(Service, name, broken)
    for method, path, body in ROUTES:
        answer = client(method, path, **({} if body is None else {"json": body}))
        assert answer.status_code == 500
        assert answer.json()["error"]["message"] == "internal error"
        assert "hunter2" not in answer.text


def test_index_counts_what_it_stored_and_replaces_by_id(service: Service, client: Client) -> None:
    answer = client("POST", "/v1/index", json={"documents": [{"id": "db.go", "text": "New."}]})
    assert (answer.status_code, answer.json()) == (202, {"added": 1})
    assert service.get_document("default", "db.go").content == "New."
    assert service.count_documents("default") == 3
    mixed = [{"id": "a", "text": "x"}, {"id": "b/", "text": "y"}]
    answer = client("POST", "/v1/index", json={"documents": mixed})
    assert answer.status_code == 400
    assert service.count_documents("default") == 3


def test_index_names_what_it_could_not_derive() -> None:
    class Picky(HashEmbedder):
        def embed(self, texts: Any, *, kind: Any) -> Any:
            if any("bad" in text for text in texts):
                raise ProviderError("key sk-123 was refused")
            return super().embed(texts, kind=kind)

    with triptych.open("memory://", embedder=Picky()) as service:
        client = Client(create_app(service, write=True), **KEY)
        mixed = [{"id": "a", "text": "good"}, {"id": "b", "text": "bad"}]
        answer = client("POST", "/v1/index", json={"documents": mixed})
    assert (answer.status_code, answer.json()["added"]) == (202, 1)
    assert [each["name"] for each in answer.json()["failures"]] == ["b"]
    assert "sk-123" not in answer.text


def test_a_query_is_by_vectors_unless_it_is_hybrid(client: Client) -> None:
    plain = hits(client, text="session middleware")
    assert {each["reason"] for each in plain} == {"vec"}
    both = hits(client, text="session middleware", hybrid=True)
    assert {each["reason"] for each in both} == {"hybrid"}
    assert both[0]["chunk"]["doc_id"] == "auth.go"


def test_ten_hits_are_the_default_of_k(client: Client) -> None:
    many = [{"id": f"{n}.md", "text": f"session {n}"} for n in range(15)]
    client("POST", "/v1/index", json={"documents": many})
    for k, count in ((None, 10), (0, 10), (3, 3)):
        given = {} if k is None else {"k": k}
        assert len(hits(client, text="session", **given)) == count


@pytest.mark.parametrize(
    ("filter_", "names"),
    [
        ({"source": "db.go"}, ["db.go"]),
        ({"kind": "doc"}, ["notes/é.md"]),
        ({"meta_match": {"year": 2026, "kind": "doc"}}, ["notes/é.md"]),
        ({"kind": "doc", "meta_match": {"year": 2025}}, []),
        ({"source": ""}, ["auth.go", "db.go", "notes/é.md"]),
        ({"meta_match": {"tags": ["a", "b"]}}, ["tagged"]),
        ({"meta_match": {"tags": ["a"]}}, []),
        ({"meta_match": {"tags": "a"}}, []),
    ],
)
def test_filters_act_before_the_scores(client: Client, filter_: Any, names: list[str]) -> None:
    tagged = {"id": "tagged", "text": "sessions", "metadata": {"tags": ["a", "b"]}}
    if "tags" in str(filter_):
        client("POST", "/v1/index", json={"documents": [tagged]})
    found = hits(client, text="sessions", filter=filter_)
    assert sorted(each["chunk"]["doc_id"] for each in found) == names


@pytest.mark.parametrize("value", [None, {"$gte": 2019}])
def test_a_value_that_metadata_cannot_have_is_refused(client: Client, value: Any) -> None:
    body = {"text": "sessions", "filter": {"meta_match": {"year": value}}}
    assert client("POST", "/v1/query", json=body).status_code == 400


GO = "package a\n\n" + "\n\n".join(f"func F{n}() {{\n" + "\tx := 1\n" * 40 + "}" for n in range(3))
MARKDOWN = "# A\n\n" + "x " * 300 + "\n\n# B\n\n" + "y " * 300


@pytest.mark.parametrize(
    ("given", "text", "headings"),
    [
        ({"source": "auth.go"}, GO, ["F0", "F1", "F2"]),
        ({"metadata": {"kind": "go"}}, GO, ["F0", "F1", "F2"]),
        ({"source": "auth.md", "metadata": {"kind": "go"}}, GO, ["F0", "F1", "F2"]),
        ({"source": "auth.go", "metadata": {"kind": "code"}}, GO, ["F0", "F1", "F2"]),
        ({"metadata": {"kind": "py"}}, "def f():\n    pass\n", ["f"]),
        ({"source": "n.md"}, MARKDOWN, ["A", "B"]),
        ({"source": "docs/N.MARKDOWN"}, MARKDOWN, ["A", "B"]),
        ({"metadata": {"kind": "md"}}, MARKDOWN, ["A", "B"]),
        ({"metadata": {"kind": "md"}, "source": "a.go"}, MARKDOWN, ["A", "B"]),
        ({"metadata": {"kind": "text"}, "source": "n.md"}, MARKDOWN, []),
        ({"source": "n.txt"}, MARKDOWN, []),
    ],
)
def test_kind_and_source_choose_the_chunker(
    service: Service, client: Client, given: Any, text: str, headings: list[str]
) -> None:
    document = {"id": "one", "text": text, **given}
    assert client("POST", "/v1/index", json={"documents": [document]}).status_code == 202
    paths = [each.heading_path for each in service.chunks.iter_chunks("default", "one")]
    assert list(dict.fromkeys(path[-1] for path in paths if path)) == headings
    if kind := given.get("metadata", {}).get("kind"):
        assert hits(client, text="x", filter={"kind": kind})[0]["chunk"]["doc_id"] == "one"


def test_no_documents_are_refused(client: Client) -> None:
    answer = client("POST", "/v1/index", json={"documents": []})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("path", ["/v1/doc", "/v1/doc?id=", "/v1/doc/"])
def test_a_delete_without_an_id_is_refused(client: Client, path: str) -> None:
    answer = client("DELETE", path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert client("GET", "/v1/stats").json()["docs"] == 3


def test_a_value_of_metadata_that_is_a_map_is_refused_by_what_may_stand_there(
    client: Client,
) -> None:
    documents = [{"id": "m", "text": "x", "metadata": {"deep": {"x": 1}}}]
    answer = client("POST", "/v1/index", json={"documents": documents})
    assert answer.status_code == 400
    assert "an object with $date or a list, not" in answer.json()["error"]["message"]


def test_a_hit_has_its_chunk(client: Client) -> None:
    (found,) = hits(client, text="sessions", filter={"kind": "doc"})
    chunk = found["chunk"]
    text = DOCUMENTS[2]["text"]
    assert set(found) == {"chunk", "score", "reason"}
    assert set(chunk) == {"id", "doc_id", "source", "text", "offset", "metadata"}
    assert chunk["text"] == text
    assert chunk["offset"] == [0, len(str(text).encode())]
    assert chunk["metadata"] == {"kind": "doc", "year": 2026}
    assert found["score"] > 0


def test_diversity_is_asked_for_by_its_share(client: Client) -> None:
    copies = [{"id": f"copy{n}", "text": DOCUMENTS[0]["text"]} for n in range(4)]
    client("POST", "/v1/index", json={"documents": copies})
    found = hits(client, text="auth middleware sessions", k=2, mmr_lambda=0.3)
    assert {each["reason"] for each in found} == {"mmr"}
    assert found[1]["chunk"]["text"] != found[0]["chunk"]["text"]
    plain = hits(client, text="auth middleware sessions", k=2)
    assert plain[1]["chunk"]["text"] == plain[0]["chunk"]["text"]


class Backwards:
    """Prefers what is longest."""

    signature = "backwards"

    def scores(self, query: str, texts: Any) -> list[float]:
        return [float(-len(text)) for text in texts]


def test_a_rerank_needs_a_reranker_and_runs_only_when_asked_for(client: Client) -> None:
    answer = client("POST", "/v1/query", json={"text": "x", "rerank": True})
    assert answer.status_code == 400
    assert "has no reranker" in answer.json()["error"]["message"]
    steps = [Rerank(Backwards())]
    with triptych.open("memory://", embedder=HashEmbedder(), postprocessors=steps) as service:
        reranking = Client(create_app(service, write=True), **KEY)
        reranking("POST", "/v1/index", json={"documents": DOCUMENTS})
        plain = hits(reranking, text="auth middleware verifies sessions")
        ordered = hits(reranking, text="auth middleware verifies sessions", rerank=True)
    assert plain[0]["chunk"]["doc_id"] == "auth.go"
    assert ordered[0]["reason"] == "rerank"
    assert ordered[0]["chunk"]["doc_id"] == "db.go"


class Counted:
    """A rewriter and a step that change nothing, and count."""

    signature = "counted"
    asked = 0

    def rewrite(self, query: Any) -> list[QueryVariant]:
        self.asked += 1
        return [QueryVariant(text=query.text)]

    def depth(self, query: Any) -> int:
        return int(query.top_k)

    def __call__(self, query: Any, hits: Any, reader: Any) -> Any:
        self.asked += 100
        return hits


def test_the_servers_other_steps_run_whatever_is_asked_for() -> None:
    counted = Counted()
    options = ServiceOptions(
        embedder=HashEmbedder(), rewriter=counted, postprocessors=[counted, Rerank(Backwards())]
    )
    with Service(MemoryStore(), options=options) as service:
        client = Client(create_app(service, write=True), **KEY)
        client("POST", "/v1/index", json={"documents": DOCUMENTS})
        for asked in ({}, {"rerank": True}, {"mmr_lambda": 0.5}):
            counted.asked = 0
            hits(client, text="sessions", **asked)
            assert counted.asked == 101


def test_what_embeds_does_not_keep_others_waiting() -> None:
    embeds, go_on = threading.Event(), threading.Event()

    class Slow(HashEmbedder):
        def embed(self, texts: Any, *, kind: Any) -> Any:
            embeds.set()
            assert go_on.wait(30)
            return super().embed(texts, kind=kind)

    async def both(app: Any) -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=KEY
        ) as client:
            body = {"documents": DOCUMENTS}
            first = asyncio.create_task(client.post("/v1/index", json=body))
            await asyncio.to_thread(embeds.wait, 30)
            second = await client.get("/v1/datasets")
            go_on.set()
            return [(await first).status_code, second.status_code]

    with triptych.open("memory://", embedder=Slow()) as service:
        limits = Limits(threads=1, seconds=60)
        assert asyncio.run(both(create_app(service, write=True, limits=limits))) == [202, 200]


def test_stats_count_and_name_the_model(service: Service, client: Client) -> None:
    stats = client("GET", "/v1/stats").json()
    embedder = service.options.embedder
    assert embedder is not None
    assert stats == {"docs": 3, "chunks": 3, "dim": 256, "model": embedder.signature}
    empty = client("GET", "/v1/stats?dataset=other").json()
    assert empty == {"docs": 0, "chunks": 0, "dim": 0, "model": ""}


@pytest.mark.parametrize("path", ["/v1/doc/notes/%C3%A9.md", "/v1/doc?id=notes/%C3%A9.md"])
def test_a_delete_takes_the_chunks_along_and_may_be_repeated(client: Client, path: str) -> None:
    for _ in range(2):
        answer = client("DELETE", path)
        assert (answer.status_code, answer.content) == (204, b"")
    assert client("GET", "/v1/stats").json()["docs"] == 2
    assert not hits(client, text="sessions", filter={"kind": "doc"})


def test_another_dataset_may_be_named(service: Service, client: Client) -> None:
    one = {"documents": [{"id": "a", "text": "x"}]}
    assert client("POST", "/v1/index?dataset=other", json=one).json() == {"added": 1}
    assert service.count_documents("other") == 1
    assert client("POST", "/v1/index?datset=other", json=one).status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/doc/auth.go?id=db.go"),
        ("DELETE", "/v1/doc?id=auth.go&id=db.go"),
        ("GET", "/v1/stats?dataset=default&dataset=other"),
        ("GET", "/v1/stats?id=auth.go"),
        ("GET", "/v1/stats?dataset=%ff"),
    ],
)
def test_a_query_that_can_be_read_in_two_ways_is_refused(
    client: Client, method: str, path: str
) -> None:
    answer = client(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert client("GET", "/v1/stats").json()["docs"] == 3


def test_the_only_dataset_need_not_be_named(service: Service) -> None:
    service.put_document("notes", "a.md", "A word of sessions.")
    client = Client(create_app(service, write=True), **KEY)
    assert client("POST", "/v1/query", json={"text": "sessions"}).json()["hits"]
    assert client("GET", "/v1/stats").json()["chunks"] == 1
    assert client("POST", "/search", json={"query": "sessions"}).json()["results"]
    service.put_document("more", "b.md", "More.")
    several = client("POST", "/search", json={"query": "sessions"})
    assert (several.status_code, "'more', 'notes'" in several.text) == (400, True)


def test_reads_and_writes_that_name_no_dataset_mean_the_only_one(service: Service) -> None:
    service.put_document("only", "a.md", "The broker listens on port 1883.")
    client = Client(create_app(service, write=True), **KEY)
    more = {"documents": [{"id": "b.md", "text": "The valve closes at six."}]}
    assert client("POST", "/v1/index", json=more).json() == {"added": 1}
    assert list(service.list_datasets()) == ["only"]
    assert client("GET", "/v1/stats").json()["docs"] == 2
    assert client("DELETE", "/v1/doc/a.md").status_code == 204
    assert client("GET", "/v1/stats").json()["docs"] == 1


def test_of_several_datasets_one_is_named_by_the_request_or_the_server(service: Service) -> None:
    for dataset in ("one", "two"):
        service.put_document(dataset, "a.md", f"The broker of {dataset}.")
    client = Client(create_app(service, write=True), **KEY)
    for method, path, body in ROUTES:
        answer = client(method, path, json=body)
        assert answer.status_code == 400
        assert "'one', 'two'" in answer.text
    named = Client(create_app(service, write=True, dataset="default"), **KEY)
    assert named("POST", "/v1/index", json=ROUTES[0][2]).status_code == 202
    assert list(service.list_datasets()) == ["default", "one", "two"]
    assert client("GET", "/v1/stats").json()["docs"] == 1
