"""What language models are told, and what they answer."""

from __future__ import annotations

from typing import Literal

import attrs

__all__ = [
    "Generation",
    "Message",
    "Usage",
]


@attrs.frozen(slots=True)
class Message:
    """One turn of what a language model is told."""

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
