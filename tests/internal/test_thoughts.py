"""Thoughts of models in answers, wherever the pieces are cut, and JSON in what models write."""

import json

from hypothesis import given, strategies as st

from support.rows import each_row
from triptych._internal.thoughts import ThoughtFilter, without_thoughts
from triptych.answers import json_text

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
    "hm</thought>To the left [1].",
    "It asks.\n</reasoning>\nTo the left [1].",
    "hm </think>\n\nTo the left [1].",
    'The disk is 3.5" wide.</think>\n\nTo the left [1].',
    "\u200b<think>a</think>To the left [1].",
    "\ufeff\n<think>a</think>To the left [1].",
    '<think type="x">a</think>To the left [1].',
    "<seed:think>a</seed:think>To the left [1].",
    "<|channel>thought\na<channel|>To the left [1].",
    "<|begin_of_thought|>a<|end_of_thought|>\n\n<|begin_of_solution|>To the left [1]."
    "<|end_of_solution|>",
    "<think>a<think>b</think>c [2]</think>To the left [1].",
    "<think>a\n<think>\nb\n</think>\nc [2]\n</think>\n\nTo the left [1].",
    "<think>It asks about `</think>`. [2]</think>To the left [1].",
    '<think>It asks about "</think>". [2]</think>To the left [1].',
    "<think>It asks about the <think> tag. [2]</think>To the left [1].",
    "<think>It asks what <think> and </think> are. [2]\n</think>\n\nTo the left [1].",
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
    'The tag "</think>" ends it [1].',
    "'</think>' is the stop word [1].",
    "“</think>” is the stop word [1].",
    'Set stop=["</think>"] in the request [1].',
    'So [1]:\n{"stop": "a</think>b", "n": 1}',
    "So [1]:\nstop: </think>\nn: 1",
    "The parts [1]:\n- </think>\n- the answer",
    "The parts [1]:\n1. </think>\n2. the answer",
    "So [1]:\n```\na\n</think>\n\nb\n```\nThen stop.",
    "The mark [1]:\n\n    </think>\n\nThen the answer.",
    "    </think>\nis an indented line [1].",
    "Everything up to </think> is dropped [1].",
    "It ends with [/think] [1].",
    "It ends with </think>.",
    "It ends with </think>",
    "It ends with </think>\nand then [1].",
    "</think> is the mark [1].",
    "**</think>** is the mark [1].",
    "Write <code></think></code> there [1].",
    "The tag `</think>` [1].\n</think>\n\nis the mark.",
    "The message ends with <|return|>",
    "The stop token is <|end|>",
    "Set stop=<|end|>",
]


@each_row("said", THOUGHT)
def test_a_thought_is_taken_out(said: str) -> None:
    assert without_thoughts(said).strip() == "To the left [1]."


@each_row("said", PLAIN)
def test_what_is_no_thought_stays_as_it_is(said: str) -> None:
    assert without_thoughts(said) == said


@each_row(
    "said",
    [
        "<think>never ends",
        "[THINK]",
        "<|channel|>analysis<|message|>a",
        "<think>a<think>b</think>c [2]",
        "<think>a `</think>`",
    ],
)
def test_a_thought_that_does_not_end_is_all_there_is(said: str) -> None:
    assert without_thoughts(said) == ""
    known = ThoughtFilter(opened=True)
    assert "".join(map(known.feed, said)) + known.end() == ""


MARKS = ["<think>", "</think>", "[THINK]", "[/THINK]", "<|channel|>final<|message|>"]


@given(
    st.one_of(
        st.sampled_from(THOUGHT + PLAIN),
        st.lists(st.sampled_from([*MARKS, *'`<a \n"-.']), max_size=8).map("".join),
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
    said = f"a thought\n</think>\n{text}"
    thoughts = ThoughtFilter(opened=True)
    shown = "".join(thoughts.feed(said[at : at + size]) for at in range(0, len(said), size))
    assert "a thought" not in shown + thoughts.end()
    assert not thoughts.restarted


def test_a_model_that_did_not_think_this_time_is_shown_whole() -> None:
    thoughts = ThoughtFilter(opened=True)
    assert thoughts.feed("To the left.") + thoughts.end() == "To the left."


@each_row(
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
