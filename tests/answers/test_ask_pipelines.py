"""A named pipeline answers with its own datasets, budget, model and prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.chat_server import chat
from support.cli_run import fresh_shell
from triptych.answers import AnswerPrompt
from triptych.errors import NotAvailableError, ValidationError
from triptych.search import Pipeline
from triptych.service import Service, ServiceOptions
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import ScriptedLLM

PIPELINES = (
    Pipeline(
        name="support",
        datasets=("docs",),
        token_budget=300,
        prompt="Say it in rhyme.",
        llm=ScriptedLLM(*["Pull [1]."] * 9, signature="own/1"),
    ),
    Pipeline(name="bare"),
)


@pytest.fixture
def kb() -> Iterator[Service]:
    options = ServiceOptions(pipelines=PIPELINES)
    with Service(MemoryStore(), options=options) as service:
        service.put_document("docs", "kettle.md", "# Kettle\n\nTurn the lid, and pull.\n")
        service.put_document("other", "pan.md", "The lid of the pan is loose.")
        yield service


def test_a_pipeline_answers_by_what_it_says(kb: Service) -> None:
    answer = kb.pipeline("support").ask("the lid?")
    assert (answer.text, answer.usage.model) == ("Pull [1].", "own/1")
    assert answer.pack.budget == 300
    assert {piece.citation.dataset_id for piece in answer.pack.pieces} == {"docs"}
    assert answer.sent[0].content.startswith("Say it in rhyme.")
    assert kb.replay(answer.receipt).identical
    stream = kb.pipeline("support").ask_stream("the lid?", max_pieces=1)
    assert "".join(stream) == stream.answer.text == "Pull [1]."


def test_a_caller_may_choose_otherwise(kb: Service) -> None:
    view = kb.pipeline("support")
    llm = ScriptedLLM("Lift [1].")
    prompt = AnswerPrompt(instructions="Be brief.")
    answer = view.ask("the lid?", llm=llm, prompt=prompt, token_budget=200)
    assert (answer.usage.model, answer.pack.budget) == ("scripted/1", 200)
    assert answer.sent[0].content.startswith("Be brief.")
    assert view.ask("the lid?", answerability=lambda _: "nothing").reason == "nothing"
    with pytest.raises(ValidationError, match="support"):
        view.ask("the lid?", dataset_id="other")


def test_a_pipeline_without_a_model_says_how_to_name_one(kb: Service) -> None:
    with pytest.raises(NotAvailableError):
        kb.pipeline("bare").ask("the lid?")
    answer = kb.pipeline("bare").ask("the lid?", llm=ScriptedLLM("Pull [1]."))
    assert {piece.citation.dataset_id for piece in answer.pack.pieces} == {"docs", "other"}


def test_what_a_pipeline_says_of_lists_of_hits_holds_for_searches_alone(kb: Service) -> None:
    pipeline = Pipeline(name="short", search={"per_document": 1, "top_k": 1})
    options = ServiceOptions(pipelines=[pipeline], llm=ScriptedLLM("Pull [1]."))
    with Service(MemoryStore(), options=options) as service:
        service.put_documents("docs", {"a.md": "the lid of iron", "b.md": "a lid of wood"})
        view = service.pipeline("short")
        assert len(view.search("lid")) == 1
        assert len(view.context("lid", 300).pieces) == 2
        assert view.ask("lid").text == "Pull [1]."
        with pytest.raises(ValidationError, match="per_document"):
            view.ask("lid", per_document=1)


def test_pipelines_answer_an_event_loop(kb: Service) -> None:
    async def run() -> None:
        view = triptych.AsyncService(kb).pipeline("support")
        stream = view.ask_stream("the lid?")
        assert [piece async for piece in stream] == ["Pull [1]."]
        assert (await view.ask("the lid?")).text == stream.answer.text

    asyncio.run(run())


def test_the_command_asks_a_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/kettle.md", "# Kettle\n\nTurn the lid, and pull.\n")
    assert shell("put", "docs").code == 0
    shell.write(
        "triptych.toml",
        '[pipelines.support]\ntoken_budget = 300\nprompt = "Say it in rhyme."\n',
    )
    with chat(["Pull [1]."]) as server:
        monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", f"{server.url}/v1")
        ran = shell("ask", "the lid?", "--pipeline", "support", "--llm", "openai:m", "--json")
        assert ran.code == 0, ran.both
        assert ran.json["receipt"]["context"]["budget"] == 300
        system = server.asked[0].body["messages"][0]["content"]
        assert system.startswith("Say it in rhyme.")
        plain = shell("ask", "the lid?", "--pipeline", "support", "--llm", "openai:m")
        assert plain.text.startswith("Pull [1].\n\n[1] ")
