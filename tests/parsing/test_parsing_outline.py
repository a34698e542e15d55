"""The outline that travels with a document: places, parts, and the chunks that they give."""

from __future__ import annotations

import pytest

from support.rows import each_row
from triptych.chunking import (
    MAX_LOCATORS,
    ChunkerSet,
    DefaultChunker,
    Locator,
    Outline,
    Part,
    default_chunkers,
    read_outline,
    write_outline,
)
from triptych.errors import ValidationError
from triptych.parsing import ParsedFile
from triptych.signatures import document_input_sig

TEXT = "one\ntwo\n\nthree\nfour\n"
PAGES = (
    Locator(start=0, end=7, unit="page", number=1),
    Locator(start=9, end=19, unit="page", number=2),
)


def test_an_outline_is_read_as_it_was_written() -> None:
    parts = (
        Part(start=0, end=7, title="A", depth=0),
        Part(start=4, end=7, title="b é", depth=1),
        Part(start=9, end=20, title="C", depth=0),
    )
    places = (*PAGES, Locator(start=19, end=20, unit="row", number=7, within="sheet X"))
    written = write_outline(TEXT, places, parts)
    assert read_outline(written, TEXT) == Outline(locators=places, parts=parts)


def test_an_outline_of_another_text_says_nothing() -> None:
    written = write_outline(TEXT, PAGES, ())
    assert read_outline(written, TEXT + "!") is None


@each_row(
    "value",
    [
        "",
        "x",
        "[]",
        "{}",
        "null",
        "1",
        '{"v":1}',
        "[" * 5000,
        '{"v":1,"of":"","places":1,"parts":[]}',
    ],
)
def test_what_is_no_outline_is_skipped(value: str) -> None:
    chunker = default_chunkers().for_document("a.txt", {}, value)
    assert chunker.chunk(TEXT) == DefaultChunker().chunk(TEXT)


def test_numbers_of_the_wrong_kind_are_skipped() -> None:
    written = write_outline(TEXT, PAGES, (Part(start=0, end=3, title="A"),))
    for wrong in (written.replace("[0,7,1", "[0,700,1"), written.replace("[0,3,0,", "[0,3,4,")):
        assert wrong != written
        assert read_outline(wrong, TEXT) is None
    for wrong in ('"0"', "-1", "0.5", "null"):
        changed = written.replace("[0,7,1", f"[{wrong},7,1")
        assert read_outline(changed, TEXT) is None


@each_row(
    ("start", "end", "place"),
    [
        (0, 7, "page 1"),
        (4, 12, "pages 1-2"),
        (9, 19, "page 2"),
        (7, 9, None),
        (19, 20, None),
        (0, 20, "pages 1-2"),
    ],
)
def test_a_span_is_placed_by_what_holds_it(start: int, end: int, place: str | None) -> None:
    assert Outline(locators=PAGES).locate(TEXT, start, end) == place


def test_counted_places_follow_the_lines() -> None:
    lines = Outline(
        locators=(
            Locator(start=0, end=8, unit="line", number=10, counted=True),
            Locator(start=8, end=len(TEXT), unit="line", number=20, counted=True),
        )
    )
    assert lines.locate(TEXT, 0, 3) == "line 10"
    assert lines.locate(TEXT, 0, 7) == "lines 10-11"
    assert lines.locate(TEXT, 4, 14) == "lines 11-21"
    assert lines.locate("a\r\nb\rc", 3, 6) == "lines 11-12"


def test_places_of_two_kinds_are_both_named() -> None:
    rows = Outline(
        locators=(
            Locator(start=0, end=7, unit="row", number=9, within="sheet A"),
            Locator(start=9, end=19, unit="row", number=2, within="sheet B"),
        )
    )
    assert rows.locate(TEXT, 0, 19) == "sheet A, row 9 to sheet B, row 2"


