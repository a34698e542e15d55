"""Presentations: the worker's job."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from triptych.errors import ParseError
from triptych.parsing.builder import markdown_safe, one_line
from triptych_backends.parsing.office import check_package
from triptych_backends.parsing.worker import Reading


def read_pptx(reading: Reading) -> None:
    """Each slide's title as a heading, its text, tables and notes; hidden slides too."""
    import pptx

    check_package(reading)
    deck = pptx.Presentation(io.BytesIO(reading.data))
    title = one_line(deck.core_properties.title or "")
    if title and title != "PowerPoint Presentation":
        reading.metadata["title"] = title[:300]
    reading.metadata["kind"] = "markdown"
    for number, slide in enumerate(deck.slides, start=1):
        blocks = list(_slide(slide, reading))
        reading.builder.add("\n\n".join(blocks), "slide", number)


def _slide(slide: Any, reading: Reading) -> Iterator[str]:
    heading = slide.shapes.title
    if heading is not None and heading.text_frame.text.strip():
        yield f"# {one_line(heading.text_frame.text)}"
    for shape in _shapes(slide.shapes, reading, 0):
        if heading is not None and shape.shape_id == heading.shape_id:
            continue
        if shape.has_text_frame:
            text = _frame(shape.text_frame)
            if text:
                yield text
        elif getattr(shape, "has_table", False) and shape.has_table:
            yield _table(shape.table)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = _frame(slide.notes_slide.notes_text_frame)
        if notes:
            yield f"Notes: {notes}"


def _shapes(shapes: Any, reading: Reading, depth: int) -> Iterator[Any]:
    from pptx.shapes.group import GroupShape

    if depth > reading.limits.max_depth:
        raise ParseError(f"{reading.name!r} nests groups deeper than {reading.limits.max_depth}")
    for shape in shapes:
        if isinstance(shape, GroupShape):
            yield from _shapes(shape.shapes, reading, depth + 1)
        else:
            yield shape


def _frame(frame: Any) -> str:
    lines = []
    paragraphs = [each for each in frame.paragraphs if each.text.strip()]
    for paragraph in paragraphs:
        text = markdown_safe(one_line(paragraph.text))
        lines.append(f"{'  ' * paragraph.level}- {text}" if len(paragraphs) > 1 else text)
    return "\n".join(lines)


def _table(table: Any) -> str:
    rows = [[one_line(cell.text).replace("|", "\\|") for cell in row.cells] for row in table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in rows if any(cells)]
    if len(lines) > 1:
        lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines)
