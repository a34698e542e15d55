"""A model that thinks aloud: what it thinks is no answer, no citation and no abstention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import triptych
from triptych.records import Generation, Message, Usage
from triptych.service import Service
from triptych_testing import ScriptedLLM


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash") as opened:
        docs = opened.dataset("d")
        docs.put("kettle.md", "# Kettle\n\nTurn the lid to the left, and pull.\n")
        docs.put("stove.md", "# Stove\n\nThe stove of the kettle has four plates.\n")
        yield opened


class Streaming:
    """Streams the pieces as they are."""

    def __init__(self, signature: str, *pieces: str) -> None:
        self.signature = signature
        self.pieces = pieces

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        return Generation(text="".join(self.pieces), usage=Usage())

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        yield from self.pieces


def ask(kb: Service, llm: Any) -> Any:
    return kb.ask("how do I turn the kettle lid", dataset_id="d", llm=llm)


def streamed(kb: Service, llm: Any) -> tuple[str, Any]:
    stream = kb.ask_stream("how do I turn the kettle lid", dataset_id="d", llm=llm)
    return "".join(stream), stream.answer


def test_numbers_in_a_thought_are_no_citations(kb: Service) -> None:
    answer = ask(kb, ScriptedLLM("<think>[1] is the lid, [2] is a stove.</think>To the left [1]."))
    assert answer.text == "To the left [1]."
    assert [each.number for each in answer.citations] == [1]


@pytest.mark.parametrize(
    "said", ["<think>No.</think>\nNO_ANSWER", "No weight.\n</think>\nNO_ANSWER"]
)
def test_no_answer_after_a_thought_is_an_abstention(kb: Service, said: str) -> None:
    answer = ask(kb, ScriptedLLM(said))
    assert answer.abstained
    assert "think" not in answer.text
    assert streamed(kb, Streaming(f"x/{said}", *said))[1].abstained


def test_a_mark_that_is_split_between_pieces_is_found(kb: Service) -> None:
    pieces = ("<th", "ink>[2] a", " thought</", "think", ">To the", " left [1].")
    shown, answer = streamed(kb, Streaming("x/split", *pieces))
    assert shown == answer.text == "To the left [1]."
    assert [each.number for each in answer.citations] == [1]


def test_a_thought_alone_is_an_empty_answer(kb: Service) -> None:
    with pytest.raises(triptych.errors.UnusableAnswerError, match="empty"):
        ask(kb, ScriptedLLM("<think>and so on"))


def test_a_thought_that_no_mark_begins_is_told_once_and_then_held_back(kb: Service) -> None:
    llm = Streaming("x/template", "Okay, [2] it", " asks.</think>", "To the left [1].")
    shown, answer = streamed(kb, llm)
    assert shown.startswith("Okay")  # nobody could know
    assert answer.text == "To the left [1]."
    assert [each.number for each in answer.citations] == [1]
    assert any("thought of the model" in each for each in answer.warnings)
    shown, answer = streamed(kb, llm)
    assert shown == answer.text == "To the left [1]."
    assert not any("thought of the model" in each for each in answer.warnings)


@pytest.mark.parametrize("mark", ['"</think>"', "the </think> tag", "`</think>`"])
def test_a_mark_that_is_spoken_of_takes_nothing(kb: Service, mark: str) -> None:
    said = f"Turn to the left and write {mark} there [1]. Then pull."
    llm = Streaming(f"x/{mark}", *(said[at : at + 7] for at in range(0, len(said), 7)))
    assert ask(kb, llm).text == said
    stream = kb.ask_stream("how do I turn the kettle lid", dataset_id="d", llm=llm)
    assert len(pieces := list(stream)) > 3
    assert "".join(pieces) == stream.answer.text == said
    assert [each.number for each in stream.answer.citations] == [1]
    assert len(list(kb.ask_stream("the kettle lid", dataset_id="d", llm=llm))) > 3


def test_a_model_that_thinks_no_more_is_forgotten(kb: Service) -> None:
    thinking = Streaming("x/forgotten", "It asks.\n</think>\n\n", "To the", " left [1].")
    plain = Streaming("x/forgotten", "To the ", "left [1], ", "and then ", "pull it.")
    assert streamed(kb, thinking)[1].text == streamed(kb, thinking)[0] == "To the left [1]."
    with pytest.raises(triptych.errors.UnusableAnswerError):
        streamed(kb, Streaming("x/forgotten", "<think>secret ", "and so on"))
    assert streamed(kb, plain)[0] == "To the left [1], and then pull it."
    assert len(list(kb.ask_stream("the kettle lid", dataset_id="d", llm=plain))) > 1


def test_citations_before_an_end_mark_are_told(kb: Service) -> None:
    said = "The stove has plates [2].\n</think>\n\nTo the left [1]."
    for answer in (ask(kb, ScriptedLLM(said)), streamed(kb, Streaming("x/told", *said))[1]):
        assert answer.text == "To the left [1]."
        assert any("cites [2]" in each for each in answer.warnings)


@pytest.mark.parametrize(
    "said",
    [
        "<answer>NO_ANSWER</answer>",
        "<answer>\n**NO_ANSWER**\n</answer>",
        "<think>Hm [2].</think>\n<answer>NO_ANSWER</answer>",
        "\u200b<think>Hm [2].</think>NO_ANSWER",
    ],
)
def test_an_abstention_in_a_tag_is_one(kb: Service, said: str) -> None:
    assert ask(kb, ScriptedLLM(said)).abstained
    shown, answer = streamed(kb, Streaming(f"x/{said}", *said))
    assert answer.abstained
    assert "answer>" not in shown
