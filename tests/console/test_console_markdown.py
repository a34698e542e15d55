"""Markdown as the console shows it: safe whatever it holds; its links, passages and excerpts."""

from __future__ import annotations

import re
from collections.abc import Collection
from html.parser import HTMLParser
from typing import Any

import attrs
import pytest
from hypothesis import example, given, strategies as st

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE, read
from triptych_server.console import LONGEST, excerpt, rendered
from triptych_server.http import create_app

ALLOWED = {*("h2", "h3", "h4", "h5", "h6", "p", "a", "span", "em", "strong", "s", "code", "pre")}
ALLOWED |= {*("ul", "ol", "li", "blockquote", "hr", "br", "table", "thead", "tbody", "tr")}
ALLOWED |= {"th", "td"}
ATTRIBUTES = frozenset({"href", "rel", "class", "id", "title", "tabindex", "start"})
PIECES = st.sampled_from(
    [
        "[", "]", "(", ")", "!", "<", ">", "`", "```\n", "~~~", "*", "_", "#", " ", "\n", "\n\n",
        "|", "|-|\n", "> ", "- ", "1. ", "[[", "]]", "\\", "&#106;", "&colon;", "javascript:",
        "data:text/html,", "vbscript:", "file:///", "//host", "/\\host", "https://a.b/", "mailto:",
        "tea.md", "../", "<script>", "<img src=x onerror=a>", "<!--", "-->", '"', "'", "\t", "\0",
        "java\nscript:", "JaVaScRiPt:", "\u2028", "\r", "---\n", "{", "[a]: ", "<https://", "text",
    ]
)  # fmt: skip


def show(text: str, name: str = "guide/tea.md", *known: str, **options: Any) -> str:
    def there(names: Collection[str]) -> set[str]:
        return {*names} & {*known}

    options = {"passage": (0, 0), "anchors": (), "called": lambda names: {}, **options}
    return str(rendered(text, name, known=there, link=lambda other: f"/to/{other}", **options))


