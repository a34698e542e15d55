"""The records of answers: text, citations, costs and receipt."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import ClassVar, Literal

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.answers.options import AnswerPrompt
from triptych.answers.pack import ContextPack, ContextReceipt
from triptych.answers.pieces import Citation, Piece
from triptych.errors import NotAvailableError
from triptych.records import Layer, Message, ModelUsage, to_layer
from triptych.signatures import content_sha256

Abstention = Literal["", "nothing", "weak", "model", "unproven"]
"""Why an answer abstains: nothing was found, or nothing that answers; the evidence is too weak; the
model says that its sources do not answer; ``proof="drop"`` left out every sentence. "" if it does
not abstain."""


@attrs.frozen(kw_only=True, slots=True)
class AnswerSentence:
    """A sentence of an answer: ``answer.text[start:end]`` and the numbers that it cites."""

    text: str
    start: int
    end: int
    numbers: tuple[int, ...] = ()


ClaimKind = Literal["quotation", "figure", "date", "name", "code"]
ClaimStatus = Literal["supported", "elsewhere", "stitched", "nowhere"]
"""Whether a claim is in a cited passage; in another one; only in parts, of which no passage has
the whole; or in no passage."""


@attrs.frozen(kw_only=True, slots=True)
class ClaimPlace:
    """Where a claim was found: a span of a document's or a layer's text, in code points.

    ``number`` is that of its piece; None if it is outside the context.
    """

    number: int | None = None
    dataset_id: str
    doc_name: str
    layer: Layer = attrs.field(default=Layer.DETAIL, converter=to_layer)
    version: int
    start: int
    end: int


@attrs.frozen(kw_only=True, slots=True)
class Claim:
    """What an answer says word by word, and whether its sources say it; no model decides.

    Attributes:
        text: the claim: ``answer.text[start:end]``; "" in a receipt.
        kind: a quotation, or a sentence that repeats a source; a figure; a date; a name; code.
        status: whether the cited passages have it. Without a citation, every passage counts.
        numbers: the numbers that its sentence cites.
        found: where it was found first; None if nowhere.
    """

    text: str
    start: int
    end: int
    kind: ClaimKind
    status: ClaimStatus
    numbers: tuple[int, ...] = ()
    found: ClaimPlace | None = None

    def __str__(self) -> str:
        """The claim, and where it is."""
        said = f"the {self.kind} {self.text!r:.80} is "
        cited = "".join(f"[{number}]" for number in self.numbers) or "the context"
        if self.status == "supported":
            return f"{said}in {cited}"
        if self.status == "stitched":
            return f"{said}stitched together: its parts are in the sources, but not in one run"
        if self.found is None:
            return f"{said}not in {cited}, and was found nowhere"
        place, number = self.found.doc_name or self.found.dataset_id, self.found.number
        return f"{said}not in {cited}, but in {place if number is None else f'[{number}]'}"


@attrs.frozen(kw_only=True, slots=True)
class CitedSource:
    """A cited number and its piece of the context."""

    number: int
    piece: Piece

    @property
    def citation(self) -> Citation:
        """The source of the piece; `Service.verify` checks it."""
        return self.piece.citation

    def __str__(self) -> str:
        """Its number and where it is from."""
        return f"[{self.number}] {self.citation}"


@attrs.frozen(kw_only=True, slots=True)
class AnswerReceipt:
    """The record of how an answer was made, for `Service.replay`.

    `triptych.records.serialization` converts it to JSON and back.

    Attributes:
        question: the original question.
        standalone: the question that was searched for.
        context: the receipt of the context.
        model: the signature of the model.
        prompt: the prompt.
        conversation: the earlier messages, as they were sent.
        max_tokens: the maximum length of the answer.
        sent: the SHA-256 of the messages; "" if the model was not called.
        text: the SHA-256 of the answer's text.
        abstained: why the answer abstains, or "".
        cited: the cited numbers, in order.
        removed: cited numbers without a piece.
        usage: the usage of the model.
        warnings: the warnings of the answer.
        proof: its claims, without their text.
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
    proof: tuple[Claim, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Answer:
    """The result of `Service.ask`.

    Attributes:
        question: the original question.
        standalone: the question that was searched for; with a conversation, the rewritten one.
        text: the answer with citations ``[n]``, or a sentence that says that it abstains.
        sentences: its sentences, each with the cited numbers; empty if it abstains.
        citations: the distinct pieces that it cites, in the order of the text.
        reason: why it abstains, or "".
        pack: the context that the model got; without pieces if nothing was found.
        usage: calls of the model, tokens and cost, including the rewriting of the question;
            ``usage_estimated`` is true if the model did not report its tokens.
        search_usage: the usage of each model that rewrote the query.
        cost: the cost of ``usage``, in the currency of the prices; None without prices.
        truncated: whether the model stopped at ``max_tokens``.
        removed: cited numbers without a piece; they were removed from ``text``.
        proof: its quotations, figures, dates, names and code, each with the passage that has it.
        warnings: the warnings of the searches, the context, the citations and the model.
        conversation: the given conversation, the question and the answer: pass it with the next
            question.
        sent: the messages to the model; empty if it was not called.
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
    proof: tuple[Claim, ...] = ()
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
        """Whether the answer abstains."""
        return bool(self.reason)

    @property
    def uncited(self) -> tuple[AnswerSentence, ...]:
        """The sentences without a citation."""
        return tuple(each for each in self.sentences if not each.numbers)

    @property
    def receipt(self) -> AnswerReceipt:
        """The receipt: all passages considered, included and left out, for `Service.replay`.

        It is created at first access.
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
            proof=tuple(attrs.evolve(each, text="") for each in self.proof),
        )


def messages_sha256(messages: tuple[Message, ...]) -> str:
    """The SHA-256 of messages, "" of none."""
    if not messages:
        return ""
    return content_sha256("".join(f"{m.role}:{len(m.content)}:{m.content}" for m in messages))


class AnswerStream(CloseOnExit, Iterator[str]):
    """The text of an answer in pieces; joined they equal ``answer.text``::

        with kb.ask_stream("…", dataset_id="docs") as stream:
            for piece in stream:
                print(piece, end="")
        print(stream.answer.citations)

    The search runs when the stream is created, the model when it is read. Each piece is checked:
    invalid citations are removed. Close the stream if you do not read it to the end.
    """

    def __init__(self, pack: ContextPack, pieces: Generator[str, None, Answer]) -> None:
        self.pack: ContextPack = pack
        """What the model is shown: the pieces that citations name."""
        self._pieces = pieces
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The complete answer.

        Raises:
            NotAvailableError: the stream has not been read to its end.
        """
        if self._answer is None:
            raise NotAvailableError("the answer is not complete yet: read the stream to its end")
        return self._answer

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as end:
            if isinstance(end.value, Answer):
                self._answer = end.value
            raise StopIteration from None

    def close(self) -> None:
        """Stop the model and release it. Idempotent."""
        self._pieces.close()
