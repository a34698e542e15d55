"""Word, PowerPoint and Excel: every word that a person sees is in the text, or named."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support.document_files import WORD, make_docx, make_pptx, make_xlsx, repacked, zipped
from support.examples import examples
from support.rows import each_row
from triptych.chunking import default_chunkers
from triptych.errors import ParseError
from triptych.parsing import ParsedFile, ParseLimits
from triptych_parsers import default_parser

for library in ("docx", "pptx", "openpyxl"):
    pytest.importorskip(library)

OFFICE = "http://schemas.openxmlformats.org"
SPACES = (
    f'{WORD} xmlns:m="{OFFICE}/officeDocument/2006/math" xmlns:a="{OFFICE}/drawingml/2006/main" '
    f'xmlns:r="{OFFICE}/officeDocument/2006/relationships" xmlns:v="urn:schemas-microsoft-com:vml" '
    f'xmlns:mc="{OFFICE}/markup-compatibility/2006" xmlns:c="{OFFICE}/drawingml/2006/chart" '
    f'xmlns:p="{OFFICE}/presentationml/2006/main" xmlns:dgm="{OFFICE}/drawingml/2006/diagram"'
)


def read(name: str, data: bytes) -> ParsedFile:
    return default_parser(limits=ParseLimits(seconds=20, memory=512 << 20)).parse(name, data)


def package(main: str, root: str, parts: Mapping[str, tuple[str, str]] | None = None) -> bytes:
    """A package of the main part at the path ``main``, and ``parts``: by path, their kind and XML.

    The id of each part is its name without the ending.
    """
    relation = '<Relationship Id="{}" Type="http://x/{}" Target="/{}"/>'

    def relations(pairs: Mapping[str, str]) -> str:
        each = (
            relation.format(path.rpartition("/")[2].partition(".")[0], kind, path)
            for path, kind in pairs.items()
        )
        space = f"{OFFICE}/package/2006/relationships"
        return f'<Relationships xmlns="{space}">{"".join(each)}</Relationships>'

    folder, _, name = main.rpartition("/")
    kinds = {path: kind for path, (kind, _) in (parts or {}).items() if not path.endswith(".rels")}
    return zipped(
        {
            "_rels/.rels": relations({main: "officeDocument"}),
            f"{folder}/_rels/{name}.rels": relations(kinds),
            main: root,
            **{path: text for path, (_, text) in (parts or {}).items()},
        }
    )


def word(body: str, **parts: tuple[str, str]) -> ParsedFile:
    root = f"<w:document {SPACES}><w:body>{body}</w:body></w:document>"
    named = {f"word/{name}.xml": part for name, part in parts.items()}
    return read("a.docx", package("word/document.xml", root, named))


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def para(inner: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{inner}</w:p>"


def part(root: str, inner: str) -> str:
    return f"<{root} {SPACES}>{inner}</{root}>"


# Word


@each_row(
    "inner",
    [
        "<w:ins>{}</w:ins>",
        "<w:moveTo>{}</w:moveTo>",
        "<w:sdt><w:sdtPr/><w:sdtContent>{}</w:sdtContent></w:sdt>",
        "<w:hyperlink>{}</w:hyperlink>",
        '<w:fldSimple w:instr="MERGEFIELD name">{}</w:fldSimple>',
        "<w:smartTag>{}</w:smartTag>",
        "<w:customXml>{}</w:customXml>",
        "<w:somethingOfTheFuture>{}</w:somethingOfTheFuture>",
    ],
)
def test_text_in_a_sentence_counts_whatever_it_stands_in(inner: str) -> None:
    parsed = word(para(run("The ") + inner.format(run("blue quokka")) + run(" sleeps.")))
    assert parsed.content == "The blue quokka sleeps.\n"
    assert not parsed.omissions


@each_row("tag", ["w:sdt><w:sdtContent", "w:customXml", "w:ins", "w:future"])
def test_paragraphs_and_tables_count_whatever_they_stand_in(tag: str) -> None:
    end = "".join(f"</{each}>" for each in reversed(tag.split("><")))
    cell = f"<{tag}><w:tc>{para(run('one'))}</w:tc>{end}<w:tc>{para(run('two'))}</w:tc>"
    table = f"<{tag}><w:tbl><{tag}><w:tr>{cell}</w:tr>{end}</w:tbl>{end}"
    parsed = word(f"<{tag}>{para(run('before'))}{end}{table}")
    assert parsed.content == "before\n\n| one | two |\n"


def test_what_was_deleted_or_moved_away_is_not_shown() -> None:
    gone = "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:moveFrom>{}</w:moveFrom>"
    row = f"<w:tr><w:trPr><w:del/></w:trPr><w:tc>{para(run('row'))}</w:tc></w:tr>"
    kept = f"<w:tr><w:tc>{para(run('a'))}</w:tc><w:tc>{para(run('b'))}</w:tc></w:tr>"
    parsed = word(
        para(run("It ") + gone.format(run("away")) + run("stays.")) + f"<w:tbl>{row}{kept}</w:tbl>"
    )
    assert parsed.content == "It stays.\n\n| a | b |\n"
    assert not parsed.omissions


def test_the_readings_of_characters_do_not_stand_between_them() -> None:
    ruby = "<w:r><w:ruby><w:rt>{1}</w:rt><w:rubyBase>{0}</w:rubyBase></w:ruby></w:r>"
    pairs = (("東", "とう"), ("京", "きょう"))
    both = "".join(ruby.format(run(base), run(reading)) for base, reading in pairs)
    assert word(para(both + run("へ行く"))).content == "東京へ行く (とうきょう)\n"


def test_a_formula_is_part_of_its_sentence() -> None:
    fraction = (
        "<m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f>"
    )
    parsed = word(para(run("If ") + f"<m:oMath>{fraction}</m:oMath>" + run(" is one.")))
    assert parsed.content == "If a/b is one.\n"
    alone = f"<m:oMathPara><m:oMath>{fraction}</m:oMath></m:oMathPara>"
    assert word(alone).content == "a/b\n"


def test_a_text_box_that_is_written_twice_stands_once() -> None:
    box = f"<w:txbxContent>{para(run('boxed words'))}</w:txbxContent>"
    both = (
        f"<w:r><mc:AlternateContent><mc:Choice><w:drawing>{box}</w:drawing></mc:Choice><mc:Fallback>"
        f"<w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    parsed = word(para(run("Beside.") + both) + para(run("After.")))
    assert parsed.content == "Beside.\n\nboxed words\n\nAfter.\n"
    assert [each.number for each in parsed.locators] == [1, 1, 2]
    old = f"<w:r><w:pict><v:textbox>{box}</v:textbox><v:textpath string='DRAFT'/></w:pict></w:r>"
    assert word(para(old)).content == "boxed words\n\nDRAFT\n"


def test_a_table_in_a_cell_is_read_and_a_frame_of_one_cell_is_none() -> None:
    inner = f"<w:tbl><w:tr><w:tc>{para(run('deep'))}</w:tc></w:tr></w:tbl>"
    two = f"<w:tr><w:tc>{para(run('a'))}{inner}</w:tc><w:tc>{para(run('b'))}</w:tc></w:tr>"
    assert word(f"<w:tbl>{two}</w:tbl>").content == "| a deep | b |\n"
    title = para(run("Title"), '<w:outlineLvl w:val="1"/>')
    frame = f"<w:tbl><w:tr><w:tc>{title}{inner}</w:tc></w:tr></w:tbl>"
    assert word(frame).content == "## Title\n\ndeep\n"


def test_a_cell_over_columns_leaves_the_next_ones_in_their_place() -> None:
    grid = "<w:tblGrid><w:gridCol/><w:gridCol/><w:gridCol/></w:tblGrid>"
    wide = f'<w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{para(run("wide"))}</w:tc>'
    cells = [f"<w:tc>{para(run(each))}</w:tc>" for each in "abcd"]
    rows = f"<w:tr>{''.join(cells[:3])}</w:tr><w:tr>{wide}{cells[3]}</w:tr>"
    content = word(f"<w:tbl>{grid}{rows}</w:tbl>").content
    assert content == "| a | b | c |\n| --- | --- | --- |\n| wide |  | d |\n"


def test_notes_and_comments_follow_the_paragraph_that_refers_to_them() -> None:
    refers = '<w:r><w:{}Reference w:id="7"/></w:r>'
    note = f'<w:{{0}} w:id="7" {{1}}>{para(run("the {0}"))}</w:{{0}}>'
    parsed = word(
        para(run("One.") + refers.format("footnote") + refers.format("endnote"))
        + para(run("Two.") + refers.format("comment")),
        footnotes=("footnotes", part("w:footnotes", note.format("footnote", ""))),
        endnotes=("endnotes", part("w:endnotes", note.format("endnote", ""))),
        comments=("comments", part("w:comments", note.format("comment", 'w:author="Ann"'))),
    )
    assert parsed.content == (
        "One.\n\nFootnote 1: the footnote\n\nEndnote 1: the endnote\n\nTwo.\n\n"
        "Comment by Ann: the comment\n"
    )
    assert [each.label for each in parsed.locators] == ["paragraph 1"] * 3 + ["paragraph 2"] * 2


def test_a_page_header_stands_once_before_the_text_if_it_says_more() -> None:
    section = (
        '<w:sectPr><w:headerReference r:id="head"/><w:footerReference r:id="foot"/></w:sectPr>'
    )
    field = (
        '<w:r><w:instrText> PAGE </w:instrText></w:r>{}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    parsed = word(
        para(run("A contract about pumps."), section) + section,
        head=("header", part("w:hdr", para(run("Contract 2041-B")) + para(run("pumps")))),
        foot=("footer", part("w:ftr", para(run("Page ") + field.format(run("12"))))),
    )
    assert parsed.content == "Page header: Contract 2041-B\n\nA contract about pumps.\n"


def test_headings_are_known_by_the_style_they_are_based_on_and_by_their_outline() -> None:
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{key}"><w:name w:val="{name}"/>'
        f'<w:basedOn w:val="{base}"/><w:pPr>{level}</w:pPr></w:style>'
        for key, name, base, level in (
            ("H1", "heading 1", "Loop", ""),
            ("Mine", "Chapter of mine", "H1", ""),
            ("Berschrift2", "Überschrift 2", "", ""),
            ("Own", "Own level", "", '<w:outlineLvl w:val="2"/>'),
            ("Plain", "Plain again", "H1", '<w:outlineLvl w:val="9"/>'),
            ("Loop", "A loop", "Loop", ""),
            ("TOC1", "toc 1", "", ""),
        )
    )
    marks = [
        f'<w:pStyle w:val="{key}"/>' for key in ("Mine", "Berschrift2", "Own", "Plain", "Loop")
    ]
    marks += ['<w:pStyle w:val="TOC1"/>', '<w:outlineLvl w:val="3"/>']
    body = "".join(para(run(f"t{at}"), mark) for at, mark in enumerate(marks))
    parsed = word(body, styles=("styles", part("w:styles", styles)))
    assert parsed.content == "# t0\n\n## t1\n\n### t2\n\nt3\n\nt4\n\n#### t6\n"
    assert [str(each) for each in parsed.omissions] == [
        "table of contents: 1 word is not searched (left out)"
    ]


POINT = '<c:pt idx="0"><c:v>{}</c:v></c:pt>'
CHART = part(
    "c:chartSpace",
    "<c:chart><c:title><a:p><a:r><a:t>Ferry trips</a:t></a:r></a:p></c:title><c:plotArea><c:ser>"
    "<c:tx><c:v>North</c:v></c:tx><c:cat><c:strRef><c:strCache>"
    f"{POINT.format('May')}</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache>"
    f"<c:formatCode>0%</c:formatCode>{POINT.format('0.25')}</c:numCache></c:numRef></c:val>"
    "</c:ser></c:plotArea></c:chart>",
)
DIAGRAM = part(
    "dgm:dataModel", "<dgm:pt><dgm:t><a:p><a:r><a:t>Sort</a:t></a:r></a:p></dgm:t></dgm:pt>"
)
SHOWN = "Chart: Ferry trips, North\n\n|  | North |\n| --- | --- |\n| May | 25% |\n\n- Sort"


def test_charts_and_diagrams_in_a_document_are_read() -> None:
    drawing = '<w:r><w:drawing><c:chart r:id="c1"/><dgm:relIds r:dm="d1"/></w:drawing></w:r>'
    parsed = word(para(drawing), c1=("chart", CHART), d1=("diagramData", DIAGRAM))
    assert parsed.content == f"{SHOWN}\n"


@pytest.mark.parametrize(("name", "data"), [("a.docx", make_docx), ("a.pptx", make_pptx)])
def test_files_in_the_strict_namespaces_are_read(name: str, data: Any) -> None:
    assert read(name, strict(data())).content == read(name, data()).content


def strict(data: bytes) -> bytes:
    archive = zipfile.ZipFile(io.BytesIO(data))
    open_, closed = b"http://schemas.openxmlformats.org/%b/2006/", b"http://purl.oclc.org/ooxml/%b/"
    members = {}
    for each in archive.namelist():
        members[each] = archive.read(each)
        for family in (
            "wordprocessingml",
            "presentationml",
            "spreadsheetml",
            "drawingml",
            "officeDocument",
        ):
            members[each] = members[each].replace(open_ % family.encode(), closed % family.encode())
    assert members != {each: archive.read(each) for each in archive.namelist()}
    return zipped(members)


WRAPPERS = st.recursive(
    st.text("abcdefgh", min_size=1, max_size=6).map(run),
    lambda inner: st.builds(
        "<w:{0}>{1}</w:{0}>".format,
        st.sampled_from(("ins", "sdt", "sdtContent", "smartTag", "hyperlink", "dir", "new")),
        st.lists(inner, min_size=1, max_size=3).map("".join),
    ),
    max_leaves=6,
)


@given(st.lists(WRAPPERS, min_size=1, max_size=4))
@settings(max_examples=examples(25), deadline=None)
def test_all_runs_are_in_the_text_however_they_are_nested(wrapped: list[str]) -> None:
    from xml.etree import ElementTree

    root = f"<w:document {SPACES}><w:body>{para(''.join(wrapped))}</w:body></w:document>"
    parsed = read("a.docx", package("word/document.xml", root))
    shown = "".join(each for each in ElementTree.fromstring(root).itertext())
    assert parsed.content == f"{shown}\n"
    assert not parsed.omissions


# PowerPoint


def slides(*trees: str, **parts: tuple[str, str]) -> ParsedFile:
    """A deck of these shapes; the parts belong to each slide."""
    relation = '<Relationship Id="{0}" Type="http://x/{1}" Target="/ppt/{0}.xml"/>'
    rels = "".join(relation.format(name, kind) for name, (kind, _) in parts.items())
    rels = f'<Relationships xmlns="{OFFICE}/package/2006/relationships">{rels}</Relationships>'
    named = {}
    for at, tree in enumerate(trees, 1):
        text = part("p:sld", f"<p:cSld><p:spTree>{tree}</p:spTree></p:cSld>")
        named[f"ppt/slides/s{at}.xml"] = ("slide", text)
        named[f"ppt/slides/_rels/s{at}.xml.rels"] = ("none", rels)
    named |= {f"ppt/{name}.xml": ("none", text) for name, (_, text) in parts.items()}
    ids = "".join(f'<p:sldId id="{at}" r:id="s{at}"/>' for at in range(1, len(trees) + 1))
    root = part("p:presentation", f"<p:sldIdLst>{ids}</p:sldIdLst>")
    return read("a.pptx", package("ppt/presentation.xml", root, named))


def shape(text: str, kind: str = "") -> str:
    holder = f'<p:ph type="{kind}"/>' if kind else ""
    holder = f"<p:nvSpPr><p:nvPr>{holder}</p:nvPr></p:nvSpPr>"
    return f"<p:sp>{holder}<p:txBody><a:p>{text}</a:p></p:txBody></p:sp>"


def said(text: str) -> str:
    return f"<a:r><a:t>{text}</a:t></a:r>"


def test_a_slide_without_a_title_is_a_section_of_its_own() -> None:
    parsed = slides(shape(said("Ferry plan"), "title") + shape(said("one")), shape(said("two")), "")
    assert parsed.content == "# Ferry plan\n\none\n\n# Slide 2\n\ntwo\n"
    chunker = default_chunkers().for_document("a.pptx", parsed.metadata, parsed.outline)
    places = [(each.heading_path, each.locator) for each in chunker.chunk(parsed.content)]
    assert places == [(("Ferry plan",), "slide 1"), (("Slide 2",), "slide 2")]


def test_charts_diagrams_and_boxes_with_an_equation_are_read() -> None:
    frame = '<p:graphicFrame><c:chart r:id="c1"/></p:graphicFrame>'
    frame += '<p:grpSp><p:graphicFrame><dgm:relIds r:dm="d1"/></p:graphicFrame></p:grpSp>'
    math = said("area ") + "<m:oMath><m:r><m:t>x=1</m:t></m:r></m:oMath>"
    box = (
        f"<mc:AlternateContent><mc:Choice>{shape(math)}</mc:Choice>"
        f"<mc:Fallback>{shape(said('area  '))}</mc:Fallback></mc:AlternateContent>"
    )
    parsed = slides(frame + box, c1=("chart", CHART), d1=("diagramData", DIAGRAM))
    assert parsed.content == f"# Slide 1\n\n{SHOWN}\n\narea x=1\n"
    assert not parsed.omissions


def test_notes_and_comments_are_read_and_what_is_on_each_slide_is_named() -> None:
    tree = "<p:cSld><p:spTree>{}</p:spTree></p:cSld>"
    notes = tree.format(shape(said("Say this."), "body") + shape(said("Draft"), "hdr"))
    layout = tree.format(shape(said("Acme Ltd")) + shape(said("Click here"), "title"))
    number = '<a:fld type="slidenum"><a:t>1</a:t></a:fld>'
    parsed = slides(
        shape(said("Hello")) + shape(number, "sldNum"),
        notes=("notesSlide", part("p:notes", notes)),
        layout=("slideLayout", part("p:sldLayout", layout)),
        talk=("comments", part("p:cmLst", "<p:cm><p:text>Too short</p:text></p:cm>")),
    )
    assert parsed.content == "# Slide 1\n\nHello\n\nNotes: Say this.\n\nComment: Too short\n"
    assert [str(each) for each in parsed.omissions] == [
        "slide master: 2 words are not searched (the same on each slide)",
        "pages of notes: 1 word is not searched (page header or footer)",
    ]


def test_a_merged_cell_of_a_slide_stands_in_each_row() -> None:
    cells = "<a:tc{}><a:txBody><a:p>{}</a:p></a:txBody></a:tc>"
    rows = "".join(
        f"<a:tr>{cells.format(merge, said(text))}{cells.format('', said(other))}</a:tr>"
        for merge, text, other in ((' rowSpan="2"', "North", "a"), (' vMerge="1"', "", "b"))
    )
    parsed = slides(f"<p:graphicFrame><a:tbl>{rows}</a:tbl></p:graphicFrame>")
    assert parsed.content.endswith("| North | a |\n| --- | --- |\n| North | b |\n")


def test_a_damaged_part_is_named_and_the_others_are_read() -> None:
    parsed = slides(shape(said("Hello")), talk=("comments", "<broken"))
    assert "Hello" in parsed.content
    assert parsed.omissions[0].place == "ppt/talk.xml"
    assert "damaged" in parsed.omissions[0].reason


# Excel


NUMBERS = [
    ("0.125", "0.0%", "12.5%"),
    ("7", "00000", "00007"),
    ("2.5", "0", "3"),
    ("1234567.891", "#,##0.00", "1,234,567.89"),
    ("-5", "0;(0)", "(5)"),
    ("-5.25", "0.0", "-5.3"),
    ("0", '0.0;-0.0;"none"', "none"),
    ("1234.5", '_-* #,##0.00\\ "€"_-;-* #,##0.00', "1,234.50 €"),
    ("1234.5", "[$$-409]#,##0.00", "$1,234.50"),
    ("12345678", "0.0,,", "12.3"),
    ("5551234567", "(###) ###-####", "(555) 123-4567"),
    ("12000", "0.00E+00", "1.20E+04"),
    ("3", '0" kg"', "3 kg"),
    ("0.30000000000000004", "General", "0.3"),
    ("46024", "dd.mm.yyyy", "02.01.2026 (2026-01-02)"),
    ("46024", "d mmm yy", "2 Jan 26 (2026-01-02)"),
    ("46024", "yyyy-mm-dd h:mm:ss", "2026-01-02"),
    ("46024.5", "yyyy-mm-dd h:mm:ss", "2026-01-02 12:00:00"),
    ("0.5208333333", "h:mm", "12:30"),
    ("0.75", "h:mm AM/PM", "6:00 PM"),
    ("1.5", "[h]:mm", "36:00"),
    ("1", "yyyy-mm-dd", "1900-01-01"),
    ("-1", "yyyy", "-1"),  # a sheet shows #####
    ("5", ";;;", "5"),
    ("0.5", "# ?/?", "0.5"),
    ("5", "[>9]0.0;0.00", "5"),
    ("#REF!", "0", "#REF!"),
]


def test_numbers_and_dates_are_as_the_sheet_shows_them() -> None:
    shown = shown_of([(value, code) for value, code, _ in NUMBERS])
    assert shown == [each for *_, each in NUMBERS]


formats = st.text('0#?.,%;/@"\\_*[$€-]hmsdyAPE+ ', max_size=12)


@given(st.lists(st.tuples(st.floats(), formats), min_size=1, max_size=20))
@settings(max_examples=examples(20), deadline=None)
def test_any_number_in_any_format_is_shown_as_something(cells: list[tuple[float, str]]) -> None:
    shown = shown_of([(repr(value), code) for value, code in cells])
    assert len(shown) == len(cells)
    assert all(shown)


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20))
@settings(max_examples=examples(20), deadline=None)
def test_a_number_with_separators_is_that_number(values: list[int]) -> None:
    assert shown_of([(str(value), "#,##0") for value in values]) == [f"{n:,}" for n in values]


def shown_of(cells: Sequence[tuple[str, str]]) -> list[str]:
    """What the sheet of a workbook shows of these values, each in its number format."""

    def fill(sheet: Any) -> None:
        sheet.append(["V"])
        for row, (value, code) in enumerate(cells, start=2):
            cell = sheet.cell(row, 1, value)
            cell.data_type = "n"
            cell.number_format = code

    content = workbook(fill).content
    return [line.removeprefix("V: ") for line in content.splitlines() if line.startswith("V: ")]


def workbook(fill: Any) -> ParsedFile:
    openpyxl: Any = import_module("openpyxl")
    book = openpyxl.Workbook()
    fill(book.active)
    out = io.BytesIO()
    book.save(out)
    return read("a.xlsx", out.getvalue())


def test_a_formula_without_a_saved_value_is_shown_as_its_formula() -> None:
    def fill(sheet: Any) -> None:
        for row in (("Item", "Sum"), ("nuts", "=SUM(1,2)")):
            sheet.append(row)
        sheet["A2"].number_format = "0.0%"

    assert "Sum: =SUM(1,2)" in workbook(fill).content


def test_a_cell_merged_over_rows_stands_in_each_that_holds_anything() -> None:
    def fill(sheet: Any) -> None:
        rows = (
            ("Region", "City"),
            ("West", "Porto"),
            (None, "Braga"),
            (None, None),
            (None, "Faro"),
        )
        for row in rows:
            sheet.append(row)
        sheet.merge_cells("A2:A4")

    parsed = workbook(fill)
    west = "Region: West\nCity: Porto\n\nRegion: West\nCity: Braga\n"
    assert f"{west}\nCity: Faro\n" in parsed.content


def test_comments_and_the_titles_of_charts_follow_the_rows() -> None:
    openpyxl: Any = import_module("openpyxl")
    charts: Any = import_module("openpyxl.chart")

    def fill(sheet: Any) -> None:
        for row in (("Item", "Count"), ("figs", 12)):
            sheet.append(row)
        sheet["B2"].comment = openpyxl.comments.Comment("counted twice", "Ann")
        chart = charts.BarChart()
        chart.title = "Crates by shelf"
        chart.add_data(charts.Reference(sheet, min_col=2, min_row=2))
        sheet.add_chart(chart, "D9")
        sheet.oddHeader.center.text = "Stock of Monday"
        sheet.oddFooter.center.text = "Page &P of &N"

    parsed = workbook(fill)
    assert [each.label for each in parsed.locators[-2:]] == [
        "sheet Sheet, row 9",
        "sheet Sheet, row 2",
    ]
    assert parsed.content.endswith(
        "Count: 12\n\nChart: Crates by shelf\n\nComment on B2: counted twice\n"
    )
    assert [str(each) for each in parsed.omissions] == [
        "sheet Sheet: 3 words are not searched (page header)"
    ]


def test_a_workbook_in_the_strict_namespaces_is_read() -> None:
    data = make_xlsx({"A": [["Item", "Count"], ["figs", 12]]})
    assert read("a.xlsx", strict(data)).content == "# A\n\nItem: figs\nCount: 12\n"


def test_a_sheet_with_very_many_merged_columns_is_read_in_bounds() -> None:
    merges = "".join(f'<mergeCell ref="A{at}:A1048576"/>' for at in range(1, 20_000))
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rows = "".join(f'<row r="{at}"><c r="A{at}"><v>{at}</v></c></row>' for at in range(1, 3000))
    text = f"<sheetData>{rows}</sheetData><mergeCells>{merges}</mergeCells>"
    text = f'<worksheet xmlns="{space}">{text}</worksheet>'
    data = repacked(make_xlsx({"A": [[1]]}), "xl/worksheets/sheet1.xml", text)
    assert read("a.xlsx", data).content.count("A: ") == 2999


def test_a_package_without_its_main_part_is_refused() -> None:
    with pytest.raises(ParseError, match="no main part"):
        read("a.docx", zipped({"_rels/.rels": "<Relationships/>"}))
