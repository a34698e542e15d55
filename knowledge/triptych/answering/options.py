"""The arguments of a question to a model, typed: those of a search, and how it is answered."""

from __future__ import annotations

from typing import Final

from triptych.answering.prompt import AnswerPrompt
from triptych.context.options import PASSAGE_DEFAULTS, PassageOptions
from triptych.contracts import LLM, AnswerabilityJudge
from triptych.records import Prices
from triptych.records.search_options import DatasetSearchOptions, SearchOptions

__all__ = ["ASK_DEFAULTS", "AskOptions", "DatasetAskOptions"]


class _AnswerOptions(PassageOptions, total=False):
    """How a question is answered.

    Keys:
        token_budget: the maximum number of tokens of the context, 2,800 by default; a pipeline has
            its own default.
        max_tokens: the maximum number of tokens of the answer, 1,024 by default.
        llm: the model; None is the pipeline's, else ``options.llm`` of the Service.
        prompt: the instructions for the model; None is the pipeline's, else `AnswerPrompt()`.
        prices: of a million tokens, for ``Answer.cost``.
        answerability: judges the chunks that were found: "nothing" abstains, "weak" warns; None is
            ``options.answerability`` of the Service, else what the dataset's calibration says
            (`Result.answerability`).
        abstain_if_weak: whether "weak" abstains, too.
    """

    token_budget: int | None
    max_tokens: int
    llm: LLM | None
    prompt: AnswerPrompt | None
    prices: Prices | None
    answerability: AnswerabilityJudge | None
    abstain_if_weak: bool


class DatasetAskOptions(DatasetSearchOptions, _AnswerOptions, total=False):
    """What a question to one dataset takes beside its text."""


class AskOptions(SearchOptions, _AnswerOptions, total=False):
    """What a question takes beside its text: ``layer`` and ``top_k`` of a search play no role.

    ``conversation`` are the turns before, of user and assistant, such as ``Answer.conversation`` of
    the last answer: the model first makes the question whole by them (`make_standalone`), and sees
    the last 1,500 tokens of them.
    """


ASK_DEFAULTS: Final[_AnswerOptions] = {
    "token_budget": 2800,
    "max_tokens": 1024,
    "llm": None,
    "prompt": None,
    "prices": None,
    "answerability": None,
    "abstain_if_weak": False,
    **PASSAGE_DEFAULTS,
}
