"""Formats that need no library: what is read of a file, and where it stood."""

from __future__ import annotations

import json

import pytest

from support.rows import each_row
from triptych.chunking import default_chunkers
from triptych.errors import CancelledError, ParseError, ValidationError
from triptych.parsing import (
    FileParser,
    FileParsers,
    HtmlParser,
    MarkdownParser,
    ParsedFile,
    ParseLimits,
    TextParser,
    base_parsers,
)
from triptych_testing import lacking


def read(name: str, text: str | bytes, **limits: float) -> ParsedFile:
    known = ParseLimits(**limits)  # type: ignore[arg-type]  # whole numbers stay whole
    parsers = FileParsers(base_parsers(limits=known), fallback=TextParser(), limits=known)
    return parsers.parse(name, text.encode() if isinstance(text, str) else text)


def places(parsed: ParsedFile) -> dict[str, str]:
    """The first line at each place, by the place."""
    return {
        each.label: parsed.content[each.start : each.end].split("\n")[0] for each in parsed.locators
    }


def titles(parsed: ParsedFile) -> list[tuple[str, ...]]:
    chunker = default_chunkers().for_document("x", parsed.metadata, parsed.outline)
    return [spec.heading_path for spec in chunker.chunk(parsed.content)]


# Text and Markdown


@each_row("name", ["a.md", "a.txt", "notes", "a.log", "a.unknown"])
def test_text_is_kept_as_it_is(name: str) -> None:
    text = "\ufeff# One\r\n\r\ntwo … dots\rthree <!-- mine -->\n"
    parsed = read(name, text)
    assert parsed.content == text
    assert parsed.metadata == {}
    assert parsed.original_sha256 != ""


def test_markdown_under_a_name_that_does_not_say_so_is_said_to_be_markdown() -> None:
    assert read("a.mdown", "# A\n").metadata == {"kind": "markdown"}


def test_utf_16_is_read_by_its_mark() -> None:
    assert read("a.txt", "héllo".encode("utf-16")).content == "héllo"
    with pytest.raises(ParseError, match="UTF-16"):
        read("a.txt", b"\xff\xfea")
    latin = read("a.txt", b"caf\xe9")
    assert (latin.content, len(latin.notes)) == ("café", 1)


PRICES = """Menu
Tea ............ 12
Cake . . . . . . 3
Soup……… iv
Bread ..........
4
"""


@each_row("name", ["a.txt", "a.md", "a.log", "a", "a.rst", "a.html", "a.csv"])
def test_lines_that_end_in_dots_and_a_number_stay(name: str) -> None:
    text = f"<pre>{PRICES}</pre>" if name == "a.html" else PRICES
    for line in PRICES.splitlines():
        assert line in read(name, text).content


def test_comments_of_converters_stay() -> None:
    text = '<!-- image -->\n<!-- PageNumber="4" -->\nText\n\n<!-- page break -->\n'
    for name in ("a.md", "a.txt"):
        assert read(name, text).content == text


# HTML

PAGE = """<!doctype html><html><head><title>The &amp;
page</title><style>p {x}</style></head><body>
<header>Site name</header><nav><a href=/>Home</a></nav><div class="Sidebar left">Elsewhere</div>
<main><h1>Title <a class=headerlink>¶</a></h1>
<p>Some <b>bold</b> text
going on<br>next
<ul><li>one<li>two <ul><li>inner</ul><li>three</ul>
<ol><li>a</li><li><p>b</li></ol>
<table><caption>Cap</caption><tr><th>Name<th>Price<tr><td><p>Nut<p>bolt<td>3|4<tr><td><td>5</table>
<pre><code>x = 1
  y &lt; 2</code></pre>
<blockquote>quoted</blockquote><h2>Sub</h2>
<p># no heading <code>f()</code> <span hidden>secret</span></main>
<footer>foot</footer><script>if (a<b) { "</p>" }</script></body></html>"""


def test_the_main_content_of_a_page_becomes_markdown() -> None:
    parsed = read("a.html", PAGE)
    assert parsed.content == (
        "# Title\n\nSome bold text going on\nnext\n\n- one\n- two\n  - inner\n- three\n"
        "1. a\n2. b\n\nCap\n\n| Name | Price |\n| --- | --- |\n| Nut bolt | 3\\|4 |\n|  | 5 |\n\n"
        "```\nx = 1\n  y < 2\n```\n\n> quoted\n\n## Sub\n\n\\# no heading `f()`\n"
    )
    assert parsed.metadata["title"] == "The & page"
    assert parsed.metadata["kind"] == "markdown"
    assert places(parsed)["line 4"] == "# Title"
    assert places(parsed)["line 5"] == "Some bold text going on"
    assert places(parsed)["line 10"] == "```"
    assert titles(parsed)[-1] == ("Title", "Sub")


