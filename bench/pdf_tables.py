"""What readers of PDF make of tables, headings and order: `python bench/pdf_tables.py`.

Makes a dozen files of several kinds with the makers that are installed (reportlab; fpdf2 and
matplotlib where they are) and reads them with Triptych, with PDFium's plain text, and with
pdf-oxide and pdfplumber where they are installed. ``--files`` names more, which are only timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

PROSE = "Kettles boil water by heating a plate under a vessel. A good kettle does so in a minute. "
PRICES = [
    ["Item", "Quantity", "Unit price", "Total"],
    ["Kettle, steel", "2", "35.00", "70.00"],
    ["Descaler", "10", "1.20", "12.00"],
    ["Sum", "", "", "82.00"],
]


class Case(NamedTuple):
    """A file, its tables' rows, its headings, and phrases in the order in which they are read."""

    name: str
    data: bytes
    rows: list[list[str]]
    headings: list[str]
    order: list[str]


def cases() -> Iterator[Case]:
    """The files."""
    platypus: Any = import_module("reportlab.platypus")
    styles = import_module("reportlab.lib.styles").getSampleStyleSheet()
    sizes: Any = import_module("reportlab.lib.pagesizes")
    grid = [("GRID", (0, 0), (-1, -1), 0.5, "black")]

    def text(words: str, style: str = "Normal") -> Any:
        return platypus.Paragraph(words, styles[style])

    def table(rows: list[list[str]], style: Any = (), **options: Any) -> Any:
        return platypus.Table([list(row) for row in rows], style=style, **options)

    def made(*story: Any, **options: Any) -> bytes:
        out = io.BytesIO()
        platypus.SimpleDocTemplate(out, **options).build(list(story))
        return out.getvalue()

    invoice = (text("Invoice 17", "Title"), text("To: Ada"), table(PRICES, grid), text("Payable"))
    yield Case(
        "invoice, ruled", made(*invoice), PRICES, ["Invoice 17"], ["Invoice", "Ada", "Item", "Pay"]
    )
    priced = (text("Prices", "Heading1"), text(PROSE), table(PRICES, colWidths=[150, 80, 80, 80]))
    yield Case(
        "price list, no rules",
        made(*priced, text("Without tax.")),
        PRICES,
        ["Prices"],
        ["Prices", "Kettles boil", "Item", "Without"],
    )
    rules = [
        ("LINEABOVE", (0, 0), (-1, 0), 1, "black"),
        ("LINEBELOW", (0, -1), (-1, -1), 1, "black"),
    ]
    yield Case(
        "table, three rules",
        made(text(PROSE), table(PRICES, rules), text("After")),
        PRICES,
        [],
        ["Kettles boil", "Item", "After"],
    )
    spans = [*grid, ("SPAN", (0, 0), (1, 0)), ("SPAN", (0, 1), (0, 2))]
    merged = [["All trains", "", "Fare"], ["ICE", "08:15", "29"], ["", "09:15", "39"]]
    yield Case("merged cells", made(table(merged, spans)), merged, [], ["All trains", "ICE"])
    years = [["Year", "Kettles"], *([str(1950 + at), f"{at}.5"] for at in range(70))]
    yield Case(
        "table over two pages",
        made(text("Years", "Heading1"), table(years, grid, repeatRows=1)),
        years,
        ["Years"],
        ["1950", "2019"],
    )
    story, wanted, order = [], [], []
    for at in range(1, 7):
        story += [text(f"{at} Chapter {at}", "Heading1"), text(PROSE * 8)]
        story += [text(f"{at}.1 Sizes", "Heading2"), table(PRICES, grid), text(PROSE * 8)]
        wanted += [f"{at} Chapter {at}", f"{at}.1 Sizes"]
        order += wanted[-2:]
    yield Case("report", made(*story), PRICES, wanted, order)
    yield Case(
        "paper, two columns",
        _paper(text, table, grid),
        PRICES,
        ["1 Method", "2 Results"],
        ["1 Method", "Item", "2 Results", "The end"],
    )
    slides = [
        part
        for at in range(1, 5)
        for part in (text(f"Slide {at}", "Title"), text(PROSE * 2), platypus.PageBreak())
    ]
    yield Case(
        "slides",
        made(*slides, pagesize=sizes.landscape(sizes.A4)),
        [],
        [f"Slide {at}" for at in range(1, 5)],
        [f"Slide {at}" for at in range(1, 5)],
    )
    yield Case("form", _form(), [], [], ["Name:", "Ada Lovelace"])
    yield Case("Chinese", _chinese(), [], ["水壶使用说明"], ["水壶", "沸腾"])
    if importlib.util.find_spec("fpdf"):
        rows = [
            ["Train", "Leaves"],
            ["ICE 71", "08:15"],
            ["RE 5 " + "stops everywhere " * 6, "09:00"],
        ]
        rows[2][0] = rows[2][0].strip()
        yield Case(
            "timetable, fpdf2", _fpdf(rows), rows, ["Timetable"], ["Timetable", "Train", "RE 5"]
        )
    if importlib.util.find_spec("matplotlib"):
        rows = [["Kettle", "Cups"], ["A", "1"], ["B", "2"]]
        yield Case("table, matplotlib", _figure(rows), rows, [], [])


