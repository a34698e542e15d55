"""Embedders and the reranker against a real HTTP server that speaks each provider's format."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from support.awaited import AwaitedEmbedder, RemoteEmbedder
from support.provider_server import (
    Answerer,
    Asked,
    ProviderServer,
    Reply,
    as_json,
    in_turn,
    serving,
    vector,
)
from support.rows import each_row
from triptych.errors import CancelledError, ProviderError, RateLimitedError, ValidationError
from triptych.vectors import embedding
from triptych_providers import (
    BatchLimits,
    Connection,
    OllamaEmbedder,
    OpenAIEmbedder,
    Retries,
    VoyageEmbedder,
    VoyageReranker,
)

KEY = "pa-test-0123456789abcdef"
WIDTH = 7
E = TypeVar("E", bound=RemoteEmbedder)
MADE: list[RemoteEmbedder | VoyageReranker] = []
FAST = Connection(retries=Retries(attempts=2, base=0.001))


AWAITED: list[bool] = []


@pytest.fixture(autouse=True, params=["blocking", "awaited"])
def close_all(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test twice: by the calls that block, and by those for an event loop."""
    AWAITED[:] = [request.param == "awaited"]
    yield
    while MADE:
        MADE.pop().close()


def kept(embedder: E) -> E:
    MADE.append(embedder)
    model: Any = AwaitedEmbedder(embedder) if AWAITED[0] else embedder
    made: E = model
    return made


def openai(server: ProviderServer, model: str = "own", **how: Any) -> OpenAIEmbedder:
    how.setdefault("connection", FAST)
    return kept(OpenAIEmbedder(model, api_key=KEY, base_url=server.url, **how))


def ollama(server: ProviderServer, model: str = "own", **how: Any) -> OllamaEmbedder:
    how.setdefault("connection", FAST)
    return kept(OllamaEmbedder(model, api_key=KEY, base_url=server.url, **how))


def voyage(server: ProviderServer, model: str = "own", **how: Any) -> VoyageEmbedder:
    how.setdefault("connection", FAST)
    return kept(VoyageEmbedder(model, api_key=KEY, base_url=server.url, **how))


def reranker(server: ProviderServer) -> VoyageReranker:
    MADE.append(made := VoyageReranker("own", api_key=KEY, base_url=server.url, connection=FAST))
    return made


def shaped(asked: Asked, rows: list[Any]) -> dict[str, Any]:
    """The rows as the provider that was asked would send them; OpenAI's out of order."""
    if asked.path == "/api/embed":
        return {"embeddings": rows, "prompt_eval_count": 3 * len(rows)}
    data = [{"index": n, "embedding": row} for n, row in enumerate(rows)]
    tokens = 3 * len(rows)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"data": data[::-1], "usage": usage}


def embeds(width: int = WIDTH, limit: int | None = None) -> Answerer:
    """Answers in the format of the path; refuses texts longer than ``limit`` code points."""

    def answer(asked: Asked) -> Reply:
        texts = asked.body["input"]
        longest = max(len(text) for text in texts)
        if not all(text.strip() for text in texts):
            return as_json({"error": "input cannot be an empty string"}, 400)
        if limit is not None and longest > limit:
            said = f"maximum context length is {limit} tokens, however you requested {longest}"
            return as_json({"error": {"message": said}}, 400)
        return as_json(shaped(asked, [vector(text, width) for text in texts]))

    return answer


def expected(texts: list[str], width: int = WIDTH) -> NDArray[np.float32]:
    rows = np.array([vector(text, width) for text in texts])
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit.astype(np.float32)


def width_of(embedder: RemoteEmbedder) -> int | None:
    return embedder.dimension


Make = Callable[..., RemoteEmbedder]
MAKERS = pytest.mark.parametrize("make", [openai, ollama, voyage])
TEXTS = [f"text {n} " + "é字🎈"[n % 3] * n for n in range(23)]


@MAKERS
@each_row("kind", ["document", "query"])
def test_rows_are_unit_float32_in_order(make: Make, kind: Any) -> None:
    with serving(embeds()) as server:
        embedder = make(server, batch=BatchLimits(texts=5, tokens=1000))
        rows = embedder.embed(TEXTS, kind=kind)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, expected(TEXTS), atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
        assert [len(asked.body["input"]) for asked in server.asked] == [5, 5, 5, 5, 3]
        assert embedder.input_tokens == 3 * len(TEXTS)
        assert embedder.dimension == WIDTH
        assert np.array_equal(embedding.embed(embedder, TEXTS, kind=kind), rows)


