"""Thoughts of models in answers, wherever the pieces are cut, and JSON in what models write."""

import json

import pytest
from hypothesis import given, strategies as st

from triptych._internal.thoughts import ThoughtFilter, json_text, without_thoughts

THOUGHT = [
    "<think>[1] is the lid.</think>To the left [1].",
    "\n<THINK>\nlong\n</Think>\n\nTo the left [1].",
    "<thinking>a</thinking><think>b</think> To the left [1].",
    "[THINK]It asks [2].[/THINK]To the left [1].",
    "◁think▷hmm◁/think▷To the left [1].",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
    "To the left [1].<|return|>",
    "<|channel|>final<|message|>To the left [1].",
    "Okay, a summary is wanted.\n</think>\n\nTo the left [1].",
    "It asks.[/THINK] To the left [1].",
]
PLAIN = [
    "To the left [1].",
    "",
    "  <b>bold</b> and a < b",
    "The mark `</think>` ends a thought.",
    "Write <think> before it and </think> after it.",
    "<think",
    "[1] says so. [2] does not.",
    "a</thin k>",
    "  two blanks first",
]


@pytest.mark.parametrize("said", THOUGHT)
def test_a_thought_is_taken_out(said: str) -> None:
    assert without_thoughts(said).strip() == "To the left [1]."


@pytest.mark.parametrize("said", PLAIN)
def test_what_is_no_thought_stays_as_it_is(said: str) -> None:
    assert without_thoughts(said) == said


@pytest.mark.parametrize(
    "said", ["<think>never ends", "[THINK]", "<|channel|>analysis<|message|>a"]
)
def test_a_thought_that_does_not_end_is_all_there_is(said: str) -> None:
    assert without_thoughts(said) == ""


MARKS = ["<think>", "</think>", "[THINK]", "[/THINK]", "<|channel|>final<|message|>"]


@given(
    st.one_of(
        st.sampled_from(THOUGHT + PLAIN),
        st.lists(st.sampled_from([*MARKS, "`", "<", "a", " "]), max_size=8).map("".join),
    ),
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
)
def test_pieces_give_what_the_whole_gives(said: str, sizes: list[int]) -> None:
    thoughts, shown, at = ThoughtFilter(), "", 0
    for number in range(len(said)):
        size = sizes[number % len(sizes)]
        piece = thoughts.feed(said[at : at + size])
        if thoughts.restarted:
            thoughts.restarted, shown = False, ""
        shown += piece
        at += size
    # White space that came first may have been shown already.
    assert (shown + thoughts.end()).lstrip() == without_thoughts(said).lstrip()


@given(st.text(alphabet="ab <>`/think[]", max_size=40), st.integers(1, 5))
def test_a_model_that_is_known_to_think_first_shows_nothing_of_it(text: str, size: int) -> None:
    said = f"a thought</think>{text}"
    thoughts = ThoughtFilter(opened=True)
    shown = "".join(thoughts.feed(said[at : at + size]) for at in range(0, len(said), size))
    assert "a thought" not in shown + thoughts.end()
    assert not thoughts.restarted


def test_a_model_that_did_not_think_this_time_is_shown_whole() -> None:
    thoughts = ThoughtFilter(opened=True)
    assert thoughts.feed("To the left.") + thoughts.end() == "To the left."


@pytest.mark.parametrize(
    "said",
    [
        "[1, 2]",
        "```json\n[1, 2]\n```",
        "```\n[1, 2]```",
        "<think>[3]</think>\n```JSON\n[1, 2]\n```\n",
    ],
)
def test_json_is_found_in_a_fence_and_after_a_thought(said: str) -> None:
    assert json.loads(json_text(said)) == [1, 2]