def test_a_page_without_main_is_read_whole() -> None:
    parsed = read("a.htm", "<nav>Menu</nav><div>Body text</div><p>More<aside>Ad</aside>")
    assert parsed.content == "Body text\n\nMore\n"


def test_a_page_that_stands_in_what_looks_like_navigation_is_still_read() -> None:
    assert read("a.html", '<div class="nav"><p>All there is</div>').content == "All there is\n"


def test_a_page_says_its_own_encoding() -> None:
    page = '<meta charset="{}"><p>Größe</p>'
    for label, encoding in (("iso-8859-1", "latin-1"), ("windows-1252", "cp1252")):
        assert read("a.html", page.format(label).encode(encoding)).content == "Größe\n"
    assert read("a.html", '<meta charset="gbk"><p>中文'.encode("gbk")).content == "中文\n"
    assert read("a.html", "<meta charset=nonsense><p>é").content == "é\n"


def test_a_name_that_tells_nothing_is_told_by_the_first_bytes() -> None:
    assert read("page", "\n<!DOCTYPE html><p>x").parser_sig == HtmlParser().signature
    assert read("page", "plain").parser_sig == TextParser().signature
    assert read("a.md", "<html>").parser_sig == MarkdownParser().signature


# reStructuredText


def test_restructured_text_becomes_markdown() -> None:
    parsed = read(
        "a.rst",
        """=====
Title
=====

Intro with :func:`~os.path.join`, :ref:`a word <place>` and `link <http://x>`_.

.. contents::
   :depth: 2

Section
-------
Text here::

    code 1

    code 2

.. note:: Watch out
   more ``text``

.. code-block:: python
   :linenos:

   def f(): pass

.. a comment
   more of it

.. _target: http://x

Sub
~~~
* a
* b
""",
    )
    assert parsed.content == (
        "# Title\n\nIntro with `os.path.join`, a word and link.\n\n## Section\n\nText here:\n\n"
        "```\ncode 1\n\ncode 2\n```\n\nNote: Watch out\n\nmore `text`\n\n```python\ndef f(): pass\n"
        "```\n\n### Sub\n\n* a\n* b\n"
    )
    found = places(parsed)
    assert (found["line 2"], found["line 10"], found["line 31"]) == (
        "# Title",
        "## Section",
        "### Sub",
    )
    assert titles(parsed)[-1] == ("Title", "Section", "Sub")


# Tables


def test_each_row_of_a_table_is_reported_with_its_columns() -> None:
    parsed = read("a.csv", 'name,price\nNut,3\n"Bolt\nlong",4\n\nx,,\n')
    assert parsed.content == "name: Nut\nprice: 3\n\nname: Bolt long\nprice: 4\n\nname: x\n"
    assert list(places(parsed)) == ["line 2", "line 3", "line 6"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "a;b\n1;x,y\n"), ("a.tsv", "a\tb\n1\tx,y\n"), ("a.csv", "a|b\n1|x,y\n")],
)
def test_the_separator_of_a_table_is_found(name: str, text: str) -> None:
    assert read(name, text).content == "a: 1\nb: x,y\n"


def test_a_table_without_a_head_has_letters() -> None:
    assert read("a.csv", "1,2\n3,4\n").content == "A: 1\nB: 2\n\nA: 3\nB: 4\n"
    assert read("a.csv", "only,row\n").content == "A: only\nB: row\n"
    assert read("a.csv", "").content == ""


# JSON and YAML


def test_json_is_kept_and_cut_between_its_members() -> None:
    value = {
        "small": 1,
        "deps": {"one": "x" * 300, "two": ["y" * 400, "z" * 300]},
        "end": "w" * 600,
    }
    text = json.dumps(value, indent=1)
    parsed = read("a.json", text)
    assert parsed.content == text
    found = titles(parsed)
    assert ("deps", "one") in found
    assert ("deps", "two", "[1]") in found
    assert ("end",) in found
    chunks = default_chunkers().for_document("a.json", parsed.metadata, parsed.outline).chunk(text)
    for chunk in chunks:
        line = text.count("\n", 0, chunk.start) + 1
        last = text.count("\n", 0, chunk.end) + 1
        assert chunk.locator == (f"line {line}" if line == last else f"lines {line}-{last}")


