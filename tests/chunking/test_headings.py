"""Headings of any document agree with a CommonMark parser."""

from bisect import bisect_right

import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from support.examples import examples
from support.rows import each_row
from triptych.chunking import HEADINGS, heading_text, line_starts, scan

pytestmark = pytest.mark.property

# Without empty list items and lines indented by two spaces, where the scanner departs.
LINES = """
# one|## two ##|###### six|####### seven|#tag|text|more text|```|~~~|````|``` x`y|``` py|    code
- item|* item|+ item|1. one|2. two|> quote|<!-- open|-->|<!-- closed -->|<div>|</div>|<b>|<pre>
</pre>|<?|?>|---|===|***|- - -|\\# no| # one space| ---
""".strip().replace("\n", "|")
DOCUMENTS = st.lists(st.sampled_from(["", *LINES.split("|")]), max_size=9).map("\n".join)
PARSER = MarkdownIt("commonmark")


@settings(max_examples=examples(400), deadline=None)
# What begins with "---", be it behind one empty line, is front matter here.
@given(DOCUMENTS.filter(lambda content: not content.startswith(("---\n", "\n---\n"))))
def test_headings_are_those_of_a_commonmark_parser(content: str) -> None:
    starts = line_starts(content)
    found = [
        (bisect_right(starts, start) - 1, kind)
        for kind, start, _ in scan(content)
        if kind in HEADINGS
    ]
    expected = [
        (token.map[0], int(token.tag[1:]))
        for token in PARSER.parse(content)
        if token.type == "heading_open" and token.level == 0 and token.map is not None
    ]
    assert found == expected


@each_row(
    ("heading", "title"),
    [
        *((f"## Ende {marks}", "Ende") for marks in ("## {#ende}", "##{.class}", "{#ende} ##")),
        *((f"# Ende {marks}", "Ende") for marks in ("{: #ende}", "# {: #ende .x }", "{-}", "#")),
        *((f"# Ende {marks}", "Ende") for marks in ("{data-x=1}", "{/* #ende */}", "{ .x } #")),
        *(("Ende {#ende}\n===", "Ende"), ("Ende #\n---", "Ende #"), ("# {#only}", "")),
        *((f"# {title}", title) for title in ("C#", "Ende #x", "f {x}", "Set {1, 2}", "{a-b}")),
        ("# ##", ""),
    ],
)
def test_a_title_has_neither_closing_hashes_nor_attributes(heading: str, title: str) -> None:
    assert heading_text(heading, 0, len(heading)) == title
