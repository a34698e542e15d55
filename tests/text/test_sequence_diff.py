"""Alignments: what they say is equal is equal, in order; edits are found; time is bounded."""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from triptych.errors import CancelledError
from triptych.text import matching_blocks, unified_diff

pytestmark = pytest.mark.property

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e f"]), max_size=30)


def check_blocks(a: Sequence[str], b: Sequence[str]) -> int:
    blocks = matching_blocks(a, b)
    a_free = b_free = 0
    for block in blocks:
        assert block.size > 0
        assert block.a >= a_free
        assert block.b >= b_free
        assert a[block.a : block.a + block.size] == b[block.b : block.b + block.size]
        a_free, b_free = block.a + block.size, block.b + block.size
    return sum(block.size for block in blocks)


@given(WORDS, WORDS)
def test_small_ones_are_aligned_as_difflib_does(a: list[str], b: list[str]) -> None:
    check_blocks(a, b)
    a, b = [f"{line}\n" for line in a], [f"{line}\n" for line in b]
    assert unified_diff(a, b, "old", "new") == "".join(difflib.unified_diff(a, b, "old", "new"))


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(1, 40),
    st.lists(
        st.tuples(st.integers(0, 2999), st.sampled_from(["drop", "put", "change"])), max_size=9
    ),
    st.booleans(),
)
def test_edits_of_long_ones_leave_the_rest_aligned(
    period: int, edits: list[tuple[int, str]], numbered: bool
) -> None:
    a = [f"{n % period}" if n % 9 or not numbered else f"row {n}" for n in range(3000)]
    b = list(a)
    for at, edit in sorted(edits, reverse=True):
        b[at : at + 1] = {"drop": [], "put": ["new", a[at]], "change": ["new"]}[edit]
    held = check_blocks(a, b)
    if numbered or len(edits) <= 1:
        assert held >= 3000 - 60 * len(edits)


@pytest.mark.parametrize("kinds", [1, 7, 40])
def test_what_repeats_is_aligned_between_edits_at_both_ends(kinds: int) -> None:
    # No member stands once in either: of 40 kinds the runs do, of one or seven nothing does.
    rng = random.Random(kinds)
    a = [f"{n % kinds}" if kinds < 40 else f"{rng.randrange(kinds)}" for n in range(3000)]
    b = ["new", *a[2:1500], "new", *a[1501:-3], "new"]
    assert check_blocks(a, b) >= 2900


@pytest.mark.parametrize("size", [1, 1 << 15])
def test_no_repetition_takes_quadratic_time(size: int) -> None:
    for a, b in (
        (["a"] * size, ["a"] * size + ["b"]),
        (["a", "b"] * size, ["b", "b", "a"] * size),
        ([f"{n % 7}" for n in range(size)], [f"{n % 11}" for n in range(size)]),
        ([f"{n % 700}" for n in range(size)], [f"{n % 1100}" for n in range(size, 0, -1)]),
        ([f"{n}" for n in range(size)], [f"{n}" for n in range(size, 0, -1)]),
    ):
        check_blocks(a, b)


def test_the_deadline_ends_an_alignment() -> None:
    with triptych.deadline(0), pytest.raises(CancelledError):
        matching_blocks(["a"], ["b"])
