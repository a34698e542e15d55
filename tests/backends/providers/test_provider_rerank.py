"""Rerankers against a real HTTP server that speaks each provider's format, well or badly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import triptych
from support.awaited import awaited
from support.provider_server import (
    Answerer,
    Asked,
    Reply,
    as_json,
    in_turn,
    serving,
)
from support.rows import each_row
from triptych import Rerank, ValidationError
from triptych.contracts import Reranker
from triptych.errors import (
    CancelledError,
    ProviderError,
    ProviderSetupError,
    RateLimitedError,
)
from triptych_providers import (
    BatchLimits,
    CohereReranker,
    Connection,
    JinaReranker,
    LlamaCppReranker,
    Retries,
    TEIReranker,
    VoyageReranker,
)
from triptych_testing import lacking

KEY = "key-test-0123456789abcdef"
FAST = Connection(retries=Retries(attempts=2, base=0.001))
RemoteReranker = CohereReranker | JinaReranker | LlamaCppReranker | TEIReranker | VoyageReranker
MADE: list[RemoteReranker] = []

Make = Callable[..., RemoteReranker]


def cohere(url: str, **how: Any) -> RemoteReranker:
    return CohereReranker("own", api_key=KEY, base_url=url, **how)


def jina(url: str, **how: Any) -> RemoteReranker:
    return JinaReranker("own", api_key=KEY, base_url=url, **how)


def llama_cpp(url: str, **how: Any) -> RemoteReranker:
    return LlamaCppReranker(url, model="own", api_key=KEY, **how)


def tei(url: str, **how: Any) -> RemoteReranker:
    return TEIReranker(url, model="own", api_key=KEY, **how)


def voyage(url: str, **how: Any) -> RemoteReranker:
    return VoyageReranker("own", api_key=KEY, base_url=url, **how)


PATHS = {
    cohere: "/v2/rerank",
    jina: "/rerank",
    llama_cpp: "/v1/rerank",
    tei: "/rerank",
    voyage: "/rerank",
}
MAKERS = pytest.mark.parametrize("make", PATHS, ids=lambda make: make.__name__)


@pytest.fixture(params=["blocking", "awaited"])
def scored(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[RemoteReranker, str, Sequence[str]], Any]]:
    """Each test twice: by the calls that block, and by those for an event loop."""

    def blocking(model: RemoteReranker, query: str, texts: Sequence[str]) -> Any:
        MADE.append(model)
        return model.scores(query, texts)

    def in_a_loop(model: RemoteReranker, query: str, texts: Sequence[str]) -> Any:
        MADE.append(model)
        return awaited(model, lambda: model.ascores(query, texts))

    yield blocking if request.param == "blocking" else in_a_loop
    while MADE:
        MADE.pop().close()


Scored = Callable[[RemoteReranker, str, Sequence[str]], Any]


def texts_of(asked: Asked) -> list[str]:
    found: list[str] = asked.body["texts" if "texts" in asked.body else "documents"]
    return found


def shaped(asked: Asked, items: Sequence[tuple[Any, Any]]) -> Any:
    """Indexes and scores as the provider that was asked would send them."""
    if "texts" in asked.body:
        return [{"index": index, "score": score} for index, score in items]
    results = [{"index": index, "relevance_score": score} for index, score in items]
    is_voyage = "truncation" in asked.body
    return {"data" if is_voyage else "results": results, "usage": {"total_tokens": 3}}


def by_length(asked: Asked) -> Reply:
    """The longer, the better; best first."""
    items = [(at, len(text) / 8) for at, text in enumerate(texts_of(asked))]
    return as_json(shaped(asked, sorted(items, key=lambda item: -item[1])))


def answering(items: Sequence[tuple[Any, Any]]) -> Answerer:
    return lambda asked: as_json(shaped(asked, items))


@MAKERS
def test_scores_come_in_the_order_of_the_texts(make: Make, scored: Scored) -> None:
    with serving(by_length) as server:
        found = scored(make(server.url, connection=FAST), "which", ["aa", "aaaa", "", "a\n"])
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.array([2, 4, 1, 2], dtype=np.float32) / 8)
        (asked,) = server.asked
        assert asked.path == PATHS[make]
        assert asked.body["query"] == "which"
        assert texts_of(asked) == ["aa", "aaaa", ".", "a\n"]
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert scored(make(server.url), "which", []).shape == (0,)
        assert len(server.asked) == 1


@MAKERS
def test_they_are_rerankers_with_signatures(make: Make) -> None:
    model = make("http://localhost:1")
    assert not lacking(model, Reranker)
    assert model.signature.endswith("/own")
    assert KEY not in repr(model) + model.signature
    model.close()


def test_servers_of_one_model_need_no_name_and_no_key() -> None:
    with serving(by_length) as server:
        for make in (TEIReranker, LlamaCppReranker):
            model = make(f"{server.url}/")
            assert model.scores("q", ["aa"]) == [0.25]
            assert "/" not in model.signature
            model.close()
        slashed = LlamaCppReranker(f"{server.url}/v1")
        slashed.scores("q", ["aa"])
        slashed.close()
        assert "authorization" not in server.asked[0].headers
        assert [asked.path for asked in server.asked] == ["/rerank", "/v1/rerank", "/v1/rerank"]


@MAKERS
def test_many_texts_take_several_requests(make: Make, scored: Scored) -> None:
    with serving(by_length) as server:
        texts = ["a" * (n % 7 + 1) for n in range(23)]
        model = make(server.url, batch=BatchLimits(texts=5, tokens=1000), connection=FAST)
        found = scored(model, "q", texts)
        np.testing.assert_array_equal(found, np.array([len(t) for t in texts], np.float32) / 8)
        assert [len(texts_of(asked)) for asked in server.asked] == [5, 5, 5, 5, 3]
        default = make(server.url, connection=FAST)
        assert scored(default, "q", ["a"] * 1001).shape == (1001,)


@MAKERS
@each_row(
    "items",
    [
        [],
        [(0, 1.0)],
        [(0, 1.0), (0, 1.0)],
        [(0, 1.0), (1, 1.0), (1, 1.0)],
        [(0, 1.0), (2, 1.0)],
        [(0, 1.0), (-1, 1.0)],
        [(0, 1.0), (True, 1.0)],
        [(0, 1.0), ("1", 1.0)],
        [(0, 1.0), (1, None)],
        [(0, 1.0), (1, "1")],
        [(0, 1.0), (1, True)],
        [(0, 1.0), (1, float("nan"))],
        [(0, 1.0), (1, float("inf"))],
        [(0, 1.0), (1, 1e300)],
        [(0, 1.0), (1, 10**400)],
    ],
)
def test_scores_that_are_none_are_named(
    make: Make, items: Sequence[tuple[Any, Any]], scored: Scored
) -> None:
    with (
        serving(answering(items)) as server,
        pytest.raises(ProviderError, match="what cannot be used"),
    ):
        scored(make(server.url, connection=FAST), "which", ["a", "b"])


@MAKERS
@each_row(
    "body", [b"[]", b"{}", b"null", b"7", b"<html>", b"", b'{"error": "no"}', b'[{"index": 0}]']
)
def test_other_answers_are_named(make: Make, body: bytes, scored: Scored) -> None:
    with serving(in_turn(Reply(body=body))) as server, pytest.raises(ProviderError):
        scored(make(server.url, connection=FAST), "which", ["a"])


@MAKERS
def test_sorted_scores_without_any_index_are_refused(make: Make, scored: Scored) -> None:
    with (
        serving(answering([(None, 0.9), (None, 0.5)])) as server,
        pytest.raises(ProviderError, match="without any index"),
    ):
        scored(make(server.url), "q", ["a", "b"])
    for given in ([0.9], [0.5, 0.9], [0.5, 0.5]):
        with serving(answering([(None, each) for each in given])) as server:
            found = scored(make(server.url), "q", ["x"] * len(given))
            np.testing.assert_allclose(found, given)


@MAKERS
def test_what_is_too_long_is_halved_and_cut(
    make: Make, scored: Scored, caplog: pytest.LogCaptureFixture
) -> None:
    limit = 40

    def answer(asked: Asked) -> Reply:
        texts = texts_of(asked)
        if len(texts) > 2:
            return as_json(
                {"error": f"batch size {len(texts)} > maximum", "type": "Validation"}, 413
            )
        if any(len(text) > limit for text in texts):
            return as_json({"error": {"message": "input is too large to process"}}, 500)
        return by_length(asked)

    texts = ["a", "aa", "a" * 100, "aaaa", "aaaaa"]
    with serving(answer) as server, caplog.at_level(logging.WARNING, "triptych.providers"):
        model = make(server.url, connection=FAST)
        found = scored(model, "q", texts)
        assert found[[0, 1, 3, 4]].tolist() == [0.125, 0.25, 0.5, 0.625]
        assert 0.5 < found[2] * 8 <= limit
        assert model.inputs_cut == 1
    assert "1 of 5 texts were longer" in caplog.text


@MAKERS
def test_refusals_have_names(make: Make, scored: Scored) -> None:
    refusals: list[tuple[int, Any, type[ProviderError]]] = [
        (401, {"message": f"bad key {KEY}"}, ProviderSetupError),
        (404, {"message": "model 'own' not found"}, ProviderSetupError),
        (429, {"error": "slow down"}, RateLimitedError),
        (501, {"error": {"message": "does not support reranking"}}, ProviderError),
        (424, {"error": "the model is no reranker"}, ProviderError),
    ]
    for status, body, kind in refusals:
        with (
            serving(in_turn(as_json(body, status))) as server,
            pytest.raises(kind) as caught,
        ):
            scored(make(server.url, connection=FAST), "q", ["a"])
        assert KEY not in str(caught.value)


@MAKERS
def test_a_fault_is_tried_again_and_a_cut_answer_too(make: Make, scored: Scored) -> None:
    for fault in (as_json({"error": "x"}, 503), Reply(body=b" " * 50, cut=5)):
        answers = iter([lambda asked, fault=fault: fault, by_length])
        with serving(lambda asked, answers=answers: next(answers)(asked)) as server:  # type: ignore[misc]
            assert scored(make(server.url, connection=FAST), "q", ["aa"]).tolist() == [0.25]
            assert len(server.asked) == 2


@MAKERS
def test_what_cannot_be_ranked_is_refused(make: Make, scored: Scored) -> None:
    for query, texts in ((" ", ["a"]), ("", ["a"]), ("q", [1]), ("q", "text"), ("q", ["\ud800"])):
        with pytest.raises(ValidationError):
            scored(make("http://localhost:1"), query, texts)  # type: ignore[arg-type]


def test_a_deadline_ends_between_batches() -> None:
    def answer(asked: Asked) -> Reply:
        scope.cancel()
        return by_length(asked)

    with serving(answer) as server, triptych.deadline(60) as scope:
        model = TEIReranker(server.url, batch=BatchLimits(texts=1, tokens=100))
        with pytest.raises(CancelledError):
            model.scores("q", ["a", "b", "c"])
        model.close()
        assert len(server.asked) == 1


@pytest.mark.parametrize("make", [CohereReranker, JinaReranker])
def test_a_missing_key_is_named(make: Callable[..., RemoteReranker]) -> None:
    with pytest.raises(ValidationError, match=r"there is no key: set .*_API_KEY"):
        make("m", api_key=None)


def test_a_search_reranks_over_http() -> None:
    def away(asked: Asked) -> Reply:
        return as_json({"error": "gone"}, 400)

    with serving(by_length) as server:
        model = TEIReranker(server.url, connection=FAST)
        with triptych.open("memory://", embedder=None, reranker=model) as kb:
            kb.put_documents(
                "d", {"a.txt": "tea", "b.txt": "tea and much more", "c.txt": "tea too"}
            )
            found = kb.search("tea", dataset_id="d").hits
            assert [hit.doc_name for hit in found] == ["b.txt", "c.txt", "a.txt"]
            server.answer = away
            with pytest.raises(ProviderError, match="text-embeddings-inference"):
                kb.search("tea", dataset_id="d")
        steps = [Rerank(model, optional=True)]
        with triptych.open("memory://", embedder=None, postprocessors=steps) as kb:
            kb.put_document("d", "a.txt", "tea")
            result = kb.search("tea", dataset_id="d")
            assert len(result) == 1
            assert "the hits are not reranked" in result.warnings[0]
        model.close()


def test_a_closed_client_says_so() -> None:
    with serving(by_length) as server:
        model = TEIReranker(server.url)
        model.scores("q", ["a"])
        model.close()
        model.close()
        with pytest.raises(ProviderError, match="closed"):
            model.scores("q", ["a"])