@each_row(
    "text", ['{"a": [1, 2.5e3, -0, true, null, "\\u00e9"],} // c', "/* c */ [1,]", "3", '""', "[]"]
)
def test_json_may_have_comments_and_last_commas(text: str) -> None:
    assert read("a.json", text).content == text


@each_row(
    "text",
    [
        *("", "{", "[1 2]", '{"a"}', '{"a":}', "{1:2}", '"a', "[1]]", "tru", "01", "[,]", "{]"),
        *("nan", "'a'", '{"a":1 "b":2}', "1 2", "/* open", '"\\x"', ":", ","),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ParseError, match=r"'a\.json'"):
        read("a.json", text)


def test_yaml_is_kept_and_cut_at_its_keys() -> None:
    body = "  x: " + "v" * 300 + "\n"
    text = f"# c\nname: x\n'first part':\n{body}second: |\n  key: no\n{body}- list\n"
    parsed = read("a.yaml", text)
    assert parsed.content == text
    assert [part.title for part in parsed.parts] == ["first part", "second"]
    assert read("a.yml", "- " * 9).parts == ()


# Notebooks


def test_the_cells_of_a_notebook_become_markdown() -> None:
    book = {
        "metadata": {"language_info": {"name": "Julia"}},
        "cells": [
            {"cell_type": "markdown", "source": ["# Hi\n", "there"]},
            {"cell_type": "code", "source": "x = '```'\n", "outputs": [{"text": "secret"}]},
            {"cell_type": "code", "source": ""},
            {"cell_type": "raw", "source": "raw"},
        ],
    }
    parsed = read("a.ipynb", json.dumps(book))
    assert parsed.content == "# Hi\nthere\n\n````julia\nx = '```'\n````\n\nraw\n"
    assert places(parsed) == {"cell 1": "# Hi", "cell 2": "````julia", "cell 4": "raw"}


def test_outputs_of_a_notebook_are_not_searched_and_counted() -> None:
    frame = "<style>p { x }</style><table><td>Kettle 3</td></table>"
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["two ", "words\n"]},
        {"output_type": "display_data", "data": {"text/plain": "x y", "text/html": [frame]}},
        {"data": {"text/plain": "<Figure>", "image/png": "iVBO"}},
        {"data": {"text/plain": ["<Box>"]}},
        {"data": {"application/vnd.plotly.v1+json": {"y": "hidden"}}},
        {"output_type": "error", "ename": "E", "traceback": ["\x1b[0;31mOops\x1b[0m", "at line"]},
        *({"output_type": "error", "traceback": None}, {"data": None}, None, 3),
    ]
    cells = [
        {"cell_type": "code", "source": "print(1)", "outputs": outputs},
        {"cell_type": "markdown", "source": "Text", "attachments": {"a": {"image/png": "iVBO"}}},
        {"cell_type": "code", "source": "", "outputs": None},
    ]
    parsed = read("a.ipynb", json.dumps({"cells": cells}))
    assert parsed.content == "```python\nprint(1)\n```\n\nText\n"
    (found,) = parsed.omissions
    assert (found.place, found.words) == ("outputs", 8)
    assert found.example == "two words kettle 3 box oops at line"
    assert str(found) == "outputs: 8 words are not searched (notebooks are read without them)"
    assert not read("a.ipynb", json.dumps({"cells": cells[1:]})).omissions


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_python_writes_are_read(number: str) -> None:
    output = f'[{{"data": {{"y": [{number}]}}}}]'
    text = f'{{"cells": [{{"cell_type": "code", "source": "a", "outputs": {output}}}]}}'
    assert read("a.ipynb", text).content == "```python\na\n```\n"
    assert read("a.json", text).content == text
    for wrong in (f"{number}x", f"-{number}" if number[0] == "-" else f"+{number}", "-NaN"):
        with pytest.raises(ParseError, match="is not JSON"):
            read("a.json", f"[{wrong}]")


def test_headings_of_old_notebooks_keep_their_level() -> None:
    cells = [{"cell_type": "heading", "level": 2, "source": ["Tides"]}]
    cells += [{"cell_type": "heading", "level": None, "source": ["Plain"]}]
    book = {"worksheets": [{"cells": cells}]}
    assert read("a.ipynb", json.dumps(book)).content == "## Tides\n\nPlain\n"


@each_row("text", ["{}", "[]", '{"cells": 3}', "1", '{"worksheets": [1]}'])
def test_what_is_no_notebook_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="notebook"):
        read("a.ipynb", text)


# Hostile files

MANY = 200_000


