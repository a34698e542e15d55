"""HTML: its main content as Markdown, without navigation, scripts and the like."""

from __future__ import annotations

import codecs
import re

import attrs

from triptych.errors import ParseError
from triptych.parsing.builder import ContentBuilder, is_contents_line, markdown_safe, one_line
from triptych.parsing.decoding import decode_text
from triptych.parsing.html_blocks import Block, BlockReader
from triptych.parsing.limits import ParseLimits
from triptych.parsing.parsed import Decode, ParsedFile

__all__ = ["HtmlParser"]

_META_CHARSET = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.I)
_SNIFFED = 4096
_LIKE_HTML = re.compile(rb"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html[\s>])", re.I | re.S)
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
    signature: str = attrs.field(default="html/1", init=False)
    endings: frozenset[str] = attrs.field(
        default=frozenset((".htm", ".html", ".xhtml")), init=False
    )

    def recognises(self, data: bytes) -> bool:
        """Whether it begins as an HTML page does."""
        return _LIKE_HTML.match(data[:_SNIFFED]) is not None

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """The main content; locators are the lines of the file."""
        text = self._decoded(data, name)
        reader = BlockReader(name, text, self.limits)
        reader.read()
        if sum(len(block.text) for block in reader.blocks) < _LEAST_LEFT:
            # A class that usually is navigation's may be what all of a page stands in.
            reader = BlockReader(name, text, self.limits, by_class=False)
            reader.read()
        builder = ContentBuilder(name, self.limits.max_characters)
        for block in _main(reader.blocks):
            shown = _markdown(block)
            if not is_contents_line(shown):
                gap = "\n" if block.tight else "\n\n"
                builder.add(shown, "line", block.line, gap=gap)
        metadata = {"kind": "markdown"}
        title = one_line(reader.title)
        if title:
            metadata["title"] = title[:300]
        return ParsedFile(
            content=builder.content,
            metadata=metadata,
            parser_sig=self.signature,
            locators=tuple(builder.locators),
        )

    def _decoded(self, data: bytes, name: str) -> str:
        """The text, by the page's own word on its encoding where it has one."""
        found = _META_CHARSET.search(data[:_SNIFFED])
        if found is not None and not data.startswith((codecs.BOM_UTF8, b"\xff\xfe", b"\xfe\xff")):
            label = found[1].decode("ascii").lower()
            # The standard (Encoding, section 4.2) reads these labels as windows-1252.
            label = {"iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252"}.get(
                label, {"gb2312": "gb18030", "gbk": "gb18030"}.get(label, label)
            )
            try:
                encoding = codecs.lookup(label)
            except LookupError:
                return self.decode(data, name)
            if encoding.name not in ("utf-8", "utf-16", "utf-7") and encoding._is_text_encoding:
                try:
                    return data.decode(encoding.name, "replace")
                except UnicodeError as error:
                    raise ParseError(f"{name!r} is not {label} text: save it as UTF-8") from error
        return self.decode(data, name)


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
