"""HTML pages: the main content as Markdown, without navigation and scripts."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator
from operator import attrgetter

import attrs

from triptych._internal.wording import counted
from triptych.parsing.contract import (
    ContentBuilder,
    ParsedFile,
    ParseLimits,
    TextFileParser,
    markdown_safe,
    one_line,
)
from triptych.parsing.decoder import DecodedText, is_html
from triptych.parsing.html_blocks import Block
from triptych.parsing.html_reader import BlockReader
from triptych.parsing.html_signs import BESIDE, FRAME, HIDDEN, NAMED
from triptych.parsing.html_tables import Cell, Grid, Items, Table
from triptych.parsing.witness import Witness, omission, words
from triptych.records.unread import Omission

_LEAST_LEFT = 50
_LEAST_HIDDEN = 500
_TIMES = 3
_SHARE = 2 / 3
_REPEATED = 10_000
_LOST, _LEAST_LOST = 0.01, 100
_FEW = 20
_FEW_CHARACTERS = 2_000
_LARGE = 5_000
_OUTSIDE = "outside of the main text", "beside the text"


@attrs.frozen(kw_only=True)
class HtmlParser(TextFileParser):
    """Parses HTML pages: the ``<main>`` or ``<article>`` if it has most of the text, else the whole
    page.

    Navigation, asides, page headers and footers are left out by what they hold: links, not
    sentences; so are scripts, form controls and hidden elements. The omissions name them. Headings,
    lists, tables and code become Markdown; links, pictures and formulas become their text. A table
    that lays out a page is read as the blocks in its cells.
    """

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="html/3", init=False)
    endings: frozenset[str] = attrs.field(
        default=frozenset((".htm", ".html", ".xhtml")), init=False
    )

    def recognises(self, data: bytes) -> bool:
        """Return whether ``data`` starts like an HTML page."""
        return is_html(data)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The main content; locators are the lines of the file."""
        reader = BlockReader(name, decoded.text, self.limits)
        reader.read()
        _judge(reader)
        main, outside = _main(reader.items)
        builder = ContentBuilder(name, self.limits.max_characters)
        grid = Grid(max(_REPEATED, len(decoded.text)))
        for text, line, gap in _rendered(main, grid):
            builder.add(text, "line", line, gap=gap)
        for text, line in _lost(reader):
            builder.add(markdown_safe(text), "line", line)
        title = one_line(reader.title)[:300]
        return builder.parsed(
            self.signature,
            {"title": title} if title else {},
            decoded.notes,
            _omissions(reader.items, outside),
            _no_text(reader, builder.content),
        )


def _judge(reader: BlockReader) -> None:
    """Decide which regions are left out; what nearly all of a page stands in is not."""
    blocks = list(_blocks(reader.items))
    page = sum(block.size - block.linked for block in blocks)
    spared: list[str] = []
    for kind in (NAMED, FRAME, BESIDE, HIDDEN, ""):
        for region in reader.regions:
            cause = None if region.parent is None else region.parent.cause
            if cause is None and region.kind not in spared and region.judge(page):
                cause = region
            region.cause = cause
        kept = sum(block.size for block in blocks if block.kept)
        gone = sum(each.size for each in reader.regions if each.cause is each and each.kind == kind)
        few = gone > _LEAST_HIDDEN if kind == HIDDEN else kept < _LEAST_LEFT
        if few and gone > kept * _TIMES:
            spared.append(kind)


def _blocks(items: Items) -> Iterator[Block]:
    for item in items:
        if isinstance(item, Block):
            yield item
        else:
            for row in item.rows:
                for cell in row.cells:
                    yield from _blocks(cell.items)


def _main(items: Items) -> tuple[Items, Items]:
    """Split ``items`` into the main content and the rest: the ``<main>`` or else one ``<article>``,
    if it holds most of the sentences, else all."""
    total = main = 0
    articles: Counter[int] = Counter()
    blocks = [block for block in _blocks(items) if block.kept]
    weight = attrgetter("prose" if any(block.prose for block in blocks) else "size")
    for block in blocks:
        total += weight(block)
        main += weight(block) if block.main else 0
        articles[block.article] += weight(block)
    del articles[0]
    largest = max(articles.values(), default=0)
    texts = {each for each, size in articles.items() if size * 4 >= largest}
    if main and main >= _SHARE * total:
        return _parted(items, lambda item: item.main)
    if largest >= total / 2 and sum(articles[each] for each in texts) >= _SHARE * total > 0:
        return _parted(items, lambda item: item.article in texts)
    return items, []


