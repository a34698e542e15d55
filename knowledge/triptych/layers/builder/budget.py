"""Calling the model within limits, with retries, and recording the usage."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection, Sequence

import attrs
from attrs.validators import optional

from triptych import deadlines, telemetry
from triptych.contracts import LLM
from triptych.derivation.layer_journal import LayerJournal
from triptych.errors import (
    CancelledError,
    NotAvailableError,
    ProviderError,
    ProviderSetupError,
    RateLimitedError,
    UnusableAnswerError,
)
from triptych.layers.builder.records import Stop
from triptych.records import Generation, Message, ModelUsage, Prices, Retries, Usage
from triptych.records.values import number, whole
from triptych.text.tokens import estimate_tokens

_MOST_TOKENS = 10**12
"""Of one call. No model reads so many; the sum of a million such calls fits into 64 bits."""

_SLICE = 0.05  # seconds between two looks at whether the run was cancelled


class OutOfBudgetError(Exception):
    """A call does not fit under what is left of ``ceiling``. It never leaves `apply`.

    Attributes:
        needed: the smallest ceiling that the call by itself fits under.
        hopeless: it does not fit under all of the ceiling either.
        over: no call at all fits any more.
    """

    def __init__(self, ceiling: Stop, *, needed: float, hopeless: bool, over: bool) -> None:
        super().__init__(f"{ceiling} is reached; what was made is kept")
        self.ceiling: Stop = ceiling
        self.needed = needed
        self.hopeless = hopeless
        self.over = over


@attrs.frozen(kw_only=True, slots=True)
class Ceilings:
    """What one `apply` may use; None is no limit.

    A call is begun only while it fits: with its prompt's estimated tokens and all the tokens
    that its answer may have.
    """

    max_calls: int | None = attrs.field(default=None, validator=optional(whole()))
    max_tokens: int | None = attrs.field(default=None, validator=optional(whole()))
    max_cost: float | None = attrs.field(default=None, validator=optional(number()))


def prompt_tokens(messages: Sequence[Message]) -> int:
    """About how many tokens ``messages`` take."""
    return sum(estimate_tokens(message.content) + 4 for message in messages)


@attrs.define(eq=False)
class BudgetedLLM:
    """Asks the model for one `apply`. Thread-safe. No call takes less than ``least``.

    Attributes:
        usage: what was used so far.
    """

    _llm: LLM
    _journal: LayerJournal
    _dataset_id: str
    _ceilings: Ceilings
    _prices: Prices | None
    _retries: Retries
    _least: Usage
    usage: ModelUsage = attrs.field(init=False)
    _changed: threading.Condition = attrs.field(factory=threading.Condition, init=False)
    _held: Usage = attrs.field(factory=Usage, init=False)
    _under_way: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.usage = ModelUsage(model=self._llm.signature)

    def ask(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """The model's answer, whatever it is worth.

        Raises:
            OutOfBudgetError: the call does not fit under a ceiling; it was not made.
            ProviderError: the provider failed, also when tried again, as far as the ceilings allow.
            UnusableAnswerError, ProviderSetupError, NotAvailableError: asking again is no help.
            CancelledError: the deadline passed.
        """
        asked = Usage(input_tokens=prompt_tokens(messages), output_tokens=max_tokens)
        failures = 0
        failed: ProviderError | None = None
        while True:
            _check()
            try:
                self._hold(asked)
            except OutOfBudgetError:
                if failed is None:
                    raise
                raise failed from None  # the reason is the provider, not that no retry fits
            used = Usage()
            call = telemetry.operation("generate", model=self.usage.model)
            try:
                with call.current():
                    answer = self._llm.generate(messages, max_tokens=max_tokens)
                used = _used(answer, asked)
            except (CancelledError, NotAvailableError, ProviderSetupError):
                raise
            except UnusableAnswerError as error:
                # It was read and answered, and so was paid for: nobody says with how many tokens.
                used = attrs.evolve(
                    asked, output_tokens=max_tokens if error.reason == "endless" else 0
                )
                raise
            except ProviderError as error:
                failures += 1
                failed = error
                asked_for = error.retry_after if isinstance(error, RateLimitedError) else None
                pause = self._retries.pause(failures, asked_for)
                if pause is None:
                    raise
            except Exception as error:
                raise ProviderError(
                    f"{self.usage.model} failed ({type(error).__name__}: {error})"
                ) from error
            else:
                return answer
            finally:
                spent = self._settle(asked, used)
                call.note_spent(spent)
                call.end(sys.exception())
            _wait(pause)

    def _hold(self, asked: Usage) -> None:
        """Reserve what a call may take; wait for what is under way where that may leave room."""
        with self._changed:
            while (full := self._full(asked)) is not None:
                if full == "max_calls" or not self._under_way:
                    raise self._refusal(full, asked)
                self._changed.wait(_SLICE)
                _check()
            self._held = _sum(self._held, asked, 1)
            self._under_way += 1
            self.usage = attrs.evolve(self.usage, calls=self.usage.calls + 1)

    def _full(self, asked: Usage) -> Stop | None:
        """The ceiling that ``asked`` would break."""
        most = self._ceilings
        if most.max_calls is not None and self.usage.calls >= most.max_calls:
            return "max_calls"
        inputs = self.usage.input_tokens + self._held.input_tokens + asked.input_tokens
        outputs = self.usage.output_tokens + self._held.output_tokens + asked.output_tokens
        if most.max_tokens is not None and inputs + outputs > most.max_tokens:
            return "max_tokens"
        cost = self._prices.of(inputs, outputs) if self._prices else 0.0
        return "max_cost" if most.max_cost is not None and cost > most.max_cost else None

    def _refusal(self, ceiling: Stop, asked: Usage) -> OutOfBudgetError:
        needed: float = 1
        most = getattr(self._ceilings, ceiling)
        if ceiling == "max_tokens":
            needed = asked.input_tokens + asked.output_tokens
        elif ceiling == "max_cost" and self._prices is not None:
            needed = self._prices.of(asked.input_tokens, asked.output_tokens)
        over = ceiling == "max_calls" or (
            self.usage.calls > 0 and self._full(self._least) is not None
        )
        return OutOfBudgetError(ceiling, needed=needed, hopeless=needed > most, over=over)

    def _settle(self, asked: Usage, used: Usage) -> ModelUsage:
        cost = self._prices.of(used.input_tokens, used.output_tokens) if self._prices else 0.0
        spent = ModelUsage(
            model=self.usage.model,
            failures=int(used == Usage()),
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cost=cost,
        )
        with self._changed:
            self._held = _sum(self._held, asked, -1)
            self._under_way -= 1
            self.usage = self.usage + spent
            self._changed.notify_all()
        self._journal.record_usage(self._dataset_id, attrs.evolve(spent, calls=1))
        return spent


@attrs.frozen
class LayerModel:
    """What a maker is given to work with for one source, and what it notes of the source's parts.

    ``meter`` is None for a maker that asks no model, ``notes`` are those of the source, by key.
    """

    _journal: LayerJournal
    _dataset_id: str
    _name: str
    _meter: BudgetedLLM | None
    notes: dict[str, str]

    def ask(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """The model's answer; raises as `BudgetedLLM.ask`."""
        assert self._meter is not None  # whoever asks was given a model
        return self._meter.ask(messages, max_tokens=max_tokens)

    def put_note(self, key: str, text: str) -> None:
        """Keep a note for the next time."""
        self._journal.put_note(self._dataset_id, self._name, key, text)
        self.notes[key] = text

    def prune_notes(self, keys: Collection[str]) -> None:
        """Forget all other notes on this source."""
        for key in self.notes.keys() - keys:
            self._journal.drop_note(self._dataset_id, self._name, key)
            del self.notes[key]


def _check() -> None:
    deadlines.check("making layers")


def _sum(held: Usage, asked: Usage, sign: int) -> Usage:
    return Usage(
        input_tokens=held.input_tokens + sign * asked.input_tokens,
        output_tokens=held.output_tokens + sign * asked.output_tokens,
    )


def _used(answer: object, asked: Usage) -> Usage:
    """What the answer says it took; an estimate where it says nothing."""
    usage = answer.usage if isinstance(answer, Generation) else Usage()
    text = answer.text if isinstance(answer, Generation) else ""
    return Usage(
        input_tokens=_count(usage.input_tokens) or asked.input_tokens,
        output_tokens=_count(usage.output_tokens) or estimate_tokens(text),
    )


def _count(said: object) -> int:
    """What a server says of tokens, as a number that can be; 0 where it is none."""
    if not isinstance(said, int) or isinstance(said, bool):
        return 0
    return min(max(said, 0), _MOST_TOKENS)


def _wait(seconds: float) -> None:
    """Sleep, but raise as soon as the run is cancelled."""
    until = time.monotonic() + seconds
    while True:
        _check()
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, _SLICE))