def _paper(text: Callable[..., Any], table: Callable[..., Any], grid: Any) -> bytes:
    platypus: Any = import_module("reportlab.platypus")
    out = io.BytesIO()
    frames = [platypus.Frame(left, 40, 250, 760) for left in (40, 310)]
    document = platypus.BaseDocTemplate(out)
    document.addPageTemplates(platypus.PageTemplate(frames=frames))
    document.build(
        [
            text("1 Method", "Heading2"),
            text(PROSE * 20),
            table(PRICES, grid),
            text(PROSE * 10),
            text("2 Results", "Heading2"),
            text(PROSE * 20),
            text("The end"),
        ]
    )
    return out.getvalue()


def _form() -> bytes:
    out = io.BytesIO()
    canvas = import_module("reportlab.pdfgen.canvas").Canvas(out)
    canvas.drawString(72, 740, "Name:")
    canvas.acroForm.textfield(name="n", x=150, y=732, width=200, height=18, value="Ada Lovelace")
    canvas.save()
    return out.getvalue()


def _chinese() -> bytes:
    fonts: Any = import_module("reportlab.pdfbase.pdfmetrics")
    fonts.registerFont(import_module("reportlab.pdfbase.cidfonts").UnicodeCIDFont("STSong-Light"))
    out = io.BytesIO()
    canvas = import_module("reportlab.pdfgen.canvas").Canvas(out)
    for at, (size, line) in enumerate(
        [
            (20, "水壶使用说明"),
            (11, "加水至刻度线,然后按下开关。"),
            (11, "水沸腾后自动断电,请小心倒水。"),
        ]
    ):
        canvas.setFont("STSong-Light", size)
        canvas.drawString(72, 770 - 30 * at, line)
    canvas.save()
    return out.getvalue()


def _fpdf(rows: list[list[str]]) -> bytes:
    document = import_module("fpdf").FPDF()
    document.add_page()
    document.set_font("Helvetica", "B", 18)
    document.cell(0, 12, "Timetable", new_x="LMARGIN", new_y="NEXT")
    document.set_font("Helvetica", size=11)
    document.multi_cell(0, 6, PROSE * 3)
    with document.table(col_widths=(70, 30)) as drawn:
        for row in rows:
            line = drawn.row()
            for cell in row:
                line.cell(cell)
    return bytes(document.output())


def _figure(rows: list[list[str]]) -> bytes:
    figures: Any = import_module("matplotlib.figure")
    figure = figures.Figure()
    axes = figure.subplots()
    axes.axis("off")
    axes.table(cellText=rows[1:], colLabels=rows[0], loc="center")
    out = io.BytesIO()
    figure.savefig(out, format="pdf")
    return out.getvalue()


