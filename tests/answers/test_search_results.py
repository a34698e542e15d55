"""Anthropic's search_result blocks, and its citations as ours."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

import triptych
from triptych.answers import ContextPack, as_search_results, cited_passage
from triptych.errors import ValidationError
from triptych.records import NewDocument
from triptych.search import Neighbours
from triptych.service import Service

TEXT = "# Kettle\n\n## The lid\n\nTurn it left.\nThen pull.\n\n\nNever while it boils.\n"


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash") as service:
        service.put_document("d", "kettle.md", TEXT)
        yield service


def location(block: Mapping[str, Any], at: int, start: int, end: int, text: str = "") -> Any:
    """What the provider answers with for text blocks of a result."""
    return {
        "type": "search_result_location",
        "source": block["source"],
        "title": block["title"],
        "cited_text": text,
        "search_result_index": at,
        "start_block_index": start,
        "end_block_index": end,
    }


def test_a_piece_is_a_result_with_a_text_block_for_each_paragraph(kb: Service) -> None:
    pack = kb.context("lid", 300, dataset_id="d")
    (block,) = pack.as_search_results()
    assert block == {
        "type": "search_result",
        "source": "d/kettle.md:1-9 v1",
        "title": "Kettle > The lid",
        "content": [
            {"type": "text", "text": "# Kettle"},
            {"type": "text", "text": "## The lid"},
            {"type": "text", "text": "Turn it left.\nThen pull."},
            {"type": "text", "text": "Never while it boils."},
        ],
        "citations": {"enabled": True},
    }
    assert json.loads(json.dumps(block)) == block


def test_a_citation_of_the_provider_leads_to_our_lines(kb: Service) -> None:
    pack = kb.context("lid", 300, dataset_id="d")
    (block,) = pack.as_search_results()
    cited = cited_passage(location(block, 0, 2, 3), pack)
    assert (cited.doc_name, cited.version, cited.lines) == ("kettle.md", 1, (5, 6))
    assert cited.text == "Turn it left.\nThen pull." == TEXT[cited.start : cited.end]
    assert kb.verify(cited).status == "fresh"
    # Some answers say 0 for the end of the first block; the quoted text narrows the passage.
    assert cited_passage(location(block, 0, 0, 0), pack).lines == (1, 1)
    narrow = cited_passage(location(block, 7, 2, 4, "Then pull.\n"), pack)
    assert (narrow.text, narrow.lines) == ("Then pull.", (6, 6))
    assert cited_passage(location(block, 0, 2, 4, "not there"), pack).lines == (5, 9)
    as_object = types.SimpleNamespace(**location(block, 0, 3, 4))
    assert cited_passage(as_object, pack).lines == (9, 9)
    kb.put_document("d", "kettle.md", TEXT.replace("pull", "push"))
    assert kb.verify(cited).status == "changed"


def test_hits_and_layers_are_results_too(kb: Service) -> None:
    found = kb.search("lid", dataset_id="d")
    (block,) = as_search_results(found)
    assert as_search_results(found.hits) == [block]
    assert cited_passage(location(block, 0, 3, 4), found).lines == (9, 9)
    kb.put_document_layer("d", "kettle.md", "L0", "Kettles.\n\nAnd their lids.")
    prefix = kb.context_prefix(100, dataset_id="d")
    (layer,) = as_search_results(prefix)
    assert (layer["source"], layer["title"]) == ("d/kettle.md L0 v1", "kettle.md")
    kb.put_document("d", "kettle.md", "Another text.")
    (stale,) = as_search_results(kb.context_prefix(100, dataset_id="d"))
    assert stale["title"] == "kettle.md (stale: source)"
    cited = cited_passage(location(layer, 0, 1, 2), prefix)
    assert (cited.text, cited.lines) == ("And their lids.", None)


def test_a_window_is_shown_and_cited() -> None:
    steps = [Neighbours(1, 1)]
    with triptych.open("memory://", embedder="hash", postprocessors=steps) as kb:
        text = "".join(f"## Part {at}\n\n{'Words of it. ' * 60}\n\n" for at in range(4))
        kb.put_document("d", "a.md", text)
        found = kb.search("part 2", dataset_id="d", top_k=1)
        (block,) = as_search_results(found)
        last = len(block["content"]) - 1
        cited = cited_passage(location(block, 0, last, last + 1), found)
        assert text[cited.start : cited.end] == cited.text == block["content"][last]["text"]
        assert cited.lines is not None
        assert text[: cited.start].count("\n") + 1 == cited.lines[0]


def test_what_is_not_of_what_was_shown_is_refused(kb: Service) -> None:
    pack = kb.context("lid", 300, dataset_id="d")
    (block,) = pack.as_search_results()
    for wrong in (
        {**location(block, 0, 0, 1), "source": "d/other.md:1-2 v1"},
        location(block, 0, 9, 10),
        {"type": "char_location", "document_index": 0},
        "a text",
    ):
        with pytest.raises(ValidationError):
            cited_passage(wrong, pack)
    with pytest.raises(ValidationError, match="not str"):
        as_search_results(["text"])  # type: ignore[list-item]  # what is refused
    assert as_search_results([]) == []


@pytest.mark.property
@given(st.text(alphabet="ab \t\n\r", min_size=1, max_size=60).map(lambda text: f"x{text}"))
def test_each_block_leads_to_its_place(text: str) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_documents("d", [NewDocument(name="a.txt", content=text)])
        pack: ContextPack = kb.context("x", 400, dataset_id="d", counter=len)
        for at, block in enumerate(pack.as_search_results()):
            for number, part in enumerate(block["content"]):
                assert part["text"].strip()
                cited = cited_passage(location(block, at, number, number + 1), pack)
                assert text[cited.start : cited.end] == cited.text == part["text"]


@pytest.mark.parametrize("index", [-5, "0", None, True])
def test_an_index_that_is_none_is_refused(kb: Service, index: Any) -> None:
    found = kb.search("tea", dataset_id="d")
    (block, *_) = as_search_results(found)
    given = location(block, 0, 0, 1)
    given["search_result_index"] = index
    with pytest.raises(ValidationError):
        cited_passage(given, found)


def test_only_contexts_and_hits_are_shown() -> None:
    with pytest.raises(ValidationError):
        as_search_results(None)  # type: ignore[arg-type]  # on purpose
