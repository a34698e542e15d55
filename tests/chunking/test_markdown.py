"""What the Markdown chunker takes for a heading, and what it keeps together."""

import itertools
from typing import Any

import pytest

from support.rows import each_row
from triptych.chunking import ChunkSpec, MarkdownChunker, first_heading
from triptych.errors import ValidationError


def chunks(content: str, size: int = 800, overlap: int = 0) -> list[tuple[tuple[str, ...], str]]:
    specs = MarkdownChunker(size=size, overlap=overlap).chunk(content)
    assert [spec.index for spec in specs] == list(range(len(specs)))
    return [(spec.heading_path, content[spec.start : spec.end]) for spec in specs]


def paths(content: str) -> list[tuple[str, ...]]:
    return [path for path, _ in chunks(content)]


def test_each_section_is_a_chunk_that_begins_with_its_heading() -> None:
    assert chunks("Before.\n\n# One\n\ntext\n\n## Two\ntext two\n\n# Three\ntext\n") == [
        ((), "Before."),
        (("One",), "# One\n\ntext"),
        (("One", "Two"), "## Two\ntext two"),
        (("Three",), "# Three\ntext"),
    ]


def test_skipped_levels_nest_under_what_is_above_them() -> None:
    headings = ["# A", "#### B", "### C", "## D", "###### E", "# F"]
    assert paths("".join(f"{each}\n{'word ' * 40}\n" for each in headings)) == [
        ("A",),
        ("A", "B"),
        ("A", "C"),
        ("A", "D"),
        ("A", "D", "E"),
        ("F",),
    ]


def test_a_bare_heading_joins_its_first_subsection_but_no_longer_sibling() -> None:
    long = "text " * 60 + "end"
    assert chunks(f"# A\n\n## B\n\n### C\ntext\n\n## D\n\n## E\n{long}\n") == [
        (("A", "B", "C"), "# A\n\n## B\n\n### C\ntext"),
        (("A", "D"), "## D"),
        (("A", "E"), f"## E\n{long}"),
    ]


def test_small_sections_in_a_row_under_one_parent_are_one_chunk_with_all_their_titles() -> None:
    long = "word " * 40 + "end."
    content = (
        f"# A\n\n{long}\n\n## B\nb\n\n## C\nc\n\n## D\n{long}\n\n## C\nc\n\n## C\nd\n\n# E\ne\n"
    )
    assert chunks(content) == [
        (("A",), f"# A\n\n{long}"),
        (("A", "B / C"), "## B\nb\n\n## C\nc"),
        (("A", "D"), f"## D\n{long}"),
        (("A", "C"), "## C\nc\n\n## C\nd"),
        (("E",), "# E\ne"),
    ]


def test_a_small_section_with_subsections_stays_before_them() -> None:
    content = "# A\n\n## B\nb\n\n## C\nc\n\n### D\nd\n\n### E\ne\n\n## F\nf\n"
    assert paths(content) == [("A", "B"), ("A", "C"), ("A", "C", "D / E"), ("A", "F")]


def test_sections_at_the_top_are_joined_however_long_the_document_is() -> None:
    content = "Before.\n\n## A\na\n\n## B\nb\n"
    assert paths(content) == [(), ("A / B",)]
    assert paths(content + "\n\n## C\n" + "word " * 200) == [(), ("A / B",), ("C",), ("C",)]


def test_without_joins_no_chunk_crosses_a_heading_and_the_signature_says_so() -> None:
    alone = MarkdownChunker(joins=False)
    content = "## Install\n\nRun it.\n\n## Remove\n\nRun it.\n"
    assert [spec.heading_path for spec in alone.chunk(content)] == [("Install",), ("Remove",)]
    assert alone.signature == "markdown/4(size=800,overlap=0,joins=False)"


def test_small_sections_are_joined_up_to_the_size_and_none_stays_alone() -> None:
    content = "# T\n\n" + "\n\n".join(f"## S{n}\n{'word ' * 20}{n}" for n in range(40))
    found = chunks(content)
    assert [title for path, _ in found for title in path[-1].split(" / ")] == [
        f"S{n}" for n in range(40)
    ]
    assert all(200 <= len(chunk) <= 800 for _, chunk in found)
    for size, overlap in ((400, 0), (800, 400)):  # small is what is under a quarter of what is new
        assert {len(path) for path, _ in chunks(content, size, overlap)} == {2}


