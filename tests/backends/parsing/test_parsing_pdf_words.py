"""Every word that a PDF shows is in its text, or named as left out."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import pytest

from support.rows import each_row

pytest.importorskip("pypdfium2")
pytest.importorskip("reportlab")

from hypothesis import given, settings, strategies as st

from support.document_files import make_pdf, raw_pdf
from support.examples import examples
from triptych.parsing import ContentBuilder, ParseLimits, lost
from triptych.records import Omission
from triptych_parsers.pdf import SCANNED, _lost, read_pdf
from triptych_parsers.pdf_hyphens import Hyphens
from triptych_parsers.pdf_source import Page
from triptych_parsers.worker import Reading


def read(data: bytes) -> Reading:
    """As the worker reads it, in this process."""
    limits = ParseLimits()
    reading = Reading("a.pdf", data, limits, ContentBuilder("a.pdf", limits.max_characters))
    read_pdf(reading)
    return reading


def text_of(data: bytes) -> str:
    return read(data).builder.content


def named(reading: Reading) -> list[tuple[str, int, str]]:
    return [(each.place, each.words, each.reason) for each in reading.omissions]


def drawn(*pages: Callable[[Any], None], **options: Any) -> bytes:
    canvas_of: Any = import_module("reportlab.pdfgen.canvas")
    out = io.BytesIO()
    canvas = canvas_of.Canvas(out, invariant=1, **options)
    for draw in pages:
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def rows_on(canvas: Any, rows: Sequence[Sequence[str]]) -> None:
    """A ruled table, its upper left corner at 50, 750."""
    width, height = 100 * len(rows[0]), 20 * len(rows)
    for at in range(len(rows) + 1):
        canvas.line(50, 750 - 20 * at, 50 + width, 750 - 20 * at)
    for at in range(len(rows[0]) + 1):
        canvas.line(50 + 100 * at, 750, 50 + 100 * at, 750 - height)
    for down, row in enumerate(rows):
        for across, cell in enumerate(row):
            canvas.drawString(55 + 100 * across, 736 - 20 * down, cell)


# Running lines


def test_pages_that_are_tables_keep_them() -> None:
    def page(at: int) -> Callable[[Any], None]:
        return lambda canvas: rows_on(canvas, [["Name", "Tons"], [f"ship{at}", "40"]])

    reading = read(drawn(*map(page, range(1, 6))))
    for at in range(1, 6):
        assert f"| ship{at} | 40 |" in reading.builder.content
    assert reading.omissions == []


@each_row(
    "line",
    [
        "Invoice {2040 + 17 * at}",
        "Invoice {2040 + at}",
        "Week {at}",
        "2026-03-{10 + at}",
        "{10 + at}.03.2026",
        "3/{10 + at}",
        "{2018 + at}",
        "Rain: {at} mm",
        "Total {310 + at}.50 EUR",
        "Total {at}.50 EUR",
        "{at} %",
        "p. {at}-{at + 1}",
    ],
)
def test_lines_that_differ_in_numbers_of_their_own_stay(line: str) -> None:
    shown = [eval(f"f{line!r}", {"at": at}) for at in range(1, 6)]
    for pages in (
        [[each, f"Words of {number}."] for number, each in enumerate(shown)],
        [[f"Words of {number}.", each] for number, each in enumerate(shown)],
    ):
        reading = read(make_pdf(pages))
        lines = reading.builder.content.splitlines()
        assert [each for each in lines if each in shown] == shown
        assert reading.omissions == []


@each_row(
    "line",
    [
        "{at}",
        "- {at} -",
        "{at + 1122}",
        "Page {at} of 5",
        "page {at}/5",
        "{at} / 5",
        "Seite {at}",
        "{'i ii iii iv v'.split()[at - 1]}",
        "- {'XI XII XIII XIV XV'.split()[at - 1]} -",
    ],
)
def test_page_numbers_are_left_out_and_named(line: str) -> None:
    shown = [eval(f"f{line!r}", {"at": at}) for at in range(1, 6)]
    pages = [[f"Words of {number}.", each] for number, each in enumerate(shown)]
    reading = read(make_pdf(pages))
    assert reading.builder.content == "\n\n".join(f"Words of {at}." for at in range(5)) + "\n"
    (found,) = reading.omissions
    assert (found.place, found.reason) == ("pages 1-5", "page number")
    assert found.words == sum(len(each.replace("/", " ").strip("- ").split()) for each in shown)


def test_words_beside_a_page_number_stay_on_their_first_page() -> None:
    def page(at: int) -> Callable[[Any], None]:
        def draw(canvas: Any) -> None:
            canvas.drawString(72, 780, "Harbour handbook")
            canvas.drawString(500, 780, str(at))
            canvas.drawString(72, 760, "Second edition")
            canvas.drawString(72, 700, f"Words of {at}.")
            canvas.drawString(72, 40, f"Printed by Otter | {at}")

        return draw

    reading = read(drawn(*map(page, range(1, 6))))
    first = "Harbour handbook 1\nSecond edition\nWords of 1.\nPrinted by Otter | 1\n\n"
    rest = "\n\n".join(f"Words of {at}." for at in range(2, 6))
    assert reading.builder.content == f"{first}{rest}\n"
    assert named(reading) == [
        ("pages 2-5", 20, "header on each page"),
        ("pages 2-5", 16, "footer on each page"),
    ]
    assert reading.omissions[0].example == "Harbour handbook 2"


def test_a_line_whose_value_differs_on_other_pages_stays() -> None:
    for line, other in (("Tare 0.00 t", "Tare 1.50 t"), ("State: paid", "State: open")):
        pages = [[f"Words of {at}.", other if at == 4 else line] for at in range(10)]
        reading = read(make_pdf(pages))
        assert reading.builder.content.count(line) == 9
        assert reading.omissions == []


def test_page_numbers_of_two_kinds_are_left_out() -> None:
    numbers = ["i", "ii", "iii", "iv", *map(str, range(1, 9))]
    reading = read(make_pdf([[f"Words of {each}.", each] for each in numbers]))
    assert named(reading) == [("pages 1-12", 12, "page number")]


def test_footers_are_found_where_each_first_line_is_a_title() -> None:
    pages = [[f"Part {at}", f"Words of {at}.", "Otter and daughters"] for at in "abcde"]
    reading = read(make_pdf(pages, marks=True))
    assert reading.builder.content.count("Otter and daughters") == 1
    assert named(reading) == [("pages 2-5", 12, "footer on each page")]


def test_a_table_of_contents_is_named() -> None:
    listed = ["Contents", "Tea ........ 2", "Cake ........ 3"]
    reading = read(make_pdf([listed, ["Tea", "Hot"], ["Cake", "Sweet"]], marks=True))
    assert named(reading) == [("page 1", 4, "table of contents")]


# Hyphens and ligatures


@each_row(
    ("lines", "shown"),
    [
        (["An inter-", "national one"], "An international one"),
        (["A well-", "known one"], "A well-known one"),
        (["Springer-", "Verlag"], "Springer-Verlag"),
        (["A user-", "supplied one.", "", "The user supplied it."], "A user-supplied one."),
        (["A frame-", "work.", "", "A frame. Some work. A framework."], "A framework."),
        (["An ill-", "fated ship.", "", "ill-fated"], "An ill-fated ship."),
        (["A state-of-the-", "art one.", "", "the art"], "A state-of-the-art one."),
    ],
)
def test_a_hyphen_of_its_own_stays_at_the_end_of_a_line(lines: list[str], shown: str) -> None:
    reading = read(make_pdf([lines]))
    assert reading.builder.content.startswith(shown)
    assert reading.omissions == []


def test_a_long_word_is_looked_at_once() -> None:
    text = "a" * 1_000_000 + " inter\x02national a\x02b\x02c"
    began = time.process_time()
    assert Hyphens([text]).joined(text).endswith(" international abc")
    assert time.process_time() - began < 5


def test_ligatures_of_old_fonts_are_letters() -> None:
    stream = rb"BT /F 12 Tf 72 700 Td (A di\033erent de\034nition\056) Tj ET"
    data = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/CMR10/FirstChar 0/LastChar 127"
        b"/Widths[%b]>>" % (b"500 " * 128),
    )
    assert text_of(data) == "A different definition.\n"


# Tables


def test_a_rule_that_ends_above_a_word_does_not_cut_it() -> None:
    def page(canvas: Any) -> None:
        rows_on(canvas, [["Ship: Annalisa", "Berth: North"], ["", ""]])
        canvas.setFillColorRGB(1, 1, 1)
        canvas.rect(51, 711, 198, 18, stroke=0, fill=1)
        canvas.setFillColorRGB(0, 0, 0)
        for x0, y0, x1, y1 in ((50, 650, 400, 650), (50, 690, 190, 690), (50, 650, 50, 710)):
            canvas.line(x0, y0, x1, y1)
        canvas.line(400, 650, 400, 710)
        canvas.drawString(55, 676, "The keeper is told about each crate that was broken.")

    shown = text_of(drawn(page))
    assert "The keeper is told about each crate that was broken." in shown


def test_words_that_a_table_separates_are_named() -> None:
    (found,) = _lost([Page([], "The keeper knows.")], ["The ke | eper knows."], [])
    assert str(found) == "page 1: 1 word is not searched (separated by a table)"


def test_a_letter_that_reaches_over_a_rule_stays_with_its_word() -> None:
    def page(canvas: Any) -> None:
        rows_on(canvas, [["Name", "Tons"], ["Otter", "40"], ["Badger", ""]])
        canvas.drawString(143, 696, "Required")  # the rule goes through its first letter

    assert "Required" in text_of(drawn(page))


@each_row("rotation", [0, 90, 180, 270])
@each_row("ruled", [True, False])
def test_tables_of_rotated_pages_are_as_they_are_shown(rotation: int, ruled: bool) -> None:
    rows = [["Berth", "Ship", "Tons"], ["North", "Annalisa", "410"], ["South", "Brunhild", "377"]]
    rows.append(["East", "Carola", "12"])

    def page(canvas: Any) -> None:
        canvas.setPageRotation(rotation)
        canvas.translate(*{0: (0, 0), 90: (800, 0), 180: (800, 800), 270: (0, 800)}[rotation])
        canvas.rotate(rotation)
        if ruled:
            rows_on(canvas, rows)
        else:
            for at, row in enumerate(rows):
                for place, cell in enumerate(row):
                    canvas.drawString(50 + 120 * place, 700 - 16 * at, cell)

    shown = text_of(drawn(page, pagesize=(800, 800)))
    for row in rows:
        assert f"| {' | '.join(row)} |" in shown


def test_a_table_that_stands_sideways_on_its_page_is_one() -> None:
    rows = [["Berth", "Tons"], ["North", "410"], ["South", "377"]]

    def page(canvas: Any) -> None:
        canvas.translate(800, 0)
        canvas.rotate(90)
        rows_on(canvas, rows)

    shown = text_of(drawn(page, pagesize=(800, 800)))
    for row in rows:
        assert f"| {' | '.join(row)} |" in shown


WORDS = st.text("abcdefgh", min_size=2, max_size=6)


@pytest.mark.property
@settings(max_examples=examples(60), deadline=None)
@given(
    pages=st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8), WORDS), max_size=12),
        min_size=1,
        max_size=5,
    ),
    rules=st.lists(st.tuples(st.booleans(), *[st.integers(0, 12)] * 3), max_size=16),
)
def test_no_word_is_lost_whatever_rules_stand_on_the_page(
    pages: list[list[tuple[int, int, str]]], rules: list[tuple[bool, int, int, int]]
) -> None:
    def drawing(words: list[tuple[int, int, str]]) -> Callable[[Any], None]:
        def draw(canvas: Any) -> None:
            for is_flat, place, start, end in rules:
                if is_flat:
                    canvas.line(40 * start, 780 - 24 * place, 40 * end, 780 - 24 * place)
                else:
                    canvas.line(40 * place, 780 - 24 * start, 40 * place, 780 - 24 * end)
            for y, x, word in {(y, x): (y, x, word) for y, x, word in words}.values():
                canvas.drawString(60 * x + 3, 770 - 12 * y, word)

        return draw

    reading = read(drawn(*map(drawing, pages)))
    shown = "\n".join(
        page.get_textpage().get_text_range()
        for page in import_module("pypdfium2").PdfDocument(reading.data)
    )
    missing = lost(shown, reading.builder.content).total()
    assert missing <= sum(each.words for each in reading.omissions)


# Forms and notes


def test_text_that_was_typed_onto_a_page_is_read() -> None:
    stream = b"BT /F 12 Tf 2 5 Td (Typed onto it) Tj ET"
    font = b"<</Font<</F 7 0 R>>>>"
    words = b"BT /F 12 Tf 72 700 Td (Words) Tj ET"
    data = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources%b"
        b"/Annots[5 0 R]>>" % font,
        b"<</Length %d>>stream\n%b\nendstream" % (len(words), words),
        b"<</Type/Annot/Subtype/FreeText/Rect[72 600 272 620]/F 4/DA(/F 12 Tf)"
        b"/Contents(Typed onto it)/AP<</N 6 0 R>>>>",
        b"<</Type/XObject/Subtype/Form/BBox[0 0 200 20]/Resources%b/Length %d>>"
        b"stream\n%b\nendstream" % (font, len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    assert text_of(data) == "Words\nTyped onto it\n"


def test_a_form_whose_fonts_are_lost_when_it_is_drawn_is_read_without() -> None:
    # PDFium forgets the resources that the page inherits.
    words, value = b"BT /F 12 Tf 72 700 Td <00010002> Tj ET", b"BT /F 12 Tf 2 5 Td (Ada) Tj ET"
    codes = (
        b"begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange "
        b"1 beginbfrange <0001> <0002> <0041> endbfrange endcmap"
    )
    stream = b"/Length %d>>stream\n%b\nendstream"
    data = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[5 0 R]/DA(/F 12 Tf)>>>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1/MediaBox[0 0 600 800]/Resources<</Font<</F 7 0 R>>>>>>",
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Annots[5 0 R]>>",
        b"<<" + stream % (len(words), words),
        b"<</Type/Annot/Subtype/Widget/FT/Tx/T(n)/V(Ada)/Rect[72 600 272 620]/F 4/AP<</N 6 0 R>>>>",
        b"<</Type/XObject/Subtype/Form/BBox[0 0 200 20]/Resources<</Font<</F 8 0 R>>>>"
        + stream % (len(value), value),
        b"<</Type/Font/Subtype/Type0/BaseFont/Own/Encoding/Identity-H/DescendantFonts[9 0 R]"
        b"/ToUnicode 10 0 R>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/Own/DW 600"
        b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>",
        b"<<" + stream % (len(codes), codes),
    )
    assert text_of(data) == "AB\nAda\n"


# Pages without text


def picture(canvas: Any) -> None:
    images: Any = import_module("PIL.Image")
    utils: Any = import_module("reportlab.lib.utils")
    canvas.drawImage(utils.ImageReader(images.new("L", (8, 8), 128)), 0, 0, 600, 850)


def words_on(canvas: Any) -> None:
    canvas.drawString(72, 700, "Some words of its own")


def stamped(canvas: Any) -> None:
    picture(canvas)
    canvas.drawString(72, 40, "Received 12 March, page 3")


def outlines(canvas: Any) -> None:
    canvas.circle(200, 200, 50)


def nothing(canvas: Any) -> None:
    canvas.setFillColorRGB(1, 1, 1)
    canvas.rect(0, 0, 600, 850, stroke=0, fill=1)


@each_row(
    ("pages", "no_text", "omissions"),
    [
        ([picture], f"its page is a picture; {SCANNED}", []),
        ([picture, stamped, outlines, nothing], f"its 3 pages are pictures; {SCANNED}", []),
        ([nothing], "its pages are empty", []),
        ([words_on, nothing], "", []),
        ([words_on, picture], "", [("page 2", 0, f"no text: it is a picture; {SCANNED}")]),
        (
            [words_on, picture, outlines, words_on, stamped],
            "",
            [("pages 2-3, 5", 0, f"no text: they are pictures; {SCANNED}")],
        ),
    ],
)
def test_pages_that_are_pictures_are_named_and_empty_ones_are_not(
    pages: list[Callable[[Any], None]], no_text: str, omissions: list[tuple[str, int, str]]
) -> None:
    reading = read(drawn(*pages))
    assert reading.no_text == no_text
    assert named(reading) == omissions


def test_a_page_that_is_damaged_is_named() -> None:
    stream = b"BT /F 12 Tf 72 700 Td (Words) Tj ET"
    data = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R 9 0 R]/Count 2>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    reading = read(data)
    assert reading.builder.content == "Words\n"
    assert reading.omissions == [
        Omission(place="page 2", words=0, reason="cannot be read: damaged")
    ]
