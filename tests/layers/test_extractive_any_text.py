"""Any text at all: no crash, verbatim, within the limits, the same every time."""

from __future__ import annotations

import re
from html import unescape

import pytest
import regex
from hypothesis import example, given, settings, strategies as st

from support.examples import examples
from triptych.layers import ExtractiveSummarizer, estimate_tokens
from triptych.records import DocumentSummary
from triptych.text.tokens import MOST_CHARACTERS

pytestmark = pytest.mark.property

INSIDE = regex.compile(r"[\p{Latin}\s]\p{Latin}|[^\S\r\n]{2}", regex.V1)
"""Where a cut parts a word, a blank from its word, or a run of blanks."""

SUMMARIZER = ExtractiveSummarizer(abstract_tokens=20, overview_tokens=80)

PIECES = st.sampled_from(
    [
        "# ", "## ", "\n", "\n\n", "- ", "> ", "    ", "```", "~~~", "---", "===", "[", "](", ")",
        "![", "*", "**", "_", "`", "<a href=x>", "</a>", "<!--", "-->", "<script>", "|", "{{", "}}",
        "{%", "///", "1. ", "[x]: ", "\\", "\r", "\x00", "\u2028", "。", "！", ". ", "? ", " ",
        "The kettle boils", "Kettle", "water and tea", "e.g.", "茶壶", "水", "Привет мир", "é",
    ]
)  # fmt: skip
ANY_TEXT = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=400),
    st.lists(PIECES, max_size=60).map("".join),
)
WORDS = st.sampled_from(["kettle", "Water", "boils", "and", "tea", "茶壶", "слово", "12"])
PROSE = st.lists(
    st.tuples(
        st.lists(WORDS, min_size=1, max_size=12).map(" ".join),
        st.sampled_from([". ", "。", "?\n", "\n\n"]),
    ).map("".join),
    min_size=1,
    max_size=30,
).map("".join)


NUMBERED = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)


def _visible(text: str) -> str:
    return "".join(character for character in text if not character.isspace())


def _is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(character in rest for character in part)


@given(ANY_TEXT)
@settings(max_examples=examples(300), deadline=None)
def test_any_text_has_layers_within_the_limits_and_always_the_same(text: str) -> None:
    made = SUMMARIZER.summarize_document(text)
    assert made == SUMMARIZER.summarize_document(text)
    assert estimate_tokens(made.abstract) <= SUMMARIZER.abstract_tokens
    assert estimate_tokens(made.overview) <= SUMMARIZER.overview_tokens
    if any(map(str.isalpha, text)):
        assert made.abstract
        assert made.overview
    assert "\n" not in made.abstract


@given(ANY_TEXT)
@settings(max_examples=examples(200), deadline=None)
@example("&gt;")  # Markdown's form of a character
def test_an_abstract_holds_nothing_that_the_text_does_not(text: str) -> None:
    abstract = SUMMARIZER.summarize_document(text).abstract
    shown = _visible(abstract.removesuffix("…"))
    assert any(_is_subsequence(shown, _visible(each)) for each in (text, unescape(text)))


@given(PROSE)
@settings(max_examples=examples(200), deadline=None)
@example("12. kettle. ")
def test_sentences_of_plain_text_are_verbatim_passages(text: str) -> None:
    collapsed = " ".join(text.split())
    made = SUMMARIZER.summarize_document(text)
    assert made.abstract.removesuffix("…") in collapsed
    for line in made.overview.splitlines():
        # A line runs on over several chosen sentences: each of its words stands in the text. The
        # dash before a list item is the overview's own where the text numbers its items.
        sentences = (line.removeprefix("- ") if NUMBERED.search(text) else line).replace("…", "")
        assert _is_subsequence(_visible(sentences), _visible(text))


@given(ANY_TEXT)
@settings(max_examples=examples(50), deadline=None)
def test_the_estimate_of_a_text_is_never_above_the_sum_of_its_pieces(text: str) -> None:
    whole = estimate_tokens(text)
    assert whole <= len(text.encode())
    assert len(text) <= MOST_CHARACTERS * whole + MOST_CHARACTERS - 1
    for at in range(len(text)):
        assert estimate_tokens(text[:at]) <= whole
        if not INSIDE.fullmatch(text[max(at - 1, 0) : at + 1]):
            assert whole <= estimate_tokens(text[:at]) + estimate_tokens(text[at:])


@given(st.dictionaries(st.text(min_size=1, max_size=30), PROSE, max_size=20))
@settings(max_examples=examples(60), deadline=None)
def test_a_dataset_s_layers_hold_the_limits_and_do_not_know_the_order(
    abstracts: dict[str, str],
) -> None:
    summaries = [DocumentSummary(name=name, abstract=text) for name, text in abstracts.items()]
    made = SUMMARIZER.summarize_dataset(summaries)
    assert made == SUMMARIZER.summarize_dataset(summaries[::-1])
    assert estimate_tokens(made.abstract) <= SUMMARIZER.abstract_tokens
    assert estimate_tokens(made.overview) <= SUMMARIZER.overview_tokens