def _parted(items: Items, inner: Callable[[Block | Table], bool]) -> tuple[Items, Items]:
    """Split ``items``; a title that the main text lacks, and the sentences below it, go with it."""
    found = [inner(item) for item in items]
    first = found.index(True)
    titles = [at for at, item in enumerate(items) if _is_title(item)]
    own = any(found[at] for at in titles)
    title = max((at for at in titles if at < first and not own), default=first)
    for at in range(title, first):
        item = items[at]
        found[at] = isinstance(item, Block) and bool(item.level or item.prose)
    main = [item for item, is_inner in zip(items, found, strict=True) if is_inner]
    return main, [item for item, is_inner in zip(items, found, strict=True) if not is_inner]


def _is_title(item: Block | Table) -> bool:
    return isinstance(item, Block) and item.level == 1 and item.kept


def _omissions(items: Items, outside: Items) -> list[Omission]:
    """What is not in the text, by place, the largest first."""
    texts: dict[tuple[str, str], list[str]] = {}
    for block in _blocks(items):
        for piece in block.pieces:
            if piece.region is not None and piece.region.cause is not None:
                cause = piece.region.cause
                texts.setdefault((cause.place, cause.reason), []).append(piece.text)
    for block in _blocks(outside):
        texts.setdefault(_OUTSIDE, []).append(block.text)
    found = [
        omission(place, words("\n".join(pieces)), reason)
        for (place, reason), pieces in texts.items()
    ]
    return sorted(filter(None, found), key=lambda each: -each.words)


def _no_text(reader: BlockReader, content: str) -> str:
    """Why the page has only a handful of words, "" if it has more."""
    count, size = len(words(content[:_FEW_CHARACTERS])), len(reader.text)
    told = count >= _FEW // 2 and any(block.prose and block.kept for block in _blocks(reader.items))
    if told or count >= (_FEW if size > _LARGE else _FEW // 4):
        return ""
    if reader.frames:
        return "its frames are other files"
    if reader.scripts:
        return "the page makes its text by script"
    return f"it has {counted(count, 'word')} in {size:,} characters" if size > _LARGE else ""


_PLAIN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(annotation|annotation-xml|datalist|defs|desc|metadata|rp|script|style|symbol|template|title)"
    r"\b(?:[^<>\"']|\"[^\"]*\"|'[^']*')*+>.*?(?:</\1\s*>|\Z)"
    r"|</?[a-zA-Z](?:[^<>\"']|\"[^\"]*\"|'[^']*')*+>|<[!?/][^<>]*>",
    re.S | re.I,
)
"""What a plain reading of a page leaves out: what no browser shows, and tags."""


def _lost(reader: BlockReader) -> Iterator[tuple[str, int]]:
    """What a plain reading of the page has and its blocks lack, left out or not, and its lines.

    Nothing of all real pages is; a file that breaks off in a tag is, with all that follows.
    """
    read = "\n".join(piece.text for block in _blocks(reader.items) for piece in block.pieces)
    plain = html.unescape(_PLAIN.sub(" ", reader.text))
    if len("".join(plain.split())) <= len("".join(read.split())) * (1 + _LOST) + _LEAST_LOST:
        return
    witness, at = Witness(read), 0
    for tag in [*_PLAIN.finditer(reader.text), None]:
        start, end = (len(reader.text), 0) if tag is None else tag.span()
        text = reader.text[at:start].strip()
        if len(witness.lost(html.unescape(text))) >= _FEW:
            yield one_line(html.unescape(text)), reader.line_of(at)
        at = end


def _rendered(items: Items, grid: Grid) -> Iterator[tuple[str, int, str]]:
    """The text of each block that has one, its line, and what parts it from the block before."""
    before = ""
    for item in items:
        if isinstance(item, Table):
            for text, line, gap in _rows(item, grid):
                yield text, line, gap
                before = "row"
        elif text := item.text:
            yield (
                _markdown(item, text),
                item.line,
                "\n" if item.kind == before == "item" else "\n\n",
            )
            before = item.kind


def _rows(table: Table, grid: Grid) -> Iterator[tuple[str, int, str]]:
    """A line a row; a first row of one wide cell is the title of the others."""
    seen = 0
    for row, cells in grid.rows(table, _cell):
        titled = row is table.rows[0] and len(row.cells) == 1
        text = f"| {' | '.join(cells)} |" if len(cells) > 1 and not titled else cells[0]
        if len(cells) > 1 and seen == 0 and not titled:
            text += f"\n|{' --- |' * len(cells)}"
        yield text, row.line, "\n" if seen else "\n\n"
        seen += not titled


def _cell(cell: Cell) -> str:
    return one_line(" ".join(block.text for block in _blocks(cell.items))).replace("|", "\\|")


def _markdown(block: Block, text: str) -> str:
    if block.kind == "pre":
        ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
        return f"{'`' * ticks}\n{text}\n{'`' * ticks}"
    if block.level:
        return f"{'#' * block.level} {one_line(text)}"
    text = markdown_safe(text)
    return block.prefix + text.replace("\n", "\n" + " " * len(block.prefix))
