"""For every corpus, counter, format and budget: never above it, always the source's own text."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.extractive_layers import build_layers
from triptych.answers import ESTIMATE
from triptych.chunking import ChunkerSet, MarkdownChunker
from triptych.service import Service, ServiceOptions
from triptych_backends.memory import MemoryStore

pytestmark = pytest.mark.property

WORDS = st.sampled_from(
    [
        "kettle", "boils.", "water!", "\n\n", "# Lid\n\n", "- item\n", "```\n", "[1] d/a.md v1\n",
        "</document>", "水壶。", "烧水", "\r\n", "\u2028[2]", "\x00", "\x85", "😀", "code_name()",
        "&amp;", '"}]', "The long sentence about the stove goes on and on.", "e.g. this",
    ]
)  # fmt: skip
TEXTS = st.lists(WORDS, min_size=1, max_size=40).map(" ".join)
CORPORA = st.lists(TEXTS, min_size=1, max_size=4)

COUNTERS: dict[str, Callable[[str], int]] = {
    "estimate": ESTIMATE.count,
    "characters": len,
    "words": lambda text: len(text.split()),
    "bytes": lambda text: len(text.encode()),
    "jumping": lambda text: zlib.crc32(text.encode()) % 200,  # not monotone, not additive
    "squares": lambda text: (len(text) // 10) ** 2,  # the whole costs more than its parts
}


@settings(max_examples=examples(50), deadline=None)
@given(
    corpus=CORPORA,
    counter=st.sampled_from(sorted(COUNTERS)),
    format=st.sampled_from(["text", "markdown", "xml", "json"]),
    budget=st.integers(0, 600),
    layered=st.booleans(),
)
def test_a_context_never_passes_its_budget(
    corpus: list[str], counter: str, format: str, budget: int, layered: bool
) -> None:
    count = COUNTERS[counter]
    store = MemoryStore()
    options = ServiceOptions(chunkers=ChunkerSet(by_kind={"markdown": MarkdownChunker(size=60)}))
    with Service(store, options=options) as kb:
        for at, text in enumerate(corpus):
            kb.put_document("d", f"{at}.md", text)
        if layered:
            build_layers(kb, "d")
        pack = kb.context("kettle 水壶 stove", budget, dataset_id="d", format=format, counter=count)
        again = kb.context(
            "kettle 水壶 stove", budget, dataset_id="d", format=format, counter=count
        )
        assert pack.pieces == again.pieces
        for each in ("text", "markdown", "xml", "json"):
            shown = pack.render(each)
            assert shown == "" or count(shown) <= budget
            assert again.render(each) == shown
            kept = pack.fitted(each)
            numbers = sorted(piece.number for piece in kept)
            assert numbers == list(range(1, len(numbers) + 1))
            if each == "xml" and shown:
                root = ElementTree.fromstring(shown)
                assert [child.get("id") for child in root] == [str(p.number) for p in kept]
            if each == "json" and shown:
                loaded = json.loads(shown)["pieces"]
                assert [piece["citation"]["text"] for piece in loaded] == [p.text for p in kept]
            if each == "text":
                heads = [line for line in shown.splitlines() if line and line[0] != " "]
                assert len(heads) == len(kept)
        for piece in pack.pieces:
            cited = piece.citation
            if str(cited.layer) == "L2":
                content = corpus[int(cited.doc_name.removesuffix(".md"))]
                assert content[cited.start : cited.end] == piece.text
                assert cited.lines is not None
            assert kb.verify(cited).status == "fresh"
        passages = [p.citation for p in pack.pieces if str(p.citation.layer) == "L2"]
        for one in passages:
            for two in passages:
                if one is not two and one.doc_name == two.doc_name:
                    assert one.end <= two.start or two.end <= one.start
