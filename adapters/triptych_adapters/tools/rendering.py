"""JSON as a model reads it, and what it costs there."""

from __future__ import annotations

import json
from typing import Any

from triptych.layers import estimate_tokens

__all__ = ["clip", "to_json", "tokens"]


def to_json(value: Any) -> str:
    """``value`` as JSON without needless white space or escapes; equal values, equal text.

    Raises:
        ValueError: a number in it is not finite: JSON has none such.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def tokens(value: Any) -> int:
    """The estimated cost of ``value`` as one entry of a JSON list."""
    return estimate_tokens(to_json(value) + ",")


def clip(text: str, max_tokens: int) -> str:
    """``text``, or its beginning and "…" where its JSON is estimated above ``max_tokens``."""
    if tokens(text[: 4 * max_tokens + 1]) <= max_tokens:
        return text
    low, high = 0, 4 * max_tokens
    while low < high:
        middle = (low + high + 1) // 2
        if tokens(text[:middle] + "…") <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low] + "…"
