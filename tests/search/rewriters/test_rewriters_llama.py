"""The rewriters with a real small model on a real llama.cpp server.

What the model writes is nonsense as often as not. So a search either runs in other wordings, or has
a warning and the hits of the plain question; the calls are counted either way.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.rewriting import filled
from triptych import LLM, CancelledError, Message, Result, deadline
from triptych.contracts import QueryRewriter
from triptych.errors import UnusableAnswerError
from triptych.search import (
    FollowUpRewriter,
    FragmentRewriter,
    HyDE,
    ParaphraseRewriter,
    make_standalone,
)
from triptych_providers import OpenAILLM

pytestmark = pytest.mark.llm

QUESTION = "How is tea kept warm?"
TALK = [Message("user", "Tell me of the pot."), Message("assistant", "It is made of porcelain.")]


@pytest.fixture
def llm(llama_chat: str) -> Iterator[LLM]:
    model = OpenAILLM("smollm2", base_url=llama_chat)
    yield model
    model.close()


def searched(rewriter: QueryRewriter, calls: int) -> Result:
    with filled(rewriter=rewriter) as kb, filled() as plain:
        found = kb.search(QUESTION, dataset_id="d", conversation=TALK)
        assert found.hits
        (usage,) = found.usage
        assert usage.calls == calls
        if usage.failures < usage.calls:
            assert usage.input_tokens > 20
        else:
            assert "did not rewrite the query" in found.warnings[0]
            wanted = plain.search(QUESTION, dataset_id="d").hits
            assert [hit.doc_name for hit in found] == [hit.doc_name for hit in wanted]
        return found


@pytest.mark.parametrize("varied", [False, True])
def test_hyde(llm: LLM, varied: bool) -> None:
    documents = 5 if varied else 2
    rewriter = HyDE(llm, documents=documents, varied=varied, max_tokens=12)
    searched(rewriter, documents)


def test_adaptive_hyde(llm: LLM) -> None:
    searched(HyDE(llm, adaptive=True, threshold=1.0, max_tokens=12), 1)
    with filled(rewriter=HyDE(llm, adaptive=True, threshold=-1.0)) as kb:
        assert kb.search(QUESTION, dataset_id="d").usage == ()


def test_paraphrases(llm: LLM) -> None:
    rewriter = ParaphraseRewriter(llm, n=2, max_tokens=32)
    searched(rewriter, 1)


def test_follow_up_questions(llm: LLM) -> None:
    try:
        whole = make_standalone(llm, TALK, "and how warm?", max_tokens=40)
        assert whole == " ".join(whole.split())
        assert whole
    except UnusableAnswerError:
        pass
    searched(FollowUpRewriter(llm, max_tokens=40), 1)


def test_a_chain(llm: LLM) -> None:
    steps = [
        FollowUpRewriter(llm, max_tokens=40),
        FragmentRewriter(maximum=2),
        HyDE(llm, max_tokens=12),
    ]
    with filled(rewriter=steps) as kb:
        found = kb.search(QUESTION, dataset_id="d", conversation=TALK)
        assert found.hits
        assert found.usage[0].calls >= 2


def test_a_deadline_ends_a_call_of_the_model(llm: LLM) -> None:
    endless = HyDE(llm, max_tokens=1500)
    with filled(rewriter=endless) as kb, deadline(0.3), pytest.raises(CancelledError):
        kb.search(QUESTION, dataset_id="d")
    with filled(rewriter=HyDE(llm, max_tokens=1500, timeout=0.3)) as kb:
        found = kb.search(QUESTION, dataset_id="d")
        assert found.hits
        assert "HyDE did not rewrite the query (ProviderTimeoutError" in found.warnings[0]
