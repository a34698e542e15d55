"""Batches that a provider refuses are halved, whatever it says; one text is cut, or named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.provider_server import Answerer, Asked, Reply, as_json, serving
from support.rows import each_row
from triptych.errors import ProviderError, ProviderSetupError
from triptych_providers import (
    BatchLimits,
    CohereReranker,
    Connection,
    OpenAIEmbedder,
    Retries,
    TEIReranker,
    TEISparseEncoder,
)
from triptych_testing.builders import sparse_of

ONCE = Connection(retries=Retries(attempts=1))
REFUSALS = {
    "DashScope": "batch size is invalid, it should not be larger than 10.: input.contents",
    "Azure": "Too many inputs. The max number of inputs is 16.",
    "Gemini": "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch",
    "Mistral": "Too many inputs in request, split into more batches.",
    "Cohere": "invalid request: total number of texts must be at most 96, received 128",
    "a reranker": "documents size exceeds the limit",
    "a gateway": "25 inputs are not supported by the model m",
    "another language": "请求参数错误",
    "nothing": "",
}


def texts_of(asked: Asked) -> list[str]:
    body = asked.body
    found: list[str] = next(
        body[key] for key in ("input", "inputs", "texts", "documents") if key in body
    )
    return found


def row_of(text: str) -> list[float]:
    return [float(len(text)), 1.0 + sum(map(ord, text)) % 97]


def answered(asked: Asked) -> Reply:
    texts = texts_of(asked)
    if asked.path == "/embed_sparse":
        return as_json(
            [
                [
                    {"index": int(term), "value": float(weight)}
                    for term, weight in zip(v.indices, v.values, strict=True)
                ]
                for v in map(sparse_of, texts)
            ]
        )
    if "query" in asked.body:
        items = [{"index": i, "score": len(text) / 99} for i, text in enumerate(texts)]
        if "texts" in asked.body:
            return as_json(items)
        return as_json(
            {"results": [{"index": i["index"], "relevance_score": i["score"]} for i in items]}
        )
    data = [{"index": i, "embedding": row_of(text)} for i, text in enumerate(texts)]
    return as_json({"data": data, "usage": {"prompt_tokens": 1}})


def refusing(
    refuses: Callable[[Sequence[str]], bool], message: str = "", status: int = 400
) -> Answerer:
    def answer(asked: Asked) -> Reply:
        if refuses(texts_of(asked)):
            return as_json({"error": {"message": message}}, status)
        return answered(asked)

    return answer


def embedder(server: Any, **how: Any) -> closing[OpenAIEmbedder]:
    how.setdefault("connection", ONCE)
    return closing(OpenAIEmbedder("m", base_url=f"{server.url}/v1", dimension=2, **how))


def unit(texts: Sequence[str]) -> Any:
    rows = np.array([row_of(text) for text in texts]).reshape(-1, 2)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sizes(server: Any) -> list[int]:
    return [len(texts_of(asked)) for asked in server.asked]


def asks(server: Any) -> Iterator[tuple[Any, Callable[[Sequence[str]], Any]]]:
    """Each kind of model, and what asks it; what it answers is compared as text."""
    yield (
        model := OpenAIEmbedder("m", base_url=server.url, dimension=2, connection=ONCE),
        lambda texts: model.embed(texts, kind="document").tolist(),
    )
    tei = TEIReranker(server.url, connection=ONCE)
    yield tei, lambda texts: tei.scores("q", texts).tolist()
    cohere = CohereReranker("m", api_key="key-0123456789", base_url=server.url, connection=ONCE)
    yield cohere, lambda texts: cohere.scores("q", texts).tolist()
    yield (
        sparse := TEISparseEncoder(server.url, connection=ONCE),
        lambda texts: sparse.encode(texts, kind="document"),
    )


@each_row("message", REFUSALS.values(), ids=REFUSALS)
@each_row("status", [400, 413, 422])
def test_a_refused_batch_is_halved_and_the_size_that_worked_is_kept(
    message: str, status: int
) -> None:
    texts = [f"text {n}" for n in range(25)]
    with serving(refusing(lambda some: len(some) > 10, message, status)) as server:
        for model, ask in asks(server):
            with closing(model):
                first = len(server.asked)
                found = ask(texts)
                assert sizes(server)[first:] == [25, 12, 6, 6, 6, 6, 1]
                first = len(server.asked)
                assert ask(texts) == found
                assert sizes(server)[first:] == [6, 6, 6, 6, 1]
                assert [ask([text])[0] for text in texts] == found


def test_the_size_is_kept_for_all_threads() -> None:
    texts = [f"text {n}" for n in range(40)]
    with (
        serving(refusing(lambda some: len(some) > 10)) as server,
        embedder(server) as model,
        ThreadPoolExecutor(4) as pool,
    ):
        for rows in pool.map(lambda _: model.embed(texts, kind="document"), range(8)):
            np.testing.assert_allclose(rows, unit(texts), atol=1e-6)
        before = len(server.asked)
        list(pool.map(lambda _: model.embed(texts, kind="document"), range(4)))
        assert max(sizes(server)[before:]) <= 10


def test_a_limit_of_tokens_does_not_make_batches_of_one_text() -> None:
    long, short = ["word " * 300] * 4, [f"text {n}" for n in range(50)]
    with (
        serving(refusing(lambda some: sum(map(len, some)) > 2000, status=413)) as server,
        embedder(server) as model,
    ):
        model.embed(long, kind="document")
        before = len(server.asked)
        np.testing.assert_allclose(model.embed(short, kind="document"), unit(short), atol=1e-6)
        assert sizes(server)[before:] == [50]
        assert model.embed(long, kind="document").shape == (4, 2)
        assert sizes(server)[before + 1 :] == [1] * 4


def test_one_refused_text_is_found_and_no_size_is_learnt() -> None:
    texts = [f"text {n}" for n in range(64)]
    texts[37] = "bad " * 10
    with (
        serving(refusing(lambda some: any("bad" in text for text in some), "NaN")) as server,
        embedder(server) as model,
    ):
        with pytest.raises(ProviderError, match=r"NaN.*\(for a text of 40 characters\)"):
            model.embed(texts, kind="document")
        assert len(server.asked) < 16
        del texts[37]
        before = len(server.asked)
        model.embed(texts, kind="document")
        assert sizes(server)[before:] == [63]


@each_row(
    "message",
    [
        "Input length 532 exceeds maximum allowed token size 512",
        "Range of input length should be [1, 8192]",
        "String should have at most 700 characters",
        "input too large",
    ],
)
@each_row("status", [400, 422])
def test_one_text_that_is_too_long_is_cut_in_any_words(message: str, status: int) -> None:
    texts = ["short", "word " * 300, "end", *(f"text {n}" for n in range(20))]
    with (
        serving(refusing(lambda some: max(map(len, some)) > 700, message, status)) as server,
        embedder(server) as model,
    ):
        rows = model.embed(texts, kind="document")
        assert model.inputs_cut == 1
        kept = [0, *range(2, 23)]
        np.testing.assert_allclose(rows[kept], unit([texts[at] for at in kept]), atol=1e-6)
        before = len(server.asked)
        model.embed([texts[at] for at in kept], kind="document")
        assert sizes(server)[before:] == [22]


def test_a_batch_over_a_whole_limit_of_tokens_is_halved_though_it_is_429() -> None:
    said = "Request too large for m: limit 1000 tokens, requested 2500"
    texts = [f"text {n}" for n in range(27)]
    with (
        serving(refusing(lambda some: len(some) > 10, said, 429)) as server,
        embedder(server) as model,
    ):
        np.testing.assert_allclose(model.embed(texts, kind="document"), unit(texts), atol=1e-6)


@pytest.mark.parametrize(("most", "sent"), [(700, 2), (100, 2)])
def test_a_long_text_that_is_refused_in_unknown_words_is_cut_once(most: int, sent: int) -> None:
    with (
        serving(refusing(lambda some: max(map(len, some)) > most, "超长", 400)) as server,
        embedder(server) as model,
    ):
        if most == 700:
            assert model.embed(["word " * 200], kind="document").shape[0] == 1
            assert model.inputs_cut == 1
        else:
            with pytest.raises(ProviderError, match="for a text of 1000 characters"):
                model.embed(["word " * 200], kind="document")
        assert len(server.asked) == sent


def test_words_of_the_text_in_a_refusal_are_not_the_refusal_s() -> None:
    said = {"detail": [{"msg": "Input is not clean", "input": "the maximum length"}]}
    with serving(lambda _: as_json(said, 422)) as server, embedder(server) as model:
        with pytest.raises(ProviderError, match="for a text of 18 characters"):
            model.embed(["the maximum length"], kind="document")
        assert len(server.asked) == 1


@each_row(
    ("status", "message"),
    [
        (401, "bad key"),
        (403, "not allowed"),
        (404, "model 'm' not found"),
        (400, "The model 'm' does not exist"),
        (400, "model_not_found"),
        (429, "slow down: at most 10 inputs"),
        (402, "no credit"),
        (500, "NaN"),
        (503, "busy"),
        (529, "overloaded"),
    ],
)
def test_what_is_no_refusal_of_the_texts_is_not_halved(status: int, message: str) -> None:
    with serving(lambda _: as_json({"error": {"message": message}}, status)) as server:
        for model, ask in asks(server):
            with closing(model):
                before = len(server.asked)
                with pytest.raises(ProviderError):
                    ask(["a", "b", "c", "d"])
                assert len(server.asked) == before + 1


def test_a_model_that_is_missing_is_a_fault_of_the_set_up() -> None:
    said = as_json({"error": {"message": "The model `m` does not exist"}}, 400)
    with (
        serving(lambda _: said) as server,
        embedder(server) as model,
        pytest.raises(ProviderSetupError),
    ):
        model.embed(["a"], kind="document")


@settings(max_examples=examples(40), deadline=None)
@given(
    lengths=st.lists(st.integers(1, 120), min_size=1, max_size=60),
    most=st.integers(1, 20),
    longest=st.integers(20, 100),
    own=st.integers(1, 70),
)
def test_every_text_has_its_row_whatever_the_limits(
    served: Any, lengths: list[int], most: int, longest: int, own: int
) -> None:
    texts = [f"{n:03}" + "x" * length for n, length in enumerate(lengths)]
    server, limits = served
    limits.clear()
    limits.extend([most, longest])
    server.asked.clear()
    with embedder(server, batch=BatchLimits(texts=own, tokens=10_000)) as model:
        for _ in range(2):
            rows = model.embed(texts, kind="document")
            whole = [n for n, text in enumerate(texts) if len(text) <= longest]
            assert rows.shape == (len(texts), 2)
            np.testing.assert_allclose(rows[whole], unit([texts[n] for n in whole]), atol=1e-6)
        assert model.inputs_cut == 2 * (len(texts) - len(whole))
        sent = [texts_of(asked) for asked in server.asked]
        taken = [
            text
            for some in sent
            if len(some) <= most and max(map(len, some)) <= longest
            for text in some
        ]
        assert [text[:3] for text in taken] == [text[:3] for text in texts * 2]  # each once a call


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Any, list[int]]]:
    limits = [1, 1]
    refuses = refusing(
        lambda some: len(some) > limits[0] or max(map(len, some)) > limits[1], "size"
    )
    with serving(refuses) as server:
        yield server, limits
