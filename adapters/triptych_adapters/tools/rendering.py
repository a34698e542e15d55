"""JSON as a model reads it, and what it costs there."""

from __future__ import annotations

import json
from bisect import bisect_left
from typing import Any, Final

from triptych.text.tokens import MOST_CHARACTERS, estimate_tokens

DEFAULT_MAX_TOKENS: Final = 4000
LEAST_MAX_TOKENS: Final = 256
"""How many tokens an answer of a tool may have."""


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
    most = MOST_CHARACTERS * max_tokens
    if tokens(text[: most + 1]) <= max_tokens:
        return text
    ends = range(1, min(len(text), most) + 1)
    kept = bisect_left(ends, True, key=lambda end: tokens(text[:end] + "…") > max_tokens)
    return text[:kept] + "…"