@MAKERS
def test_batches_are_split_by_tokens_too(make: Make) -> None:
    with serving(embeds()) as server:
        texts = ["a" * 30, "b" * 30, "c" * 90, "d" * 3, "e" * 3]
        make(server, batch=BatchLimits(texts=100, tokens=20)).embed(texts, kind="document")
        assert [asked.body["input"] for asked in server.asked] == [texts[:2], texts[2:3], texts[3:]]


@MAKERS
def test_no_texts_ask_for_the_dimension_alone(make: Make) -> None:
    with serving(embeds()) as server:
        assert make(server, dimension=9).embed([], kind="query").shape == (0, 9)
        assert server.asked == []
        assert make(server).embed([], kind="query").shape == (0, WIDTH)


@MAKERS
def test_an_unknown_dimension_is_probed_once(make: Make) -> None:
    with serving(embeds()) as server:
        embedder = make(server)
        assert width_of(embedder) is None
        threads = [threading.Thread(target=lambda: embedder.signature) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert f"/own/{WIDTH}/" in embedder.signature
        assert width_of(embedder) == WIDTH
        assert len(server.asked) == 1


def test_known_dimensions_are_not_asked_for() -> None:
    with serving(embeds()) as server:
        small = openai(server, "text-embedding-3-small")
        nomic = ollama(server, "nomic-embed-text:latest")
        assert small.signature == "openai/text-embedding-3-small/1536/no-prefix"
        assert nomic.signature.startswith("ollama/nomic-embed-text/768/prefix@")
        assert voyage(server, "voyage-3").signature == "voyage/voyage-3/1024/input-type"
        assert server.asked == []


def test_a_signature_is_that_of_the_space_not_of_the_address() -> None:
    with serving(embeds()) as here, serving(embeds()) as there:
        assert openai(here, dimension=7).signature == openai(there, dimension=7).signature
        others = {
            openai(here, dimension=7).signature,
            openai(here, dimension=8).signature,
            openai(here, "other", dimension=7).signature,
            openai(here, dimension=7, query_prefix="q: ").signature,
            openai(here, dimension=7, document_prefix="q: ").signature,
            openai(here, dimension=7, space="q4").signature,
            ollama(here, dimension=7).signature,
        }
        assert len(others) == 7


@MAKERS
def test_a_failed_probe_is_made_again(make: Make) -> None:
    with serving(in_turn(as_json({}, 418))) as server:
        embedder = make(server)
        for _ in range(2):
            with pytest.raises(ProviderError):
                embedder.signature  # noqa: B018 - reading it is what asks
        server.answer = embeds()
        assert f"/{WIDTH}/" in embedder.signature


@MAKERS
def test_another_dimension_than_expected_is_named(make: Make) -> None:
    with serving(embeds(5)) as server, pytest.raises(ProviderError, match=r"dimension 5 where 9"):
        make(server, dimension=9).embed(["a"], kind="query")


@MAKERS
def test_a_model_that_changes_its_dimension_is_named(make: Make) -> None:
    with serving(embeds(5)) as server:
        embedder = make(server)
        embedder.embed(["a"], kind="query")
        server.answer = embeds(6)
        with pytest.raises(ProviderError, match=r"dimension 6 where 5"):
            embedder.embed(["a"], kind="query")


def test_a_shorter_dimension_of_a_known_model_is_asked_for() -> None:
    with serving(embeds(5)) as server:
        for embedder in (
            openai(server, "text-embedding-3-small", dimension=5),
            ollama(server, "nomic-embed-text", dimension=5),
            voyage(server, "voyage-3-large", dimension=5),
        ):
            embedder.embed(["a"], kind="document")
        first, second, third = (asked.body for asked in server.asked)
        assert first["dimensions"] == second["dimensions"] == third["output_dimension"] == 5


def test_prefixes_go_before_what_they_are_for() -> None:
    with serving(embeds(768)) as server:
        nomic = ollama(server, "nomic-embed-text")
        nomic.embed(["a"], kind="query")
        nomic.embed(["a"], kind="document")
        ollama(server, "nomic-embed-text", query_prefix="").embed(["a"], kind="query")
        sent = [asked.body["input"] for asked in server.asked]
        assert sent == [["search_query: a"], ["search_document: a"], ["a"]]
        voyage(server, dimension=768).embed(["a"], kind="query")
        assert server.asked[-1].body["input_type"] == "query"
        assert server.asked[-1].body["truncation"] is False
        assert server.asked[0].body["truncate"] is False


@MAKERS
def test_a_text_over_the_limit_is_cut_counted_and_reported(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ["short", "x" * 999, "also short", "字" * 5000, "end"]
    with serving(embeds(limit=100)) as server:
        embedder = make(server, dimension=WIDTH)
        with caplog.at_level(logging.WARNING, "triptych.providers"):
            rows = embedder.embed(texts, kind="document")
        np.testing.assert_allclose(rows[[0, 2, 4]], expected([texts[i] for i in (0, 2, 4)]), 1e-5)
        took = [asked.body["input"][0] for asked in server.asked if len(asked.body["input"]) == 1]
        whole = [text for text in took if 60 <= len(text) <= 100]
        assert {text[0] for text in whole} == {"x", "字"}  # cut no further than needed
        assert embedder.inputs_cut == 2
    (record,) = caplog.records
    assert "2 of 5 texts" in record.getMessage()
    assert "position 1" in record.getMessage()


@MAKERS
def test_a_model_that_takes_nothing_ends_in_an_error(make: Make) -> None:
    with serving(embeds(limit=0)) as server:
        with pytest.raises(ProviderError, match="input is too long"):
            make(server, dimension=3).embed(["word " * 50], kind="document")
        assert len(server.asked) < 30


def test_a_request_that_is_too_large_is_halved() -> None:
    inner = embeds()

    def answer(asked: Asked) -> Reply:
        return as_json({}, 413) if len(asked.body["input"]) > 3 else inner(asked)

    with serving(answer) as server:
        embedder = openai(server)
        np.testing.assert_allclose(
            embedder.embed(TEXTS, kind="document"), expected(TEXTS), atol=1e-6
        )
        assert embedder.inputs_cut == 0


@MAKERS
def test_blank_texts_have_a_vector(make: Make) -> None:
    with serving(embeds()) as server:
        rows = make(server).embed(["", " \n", "."], kind="document")
        assert np.array_equal(rows[0], rows[2])
        assert np.array_equal(rows[1], rows[2])


def test_vectors_in_base64_are_read() -> None:
    packed = np.array([3.0, 4.0], dtype="<f4").tobytes()
    reply = {"data": [{"index": 0, "embedding": base64.b64encode(packed).decode()}]}
    with serving(in_turn(as_json(reply))) as server:
        rows = openai(server).embed(["a"], kind="query")
        np.testing.assert_allclose(rows, [[0.6, 0.8]], atol=1e-6)


@MAKERS
@each_row(
    "rows",
    [
        [],
        [[1.0, 2.0]],
        [[1.0, 2.0]] * 3,
        [[1.0, 2.0], [1.0]],
        [[], []],
        [[1.0, 2.0], [0.0, 0.0]],
        [[1.0, 2.0], [float("nan"), 1.0]],
        [[1.0, 2.0], [float("inf"), 1.0]],
        [[1.0, 2.0], [None, 1.0]],
        [[1.0, 2.0], ["1", "2"]],
        [[1.0, 2.0], [True, False]],
        [[1.0, 2.0], None],
        [[[1.0]], [[2.0]]],
        ["!", "!"],
        ["AAAA", "AAAA"],
    ],
)
def test_vectors_that_are_none_are_named(make: Make, rows: list[Any]) -> None:
    with (
        serving(lambda asked: as_json(shaped(asked, rows))) as server,
        pytest.raises(ProviderError, match="cannot be used"),
    ):
        make(server).embed(["a", "b"], kind="document")


@each_row("make", [openai, voyage])
@each_row("indexes", [[0, 0], [0, 2], [-1, 0], [1, None, 1], [True, False]])
def test_indexes_that_do_not_fit_are_named(make: Make, indexes: list[Any]) -> None:
    data = [{"index": index, "embedding": [1.0, 2.0]} for index in indexes]
    with (
        serving(in_turn(as_json({"data": data}))) as server,
        pytest.raises(ProviderError, match="cannot be used"),
    ):
        make(server).embed(["a", "b"], kind="document")


@MAKERS
@each_row(
    ("reply", "kind", "match"),
    [
        (as_json({"error": "no"}, 401), ProviderError, "key is missing, wrong"),
        (as_json({"error": "model 'own' not found"}, 404), ProviderError, "has no model 'own'"),
        (as_json({}, 429, retry_after="0"), RateLimitedError, "a rate limit"),
        (as_json({}, 502), ProviderError, "provider's side"),
        (Reply(body=b"{"), ProviderError, "not JSON"),
        (as_json({}), ProviderError, "cannot be used"),
        (Reply(status=302, headers={"location": "/x"}), ProviderError, "redirected"),
        (Reply(body=b'{"data": []}' * 9, cut=30), ProviderError, "ended early"),
        (
            Reply(body=b"not gzip", headers={"content-encoding": "gzip"}),
            ProviderError,
            "do not unpack",
        ),
    ],
)
def test_faults_have_their_names(
    make: Make, reply: Reply, kind: type[ProviderError], match: str
) -> None:
    with serving(in_turn(reply)) as server, pytest.raises(kind, match=match) as caught:
        make(server).embed(["a"], kind="query")
    # Its name is shown in messages and reports.
    assert type(caught.value).__module__ == "triptych.errors"


def test_the_deadline_is_asked_between_batches() -> None:
    inner = embeds()
    scopes: list[Any] = []

    def answer(asked: Asked) -> Reply:
        if len(server.asked) == 3:
            scopes[0].cancel()
        return inner(asked)

    with serving(answer) as server, triptych.deadline() as scope:
        scopes.append(scope)
        embedder = ollama(server, batch=BatchLimits(texts=1, tokens=99))
        with pytest.raises(CancelledError):
            embedder.embed(TEXTS, kind="document")
        assert len(server.asked) == 3


def test_many_threads_share_an_embedder() -> None:
    with serving(embeds()) as server:
        embedder = ollama(server, batch=BatchLimits(texts=2, tokens=1000))
        right: list[bool] = []

        def work(n: int) -> None:
            mine = [f"{n} {text}" for text in TEXTS[:6]]
            rows = embedder.embed(mine, kind="document")
            right.append(bool(np.allclose(rows, expected(mine), atol=1e-6)))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert right == [True] * 8
        assert server.most_at_once <= 4
        assert embedder.input_tokens == 3 * 48


@MAKERS
@each_row(
    ("texts", "kind"), [("text", "query"), (["a"], "other"), ([1], "query"), (["\ud800"], "query")]
)
def test_what_cannot_be_embedded_is_refused(make: Make, texts: Any, kind: Any) -> None:
    with serving(embeds()) as server:
        with pytest.raises(ValidationError):
            make(server).embed(texts, kind=kind)
        assert server.asked == []


@MAKERS
@each_row("how", [{"dimension": 0}, {"dimension": True}, {"model": " "}])
def test_invalid_arguments_are_refused(make: Make, how: dict[str, Any]) -> None:
    with serving(embeds()) as server, pytest.raises(ValidationError):
        make(server, **how)


@MAKERS
def test_a_knowledge_base_works_with_it(make: Make) -> None:
    with serving(embeds(64)) as server:
        embedder = make(server)
        with triptych.open("memory://", embedder=embedder) as kb:
            kb.put_documents("d", {"a.md": "kites fly", "b.md": "bread rises"})
            found = kb.search("kites fly", dataset_id="d", mode="vector")
            assert found.hits[0].doc_name == "a.md"
            assert found.warnings == ()


def test_scores_come_in_the_order_of_the_texts() -> None:
    def answer(asked: Asked) -> Reply:
        scored = [
            {"index": n, "relevance_score": len(text) / 100}
            for n, text in enumerate(asked.body["documents"])
        ]
        return as_json({"data": sorted(scored, key=lambda one: -one["relevance_score"])})

    with serving(answer) as server:
        scores = reranker(server).scores("which", ["aa", "aaaa", ""])
        np.testing.assert_allclose(scores, [0.02, 0.04, 0.01], atol=1e-6)
        assert reranker(server).scores("which", []).shape == (0,)
        assert len(server.asked) == 1
        assert server.asked[0].path == "/rerank"


@each_row(
    "data",
    [
        [],
        [{"index": 0, "relevance_score": 1.0}, {"index": 0, "relevance_score": 1.0}],
        [{"index": 0, "relevance_score": 1.0}, {"index": 1}],
        [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": "1"}],
        [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": float("nan")}],
    ],
)
def test_scores_that_are_none_are_named(data: list[Any]) -> None:
    with (
        serving(in_turn(as_json({"data": data}))) as server,
        pytest.raises(ProviderError, match="cannot be used"),
    ):
        reranker(server).scores("which", ["a", "b"])


def test_what_cannot_be_ranked_is_refused() -> None:
    with serving(embeds()) as server:
        for query, texts in ((" ", ["a"]), ("q", [1]), ("q", "text")):
            with pytest.raises(ValidationError):
                reranker(server).scores(query, texts)
