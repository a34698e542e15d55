"""The excerpt of a hit: around the match, wrapped at words, marked where it was cut."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from support.rows import each_row
from triptych.text import get_analyzer
from triptych_adapters.cli.hits import MATCH_STYLE, excerpt, match_offset

TABLE = "\n".join(f"| Widget {n} | supplier {n} |" for n in range(15, 60))


def shown(content: str, query: str, *, width: int = 76, lines: int = 5) -> list[str]:
    terms = get_analyzer().analyze_query(query)
    return [line.plain for line in excerpt(content, terms, width=width, lines=lines)]


def marked(content: str, query: str) -> list[str]:
    terms = get_analyzer().analyze_query(query)
    return [
        line.plain[span.start : span.end]
        for line in excerpt(content, terms, width=76)
        for span in line.spans
        if span.style == MATCH_STYLE
    ]


def test_the_match_stands_in_the_middle() -> None:
    lines = shown(TABLE, "widget 37")
    assert lines[2] == "| Widget 37 | supplier 37 |"
    assert (lines[0][0], lines[-1][-1], len(lines)) == ("…", "…", 5)


def test_the_lines_that_hold_most_terms_win() -> None:
    text = "\n".join([*["the ferry"] * 9, "the ferry of the harbour", *["the ferry"] * 9])
    assert "the ferry of the harbour" in shown(text, "harbour ferry")[2]


def test_without_a_match_the_beginning_is_shown() -> None:
    assert shown("one\n\ntwo\nthree", "zebra", lines=2) == ["one", "two …"]
    assert shown("", "zebra") == []


def test_words_are_marked_whole_with_their_stems() -> None:
    text = "Retries of a request; it retried. Mice, requesting."
    assert marked(text, "retry request mouse") == [
        "Retries",
        "request",
        "retried",
        "Mice",
        "requesting",
    ]


def test_paragraphs_flow_and_lists_hang() -> None:
    text = (
        "- a list item that goes on for so long that its writer broke it at some\n"
        "  width of seventy\n- next"
    )
    assert shown(text, "zebra", width=44) == [
        "- a list item that goes on for so long",
        "  that its writer broke it at some width",
        "  of seventy",
        "- next",
    ]
    code = "def a():\n    if b:\n        return c"
    assert shown(code, "zebra") == code.split("\n")


@each_row("lead", ["* ", "b) ", "(c) ", "- "])
def test_items_of_a_list_are_not_joined(lead: str) -> None:
    item = f"{lead}an item of a list that its writer wrote on one long line of eighty"
    assert shown(f"{item}\n{item}", "zebra") == [item, item]


def test_of_one_line_it_is_the_one_that_the_place_names() -> None:
    text = "the ferry\n" + "a long line about the ferry " * 9 + "and its harbour\nthe ferry\n"
    terms = get_analyzer().analyze_query("ferry harbour")
    at = match_offset(text, terms)
    assert text.count("\n", 0, at) == 1
    (line,) = excerpt(text, terms, width=60, lines=1)
    assert line.plain.startswith("… a long line about the ferry")


def test_scripts_without_spaces_are_cut_at_the_width() -> None:
    lines = shown("灯塔" * 40, "zebra", width=24)
    assert [cell_len(line) for line in lines[:2]] == [20, 20]


@pytest.mark.property
@given(
    text=st.text(alphabet=st.sampled_from("ab \n\t-灯.\u0301"), max_size=300),
    width=st.integers(10, 60),
    lines=st.integers(1, 6),
)
def test_lines_keep_to_the_width_and_hold_a_match(text: str, width: int, lines: int) -> None:
    content = f"{text}\n zebra \n{text}"
    found = shown(content, "zebra", width=width, lines=lines)
    assert 1 <= len(found) <= lines
    assert any("zebra" in line for line in found)
    assert all(cell_len(line) <= width for line in found)
