"""Answers of a real small model on a real llama.cpp server.

What the model writes is nonsense as often as not: these tests assert structure, never content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.cli_run import fresh_shell
from triptych.answers import Answer, AnswerPrompt, AnswerReceipt
from triptych.contracts import LLM
from triptych.errors import CancelledError, ProviderTimeoutError
from triptych.records.serialization import from_dict, to_dict
from triptych.service import Service
from triptych_providers import OpenAILLM

pytestmark = pytest.mark.llm

QUESTION = "How is tea kept warm?"
DOCUMENTS = {
    "pot.md": "# The pot\n\nA pot of porcelain keeps tea warm for half an hour.\n",
    "cosy.md": "# The cosy\n\nA cosy of wool around the pot keeps tea warm for an hour.\n",
}


@pytest.fixture
def llm(llama_chat: str) -> Iterator[LLM]:
    model = OpenAILLM("smollm2", base_url=llama_chat, temperature=0.0)
    yield model
    model.close()


@pytest.fixture
def kb(llm: LLM) -> Iterator[Service]:
    with triptych.open("memory://", embedder=None, llm=llm) as service:
        service.put_documents("d", DOCUMENTS)
        yield service


def checked(kb: Service, answer: Answer) -> None:
    numbers = {piece.number for piece in answer.pack.pieces}
    assert answer.text.strip() == answer.text != ""
    assert {each.number for each in answer.citations} <= numbers
    for sentence in answer.sentences:
        assert answer.text[sentence.start : sentence.end] == sentence.text
        assert set(sentence.numbers) <= numbers
    assert answer.usage.input_tokens > 100
    assert answer.usage.output_tokens > 0
    assert not answer.usage_estimated
    receipt = from_dict(AnswerReceipt, json.loads(json.dumps(to_dict(answer.receipt))))
    again = kb.replay(receipt)
    assert again.identical
    assert again.messages == answer.sent


@pytest.mark.parametrize("role", ["system", "user"])
def test_a_real_model_answers(kb: Service, role: str) -> None:
    prompt = AnswerPrompt(role="user" if role == "user" else "system")
    answer = kb.ask(QUESTION, dataset_id="d", max_tokens=24, prompt=prompt)
    checked(kb, answer)
    assert len(answer.sent) == (1 if role == "user" else 2)


def test_a_real_model_streams_its_answer(kb: Service) -> None:
    with kb.ask_stream(QUESTION, dataset_id="d", max_tokens=24) as stream:
        pieces = list(stream)
    assert "".join(pieces) == stream.answer.text
    checked(kb, stream.answer)
    assert len(pieces) > 1 or stream.answer.abstained


def test_a_real_conversation_goes_on(kb: Service) -> None:
    first = kb.ask(QUESTION, dataset_id="d", max_tokens=16)
    turns = first.conversation
    second = kb.ask("For how long?", dataset_id="d", max_tokens=16, conversation=turns)
    assert second.conversation[: len(turns)] == turns
    assert len(second.conversation) == len(turns) + 2
    assert second.usage.calls >= 1


def test_a_real_stream_is_left_and_the_server_goes_on(kb: Service) -> None:
    stream = kb.ask_stream(QUESTION, dataset_id="d", max_tokens=200)
    next(stream)
    stream.close()
    with triptych.deadline(0.001), pytest.raises((CancelledError, ProviderTimeoutError)):
        kb.ask(QUESTION, dataset_id="d", max_tokens=200)
    assert kb.ask(QUESTION, dataset_id="d", max_tokens=4).text


def test_the_command_asks_a_real_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, llama_chat: str
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.setenv("TRIPTYCH_LLM", "openai:smollm2")
    monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", llama_chat)
    for name, text in DOCUMENTS.items():
        shell.write(f"docs/{name}", text)
    assert shell("put", "docs").code == 0
    ran = shell("ask", QUESTION, "--max-tokens", "16", "--json")
    assert ran.code == 0, ran.both
    assert ran.json["usage"]["calls"] == 1
    streamed = shell("ask", QUESTION, "--max-tokens", "16")
    assert streamed.code == 0, streamed.both
    assert streamed.text.strip()
