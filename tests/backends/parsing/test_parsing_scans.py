"""Scanned pages and pictures, which only character recognition reads."""

from __future__ import annotations

import base64
import io
import json
import re
import struct
import threading
import time
import zlib
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import pytest

from support.cli_run import Shell, fresh_shell
from support.document_files import make_pdf
from support.rows import each_row
from triptych import deadline
from triptych.errors import CancelledError, NotAvailableError, ParseError, ValidationError
from triptych.installation import install_command
from triptych.parsing import ParsedFile, ParseLimits
from triptych.sync import RememberedRoots
from triptych_backends.memory import MemoryStore
from triptych_factory import Settings
from triptych_parsers import default_parser
from triptych_parsers.ocr import Line, written
from triptych_parsers.worker import run_isolated

pytest.importorskip("pypdfium2")
pytest.importorskip("reportlab")
Image: Any = pytest.importorskip("PIL.Image")

needs_models = pytest.mark.skipif(
    find_spec("rapidocr") is None,
    reason="rapidocr is not installed: the extra ocr has it",
)
ENGLISH = ["The kettle stands on shelf 14.", "Order number: KX-2075, 433.50 EUR", "Rain: 3 mm"]
CHINESE = "茶壶在厨房里，水已经开了。"
# CHINESE in black and white: no font for it is installed everywhere.
CHINESE_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAbgAAAAwAQAAAABLJVIfAAADAUlEQVR42u2WQY/bRBzFf+NYmxwWNkIcNlLVWCofYP"
    "fWQ6VY6gEOPfQDILTcOALqcSWPT/TYD7ASi7RfoF+AurC3SnThxAGBE5ASLuBso9ZGzjwOdmx3U0DihqilKJn5+837"
    "z5s3TzHiXz0er3H/cdzpCtbNRIlsW1b4z3wFFMYM4JTCmKCaDJkaE64LE/5dn0YqMdurl8DUmEEXF3/4hjf1zbB+/3"
    "RtpkPjoqbZsYTplyEVNtjiy/9ahRzs+Ok87/JFnz9z41IZAHEIUrKtQllzl1t80z3jY9MriOQCYEVRj1dJg1t3pFKF"
    "kxdv9pcApMFlPVy2er6/y9o3djxX1YxpNX881IMVMODHemZWf/uQH+GBJWWfWAGAcXG9DxcAPAoefVk1cCdr+JYHGA"
    "kGwPXFMZpkG75J8kMI8Onk5LTawLDtc/Y2sTF+tZNiAV1t8orG3ajXOmpx529WPx8AjE/g446cS9bGkN9L7l09Gd1/"
    "NxxLGcHGbJ/4bX2nmvqWD+LDkdfFuYOdcxYXVIGYAbjmHIbv0ZP4Y4e3rvL9EhoL4AD4HlzkmrLdr1a7yW70dO66uC"
    "8sxyVQLkcDZtcA6LuoK07iFxs/05zfbUPw3XPuPBwA15cvl4NdABaH2469CQwQz/obv8fN2qq7f9ifp1dxPU1SQXgG"
    "8Fv/paoLq3EvfUVOXJT41jEACD8DF9mlF1fGsL4FOH5VviTPgdLeBfIcSmwnH7wEWLU3o4OzfbzEEADeNTAl7LkoQy"
    "EFpuowBYZX/DL0rdmExGhIk0sOLuGjJg7rNpa29kvgJYSVhbL5AXknRc7gFsBXR6Ba5RdJnRyhSbHVOZkbCd5lixvA"
    "OwC3Lbj6Ng9qvl9tfQGmIz+9BdkZxF7s0YO7sA9kJ9ORX7ZmBDxmBeHj0aEP8CRx9uf7hd1kfDADB+kRsLDAeZtEv+"
    "eREuhpIv2kcvLNpBxLkpykLFIGfUn6WnMplV5MJAkpV/VMJKmMqo+kUtJSymFPkuaaS1MpjyTJvP4f8r/E/QnIpmDP"
    "Mf5NZwAAAABJRU5ErkJggg=="
)


