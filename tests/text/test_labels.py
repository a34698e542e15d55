"""The words that name a text, and the headings of sections that are one chunk."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from support.rows import each_row
from triptych.text import get_analyzer, headings_in, label_of

PARTS = st.text(st.sampled_from("abc /-.07"), max_size=9)


@each_row(
    ("name", "label"),
    [
        ("guide/set-up.md", "guide/set-up"),
        ("adr-0017.md", "adr-0017 17"),
        ("2024/007/010.csv", "2024/007/010 7 10"),
        ("v1.2", "v1.2"),
        ("release-0.05", "release-0.05"),
        ("Makefile", "Makefile"),
        (".env", ".env"),
        ("home/.env", "home/.env"),
        ("0", "0"),
    ],
)
def test_a_name_is_without_its_ending_and_padded_numbers_also_without_zeros(
    name: str, label: str
) -> None:
    assert label_of(name).strip() == label


def test_a_title_that_is_a_heading_counts_once() -> None:
    assert label_of("a.md", "Kettle", ("Kettle", "Lid")) == "a\nKettle\nLid"


@pytest.mark.property
@given(PARTS, PARTS, st.lists(PARTS, max_size=4).map(tuple))
def test_each_word_of_title_and_headings_is_in_the_label(
    name: str, title: str, headings: tuple[str, ...]
) -> None:
    analyzer = get_analyzer("none")
    words = set(analyzer.analyze(label_of(name, title, headings)))
    for part in (title, *headings):
        assert words >= set(analyzer.analyze(part))


@pytest.mark.property
@given(st.lists(PARTS, max_size=4))
def test_each_heading_is_found_whole_and_by_its_parts(path: list[str]) -> None:
    found = headings_in(path)
    assert found >= {heading.casefold() for heading in path}
    assert found >= {part for heading in path for part in heading.casefold().split(" / ")}
