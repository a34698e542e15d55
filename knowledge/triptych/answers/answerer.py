"""Answering a question: search, call of the model, and checking the response as it arrives."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs

from triptych import deadlines, telemetry
from triptych._internal.thoughts import ThoughtFilter
from triptych._internal.wording import FailureWarning
from triptych.answers.citations import CitationFilter, check_turns, newest_turns, sentences_of
from triptych.answers.claims import FoundClaim
from triptych.answers.context import ContextBuilder
from triptych.answers.gate import SentenceGate
from triptych.answers.metering import MeteredLLM
from triptych.answers.options import (
    NO_ANSWER,
    AnswerPrompt,
    ContextSettings,
    ProofPolicy,
    answer_messages,
)
from triptych.answers.pack import ContextPack
from triptych.answers.proof import Passage, Prover, claiming
from triptych.answers.records import (
    Abstention,
    Answer,
    AnswerSentence,
    AnswerStream,
    CitedSource,
    Claim,
)
from triptych.answers.retrieval import Retrieved
from triptych.contracts import LLM, AnswerabilityJudge
from triptych.contracts.models import check_llm, how_to_set
from triptych.errors import (
    CancelledError,
    NotAvailableError,
    ProviderError,
    TriptychError,
    UnusableAnswerError,
    ValidationError,
)
from triptych.records import (
    Answerability,
    Layer,
    Message,
    ModelUsage,
    Prices,
    Query,
    Strength,
    check_whole,
)
from triptych.search.model_rewriters import make_standalone
from triptych.telemetry import AnswerObserver, Operation
from triptych.text.tokens import TokenCounter


@attrs.frozen(kw_only=True, slots=True)
class AskRequest:
    """The arguments of `Service.ask`, checked."""

    query: Query
    settings: ContextSettings
    max_tokens: int
    conversation: tuple[Message, ...]
    llm: LLM
    prompt: AnswerPrompt
    prices: Prices | None
    answerability: AnswerabilityJudge | None
    abstain_if_weak: bool
    proof: ProofPolicy

    @classmethod
    def of(
        cls,
        query: Query,
        *,
        token_budget: int,
        max_tokens: int,
        llm: object,
        prompt: AnswerPrompt | None,
        prices: Prices | None,
        answerability: AnswerabilityJudge | None,
        abstain_if_weak: bool,
        proof: object,
        layers: Iterable[Layer | str],
        max_pieces: int | None,
        counter: TokenCounter | Callable[[str], int] | None,
    ) -> AskRequest:
        """The request.

        Raises:
            ValidationError: one of the arguments is invalid.
            NotAvailableError: no language model is configured.
        """
        if prompt is not None and not isinstance(prompt, AnswerPrompt):
            raise ValidationError(
                f"prompt is an AnswerPrompt, not {prompt!r:.60}: give AnswerPrompt(instructions=…)"
            )
        if prices is not None and not isinstance(prices, Prices):
            raise ValidationError(f"prices are Prices(input=…, output=…), not {prices!r:.60}")
        if answerability is not None and not callable(answerability):
            raise ValidationError(
                "answerability is a function from a Result to 'enough', 'weak' or 'nothing', not "
                f"{answerability!r:.60}"
            )
        if proof not in ("mark", "drop", "refuse"):
            raise ValidationError(f"proof is 'mark', 'drop' or 'refuse', not {proof!r:.60}")
        if llm is None:
            raise NotAvailableError(
                f"there is no language model to answer with: {how_to_set('llm')}"
            ).hinted("`triptych context` prints what a model would be shown")
        return cls(
            query=query,
            settings=ContextSettings(
                token_budget=token_budget,
                format="text",
                layers=layers,
                max_pieces=max_pieces,
                counter=counter,
                fence=True,
            ),
            max_tokens=check_whole(max_tokens, "max_tokens", least=1),
            conversation=check_turns(query.conversation),
            llm=check_llm(llm, "stream"),
            prompt=prompt or AnswerPrompt(),
            prices=prices,
            answerability=answerability,
            abstain_if_weak=abstain_if_weak,
            proof=proof,
        )


class Answerer:
    """What `Service.ask` and `Service.ask_stream` do."""

    def __init__(self, contexts: ContextBuilder, observer: AnswerObserver | None = None) -> None:
        """``observer`` sees which documents answers cite."""
        self._contexts = contexts
        self._observer = observer

    def ask(self, request: AskRequest) -> Answer:
        """Search, and answer in one piece."""
        with telemetry.operation("ask"):
            return _drained(self._prepared(request)._written(streamed=False))

    def stream(self, request: AskRequest) -> AnswerStream:
        """Search, and answer piece by piece."""
        operation = telemetry.operation("ask", streamed=True)
        try:
            with operation.current():
                asked = self._prepared(request)
        except BaseException as error:
            operation.end(error)
            raise
        return AnswerStream(asked.pack, _observed(operation, asked._written(streamed=True)))

    def _prepared(self, request: AskRequest) -> _Asked:
        deadlines.check("the answer")
        meter = MeteredLLM(request.llm, request.prices)
        warnings: list[str] = []
        standalone = _standalone(request, meter, warnings)
        # The question is whole: no rewriter needs the conversation any more.
        query = attrs.evolve(request.query, text=standalone, conversation=())
        found, pack = self._contexts.find_and_pack(query, request.settings)
        verdict = _verdict(request, found, pack)
        reason: Abstention = ""
        if verdict == "nothing" or (verdict == "weak" and request.abstain_if_weak):
            reason = verdict
        if verdict == "weak" and request.answerability is not None:
            warnings.append("the hits hardly answer the question")
        usage, sees = found.usage, self._observer
        prover = Prover(pack.pieces, f"{request.query.text} {standalone}")
        search = partial(self._contexts.look_up, query)
        return _Asked(
            request, meter, standalone, pack, usage, reason, warnings, sees, prover, search
        )


def _standalone(request: AskRequest, meter: MeteredLLM, warnings: list[str]) -> str:
    """The question in words that need no conversation; as it came where the model fails."""
    question = request.query.text
    if not request.conversation:
        return question
    try:
        return make_standalone(meter, request.conversation, question)
    except ProviderError as error:
        warnings.append(FailureWarning("the question is searched for as it came", error))
        return question


_VERDICTS: Mapping[Strength, Answerability] = {"none": "nothing", "weak": "weak"}


def _verdict(request: AskRequest, found: Retrieved, pack: ContextPack) -> Answerability:
    if not pack.pieces:
        return "nothing"
    if found.result is None:
        return "enough"
    if request.answerability is None:
        evidence = found.result.evidence
        # Evidence speaks of chunks: without any, layers were found.
        if evidence is None or not found.result.hits:
            return "enough"
        return _VERDICTS.get(evidence.level, "enough")
    verdict: Any = request.answerability(found.result)
    if verdict not in ("enough", "weak", "nothing"):
        raise ValidationError(
            f"answerability answered {verdict!r:.60}: it must be 'enough', 'weak' or 'nothing'"
        )
    checked: Answerability = verdict
    return checked


@attrs.define
class _Asked:
    """A question with its context, about to be answered."""

    request: AskRequest
    meter: MeteredLLM
    standalone: str
    pack: ContextPack
    search_usage: tuple[ModelUsage, ...]
    reason: Abstention
    warnings: list[str]
    observer: AnswerObserver | None
    prover: Prover
    search: Callable[[str], Iterable[Passage]]
    looked_up: int = 0

    def _written(self, *, streamed: bool) -> Generator[str, None, Answer]:
        """The pieces of the answer; returns the whole."""
        request, pack = self.request, self.pack
        if self.reason:
            yield request.prompt.abstention
            return self._answer(request.prompt.abstention, self.reason)
        turns, dropped = newest_turns(request.conversation, request.settings.counter.count)
        if dropped:
            self.warnings.append(
                f"the conversation is long: its first {dropped} messages were not sent"
            )
        messages = answer_messages(
            request.prompt, turns, pack.render(), pack.mark, request.query.text
        )
        thoughts = ThoughtFilter(opened=streamed and self.meter.signature in _OPENED)
        numbers = {piece.number for piece in pack.pieces}
        reading, opening = CitationFilter(numbers), _Opening()
        gate = SentenceGate(self.prover, request.proof)
        pieces = self._pieces(messages, streamed)
        try:
            for piece in pieces:
                said = thoughts.feed(piece)
                if thoughts.restarted:
                    thoughts.restarted = False
                    reading, opening = CitationFilter(numbers), _Opening()
                    gate = SentenceGate(self.prover, request.proof)
                    self.warnings.append(
                        "what was shown first was a thought of the model, which no mark began: "
                        "the text of the answer begins after it"
                    )
                if text := gate.feed(opening.feed(reading.feed(said)), reading):
                    yield text
                if opening.declined:
                    break
        finally:
            pieces.close()
        said = thoughts.end()
        if text := gate.end(opening.feed(reading.feed(said)) + opening.end(reading.end()), reading):
            yield text
        self._note_orphan(thoughts.orphan, numbers)
        if opening.declined:
            yield request.prompt.abstention
            return self._answer(
                request.prompt.abstention, "model", reading=None, turns=turns, sent=messages
            )
        if not reading.text:
            raise UnusableAnswerError(
                f"{self.meter.signature!r} returned an empty text: rephrase the question, or use "
                "another model",
                reason="empty",
            )
        self.warnings += (f"left out: {claim}" for claim in gate.dropped)
        if not gate.text:
            yield request.prompt.abstention
            return self._answer(request.prompt.abstention, "unproven", turns=turns, sent=messages)
        if gate.dropped:
            removed, reading = reading.removed, CitationFilter(numbers)
            reading.feed(gate.text)
            reading.end()
            reading.removed += removed
        return self._answer(reading.text, "", reading=reading, turns=turns, sent=messages)

    def _note_orphan(self, orphan: str, numbers: set[int]) -> None:
        """Remember whether the model thinks first, and tell of citations in such a thought."""
        (_OPENED.add if orphan else _OPENED.discard)(self.meter.signature)
        left_out = CitationFilter(numbers)
        left_out.feed(orphan)
        left_out.end()
        if cited := sorted({number for mark in left_out.marks for number in mark.numbers}):
            listed = ", ".join(f"[{number}]" for number in cited)
            self.warnings.append(
                f"text that cites {listed} stood before the mark that ends a thought: left out"
            )

    def _pieces(self, messages: Sequence[Message], streamed: bool) -> Generator[str, None, None]:
        if streamed:
            yield from self.meter.stream(messages, max_tokens=self.request.max_tokens)
        else:
            yield self.meter.generate(messages, max_tokens=self.request.max_tokens).text

    def _answer(
        self,
        text: str,
        reason: Abstention,
        *,
        reading: CitationFilter | None = None,
        turns: Sequence[Message] = (),
        sent: Sequence[Message] = (),
    ) -> Answer:
        request, meter, pack = self.request, self.meter, self.pack
        telemetry.note(abstained=reason)
        by_number = {piece.number: piece for piece in pack.pieces}
        marks = () if reading is None else tuple(reading.marks)
        cited = dict.fromkeys(number for mark in marks for number in mark.numbers)
        removed = () if reading is None else tuple(reading.removed)
        sentences = () if reading is None else sentences_of(text, marks, reading.code)
        proof = () if reading is None else self._proof(text, claiming(text, reading))
        if self.observer is not None and cited:
            places = [by_number[number].citation for number in cited]
            failed = self.observer.note_cited(
                (each.dataset_id, each.doc_name) for each in places if each.doc_name
            )
            self.warnings += [failed] if failed else []
        return Answer(
            question=request.query.text,
            standalone=self.standalone,
            text=text,
            sentences=sentences,
            citations=tuple(CitedSource(number=n, piece=by_number[n]) for n in cited),
            reason=reason,
            pack=pack,
            usage=meter.usage,
            usage_estimated=meter.estimated,
            search_usage=self.search_usage,
            cost=meter.cost,
            truncated=bool(sent) and meter.truncated,
            removed=removed,
            proof=proof,
            warnings=tuple(
                dict.fromkeys((*pack.warnings, *self.warnings, *self._remarks(removed, sent)))
            ),
            conversation=(
                *request.conversation,
                Message("user", request.query.text),
                Message("assistant", text),
            ),
            sent=tuple(sent),
            prompt=request.prompt,
            turns=tuple(turns),
            max_tokens=request.max_tokens,
        )

    def _proof(self, text: str, sentences: Sequence[AnswerSentence]) -> tuple[Claim, ...]:
        """The claims; warnings name those that are not in the passages that they cite."""
        with telemetry.stage("proof"):
            proof = self.prover.prove(text, sentences, self._found_outside)
        wrong = list(dict.fromkeys(str(each) for each in proof if each.status != "supported"))
        self.warnings += wrong[:_NAMED]
        if len(wrong) > _NAMED:
            self.warnings.append(f"{len(wrong) - _NAMED} more are in Answer.proof")
        return proof

    def _found_outside(self, claim: FoundClaim, words: str) -> Iterable[Passage]:
        """Passages outside the context, for the first claims that it does not have."""
        self.looked_up += 1
        if self.looked_up > _LOOK_UPS:
            return ()
        try:
            return self.search(words)
        except CancelledError:
            raise
        except TriptychError as error:
            self.warnings.append(
                FailureWarning("a claim was not looked up outside the context", error)
            )
            return ()

    def _remarks(self, removed: Sequence[int], sent: Sequence[Message]) -> Iterator[str]:
        if removed:
            listed = ", ".join(f"[{number}]" for number in removed)
            yield (
                f"the model cited {listed}, and its sources are [1] to "
                f"[{max(piece.number for piece in self.pack.pieces)}]: removed"
            )
        if sent and self.meter.truncated:
            yield (
                f"the answer stopped at max_tokens={self.request.max_tokens}, and is not whole: "
                "allow more"
            )
        if sent:
            for piece in self.pack.pieces:
                if kinds := piece.sign_kinds:
                    yield (
                        f"source [{piece.number}], {piece.citation.doc_name or 'a layer'}, shows "
                        f"signs of text that is written for models ({', '.join(kinds)}): read it "
                        "before you trust the answer"
                    )


_NAMED: Final = 5
"""Claims that are named in warnings; of more, a sentence says so."""
_LOOK_UPS: Final = 8
"""The most searches for claims of one answer."""

_OPENED: set[str] = set()
"""Signatures of models that began their last answer with a thought which no mark began: of their
next stream nothing is shown before the thought has ended."""

_QUOTES = re.compile("(?:<answer>|[*_`\"'“‘\\s])*")
_GOES_ON = re.compile("_?[A-Za-z0-9]")


class _Opening:
    """Holds the beginning of an answer back while it may be `NO_ANSWER`."""

    def __init__(self) -> None:
        self.declined = False
        self._held: str | None = ""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if self.declined:
            return ""
        if self._held is None:
            return text
        self._held += text
        bare = _QUOTES.sub("", self._held, count=1)
        if f"{NO_ANSWER}_".startswith(bare) or "<answer>".startswith(bare):
            return ""  # it may go on: NO_ANSWER_CODE is a name
        if bare.startswith(NO_ANSWER) and not _GOES_ON.match(bare, len(NO_ANSWER)):
            self.declined = True
            return ""
        shown, self._held = self._held, None
        return shown

    def end(self, text: str) -> str:
        """What is left."""
        shown = self.feed(text)
        if self._held is not None and not self.declined:
            self.declined = _QUOTES.sub("", self._held, count=1).startswith(NO_ANSWER)
            shown, self._held = "" if self.declined else self._held, None
        return shown


def _observed(
    operation: Operation, pieces: Generator[str, None, Answer]
) -> Generator[str, None, Answer]:
    """The pieces, each made as a part of the operation, which ends with them."""
    try:
        while True:
            with operation.current():
                try:
                    piece = next(pieces)
                except StopIteration as end:
                    whole: Any = end.value
                    answer: Answer = whole
                    return answer
            yield piece
    finally:
        error = sys.exception()
        with operation.current():
            pieces.close()
        operation.end(error)


def _drained(pieces: Generator[str, None, Answer]) -> Answer:
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            answer: Any = end.value
            whole: Answer = answer
            return whole