def noisy(picture: Any, seed: int = 1) -> Any:
    """A picture as a scanner sees it: a little askew, blurred, with noise and specks."""
    filters: Any = import_module("PIL.ImageFilter")
    turned = picture.convert("L").rotate(0.6, fillcolor=255, resample=Image.Resampling.BICUBIC)
    chance = numpy.random.default_rng(seed)
    grey = numpy.asarray(turned.filter(filters.GaussianBlur(0.7))).astype(float)
    grey += chance.normal(0, 20, grey.shape)
    grey[chance.random(grey.shape) < 0.002] = 0
    return Image.fromarray(grey.clip(0, 255).astype("uint8"))


def page(lines: Sequence[str] = ENGLISH) -> Any:
    """A third of a page with these lines at 150 dpi, and the Chinese one below."""
    pypdfium2: Any = import_module("pypdfium2")
    drawn = pypdfium2.PdfDocument(make_pdf([lines]))[0].render(scale=150 / 72).to_pil()
    picture = drawn.convert("L").crop((0, 0, 1000, 500))
    picture.paste(Image.open(io.BytesIO(CHINESE_PNG)).convert("L"), (144, 250))
    return picture


def saved(pictures: Sequence[Any], kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    more = {"save_all": True, "append_images": pictures[1:]} if len(pictures) > 1 else {}
    pictures[0].save(out, kind, **more, **options)
    return out.getvalue()


def scan() -> bytes:
    """A PDF of three pages: a scan, a page of text, and a scan of an empty sheet."""
    canvas_of: Any = import_module("reportlab.pdfgen.canvas")
    reader: Any = import_module("reportlab.lib.utils").ImageReader
    out = io.BytesIO()
    canvas = canvas_of.Canvas(out, invariant=1)
    sheets = [noisy(page()), None, Image.new("L", (100, 100), 255)]
    for sheet in sheets:
        if sheet is None:
            canvas.drawString(72, 700, "A page of text.")
        else:
            canvas.drawImage(reader(sheet), 40, 500, sheet.width / 2, sheet.height / 2)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def read(name: str, data: bytes, **limits: Any) -> ParsedFile:
    parsed = default_parser(ocr=True, limits=ParseLimits(**limits)).parse(name, data)
    assert parsed is not None
    return parsed


# What is read


@needs_models
def test_the_pages_of_a_pdf_without_text_are_read_and_no_others() -> None:
    parsed = read("a.pdf", scan())
    first = parsed.content[: parsed.locators[0].end]
    assert [line for line in first.split("\n") if line] == [*ENGLISH, CHINESE]
    assert parsed.content[parsed.locators[1].start :] == "A page of text.\n"
    assert [each.label for each in parsed.locators] == ["page 1", "page 2"]
    confidence = parsed.metadata["ocr_confidence"]
    assert isinstance(confidence, float)
    assert confidence > 0.9
    said = f"'a.pdf': page 1: read by character recognition, confidence {confidence:.2f}"
    assert said in parsed.notes
    assert parsed.no_text == ""
    assert parsed.parser_sig.startswith("pdf/")
    assert parsed.parser_sig.endswith("+ocr/1")


@needs_models
def test_a_picture_file_is_read_page_by_page_however_it_lies() -> None:
    upright = noisy(page())
    upside_down = upright.rotate(180)
    on_its_side = upright.rotate(90, expand=True)
    parsed = read("a.tif", saved([upright, upside_down, on_its_side], "TIFF"))
    texts = [parsed.content[each.start : each.end] for each in parsed.locators]
    assert [each.label for each in parsed.locators] == ["page 1", "page 2", "page 3"]
    wanted = [*ENGLISH, CHINESE]
    assert [[line for line in text.split("\n") if line] for text in texts] == [wanted] * 3
    assert parsed.parser_sig == "picture/1+ocr/1"


@needs_models
def test_what_is_transparent_is_white_and_what_a_camera_turned_is_turned_back() -> None:
    clear = Image.new("RGBA", (1000, 500), (0, 0, 0, 0))
    clear.paste(Image.new("RGBA", (1000, 500), "black"), mask=page().point(lambda v: 255 - v))
    assert ENGLISH[0] in read("a.PNG", saved([clear], "PNG")).content
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    turned = page().rotate(90, expand=True)
    assert ENGLISH[0] in read("b.jpg", saved([turned], "JPEG", exif=exif)).content


@needs_models
def test_lines_that_are_unsure_stay_out_and_are_counted() -> None:
    small = page(["Each word of this line is far too small to be read by anyone at all."])
    bad = small.resize((170, 85)).resize((1000, 500))
    parsed = read("a.png", saved([noisy(bad)], "PNG"))
    assert parsed.content == ""
    told, unsure = parsed.omissions
    assert "confidence 0." in told.reason
    assert (unsure.place, unsure.reason) == ("page 1", "character recognition is unsure of them")
    assert unsure.words > 10
    assert parsed.no_text.startswith("character recognition found no text")


@needs_models
def test_a_picture_without_text_says_so() -> None:
    parsed = read("a.webp", saved([Image.new("RGB", (64, 64), "red")], "WEBP"))
    assert (parsed.content, parsed.omissions) == ("", ())
    assert parsed.no_text == "character recognition found no text in it that it is sure of"


# The order of reading


def at(left: float, top: float, width: float, text: str) -> Line:
    return Line(left, top, left + width, top + 10, text, 1.0)


def test_columns_are_read_one_after_the_other_between_what_stands_across() -> None:
    title, foot = at(20, 0, 160, "title"), at(10, 200, 180, "foot")
    left = [at(0, 20 + 15 * each, 90, f"l{each}") for each in range(5)]
    right = [at(110, 21 + 15 * each, 88, f"r{each}") for each in range(5)]
    text = written(
        [title, *(each for pair in zip(left, right, strict=True) for each in pair), foot]
    )
    assert text.split() == [
        "title",
        *(f"l{n}" for n in range(5)),
        *(f"r{n}" for n in range(5)),
        "foot",
    ]


def test_the_cells_of_a_table_are_read_row_by_row() -> None:
    cells = [
        at(left, 15 * row, 20, f"{name}{row}")
        for row in range(6)
        for left, name in ((100, "b"), (0, "a"))
    ]
    assert written(cells) == "\n".join(f"a{row} b{row}" for row in range(6))


def test_an_empty_line_stands_between_paragraphs() -> None:
    assert written([at(0, 15 * y, 90, str(y)) for y in (0, 1, 2, 4, 5)]) == "0\n1\n2\n\n4\n5"
    assert written([]) == ""


# Limits


def png_of(width: int, height: int) -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    data = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", data) + part(b"IEND", b"")


@each_row(
    ("name", "data", "told"),
    [
        ("a.png", b"hello", "no picture, or a damaged one"),
        ("a.jpg", b"\xff\xd8\xff\xe0" + b"\0" * 50, "no picture, or a damaged one"),
        ("a.png", saved([page()], "PNG")[:2000], "damaged"),
        ("a.png", png_of(90_000, 90_000), "90,000 by 90,000 pixels"),
    ],
    ids=["text", "head", "cut", "bomb"],
)
def test_a_picture_that_is_damaged_or_a_bomb_is_refused(name: str, data: bytes, told: str) -> None:
    with pytest.raises(ParseError, match=f"{re.escape(repr(name))}.*{told}"):
        read(name, data)


def test_pages_for_which_there_is_no_time_are_named() -> None:
    pages = [Image.new("L", (50, 50), 255)] * 3
    parsed = read("a.tiff", saved(pages, "TIFF"), ocr_seconds=1e-9)
    (left,) = parsed.omissions
    assert left.place == "pages 1-3"
    assert "not read: 1e-09 seconds were over (ocr_seconds)" in str(left)
    assert parsed.no_text


def test_who_cancels_does_not_wait_for_a_worker() -> None:
    job, start = "support.worker_jobs:sleep", time.monotonic()
    with deadline() as scope:
        threading.Timer(0.5, scope.cancel).start()
        with pytest.raises(CancelledError):
            run_isolated(job, "a", b"", ParseLimits(), signature="x", extra="ocr", ocr=True)
    assert time.monotonic() - start < 10


def test_what_is_missing_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rapidocr.py").write_text("raise ModuleNotFoundError(name='rapidocr')")
    monkeypatch.syspath_prepend(tmp_path)  # the worker has this process's path
    with pytest.raises(NotAvailableError, match=re.escape(install_command(extra="ocr"))):
        read("a.png", png_of(9, 9))


# How it is asked for


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "none")
    return shell


