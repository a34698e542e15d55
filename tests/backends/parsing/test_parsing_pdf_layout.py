"""Tables and headings of PDF files, by what their pages show."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pypdfium2")
pytest.importorskip("reportlab")

from hypothesis import given, settings, strategies as st

from support.document_files import make_pdf, raw_pdf
from support.examples import examples
from triptych.chunking import default_chunkers
from triptych.parsing import ContentBuilder, ParseLimits
from triptych_parsers import PdfParser
from triptych_parsers.pdf import read_pdf
from triptych_parsers.worker import Reading

Rows = Sequence[Sequence[str]]

PRICES = [
    ["Item", "Quantity", "Price"],
    ["Kettle, steel", "2", "35.00"],
    ["Descaler", "10", "1.20"],
    ["Sum", "", "47.00"],
]
MARKDOWN = """| Item | Quantity | Price |
| --- | --- | --- |
| Kettle, steel | 2 | 35.00 |
| Descaler | 10 | 1.20 |
| Sum |  | 47.00 |"""
PROSE = "Kettles boil water by heating a plate under a vessel that is filled with it. " * 6


def made(*flowables: Any, **options: Any) -> bytes:
    platypus: Any = import_module("reportlab.platypus")
    out = io.BytesIO()
    platypus.SimpleDocTemplate(out, invariant=1, **options).build(list(flowables))
    return out.getvalue()


def paragraph(text: str, style: str = "Normal") -> Any:
    styles: Any = import_module("reportlab.lib.styles")
    platypus: Any = import_module("reportlab.platypus")
    return platypus.Paragraph(text, styles.getSampleStyleSheet()[style])


def table(rows: Rows, *style: Any, ruled: bool = True, **options: Any) -> Any:
    platypus: Any = import_module("reportlab.platypus")
    black: Any = import_module("reportlab.lib.colors").black
    grid = [("GRID", (0, 0), (-1, -1), 0.5, black)] if ruled else []
    return platypus.Table([list(row) for row in rows], style=[*grid, *style], **options)


def text_of(data: bytes, limits: ParseLimits | None = None) -> str:
    return PdfParser(limits=limits or ParseLimits()).parse("a.pdf", data).content


def here(data: bytes, **limits: Any) -> Reading:
    """As the worker reads it, in this process."""
    given = ParseLimits(**limits)
    reading = Reading("a.pdf", data, given, ContentBuilder("a.pdf", given.max_characters))
    read_pdf(reading)
    return reading


def test_a_ruled_table_is_a_markdown_table_where_it_stands() -> None:
    data = made(paragraph(PROSE), table(PRICES), paragraph("Payable within 30 days."))
    parsed = PdfParser().parse("a.pdf", data)
    before, _, after = parsed.content.partition(MARKDOWN)
    assert " ".join(before.split()) == PROSE.strip()
    assert after.strip() == "Payable within 30 days."
    assert parsed.metadata["kind"] == "markdown"
    chunks = (
        default_chunkers()
        .for_document("a.pdf", parsed.metadata, parsed.outline)
        .chunk(parsed.content)
    )
    assert {each.locator for each in chunks} == {"page 1"}


def test_a_table_without_rules_is_found_by_its_columns() -> None:
    data = made(paragraph(PROSE), table(PRICES, ruled=False, colWidths=[150, 90, 90]))
    assert MARKDOWN in text_of(data)


def test_a_cell_of_several_lines_and_bars_is_one_cell() -> None:
    rows = [["Train", "Leaves"], [paragraph("RE 5, with a name | that wraps over lines"), "09:00"]]
    data = made(table(rows, colWidths=[90, 60]))
    assert "| RE 5, with a name \\| that wraps over lines | 09:00 |" in text_of(data)


def test_a_word_parted_by_a_hyphen_is_whole_again_and_a_last_hyphen_stays() -> None:
    data = made(table([["Sort", "Size"], ["tempera-\nture", "10-"]]))
    assert "| temperature | 10- |" in text_of(data)


def test_merged_cells_stand_in_the_first_of_their_places() -> None:
    rows = [["All trains", "", "Fare"], ["ICE", "08:15", "29"], ["", "09:15", "39"]]
    data = made(table(rows, ("SPAN", (0, 0), (1, 0)), ("SPAN", (0, 1), (0, 2))))
    shown = text_of(data)
    assert "| All trains |  | Fare |" in shown
    assert "| ICE | 08:15 | 29 |" in shown
    assert "|  | 09:15 | 39 |" in shown


def test_a_table_over_two_pages_is_one_on_each() -> None:
    rows = [["Year", "Kettles", "Cups"], *([str(2000 + at), str(at), "7"] for at in range(60))]
    parsed = PdfParser().parse("a.pdf", made(table(rows, repeatRows=1)))
    assert len(parsed.locators) == 2
    assert parsed.content.count("| Year | Kettles | Cups |") == 2
    for row in rows[1:]:
        assert f"| {' | '.join(row)} |" in parsed.content


@pytest.mark.parametrize(
    "rows",
    [
        [["Name:", "Ada"], ["Street:", "St James Square"], ["City:", "London"]],
        [["only", "two", "rows"], ["are", "no", "table"]],
    ],
)
def test_what_only_stands_apart_stays_lines(rows: Rows) -> None:
    shown = text_of(made(table(rows, ruled=False, colWidths=[120] * len(rows[0]))))
    assert "|" not in shown
    assert rows[0][0] in shown


def test_a_frame_around_text_is_no_table() -> None:
    rows = [[paragraph(PROSE * 2), paragraph(PROSE)], [paragraph(PROSE), paragraph(PROSE)]]
    shown = text_of(made(table(rows, colWidths=[220, 220])))
    assert "|" not in shown
    assert shown.count("Kettles boil water") == 30


def test_large_type_is_a_heading_by_its_size() -> None:
    data = made(
        paragraph("The kettle", "Title"),
        paragraph(PROSE),
        paragraph("Descaling", "Heading2"),
        paragraph(PROSE),
    )
    parsed = PdfParser().parse("a.pdf", data)
    headings = [line for line in parsed.content.splitlines() if line.startswith("#")]
    assert headings == ["# The kettle", "## Descaling"]
    chunks = default_chunkers().for_document("a.pdf", parsed.metadata).chunk(parsed.content)
    assert chunks[-1].heading_path == ("The kettle", "Descaling")


def test_bookmarks_say_more_than_sizes() -> None:
    data = make_pdf([["Intro", "Some words."], ["Usage", "More words."]], marks=True)
    assert text_of(data) == "# Intro\n\nSome words.\n\n# Usage\n\nMore words.\n"


def test_where_most_is_large_nothing_is_a_heading() -> None:
    data = made(*(paragraph(f"Word number {at}", "Title") for at in range(5)), paragraph("small"))
    assert "#" not in text_of(data)


def test_titles_that_repeat_on_every_page_stay() -> None:
    platypus: Any = import_module("reportlab.platypus")
    slides: list[Any] = []
    for at in range(1, 6):
        slides += [paragraph(f"Slide {at}", "Title"), paragraph(PROSE), platypus.PageBreak()]
    assert text_of(made(*slides)).count("# Slide") == 5


def test_the_values_of_a_form_are_text() -> None:
    canvas_of: Any = import_module("reportlab.pdfgen.canvas")
    out = io.BytesIO()
    canvas = canvas_of.Canvas(out, invariant=1)
    canvas.drawString(72, 740, "Name:")
    canvas.acroForm.textfield(name="name", x=150, y=732, width=200, height=18, value="Ada Lovelace")
    canvas.save()
    assert "Ada Lovelace" in text_of(out.getvalue())


def test_a_drawing_of_many_lines_holds_nothing_up() -> None:
    lines = b"".join(b"%d %d m %d %d l S\n" % (at % 500, 0, at % 500, 700) for at in range(60_000))
    content = zlib.compress(b"BT /F 12 Tf 72 700 Td (Some words) Tj ET\n" + lines)
    data = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    assert text_of(data, ParseLimits(seconds=30)) == "Some words\n"


def test_without_time_for_the_layout_the_text_is_there_and_a_note_says_so() -> None:
    data = made(paragraph("Prices", "Title"), table(PRICES))
    reading = here(data, seconds=1e-9)
    assert "Kettle, steel 2 35.00" in reading.builder.content
    assert "|" not in reading.builder.content
    assert "last page have no tables" in reading.notes[0].replace("has", "have")


WORDS = st.text("abcXYZ019.,-", min_size=1, max_size=8).map(lambda text: f"w{text}")


@pytest.mark.property
@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(2, 5).flatmap(
        lambda width: st.lists(
            st.lists(WORDS, min_size=width, max_size=width), min_size=2, max_size=8
        )
    )
)
def test_every_cell_of_a_ruled_table_comes_back(rows: list[list[str]]) -> None:
    reading = here(made(paragraph("Before"), table(rows), paragraph("After")))
    lines = [line for line in reading.builder.content.splitlines() if line.startswith("|")]
    found = [line[2:-2].split(" | ") for at, line in enumerate(lines) if at != 1]
    assert found == rows


class Line(NamedTuple):
    """A line of a page: its size in points, and where it begins."""

    text: str
    size: float
    bottom: float
    left: float = 72.0


def headings_in(*lines: Line) -> list[str]:
    canvas_of: Any = import_module("reportlab.pdfgen.canvas")
    out = io.BytesIO()
    canvas = canvas_of.Canvas(out, invariant=1)
    for line in lines:
        canvas.setFont("Helvetica", line.size)
        canvas.drawString(line.left, line.bottom, line.text)
    canvas.save()
    return re.findall(r"^#+ (.*)$", here(out.getvalue()).builder.content, re.MULTILINE)


SMALL_PRINT = [Line(f"[{at}] A. Author, A book, 2001.", 7, 200 - 9 * at) for at in range(12)]


def test_a_line_within_a_paragraph_is_no_heading_where_small_print_is_most() -> None:
    body = [Line("Words of the text itself.", 7.5, 500 - 10 * at) for at in range(5)]
    body[2] = Line("Words with a formula in", 9, 480)
    assert headings_in(*body, *SMALL_PRINT) == []
    apart = [Line("Results", 9, 520), *body[:2], *body[3:]]
    assert headings_in(*apart, *SMALL_PRINT) == ["Results"]


def test_a_paragraph_in_large_type_is_no_heading_and_a_title_of_two_lines_is() -> None:
    abstract = [Line("All of this abstract is large.", 12, 600 - 14 * at) for at in range(4)]
    assert headings_in(*abstract, *SMALL_PRINT, *SMALL_PRINT) == []
    title = [Line("A long title of", 12, 600), Line("two lines", 12, 586)]
    assert headings_in(*title, *SMALL_PRINT) == ["A long title of", "two lines"]


def test_the_rest_of_a_sentence_is_no_heading() -> None:
    lines = [Line("and so it ends", 12, 600), Line(", Ada", 12, 500)]
    assert headings_in(*lines, *SMALL_PRINT) == []


def test_a_heading_at_the_head_of_a_column_stands_under_nothing() -> None:
    left = [Line("Words of the text itself.", 7.5, 120 - 10 * at) for at in range(3)]
    right = [Line("Methods", 10, 700, left=320.0), Line("Words.", 7.5, 685, left=320.0)]
    assert headings_in(*left, *right, *SMALL_PRINT) == ["Methods"]
