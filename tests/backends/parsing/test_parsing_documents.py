"""PDF and office files, real ones and hostile ones, read in a worker process."""

from __future__ import annotations

import datetime
import re
import sys
import zipfile
import zlib

import pytest

pytest.importorskip("pypdfium2")
pytest.importorskip("docx")
pytest.importorskip("pptx")
pytest.importorskip("openpyxl")
pytest.importorskip("reportlab")

from support.document_files import (
    WORD,
    make_docx,
    make_pdf,
    make_pptx,
    make_xlsx,
    raw_pdf,
    repacked,
    zipped,
)
from triptych import deadline
from triptych.chunking import default_chunkers
from triptych.errors import CancelledError, NotAvailableError, ParseError
from triptych.installation import install_command
from triptych.parsing import ParsedFile, ParseLimits
from triptych_parsers import default_parser
from triptych_parsers.worker import run_isolated

TIGHT = ParseLimits(seconds=20, memory=512 << 20)


def read(name: str, data: bytes, limits: ParseLimits = TIGHT) -> ParsedFile:
    return default_parser(limits=limits).parse(name, data)


def places(parsed: ParsedFile) -> list[tuple[str, str]]:
    return [
        (each.label, parsed.content[each.start : each.end].split("\n")[0])
        for each in parsed.locators
    ]


# PDF


def test_the_pages_of_a_pdf_are_its_places_and_its_bookmarks_headings() -> None:
    data = make_pdf(
        [["Intro", "Some words.", "Usage ........... 2"], ["Usage", "# More words.", "End"]],
        title="The  manual",
        marks=True,
    )
    parsed = read("a.pdf", data)
    assert parsed.content == "# Intro\n\nSome words.\n\n# Usage\n\n\\# More words.\nEnd\n"
    assert places(parsed) == [("page 1", "# Intro"), ("page 2", "# Usage")]
    assert parsed.metadata["title"] == "The manual"
    assert parsed.metadata["kind"] == "markdown"
    assert parsed.parser_sig == "pdf/7"
    chunks = (
        default_chunkers()
        .for_document("a.pdf", parsed.metadata, parsed.outline)
        .chunk(parsed.content)
    )
    assert [(each.heading_path, each.locator) for each in chunks] == [
        (("Intro",), "page 1"),
        (("Usage",), "page 2"),
    ]


def test_headers_and_page_numbers_are_dropped_but_for_the_first() -> None:
    data = make_pdf([["The Book", f"Text of {at}.", f"Page {at} of 5"] for at in range(1, 6)])
    parsed = read("a.pdf", data)
    assert (
        parsed.content
        == "The Book\nText of 1.\n\n" + "\n\n".join(f"Text of {at}." for at in range(2, 6)) + "\n"
    )
    assert places(parsed)[4] == ("page 5", "Text of 5.")
    assert "kind" not in parsed.metadata


def test_pages_of_one_line_each_keep_it() -> None:
    parsed = read("a.pdf", make_pdf([[f"Rule number {at}."] for at in range(1, 6)]))
    assert places(parsed) == [(f"page {at}", f"Rule number {at}.") for at in range(1, 6)]


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("untitled", False),
        ("Untitled document (2)", False),
        ("Microsoft Word - report.doc", False),
        ("(anonymous)", False),
        ("Untitled verses", True),
        ("Microsoft Word in schools", True),
    ],
)
def test_a_title_that_a_program_gave_is_none(title: str, kept: bool) -> None:
    assert ("title" in read("a.pdf", make_pdf([["Text."]], title=title)).metadata) is kept


def test_a_pdf_is_known_by_its_first_bytes() -> None:
    assert read("download", make_pdf([["Words"]])).content == "Words\n"


def test_an_encrypted_pdf_is_refused() -> None:
    with pytest.raises(ParseError, match=r"'a\.pdf' is encrypted"):
        read("a.pdf", make_pdf([["Words"]], password="secret"))


@pytest.mark.parametrize("data", [b"", b"hello", b"%PDF-1.7\n" + b"\x00" * 5000])
def test_what_is_no_pdf_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError, match=r"'a\.pdf' is (not a|a damaged) PDF"):
        read("a.pdf", data)