@each_row(
    "text",
    [
        "```\n# no\n\n## no\n```",
        "~~~ python\n# no\n```\n# no\n~~~",
        "````\n```\n# no\n```\n````",
        "```\n# never closed\n\n## no",
        "   ```\n# no\n   ```",
        "<!--\n# no\n\n## no\n-->",
        "<!-- never closed\n\n# no",
        "<pre>\n# no\n\n# no\n</pre>",
        "<script>\n# no\n\n</script>",
        "<div>\n# no\n</div>",
        "<?php\n\n# no\n?>",
        "text\n\n    # indented code\n\n    # more",
        "\t# tab-indented code",
        "#hashtag and #another",
        "####### seven",
        "\\# escaped",
        "| # | a |\n|---|---|\n| # | 1 |",
        "> # quoted",
        "> text\n---",
        "- item\n\n  # inside the item\n\n  ## too",
        "1. item\n\n   ```sh\n   # comment\n   ```\n\n   more",
        "!!! note\n    # inside\n\n    ## too",
        "***",
        "text\n\n---\n\ntext",
        "a | b\n--- | ---\n1 | 2",
    ],
)
def test_what_is_no_heading(text: str) -> None:
    assert paths(f"# Top\n\n{text}") == [("Top",)]
    assert first_heading(text) is None


@each_row(
    ("text", "title"),
    [
        ("# Title", "Title"),
        ("   ## Title ##", "Title"),
        ("# Title #tag", "Title #tag"),
        ("#\tTitle", "Title"),
        ("# C#", "C#"),
        ("# Title { #anchor }", "Title"),
        ("# Title {#anchor .class}", "Title"),
        ("# Use `{}` here", "Use `{}` here"),
        ("# The [guide](https://example.org/a) to ![x](y.png)", "The guide to x"),
        ("Title\n===", "Title"),
        ("Title\nover two\n---", "Title over two"),
        ("paragraph\n\nTitle\n-", "Title"),
        ("paragraph\n# Title", "Title"),
        ("```\n# no\n```\n# Title", "Title"),
        ("```inline``` text\n# Title", "Title"),
        ("<!-- one line -->\n# Title", "Title"),
        ("<!--> # comment\n\n# Title", "Title"),
        ("<div>\n\n# Title", "Title"),
        ("- item\n# Title", "Title"),
        ("> quote\n# Title", "Title"),
        ("---\ntitle: x\n# comment\n---\n# Title", "Title"),
        ("+++\n# comment\n+++\n# Title", "Title"),
        ("#\n\n# Title", "Title"),
        ("\ufeff# Title", "Title"),
        ("\ufeff---\r\na: b\r\n---\r\n# Title\r\n", "Title"),
        ("text\r\n\r\n# Title\r\n", "Title"),
        ("text\r# Title\rtext", "Title"),
        ("Title\r\n===\r\n", "Title"),
        ("# 标题：开始", "标题：开始"),
    ],
)
def test_what_is_a_heading(text: str, title: str) -> None:
    assert first_heading(text) == title
    assert (title,) in paths(text + "\n\ntext")


def test_a_long_title_is_cut_and_a_long_paragraph_is_no_setext_heading() -> None:
    assert first_heading("# " + "word " * 100) == ("word " * 40).rstrip()
    assert first_heading("word " * 100 + "\n---\n") is None


def test_the_first_heading_of_a_large_document_is_found_wherever_it_is() -> None:
    filler = "word " * 10_000
    assert first_heading(f"# A\n\n{filler}") == "A"
    assert first_heading(f"{filler}\n\n# B\n") == "B"
    assert first_heading(f"```\n{filler}\n# no\n```\n# C\n") == "C"
    for at in range(16_370, 16_390):
        assert first_heading("x" * (at - 2) + "\n\n# Title here\n\ntext") == "Title here"


def test_front_matter_is_a_chunk_of_its_own_without_a_path() -> None:
    assert chunks("---\ntitle: x\n\ntags: [a]\n---\ntext\n\n# A\ntext") == [
        ((), "---\ntitle: x\n\ntags: [a]\n---"),
        ((), "text"),
        (("A",), "# A\ntext"),
    ]
    assert chunks("---\n\n# A\ntext\n\n---\n") == [((), "---"), (("A",), "# A\ntext\n\n---")]


def test_a_byte_order_mark_is_in_no_chunk() -> None:
    assert chunks("\ufefftext") == [((), "text")]
    assert chunks("\ufeff") == []


@each_row("content", ["", " ", "\n\n", "\r\n\t\u00a0\u3000\r", "\x0c"])
def test_blank_content_has_no_chunks(content: str) -> None:
    assert chunks(content) == []


