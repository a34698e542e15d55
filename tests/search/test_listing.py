"""A search without words, at most n hits a document, and pages by offset; on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.rows import each_row
from triptych.errors import ValidationError
from triptych.records import NewDocument, Query, Result
from triptych.service import Service
from triptych_testing.fakes import FakeEmbedder

URLS = ["memory://", "kb.db", "files:///{}/kb"]
SALT = "salt " * 40  # small sections are joined
LONG = "\n\n".join(
    f"# Part {number}\n\nfish {number} fish of the sea {SALT}" for number in range(30)
)


@pytest.fixture(params=URLS)
def kb(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    monkeypatch.chdir(tmp_path)
    with triptych.open(request.param.format(tmp_path), embedder=FakeEmbedder()) as service:
        service.put_documents(
            "d",
            [
                NewDocument(name="long.md", content=LONG, metadata={"lang": "en"}),
                NewDocument(name="b.md", content="# Part 1\n\nfish", metadata={"lang": "en"}),
                NewDocument(name="c.md", content="# Other\n\na fish among words", metadata={}),
            ],
        )
        service.put_documents("e", {"z.md": "# Part 1\n\nfish"})
        yield service


def places(result: Result) -> list[tuple[str, int]]:
    return [(hit.doc_name, hit.chunk_index) for hit in result.hits]


def test_without_words_all_that_passes_is_listed_in_order(kb: Service) -> None:
    found = kb.search("", dataset_id="d", where={"lang": "en"}, top_k=100)
    assert places(found) == [("b.md", 0), *(("long.md", at) for at in range(30))]
    assert {(hit.score, hit.stale) for hit in found.hits} == {(0.0, None)}
    assert found.exhausted
    assert found.hits[0].metadata == {"lang": "en"}
    assert found.hits[0].content.endswith("fish")
    first = kb.search(" ", dataset_id="d", where={"lang": "en"}, top_k=31, mode="bm25")
    assert first.exhausted
    assert not kb.search("", dataset_id="d", where={"lang": "en"}, top_k=30).exhausted


def test_each_section_of_a_joined_chunk_is_found_by_its_heading(kb: Service) -> None:
    kb.put_document("d", "short.md", "# Ports\n\n## Harbour\nships\n\n## Pier\nboats\n")
    for heading, word in (("Ports", "ships"), ("harbour", "boats"), ("PIER", "ships")):
        for query, where in (("", {"heading": heading}), (f"{word} heading:{heading}", {})):
            (hit,) = kb.search(query, dataset_id="d", where=where, syntax=True).hits
            assert (hit.doc_name, hit.heading_path) == ("short.md", ("Ports", "Harbour / Pier"))


def test_headings_are_each_chunks_own_in_a_listing(kb: Service) -> None:
    where: dict[str, Any] = {"$or": [{"$heading": "part 1"}, {"$name": "c.md"}]}
    found = kb.search("", dataset_id="d", where=where)
    assert places(found) == [("b.md", 0), ("c.md", 0), ("long.md", 1)]
    found = kb.search("", dataset_id="d", where={"$not": {"$heading": "Part 3"}}, top_k=100)
    assert len(found.hits) == 31


def test_documents_layers_and_all_datasets_are_listed(kb: Service) -> None:
    every = {"$name": {"$exists": True}}
    if kb.capabilities.document_search is not None:
        found = kb.search_documents("", dataset_id="d", where={"lang": {"$ne": "en"}})
        assert [(hit.doc_name, hit.layer) for hit in found.hits] == [("c.md", None)]
    for name in ("c.md", "b.md"):
        kb.put_document_layer("d", name, "L0", f"about {name}")
    kb.put_dataset_layer("d", "L0", "about all")
    found = kb.search("", dataset_id="d", layer="L0", where=every)
    assert [hit.doc_name for hit in found.hits] == ["", "b.md", "c.md"]
    found = kb.search("", dataset_id="d", layer="L0", where={"lang": "en"})
    assert [hit.doc_name for hit in found.hits] == ["b.md"]
    found = kb.search("", scope="all", where={"$heading": "Part 1"})
    assert [(hit.dataset_id, hit.doc_name) for hit in found.hits] == [
        ("d", "b.md"),
        ("d", "long.md"),
        ("e", "z.md"),
    ]


def test_a_listing_embeds_nothing(kb: Service) -> None:
    embedder = kb.options.embedder
    assert isinstance(embedder, FakeEmbedder)
    asked = embedder.calls
    kb.search("", dataset_id="d", where={"lang": "en"})
    kb.search_many([""], dataset_id="d", where={"lang": "en"})
    assert embedder.calls == asked


@pytest.mark.parametrize("mode", ["bm25", "vector", "hybrid"])
def test_each_document_has_its_best_hits_and_no_more(kb: Service, mode: str) -> None:
    every = kb.search("fish", dataset_id="d", mode=mode, top_k=100)
    for most in (1, 2):
        found = kb.search("fish", dataset_id="d", mode=mode, top_k=5, per_document=most)
        counts: dict[str, int] = {}
        wanted = []
        for hit in every.hits:
            counts[hit.doc_name] = counts.get(hit.doc_name, 0) + 1
            if counts[hit.doc_name] <= most:
                wanted.append((hit.doc_name, hit.chunk_index))
        assert places(found) == wanted[:5]
        assert {hit.doc_name for hit in found.hits} == {"b.md", "c.md", "long.md"}
        assert found.exhausted
    assert places(kb.search("", dataset_id="d", where={"lang": "en"}, per_document=1)) == [
        ("b.md", 0),
        ("long.md", 0),
    ]


def test_one_long_document_hides_no_other_behind_it(kb: Service) -> None:
    kb.put_document("d", "wall.md", "\n\n".join(f"# P {at}\n\ngull" for at in range(400)))
    kb.put_document("d", "small.md", "a gull is named once among many other words of a text")
    found = kb.search("gull", dataset_id="d", mode="bm25", top_k=2, per_document=1)
    assert {hit.doc_name for hit in found.hits} == {"wall.md", "small.md"}


@pytest.mark.parametrize("text", ["fish", ""])
@pytest.mark.parametrize("most", [None, 4])
def test_pages_by_offset_hold_each_hit_once(kb: Service, text: str, most: int | None) -> None:
    where = {"$prefix": ["long", "b"]}
    every = kb.search(text, dataset_id="d", where=where, per_document=most, top_k=200)
    paged: list[tuple[str, int]] = []
    for offset in range(0, 100, 3):
        page = kb.search(
            text, dataset_id="d", where=where, per_document=most, top_k=3, offset=offset
        )
        paged += places(page)
        if not page.hits:
            break
    assert paged == places(every)


@each_row(
    "fields",
    [
        {"text": ""},
        {"text": " ", "where": {}},
        {"text": "", "where": {"a": 1}, "threshold": 0.1},
        {"text": "", "where": {"a": 1}, "min_scores": {"bm25": 1}},
        {"text": "", "where": {"a": 1}, "keyword_boost": 1},
        {"text": "x", "offset": -1},
        {"text": "x", "offset": True},
        {"text": "x", "offset": 9_995},
        {"text": "x", "per_document": 0},
        {"text": "x", "per_document": 1.5},
    ],
)
def test_what_cannot_be_listed_or_paged_is_refused(kb: Service, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kb.search(Query(**fields), dataset_id="d")


def test_a_context_needs_words(kb: Service) -> None:
    with pytest.raises(ValidationError, match="at least one word"):
        kb.context("", 500, dataset_id="d", where={"lang": "en"})
    with pytest.raises(ValidationError, match="leave out offset"):
        kb.context("fish", 500, dataset_id="d", offset=1)
