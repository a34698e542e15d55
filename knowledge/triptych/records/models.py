"""Messages to language models, and their answers."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from triptych.errors import ValidationError


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

    ``truncated``: the model stopped at its ceiling of tokens, not at the end of its answer.
    """

    text: str
    usage: Usage = attrs.field(factory=Usage)
    truncated: bool = False


def _price(_: Any, attribute: attrs.Attribute[float], value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < float("inf"):
        raise ValidationError(f"{attribute.name} is a price from 0 up, not {value!r}")


@attrs.frozen(kw_only=True, slots=True)
class Prices:
    """What a million tokens cost, in any one currency."""

    input: float = attrs.field(validator=_price)
    output: float = attrs.field(validator=_price)

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000
