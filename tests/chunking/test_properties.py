"""What holds for the chunks of any text."""

import itertools
import re

import pytest
from hypothesis import example, given, settings, strategies as st

from support.examples import examples
from triptych.chunking import (
    ChunkConfig,
    ChunkSpec,
    DefaultChunker,
    MarkdownChunker,
    byte_offsets,
    first_heading,
    heading_text,
    line_starts,
    scan,
    start_lines,
    unify_line_ends,
)
from triptych.text import BESIDE

pytestmark = pytest.mark.property

FRAGMENTS = st.sampled_from(
    [
        "# ",
        "## ",
        "### ",
        "#",
        "#x",
        "Title",
        "word ",
        "a sentence. ",
        "句子。",
        "```",
        "~~~",
        "````",
        "    ",
        "  ",
        "\t",
        "- ",
        "1. ",
        "> ",
        "<!--",
        "-->",
        "<div>\n",
        "</div>",
        "<pre>",
        "</pre>",
        "---",
        "===",
        "\\",
        "a\\",
        "b\\",
        "\n\\",
        "-\\",
        "-\\",
        "",
        "\n",
        "\n",
        "\n\n",
        "\n\n",
        "\r\n",
        "\r\n\r\n",
        "\r",
        "\ufeff",
        "é\n",
        "👩\u200d💻",
        "🇫🇷",
        "\u200d",
        "\u3000",
        "\x0c",
        "\u2028",
        "!!! note",
        "...",
        "***",
        "{#id}",
        "[a](b)",
        "<?",
        "<![CDATA[",
        "]]>",
        "�",
        "+++",
    ]
)
MARKDOWN = st.one_of(
    st.lists(FRAGMENTS, max_size=120).map("".join),
    st.lists(st.one_of(FRAGMENTS, st.text(max_size=12)), max_size=60).map("\n".join),
)
SIZES = st.integers(min_value=16, max_value=120)


def check_spans(content: str, specs: list[ChunkSpec], size: int) -> None:
    assert [spec.index for spec in specs] == list(range(len(specs)))
    for spec in specs:
        chunk = content[spec.start : spec.end]
        assert 0 < len(chunk) <= size
        assert chunk.strip()
        assert not chunk[-1].isspace()
        assert not chunk.startswith(("\n", "\r"))
    starts = [spec.start for spec in specs]
    assert starts == sorted(set(starts))


def uncovered(content: str, specs: list[ChunkSpec]) -> str:
    rest, at = [], 0
    for spec in specs:
        rest.append(content[at : spec.start])
        at = max(at, spec.end)
    return "".join([*rest, content[at:]]).removeprefix("\ufeff")


@settings(max_examples=examples(400), deadline=None)
@given(MARKDOWN, SIZES)
@example("+++\n+++\r\n", 16)
@example("# # ````\n\u3000### ### ", 16)
@example("# a\n" + "\u3000" * 30 + "some text of words that is long", 16)
@example("# a" + "\n" * 50 + "some text of words that is long", 16)
@example("# a" + "\n" * 50 + "- an item\n- another item", 16)
def test_markdown_chunks_tile_the_document(content: str, size: int) -> None:
    chunker = MarkdownChunker(size=size)
    specs = chunker.chunk(content)
    check_spans(content, specs, size)
    assert all(a.end <= b.start for a, b in itertools.pairwise(specs))
    assert not uncovered(content, specs).strip()
    assert chunker.chunk(content) == specs


@settings(max_examples=examples(200), deadline=None)
@given(MARKDOWN, SIZES, st.data())
def test_overlapping_markdown_chunks_cover_the_document(
    content: str, size: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, size - 16))
    specs = MarkdownChunker(size=size, overlap=overlap).chunk(content)
    check_spans(content, specs, size)
    assert not uncovered(content, specs).strip()
    for before, after in itertools.pairwise(specs):
        assert before.end - after.start <= overlap


@settings(max_examples=examples(400), deadline=None)
@given(MARKDOWN, SIZES, st.data())
def test_windows_cover_the_text(content: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    chunker = DefaultChunker(config=ChunkConfig(size=size, overlap=overlap))
    specs = chunker.chunk(content)
    check_spans(content, specs, size)
    assert not uncovered(content, specs).strip()
    ends = [spec.end for spec in specs]
    assert ends == sorted(set(ends))
    if not overlap:
        assert all(a.end <= b.start for a, b in itertools.pairwise(specs))
    assert chunker.chunk(content) == specs


@settings(max_examples=examples(200), deadline=None)
@given(MARKDOWN)
def test_paths_are_titles_and_the_first_heading_is_among_them(content: str) -> None:
    title = first_heading(content)
    for joins in (False, True):
        specs = MarkdownChunker(size=10_000, joins=joins).chunk(content)
        paths = [spec.heading_path for spec in specs if spec.heading_path]
        assert (title is None) == (not paths)
        assert all(part and part == part.strip() for path in paths for part in path)
        if title is not None:
            first = paths[0][0]
            assert first == title or (joins and first.startswith(f"{title}{BESIDE}"))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from(["\r", "\n", "\r\n", "a", "é", "😀", "中", "\ud800"])), st.data())
def test_positions_agree_with_a_plain_count(parts: list[str], data: st.DataObject) -> None:
    content = "".join(parts)
    starts = data.draw(st.lists(st.integers(0, len(content))))
    specs = [ChunkSpec(index=0, start=start, end=start) for start in starts]
    begins = line_starts(content)
    assert start_lines(content, specs) == [
        sum(begin <= start for begin in begins) for start in starts
    ]
    assert byte_offsets(content, specs) == [
        len(content[:start].encode("utf-8", "surrogatepass")) for start in starts
    ]


@settings(max_examples=examples(300), deadline=None)
@example("# One\n\ntwo\n===\n\nthree\n- four\n")
@given(MARKDOWN)
def test_a_line_may_begin_with_a_letter_or_another_sign_that_means_nothing(content: str) -> None:
    # Paragraphs whose lines begin with letters are found by a rule of their own.
    text = unify_line_ends(content)
    other = re.sub(r"^[^\W\d_]", "$", text, flags=re.MULTILINE)
    assert list(scan(text)) == list(scan(other))


@settings(max_examples=examples(300), deadline=None)
@given(st.text("ab #[](){}.\u00e9\u3000\t*", min_size=1).filter(str.strip))
def test_a_closing_hash_is_no_part_of_a_title(title: str) -> None:
    # With it the title goes through all rules, without it perhaps through the short cut.
    if not title.rstrip().endswith(("#", "}")):
        plain, closed = f"## {title.strip()}", f"## {title.strip()} #"
        ends = len(plain), len(closed)
        assert heading_text(plain, 0, ends[0]) == heading_text(closed, 0, ends[1])


def test_equal_paragraphs_are_cut_by_their_neighbours_as_ever() -> None:
    kinds = ["Same words here.", "Other words: there."]
    text = "\n\n".join(kinds[at * at % 7 >= 3] for at in range(40))
    cuts = [chunk.start for chunk in MarkdownChunker(size=90).chunk(text)]
    assert cuts == [0, 75, 150, 207, 282, 339, 414, 471, 546, 603, 678]
