"""Any bytes are read or refused by name, and every place leads back to its text."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from hypothesis import example, given, settings, strategies as st

from support.examples import examples
from triptych.chunking import default_chunkers
from triptych.errors import ValidationError
from triptych.parsing import FileParsers, ParsedFile, ParseLimits, TextParser, base_parsers
from triptych_parsers import CodeParser

pytestmark = pytest.mark.property

PARSERS = FileParsers(
    [*base_parsers(limits=ParseLimits(max_depth=50)), CodeParser()], fallback=TextParser()
)
ENDINGS = sorted(PARSERS.endings)

PIECES = st.sampled_from(
    [
        *("<p>", "</p>", "<table>", "<tr>", "<td>", "<ul>", "<li>", "<pre>", "</", "<!--", "-->"),
        *("<h1>", "<main>", "</main>", "<nav>", "<script>", "&amp;", "text", " ", "\n", '"', "'"),
        *("#", "- ", "```", "..", ":", "::", "{", "}", "[", "]", ",", "\\", "1", "a,b", "\r\n"),
        *("def f():\n", "class A {", "\x00", "é", "\u2028", "\U0001f600", ".....", "====\n"),
        *("\t", "  ", "<b ", "="),
    ]
)
SOUP = st.lists(PIECES, max_size=60).map("".join)


def check(parsed: ParsedFile) -> None:
    """What holds of every parsed file, and of its chunks."""
    chunker = default_chunkers().for_document("x", parsed.metadata, parsed.outline)
    seen = [False] * len(parsed.content)
    for spec in chunker.chunk(parsed.content):
        assert parsed.content[spec.start : spec.end].strip()
        seen[spec.start : spec.end] = [True] * (spec.end - spec.start)
    missed = {character for character, was in zip(parsed.content, seen, strict=True) if not was}
    assert all(character.isspace() or character == "\ufeff" for character in missed)


def check_file(name: str, data: bytes) -> None:
    """Reads the file, or is told by its name why not."""
    problem = ""
    try:
        parsed = PARSERS.parse(name, data)
        if parsed is not None:
            check(parsed)
    except ValidationError as error:
        problem = str(error)
    assert problem == "" or name in problem


@settings(max_examples=examples(300), deadline=None)
@given(ending=st.sampled_from(ENDINGS), text=st.one_of(SOUP, st.text(max_size=200)))
@example(ending=".html", text="<table><tr><td>a<table><tr><td>b</table>c")
def test_any_text_under_any_ending_is_read_or_refused(ending: str, text: str) -> None:
    check_file(f"a{ending}", text.encode("utf-8", "surrogatepass"))


@settings(max_examples=examples(100), deadline=None)
@given(data=st.binary(max_size=200), ending=st.sampled_from(ENDINGS))
def test_any_bytes_are_read_or_refused(data: bytes, ending: str) -> None:
    check_file(f"a{ending}", data)


CELLS = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.just("\n"), max_size=12)


@settings(max_examples=examples(100), deadline=None)
@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=8))
def test_the_place_of_a_row_is_the_line_that_it_begins_on(rows: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    text = out.getvalue()
    begins, line = {}, 1
    for row in rows:
        begins[line] = row
        line += 1 + sum(cell.count("\n") for cell in row)
    parsed = PARSERS.parse("a.csv", text.encode())
    for place in parsed.locators:
        row = begins[place.number]
        values = [" ".join(cell.split()) for cell in row]
        shown = parsed.content[place.start : place.end].split("\n")
        kept = [value for value in values if value]
        assert len(shown) == len(kept)
        assert all(line.endswith(value) for line, value in zip(shown, kept, strict=True))


WORDS = st.text("abcdefgh", min_size=1, max_size=8)


@settings(max_examples=examples(100), deadline=None)
@given(
    blocks=st.lists(
        st.tuples(st.sampled_from(["p", "h2", "li", "div", "pre", "td", "article"]), WORDS),
        max_size=12,
    ),
    breaks=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_the_place_of_a_block_of_html_is_the_line_of_its_text(
    blocks: list[tuple[str, str]], breaks: list[int]
) -> None:
    text = "".join(
        "\n" * gap + f"<{tag}>{word}</{tag}>"
        for gap, (tag, word) in zip(breaks, blocks, strict=False)
    )
    lines = text.split("\n")
    parsed = PARSERS.parse("a.html", text.encode())
    for place in parsed.locators:
        word = re.findall("[a-h]+", parsed.content[place.start : place.end])[0]
        assert word in lines[place.number - 1]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@settings(max_examples=examples(100), deadline=None)
@given(value=VALUES, indent=st.sampled_from([None, 1, 4]), ascii_only=st.booleans())
@example(value="\x7f", indent=None, ascii_only=False)
def test_all_json_is_read_and_its_parts_are_its_members(
    value: object, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only, allow_nan=False)
    data = text.encode("utf-8", "replace")
    parsed = PARSERS.parse("a.json", data)
    # JSON escapes all controls but one, DEL: more than one byte in twenty makes it binary data.
    if data.count(b"\x7f") * 20 > len(data):
        assert parsed is None
        return
    check(parsed)
    for part in parsed.parts:
        member = parsed.content[part.start : part.end]
        json.loads(member if part.title.startswith("[") else "{" + member + "}")


@settings(max_examples=examples(200), deadline=None)
@given(text=SOUP)
def test_what_is_called_json_here_is_json_but_for_comments_and_last_commas(text: str) -> None:
    try:
        PARSERS.parse("a.json", text.encode())
    except ValidationError:
        try:
            json.loads(text)
        except ValueError:
            return
        raise
