"""The arguments of a context, typed: those of a search, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypedDict

from triptych.answers.prompt import AnswerPrompt
from triptych.contracts import LLM, AnswerabilityJudge
from triptych.records import Layer, Prices
from triptych.records.queries import DatasetSearchOptions, SearchOptions
from triptych.text.tokens import TokenCounter


class PassageOptions(TypedDict, total=False):
    """Which texts a context may hold.

    Keys:
        layers: the layers to mix, ``("L0", "L1", "L2")`` by default; those that do not exist are
            left out.
        max_pieces: the maximum number of pieces, the best; None for any number.
        counter: counts tokens: a function from text to their number. None is tiktoken where it is
            installed, else an estimate, as ``ContextPack.counter`` says.
    """

    layers: Iterable[Layer | str]
    max_pieces: int | None
    counter: TokenCounter | Callable[[str], int] | None


class _FormOptions(PassageOptions, total=False):
    """How a context is written.

    Keys:
        format: the one that the pack will be rendered in: "text" (the default), "markdown", "xml"
            or "json"; headers and citations are counted.
        fence: whether each text stands between delimiters that are drawn at random, and that no
            document can guess.
    """

    format: str
    fence: bool


class DatasetContextOptions(DatasetSearchOptions, _FormOptions, total=False):
    """What a context of one dataset takes beside the query and the budget."""


class ContextOptions(SearchOptions, _FormOptions, total=False):
    """What a context takes beside the query and the budget: ``layer`` and ``top_k`` of a search
    play no role."""


PASSAGE_DEFAULTS: Final[PassageOptions] = {
    "layers": ("L0", "L1", "L2"),
    "max_pieces": None,
    "counter": None,
}
CONTEXT_DEFAULTS: Final[_FormOptions] = {"format": "text", **PASSAGE_DEFAULTS, "fence": False}


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
