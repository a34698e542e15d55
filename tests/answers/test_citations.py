"""Citations in an answer: read piece by piece, and given to sentences."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given, settings, strategies as st

from support.examples import examples
from support.rows import each_row
from triptych.answers.citations import CitationFilter, sentences_of, without_citations


def read(text: str, known: set[int], cuts: tuple[int, ...] = ()) -> CitationFilter:
    """``text`` read in pieces that end at ``cuts``."""
    reading = CitationFilter(known)
    ends = sorted({0, len(text), *(cut for cut in cuts if 0 < cut < len(text))})
    shown = [reading.feed(text[start:end]) for start, end in pairwise(ends)]
    shown.append(reading.end())
    assert "".join(shown) == reading.text
    for mark in reading.marks:
        named = reading.text[mark.start : mark.end]
        assert named[0] + named[-1] == "[]"
        assert set(mark.numbers) <= known
    return reading


@each_row(
    ("said", "shown", "removed"),
    [
        ("Pull [1].", "Pull [1].", []),
        ("Pull [1][2].", "Pull [1][2].", []),
        ("Pull [1, 2].", "Pull [1, 2].", []),
        ("Pull [1-3].", "Pull [1-3].", []),
        ("Pull [3-1].", "Pull [3-1].", []),
        ("Pull [7].", "Pull.", [7]),
        ("Pull  [7] now.", "Pull now.", [7]),
        ("Pull [1, 7].", "Pull [1].", [7]),
        ("Pull [2-9].", "Pull [2, 3].", [9]),
        ("Pull [0][7] [0].", "Pull.", [0, 7]),
        ("[7] Pull.", "Pull.", [7]),
        ("One.\n[7] Pull.", "One.\nPull.", [7]),
        ("One.\n[7]\n    code", "One.\n\n    code", [7]),
        ("Pull【1】.", "Pull[1].", []),
        ("Pull 【7】.", "Pull.", [7]),
        ("In [2024] and [12345].", "In [2024] and [12345].", []),
        ("A [link](x) and [ ] and [a1].", "A [link](x) and [ ] and [a1].", []),
        ("Cut off [1", "Cut off [1", []),
        ("Cut off [", "Cut off [", []),
        ("  \n Pull [1]. \n\n", "Pull [1].", []),
        ("Use `a[7]` [1].", "Use `a[7]` [1].", []),
        ("Use ``a`[7]`` [7].", "Use ``a`[7]``.", [7]),
        ("A ` alone [7]\nand [7].", "A ` alone [7]\nand.", [7]),
        ("```\na[7]\n```\nPull [7].", "```\na[7]\n```\nPull.", [7]),
        ("~~~py\na[7]\n~~~\n[1]", "~~~py\na[7]\n~~~\n[1]", []),
        ("```\n~~~\na[7]\n", "```\n~~~\na[7]", []),
        ("", "", []),
    ],
)
def test_what_does_not_exist_is_removed_and_code_is_code(
    said: str, shown: str, removed: list[int]
) -> None:
    reading = read(said, {1, 2, 3})
    assert reading.text == shown
    assert reading.removed == removed


ALPHABET = "[]【】 \n\t0123479,;-–`~.a中\u2028"


@settings(max_examples=examples(400), deadline=None)
@example("a [1", (3,), {1})
@example("``[7]` [7]", (1, 2), set())
@example("[7] \n [7]", (3, 4), set())
@given(
    st.text(ALPHABET, max_size=40),
    st.lists(st.integers(1, 40)).map(tuple),
    st.sets(st.integers(0, 9)),
)
def test_any_cut_of_the_stream_reads_as_the_whole(
    text: str, cuts: tuple[int, ...], known: set[int]
) -> None:
    whole, cut = read(text, known), read(text, known, cuts)
    every = read(text, known, tuple(range(len(text))))
    for other in (cut, every):
        assert other.text == whole.text
        assert other.marks == whole.marks
        assert other.removed == whole.removed
        assert other.code == whole.code


@settings(max_examples=examples(300), deadline=None)
@given(st.text(ALPHABET, max_size=60), st.sets(st.integers(0, 9)))
def test_what_is_whole_is_left_as_it_is(text: str, known: set[int]) -> None:
    once = read(text, known)
    if not once.removed:
        again = read(once.text, known)
        assert again.text == once.text
        assert again.marks == once.marks


def test_little_is_held_back() -> None:
    reading = CitationFilter({1})
    assert reading.feed("Pull the lid") == "Pull the lid"
    assert reading.feed(" [") == ""
    assert reading.feed("1") == ""
    assert reading.feed("]") == " [1]"
    assert reading.feed(" [x") == " [x"
    assert reading.feed(" [1" + ",1" * 40) != ""  # longer than any citation


def sentences(text: str, known: set[int] | None = None) -> list[tuple[str, tuple[int, ...]]]:
    reading = read(text, known or {1, 2, 3})
    found = sentences_of(reading.text, reading.marks, reading.code)
    for each in found:
        assert reading.text[each.start : each.end] == each.text
    return [(each.text, each.numbers) for each in found]


@each_row(
    ("text", "found"),
    [
        ("A is b [1]. C is d.", [("A is b [1].", (1,)), ("C is d.", ())]),
        ("A is b. [1] C is d. [2]", [("A is b. [1]", (1,)), ("C is d. [2]", (2,))]),
        ("A is b. [1][2]", [("A is b. [1][2]", (1, 2))]),
        ("A is b [1]. [2] says c.", [("A is b [1].", (1,)), ("[2] says c.", (2,))]),
        ("[1] says a. [2] says b.", [("[1] says a.", (1,)), ("[2] says b.", (2,))]),
        ("# Heading\n\nText [1].", [("Text [1].", (1,))]),
        ("Steps:\n\n- Pull [1].\n- Wait.", [("- Pull [1].", (1,)), ("- Wait.", ())]),
        ("```\nno sentence\n```\nYes [1].", [("Yes [1].", (1,))]),
        ("Wrapped\nline [1].", [("Wrapped\nline [1].", (1,))]),
        ("---\n\n***", []),
        ("水が沸く[1]。蓋を開ける。", [("水が沸く[1]。", (1,)), ("蓋を開ける。", ())]),
        ("水が沸く。[1]蓋を開ける。", [("水が沸く。[1]", (1,)), ("蓋を開ける。", ())]),
        (
            "One, e.g. this [1, 2]. Two [1-3]!",
            [("One, e.g. this [1, 2].", (1, 2)), ("Two [1-3]!", (1, 2, 3))],
        ),
    ],
)
def test_each_sentence_has_its_citations(
    text: str, found: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert sentences(text) == found


@settings(max_examples=examples(300), deadline=None)
@given(st.text("[]12. \n-#`a中。:", max_size=80))
def test_no_citation_of_prose_is_lost(text: str) -> None:
    reading = read(text, {1, 2})
    found = sentences_of(reading.text, reading.marks, reading.code)
    starts = [each.start for each in found]
    assert starts == sorted(starts)
    for before, after in pairwise(found):
        assert before.end <= after.start
    for each in found:
        inside = [mark for mark in reading.marks if each.start <= mark.start < each.end]
        assert set(each.numbers) == {number for mark in inside for number in mark.numbers}


def test_an_earlier_answer_loses_its_citations() -> None:
    assert without_citations("Pull [1]. Use `a[1]` [2, 3].") == "Pull. Use `a[1]`."
