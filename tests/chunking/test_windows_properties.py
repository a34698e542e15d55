"""What holds for fixed windows and sentence windows of any text."""

import itertools

import pytest
from hypothesis import example, given, settings, strategies as st

from support.examples import examples
from support.rows import each_row
from triptych.chunking import (
    Chunker,
    ChunkSpec,
    DefaultChunker,
    FixedWindowChunker,
    MarkdownChunker,
    SentenceWindowChunker,
    unify_line_ends,
)
from triptych.chunking.boundaries import CLUSTER_LIMIT, splits_character

pytestmark = pytest.mark.property

PIECES = st.sampled_from(
    [
        "Word. ",
        "Word? ",
        "word ",
        "e.g. A ",
        "1. ",
        "句子。",
        "」",
        ".",
        "...",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "# Head\n",
        "```\n",
        "- item\n",
        "|a|b|\n|-|-|\n",
        "---\n",
        "\ufeff",
        "\u3000",
        "\u0301",
        "e\u0301",
        "👩\u200d💻",
        "🇫🇷",
        "\ud800",
        "\0",
        "a" * 40,
    ]
)
TEXT = st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=60).map("".join)
SIZES = st.integers(16, 90)


def check(content: str, specs: list[ChunkSpec], size: int) -> None:
    assert [spec.index for spec in specs] == list(range(len(specs)))
    for spec in specs:
        chunk = content[spec.start : spec.end]
        assert 0 < len(chunk) <= size
        assert not chunk[-1].isspace()
        assert not chunk.startswith(("\n", "\r"))
        assert chunk.strip()
    assert all(a.start < b.start and a.end < b.end for a, b in itertools.pairwise(specs))
    rest, at = [], 0
    for spec in specs:
        rest.append(content[at : spec.start])
        at = max(at, spec.end)
    assert not "".join([*rest, content[at:]]).removeprefix("\ufeff").strip()


@settings(max_examples=examples(400), deadline=None)
@given(TEXT, SIZES, st.booleans(), st.data())
def test_fixed_windows_cover_any_text(
    content: str, size: int, whole_words: bool, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    chunker = FixedWindowChunker(size=size, overlap=overlap, whole_words=whole_words)
    specs = chunker.chunk(content)
    check(content, specs, size)
    assert chunker.chunk(content) == specs
    if not overlap:
        assert all(a.end <= b.start for a, b in itertools.pairwise(specs))
    if whole_words:
        assert all(a.end - b.start <= overlap for a, b in itertools.pairwise(specs))
    # A cut inside a character is one that could not be avoided.
    for spec in specs:
        if splits_character(content, spec.end):
            lowest = max(spec.start + overlap + 1, spec.end - CLUSTER_LIMIT)
            text = unify_line_ends(content)
            assert all(splits_character(text, at) for at in range(lowest, spec.end))


@settings(max_examples=examples(100), deadline=None)
@given(st.text(alphabet="ab", min_size=1, max_size=400), SIZES, st.data())
def test_fixed_windows_of_text_without_spaces_are_exact(
    content: str, size: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    specs = FixedWindowChunker(size=size, overlap=overlap).chunk(content)
    assert [spec.start for spec in specs] == [n * (size - overlap) for n in range(len(specs))]
    assert all(spec.end - spec.start == size for spec in specs[:-1])


@settings(max_examples=examples(400), deadline=None)
@given(TEXT, SIZES, st.integers(1, 3), st.integers(0, 3), st.booleans())
def test_sentence_windows_tile_any_text(
    content: str, size: int, sentences: int, window: int, markdown: bool
) -> None:
    chunker = SentenceWindowChunker(
        sentences_per_chunk=sentences, window=window, size=size, markdown=markdown
    )
    specs = chunker.chunk(content)
    check(content, specs, size)
    assert chunker.chunk(content) == specs
    assert all(a.end <= b.start for a, b in itertools.pairwise(specs))
    for spec in specs:
        assert spec.window_start is not None
        assert spec.window_end is not None
        assert spec.window_start <= spec.start < spec.end <= spec.window_end
        assert markdown or spec.heading_path == ()
        if not window:
            assert (spec.window_start, spec.window_end) == (spec.start, spec.end)
    # A window ends where a chunk does, and wider windows hold narrower ones.
    starts, ends = {spec.start for spec in specs}, {spec.end for spec in specs}
    if sentences == 1:
        assert {spec.window_start for spec in specs} <= starts
        assert {spec.window_end for spec in specs} <= ends
    assert [spec.window_start for spec in specs] == sorted(spec.window_start or 0 for spec in specs)


@settings(max_examples=examples(200), deadline=None)
@given(TEXT)
@example("\n\u0301")
@example(" \u0301")
@example("One.\n\n \u0301 two.")
@example("\ufeff\u0301")
def test_sentences_of_a_large_size_are_whole_and_part_no_character(content: str) -> None:
    specs = SentenceWindowChunker(size=100_000).chunk(content)
    assert not any(splits_character(content, spec.start) for spec in specs)


@each_row("content", [" \u0301x", "\n \u0301x", "\ufeff \u0301x"])
@each_row(
    "chunker",
    [
        SentenceWindowChunker(),
        SentenceWindowChunker(size=16),
        SentenceWindowChunker(markdown=True),
        FixedWindowChunker(size=16, overlap=0),
        DefaultChunker(),
        MarkdownChunker(),
    ],
)
def test_a_space_under_a_combining_mark_begins_a_chunk(content: str, chunker: Chunker) -> None:
    (spec,) = chunker.chunk(content)
    assert content[spec.start : spec.end] == " \u0301x"
