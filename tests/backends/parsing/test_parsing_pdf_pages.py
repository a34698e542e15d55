"""Pages of PDF files as pictures, with a passage marked."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

pytest.importorskip("pypdfium2")
pytest.importorskip("reportlab")

from hypothesis import given, strategies as st

from support.document_files import make_pdf, raw_pdf
from triptych.errors import ParseError
from triptych_parsers.pdf_pages import draw_page, places, png_of

FILE = make_pdf([["Tea", "Green tea steeps for three minutes.", "Black tea for five."], ["Two"]])


def pixels_of(png: bytes) -> np.ndarray:
    """The pixels of a PNG that `png_of` wrote; its checksums are compared."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", png, at + 8 + size) == (zlib.crc32(kind + data),)
        parts[kind], at = data, at + 12 + size
    width, height, *form = struct.unpack(">2I5B", parts[b"IHDR"])
    assert form == [8, 2, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def marked_rows(png: bytes) -> list[int]:
    """The first row of each run of rows with a mark: yellow, which nothing else here is."""
    pixels = pixels_of(png).astype(int)
    rows = np.flatnonzero(((pixels[:, :, 0] - pixels[:, :, 2]) > 60).any(axis=1))
    return [int(row) for at, row in enumerate(rows) if at == 0 or rows[at - 1] < row - 1]


def test_a_page_is_drawn_with_its_passage_marked() -> None:
    plain = draw_page("a.pdf", FILE, 1)
    assert pixels_of(plain).shape == (1273, 900, 3)
    assert pixels_of(plain).min() < 60
    assert marked_rows(plain) == []
    (first,) = marked_rows(draw_page("a.pdf", FILE, 1, "Green **tea** steeps"))
    (second,) = marked_rows(draw_page("a.pdf", FILE, 1, "Black tea"))
    assert 10 < second - first < 40
    assert len(marked_rows(draw_page("a.pdf", FILE, 1, "# Tea\n\nGreen tea"))) == 2


def test_lines_are_marked_where_the_whole_is_in_pieces() -> None:
    passage = "Green tea steeps for three minutes.\n\nThis stands nowhere.\n\nBlack tea for five."
    assert len(marked_rows(draw_page("a.pdf", FILE, 1, passage))) == 2
    assert marked_rows(draw_page("a.pdf", FILE, 2, passage)) == []


@pytest.mark.parametrize("page", [0, 3, -1])
def test_a_page_that_is_not_there_is_named(page: int) -> None:
    with pytest.raises(ParseError, match="has 2 pages"):
        draw_page("a.pdf", FILE, page)


def test_what_is_damaged_or_encrypted_is_named() -> None:
    with pytest.raises(ParseError, match="damaged"):
        draw_page("a.pdf", b"%PDF-1.7\nnothing", 1)
    with pytest.raises(ParseError, match="encrypted"):
        draw_page("a.pdf", make_pdf([["a"]], password="secret"), 1)


@pytest.mark.parametrize("box", ["0 0 9000000 10", "0 0 .001 90000", "0 0 9000000 9000000"])
def test_a_picture_is_bounded_whatever_size_a_page_has(box: str) -> None:
    file = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[%b]>>" % box.encode(),
    )
    height, width, _ = pixels_of(draw_page("a.pdf", file, 1)).shape
    assert 0 < height <= 3_001
    assert 0 < width <= 901


def test_a_mark_is_where_the_text_is_on_a_turned_page() -> None:
    turned = FILE.replace(b"/Rotate 0", b"/Rotate 90")
    assert turned != FILE
    pixels = pixels_of(draw_page("a.pdf", turned, 1, "Green tea")).astype(int)
    yellow = np.argwhere((pixels[:, :, 0] - pixels[:, :, 2]) > 60)
    assert len(yellow)
    top, left = yellow.min(axis=0)
    bottom, right = yellow.max(axis=0)
    assert bottom - top > 2 * (right - left)
    area = pixels[top : bottom + 1, left : right + 1]
    assert area.min() < 60


@given(st.text(), st.integers(0, 50), st.integers(0, 50))
def test_places_are_those_of_the_passage(text: str, start: int, length: int) -> None:
    passage = text[start : start + length]
    bare = "".join(filter(str.isalnum, passage))
    found = places(list(text), f"**{passage}**")
    there = ["".join(filter(str.isalnum, text[first:last])) for first, last in found]
    assert there == ([bare] if bare else [])


def test_a_png_is_its_pixels() -> None:
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    assert (pixels_of(png_of(pixels)) == pixels).all()
