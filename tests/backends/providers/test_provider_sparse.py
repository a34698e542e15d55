"""text-embeddings-inference's sparse vectors, against a real HTTP server that speaks its format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import triptych
from support.provider_server import (
    Answerer,
    Asked,
    ProviderServer,
    Reply,
    as_json,
    in_turn,
    serving,
)
from support.rows import each_row
from triptych.errors import (
    CancelledError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitedError,
    ValidationError,
)
from triptych.records import SparseVector
from triptych_providers import (
    BatchLimits,
    Connection,
    Retries,
    TEISparseEncoder,
    Timeouts,
)
from triptych_testing.builders import sparse_of

FAST = Connection(retries=Retries(attempts=2, base=0.001))
MADE: list[TEISparseEncoder] = []


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def made(server: ProviderServer | str, **how: Any) -> TEISparseEncoder:
    how.setdefault("connection", FAST)
    url = server if isinstance(server, str) else server.url
    MADE.append(TEISparseEncoder(url, **how))
    return MADE[-1]


def items(vector: SparseVector) -> list[dict[str, Any]]:
    """A vector as the server sends it: in the order of the weights."""
    pairs = zip(vector.indices.tolist(), vector.values.tolist(), strict=True)
    return [
        {"index": term, "value": weight}
        for term, weight in sorted(pairs, key=lambda pair: -pair[1])
    ]


def encodes(asked: Asked) -> Reply:
    assert asked.path == "/embed_sparse"
    assert asked.body["truncate"] is True
    texts = asked.body["inputs"]
    assert all(text.strip() for text in texts)
    return as_json([items(sparse_of(text)) for text in texts])


def test_texts_come_back_as_their_vectors_in_batches() -> None:
    texts = [f"text {number} of many" for number in range(7)]
    with serving(encodes) as server:
        encoder = made(server, batch=BatchLimits(texts=3, tokens=10_000))
        assert encoder.encode(texts, kind="document") == [sparse_of(text) for text in texts]
        assert [len(asked.body["inputs"]) for asked in server.asked] == [3, 3, 1]
        assert "authorization" not in server.asked[0].headers
        assert encoder.encode([], kind="query") == []
        assert encoder.encode([" "], kind="query") == [sparse_of(".")]
        assert encoder.vocabulary_size is None
        assert len(server.asked) == 4


def test_the_heaviest_terms_are_kept_and_zeros_left_out() -> None:
    answer = [[{"index": 7, "value": 0.5}, {"index": 3, "value": 2}, {"index": 5, "value": 0.0}]]
    with serving(lambda _: as_json(answer)) as server:
        assert made(server).encode(["a"], kind="query") == [SparseVector([3, 7], [2.0, 0.5])]
        assert made(server, top_k=1).encode(["a"], kind="query") == [SparseVector([3], [2.0])]


def test_signature_goes_by_the_model_or_else_by_the_address() -> None:
    assert made("http://host:1/").signature == "tei-sparse/http://host:1"
    assert made("http://host:1", model="splade-v3").signature == "tei-sparse/splade-v3"
    assert made("http://host:2", model="splade-v3", top_k=9).signature.endswith("splade-v3/top-9")


def test_a_key_is_sent_and_never_shown() -> None:
    with serving(lambda _: as_json({"error": "no"}, 401)) as server:
        encoder = made(server, api_key="key-0123456789abcdef")
        with pytest.raises(ProviderError) as caught:
            encoder.encode(["a"], kind="query")
        assert server.asked[0].headers["authorization"] == "Bearer key-0123456789abcdef"
    assert "0123456789" not in f"{caught.value}{encoder!r}"


GOOD = {"index": 1, "value": 0.5}


@each_row(
    "answer",
    [
        {"data": []},
        "text",
        None,
        [],
        [[GOOD], [GOOD]],
        [None],
        [{"index": 1, "value": 0.5}],
        [[None]],
        [[[1, 0.5]]],
        [[{"index": 1}]],
        [[{"value": 0.5}]],
        [[{"index": "1", "value": 0.5}]],
        [[{"index": True, "value": 0.5}]],
        [[{"index": 1.0, "value": 0.5}]],
        [[{"index": -1, "value": 0.5}]],
        [[{"index": 2**32, "value": 0.5}]],
        [[{"index": 10**30, "value": 0.5}]],
        [[GOOD, GOOD]],
        [[{"index": 1, "value": "0.5"}]],
        [[{"index": 1, "value": None}]],
        [[{"index": 1, "value": True}]],
        [[{"index": 1, "value": 1e39}]],
        [[{"index": 1, "value": float("nan")}]],
        [[{"index": 1, "value": float("inf")}]],
        [[{"index": 1, "value": 10**400}]],
    ],
    ids=str,
)
def test_an_answer_that_is_none_is_a_providers_fault(answer: Any) -> None:
    with serving(lambda _: as_json(answer)) as server:
        with pytest.raises(ProviderError, match=r"check base_url|cannot be used"):
            made(server).encode(["a"], kind="query")
        assert len(server.asked) == 1


@each_row("body", [b"", b"[", b"<html>no</html>", b"\xff", b"[" * 100_000])
def test_bytes_that_are_no_json_are_a_providers_fault(body: bytes) -> None:
    with (
        serving(lambda _: Reply(body=body)) as server,
        pytest.raises(ProviderError, match="not JSON"),
    ):
        made(server).encode(["a"], kind="query")


def test_a_busy_server_is_asked_again_and_a_broken_one_is_told() -> None:
    answer: Answerer = in_turn(
        as_json({"error": "Model is overloaded", "error_type": "overloaded"}, 429),
        as_json([items(sparse_of("a"))]),
    )
    with serving(answer) as server:
        assert made(server).encode(["a"], kind="query") == [sparse_of("a")]
        assert len(server.asked) == 2
    with (
        serving(lambda _: as_json({"error": "busy"}, 429)) as server,
        pytest.raises(RateLimitedError),
    ):
        made(server).encode(["a"], kind="query")
    with serving(lambda _: as_json({"error": "Input validation error"}, 422)) as server:
        with pytest.raises(ProviderError, match="Input validation error"):
            made(server).encode(["a"], kind="query")
        assert len(server.asked) == 1
    with serving(lambda _: Reply(body=b"[[", cut=1)) as server, pytest.raises(ProviderError):
        made(server).encode(["a"], kind="query")


def test_nothing_is_waited_for_without_end() -> None:
    slow = Connection(timeouts=Timeouts(read=0.2), retries=Retries(attempts=1))
    with serving(lambda _: Reply(body=b"[[]]", drip=5)) as server:
        with pytest.raises(ProviderTimeoutError):
            made(server, connection=slow).encode(["a"], kind="query")
        with triptych.deadline(0.2), pytest.raises(CancelledError):
            made(server).encode(["a"], kind="query")


def test_arguments_that_cannot_be_are_refused() -> None:
    for how in ({"top_k": 0}, {"model": "a\nb"}, {"api_key": "a b"}):
        with pytest.raises(ValidationError):
            TEISparseEncoder("http://host", **how)  # type: ignore[arg-type]  # which is tested
    with pytest.raises(ValidationError, match="http"):
        TEISparseEncoder("host:80")


def test_its_address_is_a_setting() -> None:
    with (
        serving(encodes) as server,
        triptych.open("memory://", embedder=None, sparse_encoder=f"tei:{server.url}") as kb,
    ):
        kb.put_document("d", "a", "the owl sleeps")
        (hit,) = kb.search("owl", dataset_id="d", mode="sparse").hits
        expected = sparse_of("the owl sleeps").dot(sparse_of("owl"))
        assert hit.score == pytest.approx(expected, abs=1e-6)