WHOLE = [
    "```python\nfirst = 1\n\nsecond = 2\n\nthird = 3\n```",
    "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |",
    "- item one\n\n  its second paragraph\n  - nested\n    - deeper",
    "<table>\n<tr><td>1</td></tr>\n<tr><td>2</td></tr>\n</table>",
    "<!-- a comment\n\nwith a blank line -->",
    "!!! note\n    first line\n\n    second paragraph",
    "> quoted line\n> and another",
    "    indented code\n\n    after a blank line",
]


@each_row("block", WHOLE)
def test_a_block_that_fits_stays_whole(block: str) -> None:
    sentence = "Some words of a paragraph that stands around it. "
    for before in range(1, 12):
        content = f"# T\n\n{sentence * before}\n\n{block}\n\n{sentence * 4}"
        assert sum(block in chunk for _, chunk in chunks(content, size=120)) == 1


def test_a_code_block_that_is_too_large_is_cut_between_lines_at_blank_ones_first() -> None:
    groups = ["\n".join(f"line_{group}_{line} = 1" for line in range(4)) for group in range(9)]
    content = "```\n" + "\n\n".join(groups) + "\n```"
    found = [chunk for _, chunk in chunks(content, size=150)]
    assert len(found) > 3
    assert all(any(group in chunk for chunk in found) for group in groups)


def test_a_paragraph_that_is_too_large_is_cut_between_sentences() -> None:
    content = "# T\n\n" + " ".join(f"This is sentence number {n}." for n in range(60))
    found = [chunk for _, chunk in chunks(content, size=200)]
    assert len(found) > 5
    assert all(chunk.endswith(".") for chunk in found)
    chinese = "".join(f"这是第{n}句话，说的是同一件事情。" for n in range(60))
    assert all(chunk.endswith("。") for _, chunk in chunks(chinese, size=100))


def test_a_rule_or_closing_mark_never_begins_a_chunk() -> None:
    text = "Words that fill a paragraph, more or less.\n\n/// note\n\nText.\n\n///\n\n"
    found = [chunk for _, chunk in chunks(text * 30, size=150)]
    assert len(found) > 10
    assert not any(chunk.startswith("///\n") or chunk == "///" for chunk in found)


def test_a_heading_is_never_separated_from_its_text() -> None:
    for words in range(1, 60):
        content = "## Heading\n\n" + "word " * words + "\n\n" + "other words here. " * 20
        first = chunks(content, size=100)[0][1]
        assert first.startswith("## Heading\n\nword")


def test_overlap_repeats_the_end_of_the_chunk_before_within_a_section() -> None:
    content = "# A\n\n" + " ".join(f"Sentence number {n} is here." for n in range(60))
    content += "\n\n# B\n\n" + " ".join(f"Other number {n} is there." for n in range(60))
    specs = MarkdownChunker(size=200, overlap=50).chunk(content)
    inner = 0
    for before, after in itertools.pairwise(specs):
        if before.heading_path == after.heading_path:
            inner += 1
            assert 30 <= before.end - after.start <= 50
            assert content[after.start - 1].isspace()
        else:
            assert after.start >= before.end
    assert inner > 10
    assert all(spec.end - spec.start <= 200 for spec in specs)


@each_row(("size", "overlap"), [(15, 0), (100, 100), (100, -1), (0, 0), (-5, 0)])
def test_sizes_that_make_no_sense_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValidationError, match="chunk"):
        MarkdownChunker(size=size, overlap=overlap)


def test_the_signature_covers_every_option() -> None:
    chunkers = [MarkdownChunker(), MarkdownChunker(size=500), MarkdownChunker(overlap=9)]
    assert len({chunker.signature for chunker in chunkers}) == 3
    assert MarkdownChunker().signature == "markdown/4(size=800,overlap=0)"


def test_chunks_of_one_document_are_pinned_by_the_signature() -> None:
    """Chunks may change only together with the algorithm's version in the signature."""
    blocks = [f"Paragraph {n} " + "word " * (n % 13) for n in range(40)]
    content = "# Pinned\n\n" + "\n\n".join(blocks)
    spans = [(spec.start, spec.end) for spec in MarkdownChunker(size=300).chunk(content)]
    assert spans == [
        (0, 127),
        (130, 313),
        (316, 507),
        (510, 617),
        (620, 792),
        (795, 957),
        (960, 1257),
        (1260, 1377),
        (1380, 1542),
        (1545, 1767),
    ]


@each_row(
    "fields",
    [
        {"index": -1, "start": 0, "end": 1},
        {"index": 0, "start": -1, "end": 1},
        {"index": 0, "start": 2, "end": 1},
        {"index": 0, "start": 2, "end": 3, "window_start": 1},
        {"index": 0, "start": 2, "end": 3, "window_start": 3, "window_end": 4},
    ],
)
def test_a_spec_with_contradicting_spans_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ChunkSpec(**fields)