def test_a_truncated_pdf_is_refused() -> None:
    data = make_pdf([["Words"]])
    with pytest.raises(ParseError, match="damaged"):
        read("a.pdf", data[: len(data) // 2])


PAGES = (
    b"<</Type/Catalog/Pages 2 0 R>>",
    b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
)


def test_a_pdf_that_unpacks_to_more_than_memory_ends_its_worker_alone() -> None:
    packed = zlib.compress(zlib.compress(b"q " * 150_000_000, 1), 9)
    stream = b"<</Length %d/Filter[/FlateDecode/FlateDecode]>>stream\n%b\nendstream"
    with pytest.raises(ParseError, match="memory"):
        read(
            "a.pdf",
            raw_pdf(*PAGES, stream % (len(packed), packed)),
            ParseLimits(seconds=20, memory=300 << 20),
        )


def test_a_pdf_whose_pages_hold_themselves_is_refused() -> None:
    loop = b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2000000000>>"
    with pytest.raises(ParseError, match="damaged"):
        read("a.pdf", raw_pdf(PAGES[0], loop))


# Office


def test_a_word_document_becomes_markdown() -> None:
    parsed = read("a.docx", make_docx())
    assert parsed.content == (
        "# Guide\n\nLimits ............ 3\n\n\\# Some text\n\n## Limits\n\n- one\n  - two\n"
        "1. first\n\n"
        "| a | b\\|c |\n| --- | --- |\n| 1 |  |\n"
    )
    assert places(parsed)[2] == ("paragraph 3", "\\# Some text")
    assert places(parsed)[-1] == ("paragraph 8", "| a | b\\|c |")
    assert parsed.metadata["title"] == "The guide"


def test_the_pages_that_word_has_laid_out_are_places() -> None:
    brk = "<w:r><w:lastRenderedPageBreak/></w:r>"
    body = (
        "<w:p><w:r><w:t>one</w:t></w:r></w:p>"
        f"<w:p>{brk}<w:r><w:t>two</w:t></w:r></w:p>"
        f"<w:p><w:r><w:t>three</w:t></w:r>{brk}<w:r><w:t> and on</w:t></w:r></w:p>"
        "<w:p><w:r><w:t>four</w:t></w:r></w:p>"
    )
    text = f"<w:document {WORD}><w:body>{body}</w:body></w:document>"
    parsed = read("a.docx", repacked(make_docx(), "word/document.xml", text))
    assert places(parsed) == [
        ("page 1", "one"),
        ("page 2", "two"),
        ("page 2", "three and on"),
        ("page 3", "four"),
    ]


def test_the_slides_of_a_presentation_are_its_places() -> None:
    parsed = read("a.pptx", make_pptx())
    assert parsed.content == (
        "# Topic 1\n\n- alpha\n- beta\n\n# Topic 2\n\n- alpha\n- beta\n\n"
        "| k | v |\n| --- | --- |\n| speed | 9 |\n\nNotes: Say this.\n"
    )
    assert places(parsed) == [("slide 1", "# Topic 1"), ("slide 2", "# Topic 2")]


def test_the_rows_of_a_workbook_are_its_places() -> None:
    data = make_xlsx(
        {
            "Prices": [
                ["Item", "Price", "When"],
                ["Nut", 3.0, datetime.datetime(2026, 1, 2)],
                [],
                ["Bolt", 4.5, True],
            ],
            "Empty": [],
            "B": [[1, 2]],
        }
    )
    parsed = read("a.xlsx", data)
    assert parsed.content == (
        "# Prices\n\nItem: Nut\nPrice: 3\nWhen: 2026-01-02\n\nItem: Bolt\nPrice: 4.5\nWhen: TRUE\n"
        "\n# B\n\nA: 1\nB: 2\n"
    )
    assert places(parsed) == [
        ("sheet Prices, row 2", "Item: Nut"),
        ("sheet Prices, row 4", "Item: Bolt"),
        ("sheet B, row 1", "A: 1"),
    ]


def test_an_office_file_is_known_by_what_it_holds() -> None:
    assert read("download", make_docx()).parser_sig == "docx/3"
    assert read("download", make_xlsx({"A": [[1]]})).parser_sig == "xlsx/2"


LAUGHS = "".join(f'<!ENTITY a{at} "{f"&a{at - 1};" * 10 if at else "lol"}">' for at in range(10))
BOMB = f"<!DOCTYPE d [{LAUGHS}]><w:document {WORD}><w:body>&a9;</w:body></w:document>"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_bomb_of_entities_is_refused(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>{BOMB}'.encode(encoding)
    with pytest.raises(ParseError, match="document type"):
        read("a.docx", repacked(make_docx(), "word/document.xml", text))


def test_a_zip_bomb_is_refused() -> None:
    with pytest.raises(ParseError, match="zip bomb"):
        read("a.docx", zipped({"word/document.xml": b"0" * 50_000_000}))
    some = zipped({f"{at}": bytes([at]) * 900_000 for at in range(9)})
    with pytest.raises(ParseError, match="max_unpacked"):
        read("a.docx", some, ParseLimits(max_unpacked=8_000_000))
    with pytest.raises(ParseError, match="11 files"):
        read("a.pptx", zipped({f"{at}": b"" for at in range(11)}), ParseLimits(max_members=10))


def test_xml_that_nests_too_deep_is_refused() -> None:
    deep = "<w:tbl><w:tr><w:tc>" * 5000 + "</w:tc></w:tr></w:tbl>" * 5000
    text = f"<w:document {WORD}><w:body>{deep}</w:body></w:document>"
    with pytest.raises(ParseError, match="nests too deep"):
        read("a.docx", repacked(make_docx(), "word/document.xml", text))


def test_a_sheet_that_claims_the_furthest_cells_is_read_in_bounds() -> None:
    rows = (
        '<row r="1"><c r="A1"><v>1</v></c></row>'
        '<row r="1000000000000"><c r="XFD1000000000000"><v>2</v></c></row>'
    )
    text = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<dimension ref="A1:XFD1048576"/><sheetData>{rows}</sheetData></worksheet>'
    )
    data = repacked(make_xlsx({"A": [[1]]}), "xl/worksheets/sheet1.xml", text)
    assert read("a.xlsx", data).content == "# A\n\nA: 1\n"


def table_of(rows: str) -> bytes:
    text = f"<w:document {WORD}><w:body><w:tbl>{rows}</w:tbl></w:body></w:document>"
    return repacked(make_docx(), "word/document.xml", text)


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"


def test_a_cell_merged_over_very_many_rows_stands_in_each() -> None:
    begins, goes_on = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    rows = f"<w:tr>{cell('Region', begins)}{cell('0')}</w:tr>" + "".join(
        f"<w:tr>{cell('', goes_on)}{cell(str(number))}</w:tr>" for number in range(1, 1500)
    )
    lines = read("a.docx", table_of(rows)).content.splitlines()
    assert lines[:3] == ["| Region | 0 |", "| --- | --- |", "| Region | 1 |"]
    assert lines[-1] == "| Region | 1499 |"
    wide = '<w:gridSpan w:val="2"/>'
    two = f"<w:tr>{cell('A', wide + begins)}{cell('B', begins)}</w:tr>"
    assert (
        read(
            "a.docx",
            table_of(f"{two}<w:tr>{cell('', wide + goes_on)}{cell('', goes_on)}</w:tr>"),
        ).content
        == "| A | B |\n| --- | --- |\n| A | B |\n"
    )


def test_a_cell_that_says_it_is_endlessly_wide_is_one_cell() -> None:
    wide = '<w:gridSpan w:val="2000000000"/>'
    parsed = read("a.docx", table_of(f"<w:tr>{cell('A', wide)}{cell('B')}</w:tr>"))
    assert parsed.content == "| A | B |\n"


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_what_is_no_office_file_is_refused(name: str) -> None:
    with pytest.raises(ParseError, match="encrypted"):
        read(name, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"0" * 500)
    with pytest.raises(ParseError, match="damaged"):
        read(name, b"hello")
    with pytest.raises(ParseError, match="damaged"):
        read(name, make_docx()[:3000] if name == "a.docx" else zipped({"a": b"b"}))


def test_an_archive_with_a_password_is_refused() -> None:
    data = bytearray(zipped({"word/document.xml": b"x"}))
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 8] |= 1  # the flag of encryption, in the directory
    with pytest.raises(ParseError, match="encrypted"):
        read("a.docx", bytes(data))
    assert zipfile.is_zipfile(__import__("io").BytesIO(data))


# The worker


def run(job: str, limits: ParseLimits = TIGHT) -> ParsedFile:
    job = f"support.worker_jobs:{job}"
    return run_isolated(job, "a.x", b"data", limits, signature="x/1", extra="pdf")


def test_a_worker_that_hangs_is_ended() -> None:
    with pytest.raises(ParseError, match=r"'a\.x' could not be read in 1 seconds"):
        run("sleep", ParseLimits(seconds=1))


def test_a_worker_ends_with_the_deadline_of_its_caller() -> None:
    with deadline(1), pytest.raises(CancelledError):
        run("sleep")


def test_a_worker_that_dies_takes_nobody_along() -> None:
    with pytest.raises(ParseError, match=r"'a\.x' ended its reader"):
        run("crash")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")
def test_a_worker_that_hoards_is_stopped() -> None:
    with pytest.raises(ParseError, match="memory"):
        run("hoard", ParseLimits(seconds=20, memory=200 << 20))


def test_what_a_library_prints_is_no_answer() -> None:
    assert run("chatter").content == ""


def test_a_library_that_is_missing_is_reported_with_its_extra() -> None:
    with pytest.raises(
        NotAvailableError, match="a_library_that.*" + re.escape(install_command(extra="pdf"))
    ):
        run("missing")
