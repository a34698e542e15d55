"""The default chunker, positions, kinds and the embedded text."""

import itertools

import pytest

from support.rows import each_row
from triptych.chunking import (
    ChunkConfig,
    Chunker,
    ChunkerSet,
    ChunkSpec,
    DefaultChunker,
    MarkdownChunker,
    byte_offsets,
    chunk_config_sig,
    chunk_text,
    default_chunkers,
    embedding_text,
    kind_of,
    line_starts,
    start_lines,
)
from triptych.errors import ValidationError
from triptych_testing import lacking


def pieces(content: str, size: int, overlap: int = 0) -> list[str]:
    specs = chunk_text(content, ChunkConfig(size=size, overlap=overlap))
    return [content[spec.start : spec.end] for spec in specs]


def test_short_text_is_one_chunk_without_the_space_around_it() -> None:
    assert pieces("  \n short text \n", 100) == ["short text"]


@each_row("content", ["", "   ", "\n\r\n\u3000", "\ufeff"])
def test_blank_text_has_no_chunks(content: str) -> None:
    assert pieces(content, 100) == []


@each_row(
    ("ending", "other"),
    [
        ("\n\n", ". "),
        ("\r\n\r\n", ". "),
        ("\r\r", ". "),
        (". ", "\n"),
        ("! ", "\n"),
        ("。", "\n"),
        ("！", "\n"),
        ("？」", "\n"),
        ('." ', "\n"),
        ("\n", " "),
        (" ", "y"),
    ],
)
def test_a_chunk_ends_at_the_best_boundary_of_its_last_quarter(ending: str, other: str) -> None:
    content = "x" * 80 + ending + "x" * 5 + other + "x" * 80
    assert pieces(content, 100)[0] == ("x" * 80 + ending).rstrip()


def test_a_boundary_before_the_last_quarter_is_skipped() -> None:
    content = "x" * 60 + "\n\n" + "x" * 100
    assert pieces(content, 100)[0] == content[:100]


def test_the_overlap_is_what_was_asked_where_nothing_is_trimmed() -> None:
    specs = chunk_text("x" * 1000, ChunkConfig(size=100, overlap=30))
    assert [spec.start for spec in specs] == list(range(0, 911, 70))
    assert specs[-1].end == 1000


def test_an_overlap_almost_as_large_as_the_chunk_still_ends() -> None:
    specs = chunk_text("word " * 60, ChunkConfig(size=16, overlap=15))
    assert specs[-1].end == 299
    assert all(a.start < b.start for a, b in itertools.pairwise(specs))


def test_trailing_blank_space_makes_no_chunk_that_only_repeats() -> None:
    assert len(pieces("x" * 99 + " " * 300, 100, 64)) == 1


@each_row(
    "character",
    ["e\u0301", "❤\ufe0f", "👩\u200d💻", "👍\U0001f3fd", "🇫🇷"],
)
def test_no_cut_parts_a_character(character: str) -> None:
    for shift in range(len(character) + 1):
        content = "a" * shift + character * 60
        for piece in pieces(content, 50, 20) + pieces(content, 50):
            assert piece.lstrip("a").replace(character, "") == ""


def test_a_cluster_without_end_is_cut_at_the_limit() -> None:
    assert max(map(len, pieces("e" + "\u0301" * 1000, 100))) == 100


@each_row(("size", "overlap"), [(15, 0), (100, 100), (100, -1), (0, 0)])
def test_sizes_that_make_no_sense_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValidationError, match="chunk"):
        ChunkConfig(size=size, overlap=overlap)


def test_the_signature_names_algorithm_and_sizes() -> None:
    config = ChunkConfig(size=100, overlap=10)
    assert chunk_config_sig(config) == "window/1(size=100,overlap=10)"
    assert DefaultChunker(config=config).signature == chunk_config_sig(config)
    assert DefaultChunker().config == ChunkConfig(size=512, overlap=64)
    assert not lacking(DefaultChunker(), Chunker)
    assert not lacking(MarkdownChunker(), Chunker)


