"""Answers under a ceiling of tokens: pages joined are the whole, and no page is above it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support.rows import each_row
from triptych.errors import BudgetExceededError, ConflictError, ValidationError
from triptych.layers import estimate_tokens
from triptych_adapters.tools import clip
from triptych_adapters.tools.paging import (
    Place,
    check_cursor,
    next_cursor,
    paginate,
    read_cursor,
)

TEXTS = st.text(st.sampled_from('a b\n"\\\0é茶\U0001f469\u200d\u0301'), max_size=600)


@st.composite
def hit_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    return [
        {
            "dataset_id": "docs",
            "doc_name": f"{at}.md",
            "chunk_index": at,
            "metadata": draw(st.dictionaries(st.text("key", max_size=5), TEXTS, max_size=1)),
            "content": draw(TEXTS),
        }
        for at in range(draw(st.integers(0, 6)))
    ]


def tokens(value: Any) -> int:
    """The estimated tokens of one entry of the list that a tool answers."""
    return estimate_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + ",")


def pages(hits: Sequence[Mapping[str, Any]], max_tokens: int) -> list[list[dict[str, Any]]]:
    """Every page, each reached by the cursor of the one before."""
    found = []
    start: Place | None = Place()
    while start is not None:
        check_cursor(start, hits)
        before = (start.hit, start.character)
        shown, start = paginate(hits, start, max_tokens)
        found.append(shown)
        assert start is None or (start.hit, start.character) > before
        if start is not None:
            start = read_cursor(next_cursor(start, hits, "asked"), "asked")
    return found


def joined(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The hits that ``parts`` show, put together again."""
    whole: list[dict[str, Any]] = []
    for part in parts:
        cut = part.get("cut", {"from": 0, "to": len(part["content"]), "of": len(part["content"])})
        assert cut["to"] - cut["from"] == len(part["content"])
        if cut["from"]:
            assert len(whole[-1]["content"]) == cut["from"]
            whole[-1]["content"] += part["content"]
        else:
            whole.append({key: value for key, value in part.items() if key != "cut"})
    return whole


@settings(deadline=None)
@given(hit_lists(), st.integers(120, 800))
def test_pages_joined_are_the_whole_and_none_is_above_the_ceiling(
    hits: list[dict[str, Any]], max_tokens: int
) -> None:
    found = pages(hits, max_tokens)
    for page in found:  # the brackets are the frame's
        entries = json.dumps(page, ensure_ascii=False, separators=(",", ":"))[1:-1]
        assert estimate_tokens(entries) <= max_tokens
    assert all(found) or not hits
    parts = [part for page in found for part in page]
    left_out = {part["doc_name"] for part in parts if "left_out" in part}
    whole = joined(parts)
    assert [hit["content"] for hit in whole] == [hit["content"] for hit in hits]
    for hit, shown in zip(hits, whole, strict=True):
        assert hit["doc_name"] in left_out or hit == shown


@settings(deadline=None)
@given(hit_lists(), st.integers(120, 800))
def test_a_hit_that_fits_into_a_page_of_its_own_is_never_cut(
    hits: list[dict[str, Any]], max_tokens: int
) -> None:
    for part in (part for page in pages(hits, max_tokens) for part in page):
        if tokens(hits[part["chunk_index"]]) <= max_tokens:
            assert part == hits[part["chunk_index"]]


def test_whole_hits_come_first_and_an_overlong_one_begins_a_page() -> None:
    hits = [
        {"doc_name": "a", "content": "short"},
        {"doc_name": "b", "content": "word " * 150},
        {"doc_name": "c", "content": "end"},
    ]
    first, *middle, last = pages(hits, 100)
    assert first == hits[:1]
    assert [part["doc_name"] for page in middle for part in page] == ["b"] * len(middle)
    assert middle[0][0]["cut"]["from"] == 0
    assert middle[0][0]["cut"]["of"] == 750
    assert middle[0][0]["content"].endswith("word ")
    assert [part["doc_name"] for part in last] == ["b", "c"]


def test_a_cut_parts_no_character() -> None:
    family = "\U0001f469\u200d\U0001f467"
    hits = [{"doc_name": "a", "content": family * 100}]
    for page in pages(hits, 80):
        assert page[0]["content"].replace(family, "") == ""


