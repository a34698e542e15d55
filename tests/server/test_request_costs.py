"""What one request may cost: beyond it is an error that says the limit and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from triptych.errors import ValidationError
from triptych.service import Service
from triptych.text.words import count_words
from triptych_adapters.tools import knowledge_tools
from triptych_server.http import Limits, create_app

WORDS = " ".join(f"word{at}" for at in range(2_001))


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="none") as service:
        service.put_document("d", "a.md", "Tea is hot, word7.")
        yield service


@pytest.mark.parametrize(
    "given",
    [
        ("search", {"query": WORDS}),
        ("search-documents", {"query": WORDS}),
        ("search-many", {"queries": ["tea", WORDS]}),
        ("explain", {"query": WORDS, "doc_name": "a.md"}),
        ("context", {"query": WORDS, "token_budget": 100}),
    ],
    ids=lambda given: given[0],
)
def test_a_query_of_too_many_words_is_refused(kb: Service, given: tuple[str, Any]) -> None:
    client = Client(create_app(kb))
    answer = client("POST", f"/v1/{given[0]}", json={"dataset_id": "d", **given[1]})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert "has 2,001 different words; the maximum is 2,000" in error["message"]
    assert "essential sentences" in error["message"]


def test_so_it_is_on_a_page_of_the_console_and_by_a_tool(kb: Service) -> None:
    asked = " ".join(f"w{at}" for at in range(2_001))
    page = Client(create_app(kb, console=True))("GET", "/", params=[("q", asked), ("d", "d")])
    assert "the maximum is 2,000" in page.text
    (tool,) = (each for each in knowledge_tools(kb) if each.name == "knowledge_search")
    answer = tool.call({"query": WORDS})
    assert "the maximum is 2,000" in str(answer)


def test_words_count_once_and_fewer_are_taken_for_more_hits(kb: Service) -> None:
    assert kb.search(WORDS.rpartition(" ")[0], dataset_id="d").hits
    assert kb.search("tea " * 20_000, dataset_id="d", top_k=10_000).hits
    fifty = " ".join(f"word{at}" for at in range(50))
    assert kb.search(fifty, dataset_id="d", top_k=10_000).hits
    with pytest.raises(ValidationError, match=r"maximum is 50 where offset .* or for fewer hits"):
        kb.search(f"{fifty} tea", dataset_id="d", top_k=100, offset=9_900)


def test_words_are_counted_in_any_script() -> None:
    assert count_words("Tea, tea; TEA-pot_lid ü") == 5
    assert count_words("知识库检索") == 3
    assert count_words("") == 0


def test_the_hits_of_many_queries_are_bounded_together(kb: Service) -> None:
    client = Client(create_app(kb, limits=Limits(hits=100)))
    body: dict[str, Any] = {"queries": ["tea"] * 11, "dataset_id": "d"}
    answer = client("POST", "/v1/search-many", json=body)
    assert answer.status_code == 400
    assert (
        "11 queries that reach to hit 10 ask for 110 hits; the maximum of one request is 100: "
        "send several, or a smaller top_k"
    ) in answer.json()["error"]["message"]
    assert client("POST", "/v1/search-many", json={**body, "top_k": 9}).status_code == 200
    deep = {**body, "top_k": 1, "offset": 9}
    assert client("POST", "/v1/search-many", json=deep).status_code == 400
    one = {"query": "tea", "dataset_id": "d", "top_k": 1_000}
    assert client("POST", "/v1/search", json=one).status_code == 200
