"""Contexts and answers of a Service, and the proofs of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Unpack

from triptych.answering.prompt import AnswerPrompt
from triptych.answering.records import Answer, AnswerReceipt
from triptych.answering.replay import Replay
from triptych.answering.streaming import AnswerStream
from triptych.context.pack import ContextPack
from triptych.context.receipt import ContextReceipt
from triptych.context.records import Citation, Verification
from triptych.contracts import (
    LLM,
    AnswerabilityJudge,
)
from triptych.operations import Effect, operation
from triptych.records import (
    Layer,
    Prices,
    Query,
)
from triptych.records.search_options import SearchOptions
from triptych.search.query import query_of
from triptych.text.tokens import TokenCounter

if TYPE_CHECKING:
    from triptych.answering.answerer import Answerer, AskRequest
    from triptych.context.builder import ContextBuilder


from triptych.service.base import ServiceBase

__all__ = ["Answers"]


class Answers(ServiceBase):
    """How a Service answers questions."""

    @operation(Effect.READS)
    def context(
        self,
        query: Query | str,
        token_budget: int,
        *,
        format: str = "text",
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        fence: bool = False,
        **options: Unpack[SearchOptions],
    ) -> ContextPack:
        """The best mixture of passages and layers for a prompt, under a budget of tokens.

        ``query`` and ``options`` are those of `search`; ``layer`` and ``top_k`` play no role.
        ``format`` is the one that the pack will be rendered in: "text", "markdown", "xml" or
        "json"; headers and citations are counted.
        ``layers`` may leave some out; those that are not there are done without. ``max_pieces`` is
        the most pieces, the best; None for any number. ``counter``
        counts tokens: a function from text to their number; None is tiktoken where it is
        installed, else an estimate, as ``ContextPack.counter`` says. ``fence`` puts each text
        between delimiters that are drawn at random, and that no document can guess.

        A budget too small for anything gives an empty pack with a warning.

        Raises:
            ValidationError: budget, format, layers or counter is invalid, or the counter
                answers no number.
            TriptychError: as `search`.
        """
        from triptych.context.builder import ContextSettings

        contexts = self._contexts()
        settings = ContextSettings.of(
            token_budget,
            format=format,
            layers=layers,
            max_pieces=max_pieces,
            counter=counter,
            fence=fence,
        )
        return contexts.build(query_of(query, options), settings)

    @operation(Effect.READS)
    def verify(self, citation: Citation) -> Verification:
        """What became of a citation: fresh, changed or gone, with the difference.

        A passage that only moved is fresh, and told where it stands now.

        Raises:
            ValidationError: ``citation`` is none.
        """
        from triptych.context.citation_check import verify

        self._open()
        return verify(citation, self.documents, self._parts.layers)

    @operation(Effect.READS, long=True)
    def ask(
        self,
        question: Query | str,
        *,
        token_budget: int = 2800,
        max_tokens: int = 1024,
        llm: LLM | None = None,
        prompt: AnswerPrompt | None = None,
        prices: Prices | None = None,
        answerability: AnswerabilityJudge | None = None,
        abstain_if_weak: bool = False,
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        **options: Unpack[SearchOptions],
    ) -> Answer:
        """Answer a question from the documents, with citations that are checked.

        What `context` finds for ``question`` under ``token_budget`` is what the model is shown,
        each text between delimiters that no document can guess. Each ``[n]`` of the answer names
        a piece of it; a number that names none is taken out, with a warning, and
        ``Answer.uncited`` lists the sentences that cite nothing. Where nothing was found the
        answer abstains, and the model is not asked. It abstains too where the model says that its
        sources do not answer.

        Args:
            question: a `Query` or its text; ``options`` are those of `context`. Their
                ``conversation`` is the turns before, of user and assistant, such as
                ``Answer.conversation`` of the last answer: the model first makes the question
                whole by them (`make_standalone`), and sees the last 1,500 tokens of them.
            token_budget: the maximum number of tokens of the context.
            max_tokens: the maximum number of tokens of the answer.
            llm: the model; None is ``options.llm`` of the Service.
            prompt: the instructions for the model; None is `AnswerPrompt()`.
            prices: of a million tokens, for ``Answer.cost``.
            answerability: judges the chunks that were found: "nothing" abstains, "weak" warns;
                None is ``options.answerability`` of the Service, else what the dataset's
                calibration says (`Result.answerability`).
            abstain_if_weak: whether "weak" abstains, too.
            layers, max_pieces, counter: as in `context`.

        Raises:
            NotAvailableError: there is no language model.
            ProviderError: the model failed, or answered with an empty text.
            CancelledError: the deadline passed.
            TriptychError: as `context`.
        """
        return self._answerer().ask(
            self._ask_request(
                question,
                options,
                token_budget=token_budget,
                max_tokens=max_tokens,
                llm=llm,
                prompt=prompt,
                prices=prices,
                answerability=answerability,
                abstain_if_weak=abstain_if_weak,
                layers=layers,
                max_pieces=max_pieces,
                counter=counter,
            )
        )

    @operation(Effect.READS)
    def ask_stream(
        self,
        question: Query | str,
        *,
        token_budget: int = 2800,
        max_tokens: int = 1024,
        llm: LLM | None = None,
        prompt: AnswerPrompt | None = None,
        prices: Prices | None = None,
        answerability: AnswerabilityJudge | None = None,
        abstain_if_weak: bool = False,
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        **options: Unpack[SearchOptions],
    ) -> AnswerStream:
        """`ask` in pieces, as the model writes them; ``stream.answer`` is the whole at the end.

        The search is done, and its errors are raised, before this returns. What may still become
        a citation is held back until it was checked: the pieces joined are ``answer.text``. When
        the model breaks off, reading raises `ProviderError`, and what came before is no answer.

        Raises:
            TriptychError: as `ask`.
        """
        return self._answerer().stream(
            self._ask_request(
                question,
                options,
                token_budget=token_budget,
                max_tokens=max_tokens,
                llm=llm,
                prompt=prompt,
                prices=prices,
                answerability=answerability,
                abstain_if_weak=abstain_if_weak,
                layers=layers,
                max_pieces=max_pieces,
                counter=counter,
            )
        )

    @operation(Effect.READS, long=True)
    def replay(self, receipt: ContextReceipt | AnswerReceipt) -> Replay:
        """Make the context of a receipt again, from the versions of documents that are kept.

        Where all are, the text is the same, byte for byte, and so is what the model was sent;
        ``missing`` says which pieces are gone, and why. Nothing is searched and no model asked.

        Raises:
            ValidationError: ``receipt`` is none.
        """
        from triptych.answering.replay import replay

        self._open()
        return replay(receipt, self.documents, self.layer_repo, self.capabilities.versions)

    def _answerer(self) -> Answerer:
        from triptych.answering.answerer import Answerer

        return Answerer(self._contexts())

    def _contexts(self) -> ContextBuilder:
        # Here, as `doctor` and `health` do: most programs search only, and a command starts sooner.
        from triptych.context.builder import ContextBuilder

        self._open()
        searches = self._main.uncached
        return ContextBuilder(searches, self.documents, self.chunks, self.options.context)

    def _ask_request(
        self,
        question: Query | str,
        options: SearchOptions,
        *,
        llm: LLM | None,
        answerability: AnswerabilityJudge | None,
        **given: Any,
    ) -> AskRequest:
        from triptych.answering.answerer import AskRequest

        return AskRequest.of(
            query_of(question, options),
            llm=self.options.llm if llm is None else llm,
            answerability=self.options.answerability if answerability is None else answerability,
            **given,
        )
