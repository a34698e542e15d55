"""The best hit of the search is the first piece of a context, whatever stands beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from triptych import ContextPack
from triptych.answers import FORMATS
from triptych.chunking import ChunkerSet, DefaultChunker
from triptych.service import Service

WORDS = ("kettle", "lid", "steel", "harbour", "badger", "spout", "rust", "tea", "stove", "apple")
FILLER = "Nothing of any use is said in this sentence about whatever it may be."


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash", chunk_size=4000) as kb:
        yield kb


def first(pack: ContextPack) -> str:
    piece = min(pack.pieces, key=lambda piece: piece.number)
    return f"{piece.citation.dataset_id}/{piece.citation.doc_name}"


def test_a_note_of_one_chunk_stays_before_long_pages() -> None:
    with triptych.open("memory://", embedder="hash") as kb:
        page = "\n\n".join(f"## Part {n}\n\nThe guest network of part {n}. " * 12 for n in range(9))
        kb.put_document("d", "page.md", f"# Networks\n\n{page}")
        kb.put_document("d", "wifi.md", "# Wifi\n\nThe guest network is called harbour.\n")
        question = "what is the guest network called"
        assert kb.search(question, dataset_id="d").hits[0].doc_name == "wifi.md"
        assert first(kb.context(question, 300, dataset_id="d")) == "d/wifi.md"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("place", [0, 20, 49])
def test_a_best_hit_that_is_too_long_is_cut_around_what_matches(
    kb: Service, format: str, place: int
) -> None:
    sentences = [f"{FILLER[:-1]}, number {n}." for n in range(50)]
    sentences[place] = "A kettle of steel lies in the harbour."
    kb.put_document("d", "long.txt", " ".join(sentences))
    for n in range(20):
        kb.put_document("d", f"{n}.txt", f"A kettle, number {n}.")
    question = "kettle of steel in the harbour"
    for budget in (120, 200, 300):
        pack = kb.context(question, budget, dataset_id="d", format=format)
        piece = min(pack.pieces, key=lambda piece: piece.number)
        assert piece.citation.doc_name == "long.txt"
        assert piece.cut
        assert sentences[place] in piece.text
        assert piece.text.endswith(".")
        document = kb.get_document("d", "long.txt")
        assert document.content[piece.citation.start : piece.citation.end] == piece.text
        assert pack.tokens <= budget
    (only,) = kb.context(question, 200, dataset_id="d", max_pieces=1).pieces
    assert only.citation.doc_name == "long.txt"


def test_a_sentence_longer_than_the_budget_is_cut_at_words(kb: Service) -> None:
    kb.put_document("d", "a.txt", f"{'word ' * 400}kettle {'word ' * 400}")
    kb.put_document("d", "b.txt", "word")
    (piece,) = kb.context("kettle", 60, dataset_id="d").pieces
    assert "kettle" in piece.text
    assert piece.text.split()[0] == "word"


def test_without_room_for_the_best_nothing_stands_for_it(kb: Service) -> None:
    name = f"{'a' * 200}.txt"
    kb.put_document("d", name, "The kettle of steel boils.")
    kb.put_document("d", "b", "A kettle.")
    pack = kb.context("kettle of steel boils", 30, dataset_id="d")
    assert pack.pieces == ()
    assert "too small" in pack.warnings[0]


DOCUMENTS = st.dictionaries(
    st.sampled_from([f"{n}.md" for n in range(8)]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=120),
    min_size=1,
    max_size=8,
)


@pytest.mark.property
@settings(max_examples=examples(60), deadline=None)
@given(documents=DOCUMENTS, asked=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
       budget=st.integers(60, 400))  # fmt: skip
def test_whatever_is_stored_the_best_hit_is_the_first_piece(
    documents: dict[str, list[str]], asked: list[str], budget: int
) -> None:
    chunkers = ChunkerSet(default=DefaultChunker())
    with triptych.open("memory://", embedder="hash", chunkers=chunkers) as kb:
        kb.put_documents("d", {name: " ".join(words) for name, words in documents.items()})
        hits = kb.search(" ".join(asked), dataset_id="d", top_k=100).hits
        pack = kb.context(" ".join(asked), budget, dataset_id="d")
        if hits:
            assert first(pack) == f"d/{hits[0].doc_name}"
        assert pack.tokens <= budget
