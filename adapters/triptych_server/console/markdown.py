"""Markdown as HTML: a document as a person reads it, and an excerpt of a passage.

Raw HTML stays text. Nothing is loaded: a picture is shown as its alternative text. A link leads to
the web, to an address, or to a document of the same dataset; any other is text.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from triptych.answers import Citation
from triptych.chunking import MARKDOWN, kind_of, line_starts, unify_line_ends
from triptych.records import Hit, Layer, Metadata
from triptych.text import matches, snippet, split_sentences, titles_of

LONGEST: Final = 100_000
"""Code points of a document that is rendered; the worst Markdown of this length takes 5 s."""
_EXCERPT: Final = 240
_SLACK: Final = 60
"""Code points by which an excerpt is longer, if it then begins or ends with a sentence."""
_NESTED: Final = 50
"""Levels of lists and quotes that are read; the parser drops what is deeper, and all after it."""
_EXTERNAL: Final = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:|//|\\", re.IGNORECASE)
_WIKI: Final = re.compile(r"\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]+))?\]\]")
_TASK: Final = re.compile(r"\[([ xX])\](?=\s|$)")
_CALLOUT: Final = re.compile(r"\[!([\w-]{1,40})\][+-]?(?=\s|$)")
_MARKED: Final = frozenset(
    ("paragraph_open", "heading_open", "fence", "code_block", "list_item_open", "tr_open")
)
_FRONT_MATTER: Final = re.compile(
    r"\n?(---|\+\+\+)[ \t]*\n(?=\S).*?^(?:\1|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE
)


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "maxNesting": _NESTED}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _code)
    return parser


def _parsed(text: str) -> list[Token]:
    """The tokens of a text; tasks of lists have boxes, and callouts their kind as a title."""
    tokens = _parser().parse(text)
    for around, _, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        children = inline.children
        if not children or children[0].type != "text":
            continue
        first = children[0]
        if around.type == "list_item_open" and (task := _TASK.match(first.content)):
            first.content = ("☐" if task[1] == " " else "☑") + first.content[task.end() :]
        elif around.type == "blockquote_open" and (note := _CALLOUT.match(first.content)):
            first.content = first.content[note.end() :]
            kind = [Token("strong_open", "strong", 1), _text(note[1].capitalize())]
            children[:0] = [*kind, Token("strong_close", "strong", -1)]
            if len(children) > 4 and children[4].type == "softbreak":
                children[4] = Token("hardbreak", "br", 0)
    return tokens


def _code(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    shown = Markup('<pre tabindex="0"%s><code>%s</code></pre>\n')
    attributes = "".join(Markup(' %s="%s"') % each for each in tokens[at].attrs.items())
    return shown % (Markup(attributes), tokens[at].content)


def is_markdown(name: str, metadata: Metadata) -> bool:
    """Whether a document is read as Markdown: by its kind, or by its name."""
    return MARKDOWN in (kind_of(name, metadata), kind_of(name, {}))


def marked(text: str, terms: tuple[str, ...]) -> Markup:
    """A text with the words of a query marked, as HTML."""
    parts, at = [], 0
    for start, end, _ in matches(text, terms):
        if start >= at:
            parts += [Markup.escape(text[at:start]), Markup("<mark>%s</mark>") % text[start:end]]
            at = end
    return Markup("").join([*parts, Markup.escape(text[at:])])


# A whole document


def rendered(
    content: str,
    name: str,
    *,
    passage: tuple[int, int],
    anchors: Sequence[int],
    known: Callable[[Collection[str]], Collection[str]],
    called: Callable[[Collection[str]], Mapping[str, str]],
    link: Callable[[str], str],
) -> Markup | None:
    """A document as HTML; None where it nests deeper than is read.

    Args:
        content: its text, of at most `LONGEST` code points.
        name: its name, from which links to other documents are resolved.
        passage: from where to where it is marked, in code points; the first block has the id
            ``passage``.
        anchors: the places that have an id ``at-PLACE``, in order.
        known: which of these names are documents.
        called: the documents of notes that Obsidian's links call by less than their name.
        link: the URL of the document of a name.
    """
    text = unify_line_ends(content)
    if metadata := _FRONT_MATTER.match(text):  # the page shows it as metadata
        text = re.sub(r"[^\n]", " ", metadata[0]) + text[metadata.end() :]
    starts = line_starts(text)
    tokens = _parsed(text)
    if any(each.level >= _NESTED - 1 for each in tokens):
        return None
    slugs = _mark(tokens, [*starts, len(text)], passage, deque(anchors))
    inlines = [each for each in tokens if each.children is not None]
    for each in inlines:
        each.children = list(_with_links(each.children or ()))
    targets = {
        path: _names(path, name)
        for each in inlines
        for child in each.children or ()
        if child.type == "link_open" and (path := _path(child))
    }
    found = known({each for names in targets.values() for each in names}) if targets else ()
    notes = {
        path
        for each in inlines
        for child in each.children or ()
        if child.meta.get("wiki") and (path := _path(child)) and not {*targets[path]} & {*found}
    }
    for path, note in called(notes).items() if notes else ():
        targets[path], found = [note], {*found, note}
    for each in inlines:
        _resolve(each.children or (), targets, found, link, slugs)
    return Markup(_parser().renderer.render(tokens, _parser().options, {}))


def _mark(
    tokens: Sequence[Token], starts: Sequence[int], passage: tuple[int, int], anchors: deque[int]
) -> dict[str, str]:
    """Mark the blocks of the passage, and give headings their anchors and a level in order; the
    anchors by how links to a heading spell it."""
    level, is_first, slugs = 1, True, dict[str, str]()
    for token in tokens:
        first, last = (starts[min(each, len(starts) - 1)] for each in token.map or (0, 0))
        if "style" in token.attrs:  # the policy refuses styles of a page
            token.attrs = {"class": str(token.attrs["style"]).rpartition(":")[2]}
        if token.type == "heading_open":
            level = min(int(token.tag[1]) + 1, level + 1, 6)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{level}"
        if token.type == "table_open":
            token.attrs["tabindex"] = "0"
        is_shown = token.type in _MARKED and not token.hidden
        if is_shown and first < passage[1] and passage[0] < last:
            token.attrJoin("class", "passage")
            if is_first:
                token.attrs["id"] = "passage"
                is_first = False
        while token.type == "inline" and token.map and anchors and anchors[0] < last:
            place = f"at-{anchors.popleft()}"
            slug = re.sub(r"[^\w -]", "", _plain(token.children or ()).lower()).replace(" ", "-")
            slugs.setdefault(slug, f"#{place}")
            anchor = Token("html_inline", "", 0, content=f'<span id="{place}"></span>')
            token.children = [anchor, *(token.children or ())]
    return slugs


def _with_links(children: Sequence[Token]) -> Iterator[Token]:
    """Tokens with pictures as links, and with the links that Obsidian writes."""
    depth = 0
    for token in children:
        depth += token.nesting if token.type.startswith("link_") else 0
        if token.type == "image":
            target = str(token.attrs.get("src", ""))
            alt = _plain(token.children or ()) or posixpath.basename(unquote(target))
            yield from _link(target, f"Picture: {alt}") if depth == 0 else [_text(alt)]
        elif token.type == "text" and depth == 0 and "[[" in token.content:
            at = 0
            for found in _WIKI.finditer(token.content):
                yield _text(token.content[at : found.start()])
                yield from _link(found[1].partition("#")[0], found[2] or found[1], {"wiki": True})
                at = found.end()
            yield _text(token.content[at:])
        else:
            yield token


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _link(target: str, text: str, meta: Mapping[str, bool] | None = None) -> Iterator[Token]:
    yield Token("link_open", "a", 1, attrs={"href": target}, meta=dict(meta or {}))
    yield _text(text)
    yield Token("link_close", "a", -1)


def _path(token: Token) -> str:
    """The path of a link to another document; "" for any other."""
    target = str(token.attrs.get("href", ""))
    return "" if _SCHEME.match(target) else unquote(re.split("[?#]", target)[0]).strip()


def _names(path: str, name: str) -> list[str]:
    """The documents that a link of the document ``name`` may mean, the likeliest first."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    found = [posixpath.normpath(path).lstrip("/")]
    found = found if path.startswith("/") else [beside, *found]
    return [*found, *(f"{each}.md" for each in found)]


