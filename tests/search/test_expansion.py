"""Hits with their neighbours, and with the section around them: verbatim, merged, at a version."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from support.hit_readers import ReaderKeeper
from support.rows import each_row
from triptych import ChunkConfig, Hit, Query, Service, ValidationError
from triptych.chunking import ChunkerSet, MarkdownChunker, SentenceWindowChunker, default_chunkers
from triptych.contracts import HitReader, Postprocessor
from triptych.records import DerivedChunk, DerivedSig, Layer, Mode, ResolvedQuery, Vector
from triptych.search import Neighbours, Parents

GUIDE = """\
# Guide

Words before all.

## Kettle

Fill the kettle with 水 and wait.

### Whistle

The whistle is loud 😀 and high.

## Teapot

The teapot is warm.
"""


@pytest.fixture(params=["memory://", "kb.db"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param if request.param == "memory://" else str(tmp_path / request.param)


def opened(url: str, *steps: Postprocessor, chunkers: ChunkerSet | None = None) -> Service:
    kb = triptych.open(url, embedder=None, postprocessors=steps, chunkers=chunkers or small())
    kb.put_document("d", "guide.md", GUIDE)
    return kb


def small() -> ChunkerSet:
    return default_chunkers(ChunkConfig(size=40, overlap=0), MarkdownChunker(size=40))


def verbatim(kb: Service, hits: Sequence[Hit]) -> None:
    for hit in hits:
        content = kb.get_document("d", hit.doc_name).content
        assert content[hit.start : hit.end] == hit.content
        assert len(content[: hit.start].encode()) == hit.offset
        assert content[: hit.start].count("\n") + 1 == hit.start_line


def test_neighbours_stand_around_a_hit(url: str) -> None:
    with opened(url) as kb:
        (plain,) = kb.search("whistle loud", dataset_id="d", top_k=1).hits
        chunks = list(kb.chunks.iter_chunks("d", "guide.md"))
        assert 0 < plain.chunk_index < len(chunks) - 1
    if url != "memory://":
        Path(url).unlink()
    with opened(url, Neighbours()) as kb:
        (wide,) = kb.search("whistle loud", dataset_id="d", top_k=1).hits
        at = plain.chunk_index
        assert (wide.start, wide.end) == (chunks[at - 1].start, chunks[at + 1].end)
        assert (wide.chunk_id, wide.heading_path) == (plain.chunk_id, plain.heading_path)
        verbatim(kb, [wide])
    for before, after in ((0, 1), (2, 0), (100, 100)):
        with opened("memory://", Neighbours(before, after)) as kb:
            (wide,) = kb.search("whistle loud", dataset_id="d", top_k=1).hits
            assert wide.start == chunks[max(at - before, 0)].start
            assert wide.end == chunks[min(at + after, len(chunks) - 1)].end


def test_hits_that_overlap_are_one_in_the_place_of_the_best(url: str) -> None:
    with opened(url, Neighbours(1, 1)) as kb:
        kb.put_document("d", "other.md", "The kettle and the teapot and the whistle.")
        plain = [hit.doc_name for hit in kb.search("whistle", dataset_id="d").hits]
        found = kb.search("kettle whistle teapot words", dataset_id="d").hits
        assert len([hit for hit in found if hit.doc_name == "guide.md"]) == 1
        assert sorted(plain) == ["guide.md", "other.md"]
        scores = [hit.score for hit in found]
        assert scores == sorted(scores, reverse=True)
        verbatim(kb, found)


def test_a_parent_is_the_section_with_its_subsections(url: str) -> None:
    with opened(url, Parents()) as kb:
        kettle = kb.search("fill", dataset_id="d", top_k=1).hits[0]
        assert kettle.content.startswith("## Kettle")
        assert "The whistle is loud 😀 and high." in kettle.content
        assert "Teapot" not in kettle.content
        whistle = kb.search("whistle loud", dataset_id="d", top_k=1).hits[0]
        assert whistle.content.startswith("### Whistle")
        assert "Teapot" not in whistle.content
        verbatim(kb, [kettle, whistle])


def test_a_document_without_headings_is_one_section(url: str) -> None:
    text = " ".join(f"word{n} and so on it goes." for n in range(40))
    with opened(url, Parents()) as kb:
        kb.put_document("d", "plain.txt", text)
        (hit,) = kb.search("word20", dataset_id="d", top_k=1).hits
        assert hit.content == text


def test_of_a_long_section_there_is_what_is_nearest(url: str) -> None:
    text = " ".join(f"word{n:02} and so on it goes." for n in range(40))
    with opened(url, Parents(limit=200)) as kb:
        kb.put_document("d", "plain.txt", text)
        (hit,) = kb.search("word20", dataset_id="d", top_k=1).hits
        assert 120 < len(hit.content) <= 200
        around = [n for n in range(40) if f"word{n:02}" in hit.content]
        assert around[0] < 20 < around[-1]
        (first,) = kb.search("word00", dataset_id="d", top_k=1).hits
        assert first.start == 0
        assert 120 < len(first.content) <= 200
        verbatim(kb, [hit, first])
    with opened("memory://", Parents(limit=1)) as kb:
        (hit,) = kb.search("whistle loud", dataset_id="d", top_k=1).hits
        assert "whistle" in hit.content


def test_a_window_that_is_inside_is_not_repeated(url: str) -> None:
    chunkers = ChunkerSet(default=SentenceWindowChunker(window=1))
    text = "One is here. Two is here. Three is here. Four is here. Five is here. Six is here."
    with opened(url, Neighbours(1, 1), chunkers=chunkers) as kb:
        kb.put_document("d", "a.txt", text)
        (hit,) = kb.search("three", dataset_id="d").hits
        assert hit.content == "Two is here. Three is here. Four is here."
        assert (hit.window, hit.window_start) == (None, None)
    with opened("memory://", Neighbours(1, 0), chunkers=chunkers) as kb:
        kb.put_document("d", "a.txt", text)
        (hit,) = kb.search("three", dataset_id="d").hits
        assert hit.content == "Two is here. Three is here."
        assert hit.window == "Two is here. Three is here. Four is here."


def test_hits_of_layers_stay_as_they_are() -> None:
    with opened("memory://", Neighbours(), Parents()) as kb:
        kb.put_document_layer("d", "guide.md", "L0", "A guide to kettles.")
        (hit,) = kb.search("kettles", dataset_id="d", layer="L0").hits
        assert hit.content == "A guide to kettles."


@attrs.frozen
class Letters:
    """A reader of one document whose chunks are single letters."""

    text: str = "abcdefghij"

    def chunk(self, at: int) -> DerivedChunk:
        place = {"start": at, "end": at + 1, "offset": at, "start_line": 1}
        sig = DerivedSig(source_version=1)
        return DerivedChunk(
            dataset_id="d", doc_name="a", index=at, content=self.text[at], sig=sig, **place
        )

    def hit(self, at: int, score: float) -> Hit:
        chunk = attrs.asdict(self.chunk(at), recurse=False)
        fields = ("dataset_id", "doc_name", "content", "sig", "start", "end", "offset")
        named = {name: chunk[name] for name in fields}
        return Hit(layer=Layer.DETAIL, score=score, chunk_index=at, **named)

    def source(self, hit: Hit) -> str:
        return self.text

    def neighbours(self, hit: Hit, before: int, after: int) -> Sequence[DerivedChunk]:
        first = max(hit.chunk_index - before, 0)
        last = min(hit.chunk_index + after, len(self.text) - 1)
        return [self.chunk(at) for at in range(first, last + 1)]

    def section(self, hit: Hit) -> Sequence[DerivedChunk]:
        raise AssertionError

    def vectors(self, hits: Sequence[Hit]) -> Sequence[Vector | None]:
        raise AssertionError

    def windows(self, hits: Sequence[Hit]) -> Sequence[str | None]:
        raise AssertionError

    def warn(self, message: str) -> None:
        raise AssertionError


@each_row(
    ("step", "places", "expected"),
    [
        # Texts that touch stay apart.
        (Neighbours(0, 1), [2, 4], [(2, "cd"), (4, "ef")]),
        # What overlaps takes the place of the best.
        (Neighbours(1, 1), [0, 8, 2], [(0, "abcd"), (8, "hij")]),
        # One hit may join two others.
        (Neighbours(1, 1), [8, 0, 4, 2], [(8, "hij"), (0, "abcdef")]),
        (Neighbours(1, 1), [4, 8, 0, 2], [(4, "abcdef"), (8, "hij")]),
        (Neighbours(9, 9), [5, 1, 9], [(5, "abcdefghij")]),
    ],
)
def test_how_texts_that_overlap_become_one(
    step: Neighbours, places: Sequence[int], expected: Sequence[tuple[int, str]]
) -> None:
    reader = Letters()
    hits = [reader.hit(place, 1 / (rank + 1)) for rank, place in enumerate(places)]
    query = ResolvedQuery(
        text="q", dataset_ids=("d",), mode=Mode.BM25, layer=Layer.DETAIL, top_k=9, limit=30
    )
    found = step(query, hits, reader)
    assert [(hit.chunk_index, hit.content) for hit in found] == expected
    assert all(reader.text[hit.start : hit.end] == hit.content for hit in found)
    assert all(hit.score == 1 / (places.index(hit.chunk_index) + 1) for hit in found)


def test_of_a_document_that_has_changed_nothing_is_read(url: str) -> None:
    with opened(url) as kb:
        searches = kb.searches.derived(postprocessors=[keeper := ReaderKeeper()])
        for _ in range(4):
            (hit,) = searches.search(Query(text="whistle loud", dataset_id="d", top_k=1)).hits
        reader, *later = keeper.readers
        assert len(reader.neighbours(hit, 1, 1)) == 3
        assert reader.section(hit)
        assert reader.source(hit) == GUIDE
        # The chunk of the hit is the same, in the same place.
        kb.put_document("d", "guide.md", GUIDE + "\n## More\n\nAnd more.\n")
        assert not later[0].neighbours(hit, 1, 1)
        assert not later[1].section(hit)
        assert not later[2].source(hit)


class Rewrites:
    """A step that lets somebody else change a document before the steps after it."""

    def __init__(self) -> None:
        self.kb: Service | None = None
        self.text = ""

    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        if self.kb is not None:
            kb, self.kb = self.kb, None
            with ThreadPoolExecutor(1) as somebody_else:
                somebody_else.submit(kb.put_document, "d", "guide.md", self.text).result()
        return hits


@pytest.mark.parametrize("step", [Neighbours(), Parents()])
def test_what_changed_meanwhile_is_not_mixed(url: str, step: Postprocessor) -> None:
    change = Rewrites()
    change.text = GUIDE.replace("Words before all.", "Other words, and more of them, before all.")
    with opened(url, change, step) as kb:
        before = kb.search("whistle loud", dataset_id="d", top_k=3).hits
        assert all(GUIDE[hit.start : hit.end] == hit.content for hit in before)
        change.kb = kb
        assert kb.search("whistle loud", dataset_id="d", top_k=3).hits == before
        found = kb.search("whistle loud", dataset_id="d", top_k=3).hits
        assert all(change.text[hit.start : hit.end] == hit.content for hit in found)
        assert {hit.version for hit in found} == {2}


@settings(max_examples=examples(60), deadline=None)
@given(
    sections=st.lists(
        st.tuples(st.integers(1, 3), st.text(alphabet="ab 水😀.\n", min_size=1, max_size=60)),
        min_size=1,
        max_size=8,
    ),
    step=st.sampled_from([Neighbours(1, 1), Neighbours(0, 2), Parents(), Parents(limit=60)]),
    more=st.sampled_from([(), (Parents(80),), (Neighbours(2, 0),)]),
)
@pytest.mark.property
def test_every_hit_is_verbatim_and_none_overlaps_another(
    sections: list[tuple[int, str]], step: Postprocessor, more: tuple[Postprocessor, ...]
) -> None:
    text = "".join(f"{'#' * level} word\n\nword {body}\n\n" for level, body in sections)
    with triptych.open(
        "memory://", embedder=None, chunkers=small(), postprocessors=(step, *more)
    ) as kb:
        kb.put_document("d", "a.md", text)
        found = kb.search("word", dataset_id="d", top_k=5).hits
        assert found
        verbatim(kb, found)
        spans = sorted((hit.start, hit.end) for hit in found)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        scores = [hit.score for hit in found]
        assert scores == sorted(scores, reverse=True)


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValidationError, match="at least one"):
        Neighbours(0, 0)
    with pytest.raises(ValidationError, match="before"):
        Neighbours(-1, 1)
    with pytest.raises(ValidationError, match="limit"):
        Parents(0)


@each_row("step", [Neighbours(5, 5), Parents()])
@each_row(
    ("where", "closed"),
    [
        ({"$and": [{"heading": "Open"}, {"$not": {"heading": "Inner"}}]}, ("brass", "silver")),
        ({"$not": {"heading": ["Inner", "Closed"]}}, ("brass", "silver")),
        ({"$not": {"heading": "Closed"}}, ("brass",)),
    ],
)
def test_a_wider_hit_keeps_to_the_headings_of_the_filter(
    step: Postprocessor, where: dict[str, object], closed: Sequence[str]
) -> None:
    text = (
        "# Open\n\nThe zebra eats hay.\n\n## Inner\n\nA silver key.\n\n# Closed\n\nThe brass key.\n"
    )
    small = default_chunkers(ChunkConfig(size=24, overlap=0), MarkdownChunker(size=24))
    with triptych.open("memory://", embedder=None, chunkers=small, postprocessors=[step]) as kb:
        kb.put_document("d", "a.md", text)
        (hit,) = kb.search("zebra", dataset_id="d", where=where)
        assert hit.content == text[hit.start : hit.end]
        for word in closed:
            assert word not in hit.content
        if "silver" not in closed:
            assert "silver" in hit.content