@each_row(
    ("name", "text"),
    [
        ("a.json", "[" * MANY),
        ("a.json", '{"a":' * MANY),
        ("a.json", "[" * 501 + "]" * 501),
        ("a.ipynb", '{"cells":' + "[" * MANY),
        ("a.html", "<div>" * MANY),
        ("a.html", "<b>" * MANY),
        ("a.html", "<table><tr><td>" * MANY),
        ("a.html", "<ul><li>" * MANY),
    ],
)
def test_what_nests_too_deep_is_refused(name: str, text: str) -> None:
    with pytest.raises(ParseError, match="nests"):
        read(name, text)


@each_row("piece", ["<a ", '<a b="', "<!--", "<script>", "<!", "</", "&", "<"])
def test_markup_that_never_closes_is_read_in_one_pass(piece: str) -> None:
    assert read("a.html", "<p>kept</p>" + piece * MANY).content.startswith("kept")


def test_a_bomb_of_yaml_aliases_is_only_text() -> None:
    text = "a: &a [x]\n" + "".join(f"b{at}: &b{at} [*a, *a]\n" for at in range(50))
    assert read("a.yaml", text).content == text


def test_a_file_beyond_the_limits_is_refused_by_name() -> None:
    with pytest.raises(ParseError, match="max_bytes"):
        read("a.txt", "x" * 11, max_bytes=10)
    with pytest.raises(ParseError, match="max_characters"):
        read("a.csv", "a,b\n1,2\n" * 10, max_characters=20)
    with pytest.raises(ParseError, match="max_characters"):
        read("a.md", "x" * 30, max_characters=20)
    with pytest.raises(ParseError, match="seconds"):
        read("a.csv", "1,2\n" * 10_000, seconds=1e-9)
    with pytest.raises(ParseError, match="cells"):
        read("a.csv", 'a,b\n"' + "x" * 200_000)


def test_a_deadline_is_kept_while_a_file_is_read() -> None:
    from triptych import deadline

    with deadline(0), pytest.raises(CancelledError):
        read("a.csv", "1,2\n" * 10_000)


@each_row("name", ["max_bytes", "seconds", "max_depth"])
@each_row("value", [0, -1, "1", True, None])
def test_limits_are_numbers_above_zero(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        ParseLimits(**{name: value})  # type: ignore[arg-type]  # that is the test


# The registry


class Shouting:
    """A third party's parser."""

    signature = "shout/1"
    endings = frozenset((".shout", ".md"))

    def recognises(self, data: bytes) -> bool:
        return data.startswith(b"!!")

    def parse(self, name: str, data: bytes) -> ParsedFile:
        return ParsedFile(content=data.decode().upper(), parser_sig=self.signature)


class Failing(Shouting):
    def parse(self, name: str, data: bytes) -> ParsedFile:
        raise KeyError("inner")


def test_the_later_parser_of_an_ending_serves() -> None:
    assert not lacking(Shouting(), FileParser)
    parsers = FileParsers([*base_parsers(), Shouting()], fallback=TextParser())
    assert parsers.parse("a.MD", b"x").content == "X"
    assert parsers.parse("noending", b"!!x").content == "!!X"
    assert parsers.takes("b.shout")
    assert not parsers.takes("b.unheard")
    assert {".md", ".shout", ".html", ".txt"} <= parsers.endings


def test_whatever_a_parser_raises_is_reported_as_an_error_of_the_file() -> None:
    parsers = FileParsers([Failing()], fallback=TextParser())
    with pytest.raises(ParseError, match=r"'a\.shout'.*shout/1.*KeyError"):
        parsers.parse("a.shout", b"x")


def test_a_signature_tells_what_reads_a_name() -> None:
    parsers = FileParsers(base_parsers(), fallback=TextParser())
    assert parsers.signature("a.CSV") == "csv/2"
    assert parsers.signature("a.txt") == "text/6"
    assert {"html/3", "text/6"} <= set(parsers.signature("noending").split(";"))


def test_an_ending_is_in_lower_case_with_its_dot() -> None:
    class Wrong(Shouting):
        endings = frozenset(("MD",))

    with pytest.raises(ValidationError, match="MD"):
        FileParsers([Wrong()], fallback=TextParser())


def test_a_parsed_file_gives_the_document_to_put() -> None:
    parsed = read("a.csv", "a,b\n1,2\n")
    document = parsed.document("n", {"kind": "mine", "lang": "en"}, if_version=3)
    assert document.content == parsed.content
    assert document.metadata == {"kind": "mine", "lang": "en"}
    assert document.outline
    assert (document.if_version, document.parser_sig) == (3, "csv/2")
    assert len(document.original_sha256) == 64
