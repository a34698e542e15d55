"""What an answer is: its text, what it cites, what it cost, and how it came about."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import ClassVar, Literal

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.answers.options import AnswerPrompt
from triptych.answers.pack import ContextPack, ContextReceipt
from triptych.answers.pieces import Citation, Piece
from triptych.errors import NotAvailableError
from triptych.records import Message, ModelUsage
from triptych.signatures import content_sha256

Abstention = Literal["", "nothing", "weak", "model"]
"""Why there is no answer: nothing was found, or nothing that answers; what was found is too weak;
the model says that its sources do not answer. "" where there is one."""


@attrs.frozen(kw_only=True, slots=True)
class AnswerSentence:
    """A sentence of an answer: ``answer.text[start:end]``, and the numbers it cites."""

    text: str
    start: int
    end: int
    numbers: tuple[int, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class CitedSource:
    """A number that an answer cites, and the piece of the context that it stands for."""

    number: int
    piece: Piece

    @property
    def citation(self) -> Citation:
        """Where the piece is from; `Service.verify` says whether it still stands there."""
        return self.piece.citation

    def __str__(self) -> str:
        """Its number and where it is from."""
        return f"[{self.number}] {self.citation}"


@attrs.frozen(kw_only=True, slots=True)
class AnswerReceipt:
    """How an answer came about. `Service.replay` makes what the model was sent again.

    `triptych.records.serialization` turns it into JSON and back.

    Attributes:
        question: as it was asked.
        standalone: as it was searched for.
        context: what was found and taken.
        model: the signature of the model that answered.
        prompt: what the model was told.
        conversation: the turns before the question, as they were sent.
        max_tokens: the limit of the answer.
        sent: the SHA-256 of the messages; "" where the model was not asked.
        text: the SHA-256 of the answer's text.
        abstained: why there is no answer, "" where there is one.
        cited: the numbers that the answer cites, in their order.
        removed: numbers that the model cited and no piece has.
        usage: what was used.
        warnings: those of the answer.
    """

    question: str
    standalone: str
    context: ContextReceipt
    model: str
    prompt: AnswerPrompt
    conversation: tuple[Message, ...] = ()
    max_tokens: int
    sent: str
    text: str
    abstained: Abstention = ""
    cited: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    usage: ModelUsage
    warnings: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Answer:
    """What `Service.ask` answers.

    Attributes:
        question: as it was asked.
        standalone: as it was searched for: with a conversation, the question made whole.
        text: the answer, with citations ``[n]``; where it ``abstained``, a sentence that says so.
        sentences: its sentences, each with the numbers it cites; none where it abstained.
        citations: the pieces that it cites, each once, in the order of the text.
        reason: why it abstained, "" where it did not.
        pack: the context that the model was shown; without pieces where nothing was found.
        usage: calls of the model, tokens and cost, with that of making the question whole;
            ``usage_estimated`` where the model did not count its tokens.
        search_usage: what models took to word the search, an entry each.
        cost: of ``usage``, in the currency of the prices; None without prices.
        truncated: the model stopped at ``max_tokens``.
        removed: numbers that the model cited and no piece has; they are not in ``text``.
        warnings: of the searches, the context, the citations and the model.
        conversation: the turns that were given, the question and the answer: what to give with
            the next question.
        sent: what the model was sent; nothing where it was not asked.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("abstained", "uncited", "receipt")

    question: str
    standalone: str
    text: str
    sentences: tuple[AnswerSentence, ...] = ()
    citations: tuple[CitedSource, ...] = ()
    reason: Abstention = ""
    pack: ContextPack
    usage: ModelUsage
    usage_estimated: bool = False
    search_usage: tuple[ModelUsage, ...] = ()
    cost: float | None = None
    truncated: bool = False
    removed: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    conversation: tuple[Message, ...] = attrs.field(default=(), repr=False)
    sent: tuple[Message, ...] = attrs.field(default=(), repr=False)
    prompt: AnswerPrompt = attrs.field(factory=AnswerPrompt, repr=False)
    turns: tuple[Message, ...] = attrs.field(default=(), repr=False)
    max_tokens: int = 0

    def __str__(self) -> str:
        """The text, and below it a line for each source."""
        return "\n".join([self.text, *(["", *map(str, self.citations)] if self.citations else [])])

    @property
    def abstained(self) -> bool:
        """Whether there is no answer."""
        return bool(self.reason)

    @property
    def uncited(self) -> tuple[AnswerSentence, ...]:
        """The sentences that cite nothing."""
        return tuple(each for each in self.sentences if not each.numbers)

    @property
    def receipt(self) -> AnswerReceipt:
        """What was considered, taken and left out, and all that makes the prompt again.

        It is made when it is asked for. `Service.replay` reads it.
        """
        return AnswerReceipt(
            question=self.question,
            standalone=self.standalone,
            context=self.pack.receipt,
            model=self.usage.model,
            prompt=self.prompt,
            conversation=self.turns,
            max_tokens=self.max_tokens,
            sent=messages_sha256(self.sent),
            text=content_sha256(self.text),
            abstained=self.reason,
            cited=tuple(each.number for each in self.citations),
            removed=self.removed,
            usage=self.usage,
            warnings=self.warnings,
        )


def messages_sha256(messages: tuple[Message, ...]) -> str:
    """The SHA-256 of messages, "" of none."""
    if not messages:
        return ""
    return content_sha256("".join(f"{m.role}:{len(m.content)}:{m.content}" for m in messages))


class AnswerStream(CloseOnExit, Iterator[str]):
    """The pieces of an answer; joined, they are ``answer.text``::

        with kb.ask_stream("…", dataset_id="docs") as stream:
            for piece in stream:
                print(piece, end="")
        print(stream.answer.citations)

    The search is done when the stream is made; the model is asked when it is read. Each piece has
    been checked: citations of what does not exist are not in it. Close the stream where it is not
    read to its end.
    """

    def __init__(self, pack: ContextPack, pieces: Generator[str, None, Answer]) -> None:
        self.pack: ContextPack = pack
        """What the model is shown: the pieces that citations name."""
        self._pieces = pieces
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The whole answer.

        Raises:
            NotAvailableError: the stream has not been read to its end.
        """
        if self._answer is None:
            raise NotAvailableError("the answer is not whole yet: read the stream to its end")
        return self._answer

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as end:
            if isinstance(end.value, Answer):
                self._answer = end.value
            raise StopIteration from None

    def close(self) -> None:
        """Let go of the model; it stops writing. Idempotent."""
        self._pieces.close()