def _resolve(
    children: Sequence[Token],
    targets: dict[str, list[str]],
    found: Collection[str],
    link: Callable[[str], str],
    slugs: Mapping[str, str],
) -> None:
    open_link: list[Token] = []
    for token in children:
        if token.type == "link_close" and open_link:
            token.tag = open_link.pop().tag
        if token.type != "link_open":
            continue
        open_link.append(token)
        target = str(token.attrs.get("href", ""))
        names = [each for each in targets.get(_path(token), ()) if each in found]
        if _EXTERNAL.match(target):
            token.attrs = {"href": target, "rel": "noopener noreferrer"}
        elif names or (target[:1] == "#" and unquote(target[1:]) in slugs):
            token.attrs = {"href": link(names[0]) if names else slugs[unquote(target[1:])]}
        else:
            token.tag, token.attrs = "span", {"class": "unlinked", "title": target[:200]}


# An excerpt


def title(hit: Hit) -> str:
    """What the document of a hit is called: by its metadata, its heading, or its name."""
    said = [hit.metadata.get("title"), *titles_of(hit.heading_path)[:1]]
    named = hit.doc_name.rstrip("/").rpartition("/")[2] or hit.dataset_id
    return next((each for each in said if isinstance(each, str) and each.strip()), named)


def excerpt(hit: Hit) -> Markup:
    """What a hit says, on a few lines: from a sentence to the end of one where that is near.

    Markdown without its marks, a heading left out that is in the hit's path; the words of the query
    are marked.
    """
    reads = hit.layer != Layer.DETAIL or is_markdown(hit.doc_name, hit.metadata)
    return _shortened(hit.content, hit.terms, hit.heading_path, reads=reads)


