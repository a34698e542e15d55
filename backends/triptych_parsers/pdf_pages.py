"""Drawing a page of a PDF as a PNG, a passage of it marked, in a worker process."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ParseError
from triptych.parsing import ParseLimits
from triptych_parsers.pdf_source import opened, page_of
from triptych_parsers.worker import Reading, ask_worker

_WIDTH, _HEIGHT = 900, 3_000
"""The most pixels across and down; a page is drawn as large as these allow."""
_LIMITS: Final = ParseLimits(seconds=20)
_MARK: Final = (255, 224, 130)
_CHARACTERS: Final = 100_000
"""Of a page, in which a passage is looked for."""
_FEWEST: Final = 6
"""Letters and digits of a line that is looked for by itself: fewer stand in many places."""


def draw_page(name: str, data: bytes, page: int, passage: str = "") -> bytes:
    """A page of a PDF, counted from 1, as a PNG; ``passage`` is marked where it is found.

    Raises:
        ParseError: there is no such page, or the file is damaged, encrypted or beyond a limit.
        NotAvailableError: PDFium is not installed.
        CancelledError: the deadline around this call has passed.
    """
    job = "triptych_parsers.pdf_pages:draw"
    answer = ask_worker(job, name, data, _LIMITS, extra="pdf", page=page, passage=passage)
    return base64.b64decode(answer["metadata"]["png"])


def draw(reading: Reading) -> None:
    """The worker's job."""
    document, with_form = opened(reading)
    number = reading.options["page"]
    if not 1 <= number <= len(document):
        raise ParseError(f"{reading.name!r} has {len(document):,} pages, and no page {number:,}")
    page = page_of(document, number - 1, with_form=with_form)
    width, height = page.get_size()
    if not (width > 0 and height > 0 and math.isfinite(width * height)):
        raise ParseError(f"page {number:,} of {reading.name!r} has no size")
    scale = min(_WIDTH / width, _HEIGHT / height)
    bitmap = page.render(scale=scale, rev_byteorder=True)
    pixels = bitmap.to_numpy()[:, :, :3]
    to_bitmap = bitmap.get_posconv(page).to_bitmap
    for left, bottom, right, top in _boxes(page, reading.options["passage"]):
        (x0, y0), (x1, y1) = to_bitmap(left, top), to_bitmap(right, bottom)
        rows, columns = slice(*_span(y0, y1)), slice(*_span(x0, x1))
        # Multiplied, as a highlighter does: what is dark stays dark.
        area = pixels[rows, columns].astype(np.uint16)
        pixels[rows, columns] = (area * np.array(_MARK, np.uint16) // 255).astype(np.uint8)
    reading.metadata["png"] = base64.b64encode(png_of(pixels)).decode("ascii")


def _span(first: int, second: int) -> tuple[int, int]:
    low, high = sorted((max(first, 0), max(second, 0)))
    return low, high


def _boxes(page: Any, passage: str) -> Iterator[tuple[float, float, float, float]]:
    """Left, bottom, right and top of each run of characters of the passage on the page."""
    raw = import_module("pypdfium2.raw")
    text_page = page.get_textpage()
    count = min(text_page.count_chars(), _CHARACTERS)
    there = [chr(raw.FPDFText_GetUnicode(text_page, at)) for at in range(count)]
    text_page.count_rects()
    for first, last in places(there, passage):
        many = text_page.count_rects(first, last - first)
        yield from (text_page.get_rect(at) for at in range(many))


def places(there: list[str], passage: str) -> list[tuple[int, int]]:
    """The first and past the last of the characters of ``there`` that are the passage's.

    Only letters and digits are compared: marks of Markdown, hyphens and line ends are not those of
    the page. Where not all of the passage stands in one piece, its lines are looked for.
    """
    at = [place for place, each in enumerate(there) if each.isalnum()]
    text = "".join(there[place] for place in at)
    found = []
    begin = 0
    whole = _bare(passage)
    lines = [whole] if whole and whole in text else map(_bare, passage.splitlines())
    for line in lines:
        if line != whole and len(line) < _FEWEST:
            continue
        start = text.find(line, begin)
        if start < 0 or not line:
            continue
        begin = start + len(line)
        found.append((at[start], at[begin - 1] + 1))
    return found


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Rows of red, green and blue as a PNG."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