class Found(HTMLParser):
    """What a rendered text holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@given(st.lists(PIECES, max_size=40).map("".join))
@example(HOSTILE)
@example("[a](javascript:alert(1)) ![b](data:image/png,x) <javascript:x>")
@example("[a]: vbscript:x\n\n[a] [b][a]")
@example("![x](https://evil.example/pixel.png)")
@example("|a|\n|:-:|\n|b|")
def test_only_safe_tags_attributes_and_links_come_out(text: str) -> None:
    goals = ("/to/tea.md", "#at-0")
    for tag, fields in Found(show(text, "tea.md", "tea.md", anchors=[0])).tags:
        assert tag in ALLOWED
        assert fields.keys() <= ATTRIBUTES
        if tag == "a":
            href = fields["href"] or ""
            assert re.match(r"(https?|mailto):", href, re.IGNORECASE) or href in goals
            assert href in goals or fields["rel"] == "noopener noreferrer"


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("[a](pots.md)", "guide/pots.md"),
        ("[a](pots.md#part)", "guide/pots.md"),
        ("[a](../coffee.md)", "coffee.md"),
        ("[a](/coffee.md)", "coffee.md"),
        ("[a](a%20b.md)", "guide/a b.md"),
        ("[[pots]]", "guide/pots.md"),
        ("[[coffee|what]]", "coffee.md"),
        ("[a](gone.md)", ""),
        ("[a](../../coffee.md)", ""),
        ("[a](//host/coffee.md)", ""),
    ],
)
def test_a_link_leads_to_a_document_that_is_there(text: str, goal: str) -> None:
    shown = show(text, "guide/tea.md", "guide/pots.md", "coffee.md", "guide/a b.md")
    assert re.findall(r'href="/to/([^"]*)"', shown) == ([goal] if goal else [])
    assert goal or 'class="unlinked"' in shown


@pytest.mark.parametrize(
    ("link", "goal"),
    [
        ("[[Sourdough]]", "n/Cooking/Sourdough.md"),
        ("[[sourdough.md]]", "n/Cooking/Sourdough.md"),
        ("[[cooking/Sourdough#Crust|the loaf]]", "n/Cooking/Sourdough.md"),
        ("[[Bread]]", "n/Cooking/Sourdough.md"),  # an alias
        ("[[Log]]", "n/Diary/2027/Log.md"),  # the nearest
        ("[[Plan]]", "Plan.md"),  # the shortest
        ("[[ourdough]]", ""),
        ("[a](Sourdough)", ""),  # only Obsidian's links have names alone
    ],
)
def test_a_link_of_obsidian_finds_a_note_anywhere(link: str, goal: str) -> None:
    with triptych.open("memory://", embedder="none") as kb:
        docs = kb.dataset("docs")
        docs.put("n/Cooking/Sourdough.md", "# Loaf\n", {"aliases": ["Bread", "Brot"]})
        for name in ("Plan.md", "x/y/Plan.md", "z/Log.md", "n/Diary/2027/Log.md", "z/Bread.txt"):
            docs.put(name, "Text.")
        docs.put("n/Diary/2027/05/Day.md", f"{link}\n")
        client = Client(create_app(kb, console=True))
        text = client("GET", "/console/documents/docs/n%2FDiary%2F2027%2F05%2FDay.md").text
    leads = f'/documents/docs/{goal.replace("/", "%2F")}"' in text
    assert (leads, 'class="unlinked"' in text) == (goal != "", goal == "")


def test_tasks_have_boxes_and_callouts_titles() -> None:
    text = "- [x] done\n- [ ] open\n- [link] no\n\n"
    text += "> [!warning]- Hot oven\n> Take care.\n\n> [!a<b] x\n"
    shown = show(text)
    assert "☑ done" in shown
    assert "☐ open" in shown
    assert "[link] no" in shown
    assert "<strong>Warning</strong> Hot oven<br />\nTake care." in shown
    assert "[!a&lt;b] x" in shown


def test_a_link_to_a_heading_of_the_same_text_leads_there() -> None:
    text = "[a](#what-it-is) [b](#none) [[#None]] [c](xwhat-it-is)\n\n"
    text += "# What it *is*?\n\n# What it is\n"
    shown = show(text, anchors=[text.index("# What"), text.rindex("# What")])
    assert re.findall(r'href="([^"]*)"', shown) == [f"#at-{text.index('# What')}"]


def test_a_picture_is_its_text_and_loads_nothing() -> None:
    shown = show("![pot](https://a.example/pot.png) [![in](b.png)](https://c.example) ![](d/e.png)")
    assert "<img" not in shown
    assert '<a href="https://a.example/pot.png" rel="noopener noreferrer">Picture: pot</a>' in shown
    assert '<a href="https://c.example" rel="noopener noreferrer">in</a>' in shown
    assert "Picture: e.png" in shown


def test_the_blocks_of_a_passage_are_marked_and_headings_go_down_by_one() -> None:
    text = "---\ntitle: T\n---\r\n# One\r\n\r\nfirst\n\n#### Deep\n\n- a\n- b\n\n|x|\n|-|\n|y|\n"
    at = text.index("- b")
    shown = show(text, passage=(at, at + 3), anchors=[text.index("#"), text.index("####")])
    assert "title: T" not in shown
    assert re.findall(r"<(h\d)>", shown) == ["h2", "h3"]
    assert f'<h2><span id="at-{text.index("#")}"></span>One</h2>' in shown
    assert re.findall(r'class="passage" id="passage">\s*(\w)', shown) == ["b"]
    assert shown.count("passage") == 2
    at = text.index("|y|")
    assert '<tr class="passage" id="passage">' in show(text, passage=(at, at + 1))


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_an_excerpt_is_whole_sentences_without_marks(name: str) -> None:
    filler = "Nothing is said in this sentence of the text. " * 8
    text = f"# Tea\n\n{filler}\n\nGreen **tea** steeps `3 min` now. {filler}"
    with triptych.open("memory://", embedder="none") as kb:
        kb.put_document("d", name, text)
        (hit, *_) = kb.search("steeps", dataset_id="d").hits
        shown = str(excerpt(hit))
        plain = re.sub("<[^>]*>", "", shown).strip("… ")
        assert "<mark>steeps</mark>" in shown
        assert plain.startswith(("Nothing", "Green", "#"))
        assert plain.endswith(".")
        assert len(plain) < 400
        if name == "a.md":
            assert "<strong>tea</strong> <mark>steeps</mark> <code>3 min</code>" in shown
            assert "#" not in plain


def test_rows_of_a_table_that_begins_earlier_are_read_as_rows() -> None:
    with triptych.open("memory://", embedder="none") as kb:
        kb.put_document("d", "a.md", "| Sencha | `a|b` | 12 |\n| Assam || 4 a|b |\n")
        (hit,) = kb.search("sencha", dataset_id="d").hits
        plain = re.sub("<[^>]*>", "", str(excerpt(hit)))
        assert " ".join(plain.split()) == "· Sencha · a|b · 12 · · Assam · 4 a|b ·"


@given(st.lists(PIECES, max_size=30).map("".join))
def test_no_excerpt_holds_what_a_page_would_run(text: str) -> None:
    with triptych.open("memory://", embedder="none") as kb:
        kb.put_document("d", "a.md", f"word {text}")
        for hit in kb.search("word", dataset_id="d", mode="bm25").hits:
            for terms in ((), hit.terms):
                shown = Found(str(excerpt(attrs.evolve(hit, terms=terms)))).tags
                assert {tag for tag, _ in shown} <= {"mark", "code", "em", "strong"}
                assert all(not fields for _, fields in shown)


def test_a_document_is_read_and_its_source_is_a_second_view() -> None:
    with triptych.open("memory://", embedder="none") as kb:
        text = f"# Tea\n\nGreen *tea*, [more](other.md).\n\n{HOSTILE}\n"
        kb.put_document("d", "tea.md", text)
        kb.put_document("d", "other.md", "Other.")
        kb.put_document("d", "code.py", "def tea():\n    pass\n")
        kb.put_document("d", "long.md", "Word. " * (LONGEST // 6 + 1))
        ask = Client(create_app(kb, console=True))
        page = "/console/documents/d/"
        shown = ask("GET", page + "tea.md").text
        assert "Green <em>tea</em>" in shown
        assert '<a href="/console/documents/d/other.md">more</a>' in shown
        assert len(read(shown).active) == 1
        source = ask("GET", page + "tea.md?view=source").text
        assert "Green *tea*" in source
        assert 'class="chunk-a"' in source
        for line, begins in ((1, "# Tea"), (3, "Green")):
            assert f'<span class="n" data-n="{line}"></span>{begins}' in source
        code = ask("GET", page + "code.py").text
        assert 'data-n="2"></span>    pass' in code
        assert 'class="chunk-a"' not in code
        assert "too long, or nests too deep" in ask("GET", page + "long.md").text
        assert ask("GET", page + "tea.md?view=other").status_code == 400


def test_what_nests_too_deep_is_not_read_in_part() -> None:
    for levels in range(1, 60):
        listed = "".join(f"{'  ' * at}- item{at}\n" for at in range(levels))
        for text in (f"{listed}\nAFTER\n", f"{'> ' * levels}deep\n\nAFTER\n"):
            shown = show(text, "a.md")
            assert shown == "None" or "AFTER" in shown, levels
            assert shown != "None" or levels > 20