def test_without_the_option_scans_are_named_and_how_they_are_read(shell: Shell) -> None:
    shell.write("scans/a.pdf", scan())
    shell.write("scans/b.png", saved([page()], "PNG"))
    ran = shell("put", "scans", "--json")
    assert ran.json["skipped"] == [{"name": "b.png", "reason": "ends in .png, which --ocr reads"}]
    assert any("--ocr reads it" in note for note in ran.json["notes"])
    assert shell("search", "kettle", "--json").json["hits"] == []
    alone = shell("put", "scans/b.png")
    assert "--ocr" in alone.err
    with pytest.raises(ValidationError, match="--ocr"):
        default_parser().parse_path(shell.directory / "scans/b.png")


@needs_models
def test_a_folder_is_remembered_with_it_and_new_scans_are_read(shell: Shell) -> None:
    shell.write("scans/a.pdf", scan())
    shell.write("scans/note.md", "a note")
    assert shell("add", "scans", "--json").json["added"] == 2
    again = shell("add", "scans", "--ocr", "--json").json
    assert (again["updated"], again["unchanged"]) == (1, 1)
    assert "a.pdf, page 1" in shell("search", "kettle").text
    shell.write("scans/b.png", saved([page(["A badger sleeps."])], "PNG"))
    synced = shell("sync", "--json").json
    assert (synced["added"], synced["unchanged"]) == (1, 2)
    assert shell("search", "badger", "--json").json["hits"][0]["doc_name"] == "b.png"
    assert shell("list", "--folders", "--json").json["roots"][0]["ocr"] is True
    off = shell("add", "scans", "--no-ocr", "--yes", "--json").json
    assert (off["updated"], off["deleted"]) == (1, ["b.png"])


def test_the_setting_and_the_variable_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triptych_factory import every_format

    monkeypatch.chdir(tmp_path)
    assert not every_format().takes("a.png")
    (tmp_path / "triptych.toml").write_text('url = "kb.db"\nocr = true\n')
    assert every_format().takes("a.png")
    assert not every_format(False).takes("a.png")
    monkeypatch.setenv("TRIPTYCH_OCR", "0")
    assert not every_format().takes("a.png")
    assert Settings.resolve({"ocr": True}).ocr


def test_a_folder_that_an_older_version_remembered_is_read_as_the_setting_says() -> None:
    kept = MemoryStore().capabilities.settings
    assert kept is not None
    options = {"include": [], "exclude": [], "max_bytes": 9, "all_folders": False}
    row = {"path": "/scans", "relative": False, "dataset": "d", "prefix": "", "key": "k"}
    row |= {"options": options | {"delete": True, "adopt": False}}
    kept.set_setting("sync.roots", json.dumps({"roots": [row]}), expected=None)
    (root,) = RememberedRoots(kept).all()
    assert (root.options.ocr, root.options.max_bytes) == (None, 9)
