"""Presentations: each slide is a section of its own, whatever its text stands in."""

from __future__ import annotations

from collections.abc import Iterator

from triptych.parsing import lost, markdown_safe, one_line, words
from triptych_parsers.ooxml import (
    RELATION,
    UNSEEN,
    Element,
    Package,
    Parts,
    attribute,
    chosen,
    drawn_text,
    is_worse,
    lines_of,
    markdown_table,
    plain_text,
    tag,
    whole_number,
)
from triptych_parsers.worker import Reading

_TITLES = ("title", "ctrTitle")
_AROUND = ("sldNum", "sldImg", "hdr", "ftr", "dt")
"""The placeholders around a page of notes."""


def read_pptx(reading: Reading) -> None:
    """Each slide's title as a heading, its text, tables, charts, notes and comments.

    A slide without a title has its number as the heading. Hidden slides are read, too.
    """
    package = Package(reading)
    package.describe(usual="PowerPoint Presentation")
    parts = package.relations(package.path)
    slides = (each for each in package.main.iter() if tag(each) == "sldId")
    layouts: dict[str, None] = {}
    around: list[str] = []
    for number, slide in enumerate(slides, start=1):
        _, path = parts.get(slide.get(f"{RELATION}id", ""), ("", ""))
        root = package.root(path)
        if root is not None:
            around += _add_slide(package, path, root, number)
            layouts |= dict.fromkeys(package.targets(path, "slideLayout"))
    known = {*words(reading.builder.content)}
    for path in [*layouts]:
        layouts |= dict.fromkeys(package.targets(path, "slideMaster"))
    fixed = [line for path in layouts for line in _fixed_lines(package.root(path))]
    for place, lines, reason in (
        ("slide master", fixed, "the same on each slide"),
        ("pages of notes", around, "page header or footer"),
    ):
        shown = dict.fromkeys(words("\n".join(lines)))
        package.leave_out(place, reason, [word for word in shown if word not in known])


def _add_slide(package: Package, path: str, root: Element, number: int) -> list[str]:
    """Add a slide; return the headers and footers of its notes."""
    reading = package.reading
    parts = package.relations(path)
    shapes = [*_shapes(root)]
    heading = next((each for each in shapes if _holder(each) in _TITLES), None)
    title = "" if heading is None else one_line(plain_text(heading))
    blocks = [_shown(each, package, parts) for each in shapes if not title or each is not heading]
    around: list[str] = []
    beside = [*_beside(package, parts, around)]
    shown = "\n".join(lines_of(root))
    missing = [*lost(shown, "\n".join([title, *blocks])).elements()]
    if is_worse(len(missing), shown):
        blocks, missing = [*map(markdown_safe, lines_of(root))], []
    package.leave_out(f"slide {number}", "not read", missing)
    blocks = [*filter(None, blocks), *beside]
    if title or blocks:
        blocks = [f"# {title or f'Slide {number}'}", *blocks]
    reading.builder.add("\n\n".join(blocks), "slide", number)
    return around


def _shapes(parent: Element) -> Iterator[Element]:
    """The shapes, tables, charts and diagrams in ``parent``, in whatever groups."""
    for child in parent:
        if tag(child) in ("txBody", "graphicFrame", "sp"):
            yield child
        elif tag(child) not in UNSEEN:
            yield from _shapes(chosen(child))


def _holder(shape: Element) -> str:
    """The kind of placeholder that a shape fills, "" for none."""
    holder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return "" if holder is None else holder.get("type", "body")


def _shown(shape: Element, package: Package, parts: Parts) -> str:
    """The Markdown of a shape, table, chart or diagram."""
    found = []
    for each in shape.iter():
        if tag(each) == "tbl":
            found.append(_table(each))
        elif tag(each) in ("chart", "relIds"):
            found.append(drawn_text(each, package, parts))
    if tag(shape) != "graphicFrame":
        found.append(_bullets(shape))
    return "\n\n".join(filter(None, found))


def _bullets(shape: Element) -> str:
    """The paragraphs of a shape, as a list if they are several."""
    lines = []
    for each in shape.iter():
        text = " ".join(lines_of(each)) if tag(each) == "p" else ""
        if text:
            level = whole_number(attribute(each.find("{*}pPr"), "lvl"), 8)
            lines.append((f"{'  ' * level}- ", markdown_safe(text)))
    marked = len(lines) > 1
    return "\n".join(f"{mark if marked else ''}{text}" for mark, text in lines)


def _table(table: Element) -> str:
    """Its rows; a cell merged over several rows stands in each."""
    rows: list[list[str]] = []
    for row in table.findall("{*}tr"):
        cells = [(each, one_line(plain_text(each))) for each in row.findall("{*}tc")]
        above = rows[-1] if rows else []
        rows.append(
            [
                above[at] if each.get("vMerge") in ("1", "true") and at < len(above) else text
                for at, (each, text) in enumerate(cells)
            ]
        )
    return markdown_table(rows)


def _beside(package: Package, parts: Parts, around: list[str]) -> Iterator[str]:
    """A slide's notes and comments; ``around`` takes the headers and footers of the notes."""
    for kind, path in parts.values():
        root = package.root(path) if kind in ("notesSlide", "comments") else None
        if root is None:
            continue
        if kind == "notesSlide":
            notes = []
            for each in _shapes(root):
                if _holder(each) in _AROUND:
                    around += lines_of(each)
                else:
                    notes.append(each)
            shown = "\n\n".join(filter(None, map(_bullets, notes)))
            if shown:
                yield f"Notes: {shown}"
        else:
            for comment in root.iter():
                if tag(comment) in ("text", "txBody"):
                    text = one_line(comment.text or plain_text(comment))
                    if text:
                        yield f"Comment: {text}"


def _fixed_lines(root: Element | None) -> list[str]:
    """The lines of a layout or master that stand on each slide: of what is no placeholder."""
    shapes = () if root is None else _shapes(root)
    return [line for each in shapes if not _holder(each) for line in lines_of(each)]