def readers() -> Iterator[tuple[str, Callable[[bytes], str]]]:
    """Each reader's name and what it makes of a file."""
    from triptych.parsing.contract import ContentBuilder, ParseLimits
    from triptych_parsers.pdf import read_pdf
    from triptych_parsers.worker import Reading

    def triptych(data: bytes) -> str:
        reading = Reading("a.pdf", data, ParseLimits(), ContentBuilder("a.pdf", 1 << 24))
        read_pdf(reading)
        return reading.builder.content

    def plain(data: bytes) -> str:
        pages = import_module("pypdfium2").PdfDocument(data)
        return "\n".join(page.get_textpage().get_text_range() for page in pages)

    def oxide(data: bytes) -> str:
        document = import_module("pdf_oxide").PdfDocument.from_bytes(data)
        return "\n".join(document.to_markdown(at) for at in range(document.page_count()))

    def plumber(data: bytes) -> str:
        shown = []
        with import_module("pdfplumber").open(io.BytesIO(data)) as document:
            for page in document.pages:
                shown.append(page.extract_text() or "")
                for rows in page.extract_tables():
                    shown += [
                        f"| {' | '.join(' '.join((c or '').split()) for c in row)} |"
                        for row in rows
                    ]
        return "\n".join(shown)

    yield "Triptych", triptych
    yield "plain PDFium", plain
    if importlib.util.find_spec("pdf_oxide"):
        yield "pdf-oxide", oxide
    if importlib.util.find_spec("pdfplumber"):
        yield "pdfplumber", plumber


def rows_found(case: Case, shown: str) -> int:
    """How many of the case's rows stand as a row of a Markdown table, cell for cell."""
    lines = {
        tuple(cell.strip(" *") for cell in line.strip().strip("|").split("|"))
        for line in shown.splitlines()
        if line.lstrip().startswith("|")
    }
    return sum(tuple(row) in lines for row in case.rows)


def headings_found(case: Case, shown: str) -> int:
    """How many of the case's headings are headings of Markdown."""
    lines = {line.lstrip("# ").strip(" *") for line in shown.splitlines() if line.startswith("#")}
    return sum(heading in lines for heading in case.headings)


def is_in_order(case: Case, shown: str) -> bool:
    """Whether the case's phrases are all there, each after the one before."""
    at = -1
    for phrase in case.order:
        at = shown.find(phrase, at + 1)
        if at < 0:
            return False
    return True


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--files", nargs="*", type=Path, default=[])
    extra = arguments.parse_args().files
    made = list(cases())
    names = [name for name, _ in readers()]
    print("| file | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    totals = [[0, 0, 0, 0.0] for _ in names]
    for case in made:
        cells = []
        for total, (_, read) in zip(totals, readers(), strict=True):
            began = time.process_time()
            shown = read(case.data)
            total[3] += time.process_time() - began
            found = rows_found(case, shown), headings_found(case, shown), is_in_order(case, shown)
            for at, value in enumerate(found):
                total[at] += value
            cells.append(
                f"{found[0]}/{len(case.rows)} rows, {found[1]}/{len(case.headings)} headings"
                + ("" if found[2] else ", order lost")
            )
        print(f"| {case.name} | " + " | ".join(cells) + " |", flush=True)
    rows, headings = sum(len(case.rows) for case in made), sum(len(each.headings) for each in made)
    print(
        "| all | "
        + " | ".join(
            f"{a}/{rows} rows, {b}/{headings} headings, {c}/{len(made)} in order, {d:.2f} s"
            for a, b, c, d in totals
        )
        + " |"
    )
    for path in extra:
        data, cells = path.read_bytes(), []
        for _, read in readers():
            began = time.process_time()
            cells.append(f"{len(read(data)):,} characters, {time.process_time() - began:.2f} s")
        print(f"| {path.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
