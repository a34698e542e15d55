"""HTML: its main content as Markdown, without navigation, scripts and the like."""

from __future__ import annotations

import re

import attrs

from triptych.parsing.builder import ContentBuilder, markdown_safe, one_line
from triptych.parsing.decoder import decode_text
from triptych.parsing.encoding_declaration import is_html
from triptych.parsing.html_blocks import Block, BlockReader
from triptych.parsing.limits import ParseLimits
from triptych.parsing.parsed import Decode, ParsedFile

_LEAST_MAIN = 200
_LEAST_LEFT = 50
_SHARE = 0.25


@attrs.frozen(kw_only=True)
class HtmlParser:
    """HTML pages. ``<main>``, else ``<article>``, where they hold most of what can be read.

    Left out are scripts, styles, forms' controls, ``<nav>``, ``<aside>``, ``<footer>``, page
    headers, what is hidden, and what a role or class says is navigation. Headings, lists,
    tables and code become Markdown; links and pictures only their text.
    """

    decode: Decode = decode_text
    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="html/2", init=False)
    endings: frozenset[str] = attrs.field(
        default=frozenset((".htm", ".html", ".xhtml")), init=False
    )

    def recognises(self, data: bytes) -> bool:
        """Whether it begins as an HTML page does."""
        return is_html(data)

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The main content; locators are the lines of the file."""
        decoded = self.decode(data, name)
        if decoded is None:
            return None
        text = decoded.text
        reader = BlockReader(name, text, self.limits)
        reader.read()
        if sum(len(block.text) for block in reader.blocks) < _LEAST_LEFT:
            # A class that usually is navigation's may be what all of a page stands in.
            reader = BlockReader(name, text, self.limits, by_class=False)
            reader.read()
        builder = ContentBuilder(name, self.limits.max_characters)
        for block in _main(reader.blocks):
            gap = "\n" if block.tight else "\n\n"
            builder.add(_markdown(block), "line", block.line, gap=gap)
        metadata = {"kind": "markdown"}
        title = one_line(reader.title)
        if title:
            metadata["title"] = title[:300]
        return ParsedFile(
            content=builder.content,
            metadata=metadata,
            parser_sig=self.signature,
            locators=tuple(builder.locators),
            notes=decoded.notes,
        )


def _main(blocks: list[Block]) -> list[Block]:
    """The blocks in ``<main>`` or else ``<article>``, if they hold enough; else all."""
    total = sum(len(block.text) for block in blocks)
    for least in (2, 1):
        inner = [block for block in blocks if block.region >= least]
        size = sum(len(block.text) for block in inner)
        if size >= _LEAST_MAIN or (size and size >= _SHARE * total):
            return inner
    return blocks


def _markdown(block: Block) -> str:
    text = block.text
    if block.kind == "pre":
        ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
        return f"{'`' * ticks}\n{text}\n{'`' * ticks}"
    if block.kind == "row":
        return text
    if block.level:
        return f"{'#' * block.level} {one_line(text)}"
    text = markdown_safe(text)
    return block.prefix + text.replace("\n", "\n" + " " * len(block.prefix))