@each_row(
    "parts",
    [
        [Part(start=0, end=99, title="too far")],
        [Part(start=3, end=3, title="empty")],
        [Part(start=0, end=3, title="a", depth=1)],
        [Part(start=0, end=5, title="a"), Part(start=4, end=9, title="overlaps")],
        [Part(start=0, end=5, title="a"), Part(start=4, end=9, title="sticks out", depth=1)],
        [Part(start=4, end=5, title="a"), Part(start=0, end=2, title="before")],
    ],
)
def test_parts_out_of_order_are_refused(parts: list[Part]) -> None:
    with pytest.raises(ValidationError, match="part"):
        ParsedFile(content=TEXT, parts=tuple(parts))


def test_places_that_overlap_are_refused() -> None:
    with pytest.raises(ValidationError, match="overlaps"):
        ParsedFile(content=TEXT, locators=(PAGES[0], PAGES[0]))
    with pytest.raises(ValidationError, match="outside"):
        ParsedFile(content="short", locators=PAGES)


def test_too_many_places_are_thinned_and_still_cover_the_text() -> None:
    content = "x\n" * (MAX_LOCATORS + 1)
    places = tuple(
        Locator(start=2 * at, end=2 * at + 1, unit="line", number=at + 1)
        for at in range(MAX_LOCATORS + 1)
    )
    parsed = ParsedFile(content=content, locators=places)
    outline = read_outline(parsed.outline, content)
    assert outline is not None
    assert len(outline.locators) <= MAX_LOCATORS
    assert outline.locate(content, 4, 5) == "line 3"
    assert outline.locate(content, len(content) - 2, len(content) - 1) is not None


# Chunks


def test_chunks_end_where_parts_end_and_are_under_their_titles() -> None:
    content = (
        "import x\n\nclass A:\n    y = 1\n    def m(self):\n        return 1\n\n"
        "def f():\n    pass\n"
    )
    at = content.index
    parsed = ParsedFile(
        content=content,
        metadata={"kind": "code"},
        locators=(Locator(start=0, end=len(content), unit="line", number=1, counted=True),),
        parts=(
            Part(start=at("class"), end=at("\n\ndef f"), title="A"),
            Part(start=at("def m"), end=at("\n\ndef f"), title="m", depth=1),
            Part(start=at("def f"), end=len(content), title="f"),
        ),
    )
    chunker = default_chunkers().for_document("a.py", parsed.metadata, parsed.outline)
    chunks = chunker.chunk(content)
    assert [(each.heading_path, each.locator) for each in chunks] == [
        ((), "line 1"),
        (("A",), "lines 3-4"),
        (("A", "m"), "lines 5-6"),
        (("f",), "lines 8-9"),
    ]
    assert [each.index for each in chunks] == [0, 1, 2, 3]
    assert "".join("".join(content[c.start : c.end].split()) for c in chunks) == "".join(
        content.split()
    )
    assert chunker.signature == default_chunkers().for_document("a.py", {"kind": "code"}).signature


def test_a_window_chunker_keeps_its_windows_in_the_part() -> None:
    from triptych.chunking import SentenceWindowChunker

    content = "Zero. One. Two. Three. Four."
    parsed = ParsedFile(content=content, parts=(Part(start=6, end=15, title="P"),))
    chunkers = ChunkerSet(default=SentenceWindowChunker(window=1))
    chunks = chunkers.for_document("a.txt", parsed.metadata, parsed.outline).chunk(content)
    shown = {content[c.start : c.end]: content[c.window_start : c.window_end] for c in chunks}
    assert shown["Two."] == "One. Two."
    assert shown["Three."] == "Three. Four."


def test_an_outline_is_part_of_what_chunks_are_made_from() -> None:
    parsed = ParsedFile(content=TEXT, locators=PAGES)
    plain = document_input_sig("a.txt", "d", {})
    assert document_input_sig("a.txt", "d", {}, parsed.outline) != plain
    assert document_input_sig("a.txt", "d", {"other": "x"}) == plain
