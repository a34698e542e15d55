"""Messages to language models, their responses, costs, failures and retries."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Literal

import attrs

from triptych.records.values import Layer, number, to_layer, whole

MOST_ATTEMPTS = 1_000


@attrs.frozen(slots=True)
class Message:
    """One message of a prompt to a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


@attrs.frozen(kw_only=True, slots=True)
class Usage:
    """The tokens that one response used."""

    input_tokens: int = 0
    output_tokens: int = 0


@attrs.frozen(slots=True)
class Generation:
    """A language model's response.

    ``truncated``: the model stopped at its token limit, not at the end of its response.
    """

    text: str
    usage: Usage = attrs.field(factory=Usage)
    truncated: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Prices:
    """The prices of a million tokens, in any one currency."""

    input: float = attrs.field(validator=number())
    output: float = attrs.field(validator=number())

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of this usage."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


ParkedReason = Literal["empty", "refusal", "endless", "instructions", "unusable"]
"""What was wrong with the response: blank; a refusal; cut off at the token limit; it followed
instructions in the text or revealed the prompt; it cannot be stored or is missing. An error of the
provider quarantines nothing."""


@attrs.frozen(kw_only=True, slots=True)
class QuarantinedLayer:
    """A layer that could not be generated, with the signatures of its input and its prompt.

    It is not tried again until ``input_sig`` or ``prompt_sig`` of a fresh layer would differ.
    ``message`` describes the response.
    """

    dataset_id: str
    doc_name: str
    layer: Layer = attrs.field(converter=to_layer)
    input_sig: str
    prompt_sig: str
    reason: ParkedReason
    message: str
    quarantined_at: datetime


@attrs.frozen(kw_only=True, slots=True)
class ModelUsage:
    """The calls of one model and their cost.

    ``failures`` counts the ``calls`` without a response. ``cost`` is in the currency of the given
    prices, 0 without prices.
    """

    model: str
    calls: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Add the counts; the sum has this usage's model."""
        return ModelUsage(
            model=self.model,
            calls=self.calls + other.calls,
            failures=self.failures + other.failures,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
        )


@attrs.frozen(kw_only=True, slots=True)
class Retries:
    """When a failed attempt is made again.

    The pause before attempt n + 1 is uniform between 0 and ``min(longest, base * 2**(n - 1))``
    seconds ("full jitter"; M. Brooker, Exponential Backoff and Jitter, 2015). A provider that
    says how long to wait (``Retry-After``) is given that and up to a tenth more; when it asks
    for more than ``longest``, the call ends at once.
    """

    attempts: int = attrs.field(default=4, validator=whole(least=1, most=MOST_ATTEMPTS))
    base: float = attrs.field(default=0.5, validator=number(of="seconds"))
    longest: float = attrs.field(default=60.0, validator=number(of="seconds"))

    def pause(
        self, made: int, retry_after: float | None, rng: random.Random | None = None
    ) -> float | None:
        """Seconds to wait after ``made`` failed attempts; None when no other may follow."""
        if made >= self.attempts:
            return None
        chance = (rng or random).random()
        if retry_after is None:
            return chance * min(self.longest, self.base * 2.0 ** (made - 1))
        if retry_after > self.longest:
            return None
        return retry_after * (1.0 + 0.1 * chance)