def quoted(citation: Citation) -> Markup:
    """What a cited passage says, as an `excerpt`."""
    reads = citation.layer != Layer.DETAIL or is_markdown(citation.doc_name, {})
    return _shortened(citation.text, (), citation.heading_path, reads=reads)


def _shortened(content: str, terms: tuple[str, ...], path: Sequence[str], *, reads: bool) -> Markup:
    tokens = _parsed(content[:LONGEST]) if reads else ()
    runs = list(_runs(tokens, path)) or list(_runs(tokens, ())) or [(content, "")]
    runs = [(re.sub(r"\s+", " ", text), style) for text, style in runs]
    whole = "".join(text for text, _ in runs)
    start, end = _window(whole, terms)
    parts, at = [], 0
    for text, style in runs:
        shown = marked(text[max(start - at, 0) : max(end - at, 0)], terms)
        parts.append(Markup(f"<{style}>{shown}</{style}>") if style and shown else shown)
        at += len(text)
    is_whole = end >= len(whole.rstrip()) or whole[:end].endswith(tuple(".!?。！？"))
    return Markup("").join(["… " if start else "", *parts, "" if is_whole else " …"])


def _runs(tokens: Sequence[Token], path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Texts of a passage, each with its tag or ""; headings of ``path`` are left out."""
    in_heading = False
    for token in tokens:
        if token.type in ("fence", "code_block"):
            yield token.content.strip(), "code"
            yield " ", ""
        in_heading = token.type == "heading_open" or (in_heading and token.type == "inline")
        if token.type == "inline" and not (in_heading and _plain(token.children or ()) in path):
            style = ""
            for each in token.children or ():
                name, _, side = each.type.partition("_")
                if name in ("strong", "em"):
                    style = name if side == "open" else ""
                elif each.type == "code_inline":
                    yield each.content, "code"
                else:
                    yield _said(each), style
            yield " ", ""
        elif token.type in ("td_close", "th_close"):
            yield "· ", ""


def _said(token: Token) -> str:
    """The text of an inline token."""
    if token.type == "image":
        return _plain(token.children or ())
    if token.type in ("softbreak", "hardbreak"):
        return " "
    text = _WIKI.sub(lambda found: found[2] or found[1], token.content)
    # A passage may begin within a table, whose rows are then no table.
    return re.sub(r"(?:^|(?<=\s))\|+(?:\s+\|+)*(?=\s|$)", "·", text)


def _plain(children: Sequence[Token]) -> str:
    return "".join(_said(each) for each in children)


def _window(text: str, terms: tuple[str, ...]) -> tuple[int, int]:
    """Where an excerpt begins and ends in a text without line ends."""
    if len(text) <= _EXCERPT + _SLACK:
        return 0, len(text)
    start, end = snippet(text, terms, length=_EXCERPT)
    found = matches(text[start:end], terms) or [(0, 0, 0)]
    first, last = start + found[0][0], start + found[-1][1]
    begins, ends, at = [], [], 0
    for sentence in split_sentences(text):
        at = text.index(sentence, at)
        begins.append(at)
        at += len(sentence)
        ends.append(at)
    start = next((each for each in begins if start - _SLACK <= each <= first), start)
    near = ends[: bisect_right(ends, max(end, start + _EXCERPT) + _SLACK)]
    return start, near[-1] if near and near[-1] >= max(last, start + _EXCERPT // 2) else end
