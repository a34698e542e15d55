"""Messages to language models and their answers; what those cost, and what broke the model."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import attrs

from triptych._internal.numbers import number
from triptych.records.values import Layer, to_layer


@attrs.frozen(slots=True)
class Message:
    """One message of a prompt to a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


@attrs.frozen(kw_only=True, slots=True)
class Usage:
    """Tokens that one answer took."""

    input_tokens: int = 0
    output_tokens: int = 0


@attrs.frozen(slots=True)
class Generation:
    """A language model's answer.

    ``truncated``: the model stopped at its limit of tokens, not at the end of its answer.
    """

    text: str
    usage: Usage = attrs.field(factory=Usage)
    truncated: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Prices:
    """What a million tokens cost, in any one currency."""

    input: float = attrs.field(validator=number())
    output: float = attrs.field(validator=number())

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """The cost of this many tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


ParkedReason = Literal["empty", "refusal", "endless", "instructions", "unusable"]
"""What was wrong with the answer: blank; a refusal; cut at its ceiling of tokens; it did what the
text asked for, or gave the prompt away; it cannot be stored, or is none. A provider that failed
parks nothing."""


@attrs.frozen(kw_only=True, slots=True)
class QuarantinedLayer:
    """A layer that could not be made, with the signatures of its input and its maker.

    It is not tried again while ``input_sig`` and ``prompt_sig`` are what a fresh layer would
    carry. ``message`` describes the answer.
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
    """The calls of one model, and their cost.

    ``failures`` of the ``calls`` brought no answer. ``cost`` is in the currency of the prices
    that were given, 0 where none were.
    """

    model: str
    calls: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Both together, under this one's model."""
        return ModelUsage(
            model=self.model,
            calls=self.calls + other.calls,
            failures=self.failures + other.failures,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
        )