def test_fields_make_room_for_content_and_are_named() -> None:
    hits = [{"doc_name": "a", "metadata": {"note": "x" * 1000}, "content": "the text"}]
    ((part,),) = pages(hits, 100)
    assert part == {"doc_name": "a", "left_out": ["metadata"], "content": "the text"}
    first, second = pages([*hits, {"doc_name": "b", "content": "x" * 320}], 100)
    assert [part["doc_name"] for part in first + second] == ["a", "b"]


def test_a_hit_whose_names_are_above_the_ceiling_is_refused() -> None:
    with pytest.raises(BudgetExceededError, match="nnn"):
        pages([{"doc_name": "n" * 1000, "content": "the text"}], 100)


def test_every_page_goes_on_or_the_ceiling_is_refused() -> None:
    hits = [{"doc_name": "a", "content": "茶" * 40}]
    refused = 0
    for max_tokens in range(1, 60):
        try:
            assert joined([part for page in pages(hits, max_tokens) for part in page]) == hits
        except BudgetExceededError:
            refused += 1
    assert 0 < refused < 45


# Cursors

HITS = [
    {"dataset_id": "d", "doc_name": f"{at}", "chunk_index": 0, "content": "text " * 9}
    for at in range(5)
]


@settings(deadline=None)
@given(st.integers(0, 4), st.integers(0, 44))
def test_a_cursor_leads_back_to_its_place(hit: int, character: int) -> None:
    place = read_cursor(next_cursor(Place(hit, character), HITS, "asked"), "asked")
    assert (place.hit, place.character) == (hit, character)
    check_cursor(place, HITS)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_cursor_is_refused_by_name(data: st.DataObject) -> None:
    cursor = next_cursor(Place(2, 3), HITS, "asked")
    at = data.draw(st.integers(0, len(cursor) - 1))
    other = data.draw(st.sampled_from("0123456789abcdef.Xé "))
    for damaged in (cursor[:at] + other + cursor[at + 1 :], cursor[:at], cursor + other):
        if damaged != cursor:
            with pytest.raises(ValidationError, match="'cursor' is damaged"):
                read_cursor(damaged, "asked")


@settings(deadline=None)
@given(st.text("0129af.-\n é", max_size=80))
def test_no_text_passes_for_a_cursor(text: str) -> None:
    with pytest.raises(ValidationError, match="'cursor' is damaged"):
        read_cursor(text, "asked")


def test_a_cursor_of_other_arguments_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="'cursor' belongs to a call with other arguments"):
        read_cursor(next_cursor(Place(1, 0), HITS, "this"), "that")


def test_a_cursor_goes_on_only_over_the_hits_it_was_made_for() -> None:
    place = read_cursor(next_cursor(Place(2, 3), HITS, "asked"), "asked")
    check_cursor(place, [*HITS[:3], {"dataset_id": "d", "doc_name": "new", "content": "other"}])
    changed = [*HITS[:2], {**HITS[2], "content": "edited " * 9}, *HITS[3:]]
    for hits in (changed, HITS[1:], HITS[::-1], HITS[:2], []):
        with pytest.raises(ConflictError, match="search again without a cursor"):
            check_cursor(place, hits)


def test_a_place_that_does_not_exist_is_refused_whatever_its_digest() -> None:
    for place in (Place(9, 0), Place(2, 999), Place(5, 1)):
        with pytest.raises(ConflictError):
            check_cursor(read_cursor(next_cursor(place, HITS, "asked"), "asked"), HITS)


@settings(deadline=None)
@given(TEXTS, st.integers(8, 80))
def test_a_clipped_text_is_the_longest_beginning_that_fits(text: str, max_tokens: int) -> None:
    clipped = clip(text, max_tokens)
    if clipped == text:
        return
    assert tokens(text) > max_tokens >= tokens(clipped)
    assert re.fullmatch(re.escape(clipped[:-1]) + ".+", text, re.DOTALL)
    assert tokens(text[: len(clipped)] + "…") > max_tokens


@each_row("text", ["letter ", "word  " + " " * 14, "茶", "{[", "9"])
def test_a_long_text_is_clipped_whatever_it_is_of(text: str) -> None:
    clipped = clip(text * 2_000, 100)
    assert clipped.endswith("…")
    assert 90 <= tokens(clipped) <= 100
