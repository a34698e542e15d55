"""Counting the calls of a language model and mapping its errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import attrs

from triptych import deadlines, telemetry
from triptych.contracts import LLM
from triptych.errors import ProviderError, TriptychError
from triptych.records import Generation, Message, ModelUsage, Prices, Usage
from triptych.telemetry import Operation
from triptych.text.tokens import estimate_tokens

_DOING = "the answer"


class MeteredLLM:
    """An `LLM` that counts what it takes. One answer's: not for several threads.

    Attributes:
        usage: what was used so far.
        estimated: whether any of it is an estimate, because the model did not say.
        truncated: whether the last answer stopped at its limit.
    """

    def __init__(self, llm: LLM, prices: Prices | None = None) -> None:
        self.usage: ModelUsage = ModelUsage(model=llm.signature)
        self.estimated: bool = False
        self.truncated: bool = False
        self._llm = llm
        self._prices = prices

    @property
    def signature(self) -> str:
        """See `LLM.signature`."""
        return self._llm.signature

    @property
    def cost(self) -> float | None:
        """What it cost; None without prices."""
        return None if self._prices is None else self.usage.cost

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """See `LLM.generate`.

        Raises:
            ProviderError: the model failed, or answered with something that is no `Generation`.
        """
        deadlines.check(_DOING)
        with self._call(messages) as done:
            with done.operation.current():
                answer: object = self._llm.generate(messages, max_tokens=max_tokens)
            if not isinstance(answer, Generation) or not isinstance(answer.text, str):
                raise ProviderError(
                    f"{self.signature!r} answered with a value of type {type(answer).__name__}: "
                    "its generate must return a Generation with text"
                )
            self.truncated = answer.truncated
            done.take(answer.usage, answer.text)
        return answer

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        """See `LLM.stream`.

        Raises:
            ProviderError: the model failed or broke off.
        """
        deadlines.check(_DOING)
        said: list[str] = []
        self.truncated = False
        with self._call(messages) as done:
            pieces = self._llm.stream(messages, max_tokens=max_tokens)
            try:
                for piece in pieces:
                    if not isinstance(piece, str):
                        raise ProviderError(
                            f"{self.signature!r} streamed a value of type "
                            f"{type(piece).__name__}: its stream must give pieces of text"
                        )
                    said.append(piece)
                    yield piece
                    deadlines.check(_DOING)
            finally:
                done.take(getattr(pieces, "usage", None), "".join(said))
                close = getattr(pieces, "close", None)
                if callable(close):
                    close()
            self.truncated = bool(getattr(pieces, "truncated", False))

    def _call(self, messages: Sequence[Message]) -> _Call:
        return _Call(self, messages)

    def settle(self, asked: int, said: object, text: str | None) -> ModelUsage:
        """Add one call, and return it: what the model says that it took, or an estimate."""
        told = said if isinstance(said, Usage) else Usage()
        failed = text is None
        inputs, outputs = _count(told.input_tokens), _count(told.output_tokens)
        if not failed and not (inputs and outputs):
            self.estimated = True
            inputs = inputs or asked
            outputs = outputs or estimate_tokens(text or "")
        cost = self._prices.of(inputs, outputs) if self._prices else 0.0
        spent = ModelUsage(
            model=self.signature,
            calls=1,
            failures=int(failed),
            input_tokens=inputs,
            output_tokens=outputs,
            cost=cost,
        )
        self.usage = self.usage + spent
        return spent


@attrs.define
class _Call:
    """One call: settled at its end, its failures renamed."""

    _meter: MeteredLLM
    _messages: Sequence[Message]
    _said: object = attrs.field(default=None, init=False)
    _text: str | None = attrs.field(default=None, init=False)
    operation: Operation = attrs.field(init=False)

    def __enter__(self) -> Self:
        self.operation = telemetry.operation("generate", model=self._meter.signature)
        return self

    def take(self, said: object, text: str) -> None:
        """Take what the model said, of its usage and altogether."""
        self._said, self._text = said, text

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        failed = isinstance(error, Exception) and not self._text
        asked = sum(estimate_tokens(each.content) + 4 for each in self._messages)
        spent = self._meter.settle(asked, self._said, None if failed else self._text or "")
        self.operation.note_spent(spent)
        self.operation.end(error)
        if isinstance(error, Exception) and not isinstance(error, TriptychError):
            raise ProviderError(
                f"{self._meter.signature!r} failed ({type(error).__name__}: {error})"
            ) from error


def _count(said: object) -> int:
    whole = isinstance(said, int) and not isinstance(said, bool)
    return max(said, 0) if whole and isinstance(said, int) else 0