def test_lines_and_bytes_of_chunk_starts() -> None:
    content = "a\r\nb\rc\nd\n\r\n€😀e"
    specs = [ChunkSpec(index=i, start=i, end=i) for i in range(len(content) + 1)]
    assert start_lines(content, specs) == [1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6, 6]
    assert byte_offsets(content, specs) == [*range(12), 14, 18, 19]
    assert line_starts(content) == [0, 3, 5, 7, 9, 11]
    assert start_lines(content, specs[::-1]) == start_lines(content, specs)[::-1]
    assert byte_offsets(content, specs[::-1]) == byte_offsets(content, specs)[::-1]
    assert line_starts("") == [0]


@each_row(
    ("name", "metadata", "kind"),
    [
        ("a.md", {}, "markdown"),
        ("A.MD", {}, "markdown"),
        ("a.markdown", {}, "markdown"),
        ("a.mdx", {}, "markdown"),
        ("a.txt", {}, "text"),
        ("md", {}, "text"),
        ("a.md", {"kind": "text"}, "text"),
        ("a.txt", {"kind": "markdown"}, "markdown"),
        ("a.md", {"kind": ""}, "markdown"),
        ("a.py", {"kind": "python"}, "python"),
        ("a.txt", {"kind": "MD"}, "markdown"),
        ("a.txt", {"kind": "mdx"}, "markdown"),
    ],
)
def test_the_kind_of_a_document(name: str, metadata: dict[str, str], kind: str) -> None:
    assert kind_of(name, metadata) == kind


def test_a_set_knows_markdown_by_each_of_its_names() -> None:
    own = MarkdownChunker(size=300)
    chunkers = ChunkerSet(by_kind={"md": own})
    assert chunkers.for_document("a.md", {}) == chunkers.for_document("a", {"kind": "mdx"}) == own
    assert chunkers.signature == ChunkerSet(by_kind={"markdown": own}).signature


def test_a_set_chooses_by_kind_and_its_signature_covers_all() -> None:
    chunkers = default_chunkers()
    assert isinstance(chunkers.for_document("a.md", {}), MarkdownChunker)
    assert isinstance(chunkers.for_document("a.md", {"kind": "text"}), DefaultChunker)
    assert isinstance(chunkers.for_document("a.x", {"kind": "unknown"}), DefaultChunker)
    variants = [
        chunkers,
        default_chunkers(ChunkConfig(size=100, overlap=10)),
        default_chunkers(markdown=MarkdownChunker(size=500)),
        ChunkerSet(by_kind={"mark": MarkdownChunker()}),
        ChunkerSet(),
        ChunkerSet(default=MarkdownChunker()),
    ]
    assert len({variant.signature for variant in variants}) == len(variants)
    one, two = MarkdownChunker(size=100), DefaultChunker()
    forth = ChunkerSet(by_kind={"a": one, "b": two})
    assert forth.signature == ChunkerSet(by_kind={"b": two, "a": one}).signature
    assert forth.signature.endswith(";named")  # the names of documents are embedded


@each_row(
    ("title", "path", "expected"),
    [
        (None, (), "text"),
        ("", (), "text"),
        ("Guide", (), "Guide\ntext"),
        (None, ("A", "B"), "A > B\ntext"),
        ("Guide", ("A", "B"), "Guide > A > B\ntext"),
        ("A", ("A", "B"), "A > B\ntext"),
        ("A", ("A / B",), "A / B\ntext"),
        ("A", ("AB",), "A > AB\ntext"),
        ("A / B", ("A",), "A / B > A\ntext"),
        (" two\nlines ", ("A",), "two lines > A\ntext"),
    ],
)
def test_the_embedded_text(title: str | None, path: tuple[str, ...], expected: str) -> None:
    assert embedding_text(title, path, "text") == expected
