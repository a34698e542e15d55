"""Batches under a provider's limits, and the cut of a text that is over its model's: pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import attrs

from triptych.errors import ValidationError
from triptych.text.tokens import high_token_estimate

_NUMBER = re.compile(r"(?<![\w.])\d{2,7}(?![\w.]*\w)")
_SMALLEST_SHARE, _LARGEST_SHARE, _USUAL_SHARE = 0.05, 0.95, 0.75


def _from_one(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValidationError(f"{attribute.name} is a whole number from 1 up, not {value!r}")


@attrs.frozen(kw_only=True, slots=True)
class BatchLimits:
    """The most that one request of embeddings holds: texts, and their tokens by
    `high_token_estimate`. What is too large in spite of it the provider refuses, and it is
    halved.
    """

    texts: int = attrs.field(validator=_from_one)
    tokens: int = attrs.field(validator=_from_one)


def batches(texts: Sequence[str], limits: BatchLimits) -> Iterator[range]:
    """Ranges of positions that cover ``texts`` in order, each within ``limits``.

    A text that alone is over the limit of tokens is a batch by itself.
    """
    start = tokens = 0
    for position, text in enumerate(texts):
        size = high_token_estimate(text)
        full = position - start >= limits.texts or tokens + size > limits.tokens
        if full and position > start:
            yield range(start, position)
            start, tokens = position, 0
        tokens += size
    if start < len(texts):
        yield range(start, len(texts))


def shortened(text: str, refusal: str) -> str:
    """A beginning of ``text`` to try after ``refusal``: shorter, and never empty but of "".

    Refusals name the limit and what was sent ("maximum context length is 8192 tokens, however
    you requested 10001"): then by that share and a twentieth less; else three quarters.
    """
    numbers = [int(number) for number in _NUMBER.findall(refusal) if int(number) >= 16]
    share = _USUAL_SHARE
    if len(numbers) > 1 and min(numbers) < max(numbers):
        named = min(numbers) / max(numbers) * 0.95
        if _SMALLEST_SHARE <= named <= _LARGEST_SHARE:
            share = named
    return text[: max(min(int(len(text) * share), len(text) - 1), 1)]
