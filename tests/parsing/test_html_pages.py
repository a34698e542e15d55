"""HTML pages as they are written: what they show is in the text, or is named."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.rows import each_row
from triptych.parsing import FileParsers, ParsedFile, TextParser, Witness, base_parsers, words

PARSERS = FileParsers(base_parsers(), fallback=TextParser())
TEXT = "".join(f"<p>Sentence {at} says what the keeper of the light saw.</p>" for at in range(9))
XHTML = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'


def read(page: str, name: str = "a.html") -> ParsedFile:
    parsed = PARSERS.parse(name, page.encode())
    assert parsed is not None
    return parsed


def left_out(page: str) -> dict[str, int]:
    return {each.place: each.words for each in read(page).omissions}


# What is beside the text


@each_row(
    "name",
    ["pagination", "navigation", "footer", "menu", "sharing", "related", "sidebar", "toc", "ads"],
)
def test_an_id_that_is_a_word_of_navigation_drops_nothing(name: str) -> None:
    page = f'<section id="{name}"><h2>Heading</h2><ul><li><a href=a>keyword</a></ul></section>'
    for whole in (TEXT + page, f"<main>{TEXT}{page}</main>", f'{TEXT}<h2 id="{name}">keyword</h2>'):
        assert "keyword" in read(whole).content
    links = f'<div id="{name}"><a href=a>keyword</a></div>'
    assert "keyword" not in read(TEXT + links).content


@pytest.mark.parametrize("sign", ['class="related"', 'class="sidebar note"', 'role="search"'])
def test_a_sign_in_the_main_text_drops_only_links(sign: str) -> None:
    for area in ("main", "article"):
        page = f"<{area}>{TEXT}<div {sign}>{{}}</div></{area}>"
        assert "keyword" in read(page.format("<p>keyword 12")).content
        assert "keyword" not in read(page.format("<a href=b>keyword</a>")).content


@each_row("tag", ["aside", 'div role="alert"', 'div class="sidebar"'])
@each_row("area", ["main", "div"])
def test_a_note_is_text(tag: str, area: str) -> None:
    note = f"<{tag}><p>Never open the keyword valve while hot.</p></{tag.split()[0]}>"
    assert "keyword" in read(f"<{area}>{TEXT}{note}</{area}>").content


def test_links_beside_the_text_are_left_out_and_named() -> None:
    links = "<ul><li><a href=a>Old home</a><li><a href=b>News</a></ul>"
    page = f"<nav>{links}</nav>{TEXT}<aside>{links}</aside><footer>Some imprint</footer>"
    assert left_out(page) == {"nav": 3, "aside": 3, "footer": 2}
    assert str(read(page).omissions[0]) == "nav: 3 words are not searched (around the text)"


def test_a_footer_of_two_sentences_stays_out_of_a_page_of_tables() -> None:
    table = "<table><tr><td>a<td>b" + "<tr><td>some name<td>some value" * 99 + "</table>"
    foot = "The society is no company and pays no tax. Please give. This was made in May." * 2
    assert left_out(f"{table}<div class=footer>{foot}</div>") == {"class footer": 32}


@each_row("tag", ["nav", "footer", "header", "aside", 'div class="cookie"'])
def test_sentences_are_text_whatever_they_stand_in(tag: str) -> None:
    page = f"<p>Short.</p><{tag}>{TEXT}</{tag.split()[0]}>"
    assert "Sentence 8" in read(page).content


@pytest.mark.parametrize("tag", ["article", 'article class="comment"', "div role=article"])
def test_teasers_and_comments_do_not_replace_the_page(tag: str) -> None:
    teaser = f"<{tag}><h3>A teaser of many words about the sea</h3><p>It ends here.</p></article>"
    for start in ("<div role=main>", "<div>"):
        assert "Sentence 8" in read(f"{start}{TEXT}</div>{teaser * 8}").content
    assert "keyword" in read(f"<p>The keyword is here.</p>{teaser * 90}").content


def test_the_article_that_has_most_of_the_sentences_is_the_text() -> None:
    page = f"<h1>Title</h1><i>x</i><article>{TEXT}</article><p>A remark in a box.</p>"
    parsed = read(page)
    assert parsed.content.startswith("# Title\n\nSentence 0")
    assert "remark" not in parsed.content
    assert left_out(page) == {"outside of the main text": 6}
    page = f"<h1>Name of the site</h1><main><h1>Title</h1>{TEXT}</main>"
    assert read(page).content.startswith("# Title\n")


def test_an_article_in_a_header_that_is_not_closed_is_text() -> None:
    links = "<a href=a>many words of a menu</a>" * 40
    assert "Sentence 8" in read(f"<header>{links}<article>{TEXT}</article>").content


@each_row(
    "sign",
    ["hidden", 'style="display:none"', 'style="color:red; visibility : HIDDEN"', "hidden=hidden"],
)
def test_what_is_hidden_is_left_out_and_named(sign: str) -> None:
    for page in (f"{TEXT}<p {sign}>keyword.</p>", f"{TEXT}<p>Seen <b {sign}>keyword</b> too."):
        assert "keyword" not in read(page).content
        assert left_out(page) == {"hidden": 1}


@each_row(
    "page",
    [
        f"<p>A button.</p><div style='display:none'>{TEXT * 3}</div>",
        f"<body style='visibility:hidden'>{TEXT}",
        "<div role=tabpanel hidden>Sentence 8</div>",
        "<p style='backface-visibility:hidden'>Sentence 8</p>",
        "<div hidden=until-found>Sentence 8</div>",
        "<template shadowrootmode=open><p>Sentence 8</p></template>",
    ],
)
def test_what_a_page_only_seems_to_hide_is_text(page: str) -> None:
    assert "Sentence 8" in read(page).content


def test_a_button_is_text_in_a_heading_or_paragraph_only() -> None:
    page = f"<h2><button>Fold</button></h2>{TEXT}<p>Press <button>Save</button> now.<div>x"
    assert "## Fold" in read(page).content
    assert "Press Save now." in read(page).content
    assert left_out(f"{page}<button>Share it</button>") == {"button": 2}
    assert read("<h1>Vec <button>Copy path</button></h1>").content == "# Vec\n"


@each_row(
    ("page", "reason"),
    [
        ("<div id=root></div><script src=a.js></script>", "by script"),
        ("<noscript>You need scripts.</noscript><script>start()</script>", "by script"),
        ("<frameset><frame src=a.html></frameset>", "frames"),
        (f"<p>Loading</p><!--{'x' * 9000}-->", "1 word in"),
    ],
)
def test_a_page_without_text_says_why(page: str, reason: str) -> None:
    assert reason in read(page).no_text
    assert not read(page + TEXT).no_text
    one = "<p>The sections of this part have what you may look up on your way.</p>"
    assert not read(f"{one}<script>{'x()' * 9000}</script>").no_text


# Markup


@each_row(
    "tag",
    ["title", 'script src="a.js"', "iframe", "nav", "aside", "textarea", "style", "div hidden=''"],
)
def test_an_element_of_xhtml_may_close_itself(tag: str) -> None:
    page = f"<{tag}/><p>keyword</p>"
    doctype = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x.dtd"><html><body>'
    for whole, name in (
        (XHTML.format(page), "a.html"),
        (doctype + page, "a.html"),
        (page, "a.xhtml"),
    ):
        assert read(whole, name).content == "keyword\n"


@each_row("tag", ["<title/>", "<title>", '<script src="a.js" />', "<iframe />"])
def test_html_is_read_on_after_an_element_that_is_not_closed(tag: str) -> None:
    assert "keyword" in read(f"{tag}<p>keyword</p>").content


def test_a_slash_may_belong_to_a_value() -> None:
    assert read("<script src=/js/>code()</script><p>text").content == "text\n"


def test_xhtml_has_sections_of_text_and_prefixes() -> None:
    assert read(XHTML.format("<p>a <![CDATA[x < y]]> b</p>")).content == "a x < y b\n"
    assert read(XHTML.format("<h:h1>Title</h:h1>")).content == "# Title\n"


def test_a_file_that_breaks_off_in_a_tag_keeps_its_text() -> None:
    assert "keyword" in read(f"<p>kept</p> a <b and {'so on ' * 40} keyword").content


@each_row("tag", ["math", "svg", "o:p", "my-part", "font"])
def test_a_line_is_not_parted_by_what_stands_in_it(tag: str) -> None:
    assert read(f"<p>one<{tag}></{tag}> line").content in ("one line\n", "one  line\n")


def test_a_formula_is_part_of_its_sentence() -> None:
    page = "<p>If <math><mi>A</mi><mo>=</mo><mi>B</mi></math>, it holds.</p>"
    assert read(page).content == "If A = B, it holds.\n"
    page = r'<p>a <math alttext="\alpha"></math> b <math alttext="the sum"><mn>1</mn></math>'
    assert read(page).content == "a \\alpha b 1 the sum\n"


def test_the_text_of_a_picture_is_taken_once() -> None:
    page = '<p><img alt="Wiring of the lamp"></p><p><a href=a><img alt="Go on">Go on now</a></p>'
    assert read(page).content == "Wiring of the lamp\n\nGo on now\n"
    page = '<img alt="The mill"><h2>The mill</h2><svg role=img aria-label="A map"><title>x</title>'
    assert read(page).content == "## The mill\n\nA map\n"


def test_code_keeps_its_first_indent() -> None:
    assert read("<pre>  <b>x</b> = 1\n  y</pre>").content == "```\n  x = 1\n  y\n```\n"


def test_readings_do_not_part_characters() -> None:
    page = (
        "<p><ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</ruby>で"
        "<ruby>食<rt>た</ruby>べる。"
    )
    assert read(page).content == "東京で食べる。 (とうきょう た)\n"


@each_row(
    ("page", "text"),
    [
        ("<ol start=4><li>d<li>e</ol>", "4. d\n5. e\n"),
        ("<ol><li>a<li value=7>g<li>h</ol>", "1. a\n7. g\n8. h\n"),
        ("<ol reversed><li>c<li>b<li>a</ol>", "3. c\n2. b\n1. a\n"),
        ("<ol reversed start=0><li>a<li>b</ol>", "0. a\n-1. b\n"),
        ("<ul><li></ul><p>text", "text\n"),
        ("<table><tr><th>a<th>b<tr><td>x<td><ul><li>y</ul></table><p>z", None),
    ],
)
def test_lists_have_the_numbers_that_are_shown(page: str, text: str | None) -> None:
    assert read(page).content == (text or "| a | b |\n| --- | --- |\n| x | y |\n\nz\n")


# Tables


def test_a_cell_stands_in_each_place_that_it_spans() -> None:
    page = """<table><tr><th rowspan=2>Line<th colspan=2>Fare<tr><th>Adult<th>Child
    <tr><td rowspan="2">North<td>4.20<td>2.10<tr><td>5.20<td>2.60
    <tr><td>South<td colspan=2>closed<tr><td colspan=99>All are in crowns.</table>"""
    assert read(page).content == (
        "| Line | Fare | Fare |\n| --- | --- | --- |\n| Line | Adult | Child |\n"
        "| North | 4.20 | 2.10 |\n| North | 5.20 | 2.60 |\n| South | closed | closed |\n"
        "| All are in crowns. | All are in crowns. | All are in crowns. |\n"
    )


@each_row(
    "piece",
    [
        "<td colspan=1000 rowspan=65534>x",
        "<tr><td>a<td rowspan=9999>b",
        "<tr><td><td rowspan=0>c",
        "<tr><td colspan=1000>d<td>e",
    ],
)
def test_spans_are_bounded(piece: str) -> None:
    page = "<table>" + piece * 5_000
    assert len(read(page).content) < 3 * len(page)


LAYOUT = """<h1>History</h1><p>The mill was built by Brandt.</p><pre>
sails   4
</pre><p>It stands.</p>"""


@each_row(
    "page",
    [
        "<table><tr><td><a href=a>Home</a><td>{}</table>",
        "<table><tr><td>x<td>y<tr><td colspan=2>{}</table>",
        "<table role=presentation><tr><td>x<td><table><tr><td>{}</table></table>",
        "<table><tr><td>{}</table>",
    ],
)
def test_a_table_that_lays_out_a_page_is_no_table(page: str) -> None:
    parsed = read(page.format(LAYOUT))
    assert (
        "# History\n\nThe mill was built by Brandt.\n\n```\nsails   4\n```\n\nIt stands."
        in parsed.content
    )
    assert {place.number for place in parsed.locators} >= {1, 2, 3}


def test_a_table_in_a_table_that_lays_out_a_page_is_one() -> None:
    rows = "<tr><td>Name<td>Bob<tr><td>Age<td>4"
    for page in (
        f"<table><tr><td>{TEXT}<table>{rows}</table></table>",
        f"<table role=none><tr><td>{TEXT}<td>x{rows}</table>",
    ):
        assert "| Name | Bob |\n| --- | --- |\n| Age | 4 |" in read(page).content


# Any page

TAGS = st.sampled_from(
    [
        "a",
        "p",
        "b",
        "div",
        "ul",
        "li",
        "table",
        "tr",
        "td",
        "th",
        "main",
        "article",
        "aside",
        "nav",
        "h2",
        "pre",
        "ruby",
        "rt",
        "math",
        "mi",
        "span",
    ]
)
SIGNS = st.sampled_from(
    ["", "", "", " class=menu", " hidden", ' role="alert"', " href=x", " rowspan=3", " colspan=2"]
)
NODES = st.recursive(
    st.sampled_from(["alpha", "beta.", "Gamma delta said so much.", "東京", "1"]),
    lambda inner: st.tuples(TAGS, SIGNS, st.lists(inner, max_size=4)).map(
        lambda node: f"<{node[0]}{node[1]}> {' '.join(node[2])} </{node[0]}>"
    ),
    max_leaves=25,
)


@pytest.mark.property
@settings(max_examples=examples(300), deadline=None)
@given(nodes=st.lists(NODES, max_size=6))
def test_each_word_of_a_page_is_in_its_text_or_is_counted(nodes: list[str]) -> None:
    page = " ".join(nodes)
    parsed = read(page)
    shown = Counter(words(re.sub("<[^>]*>", " ", page)))
    missing = Witness(parsed.content).lost(" ".join(shown.elements()))
    assert len(missing) <= sum(each.words for each in parsed.omissions)
    assert not Counter(words(parsed.content)).keys() - shown.keys()
