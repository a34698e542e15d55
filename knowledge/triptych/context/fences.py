"""The name of the delimiters around the texts of documents: drawn at random for each call."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

from triptych.errors import ValidationError

__all__ = ["WIDEST", "check_fence", "new_mark"]

WIDEST: Final = f"text-{'0a' * 6}"
"""A name that counts as many tokens as any: letters and digits in turn."""


def new_mark(texts: Iterable[str]) -> str:
    """A name of 48 random bits that is in none of ``texts``.

    Documents were written before it was drawn: none can close the delimiters.
    """
    texts = tuple(texts)
    while True:
        mark = f"text-{secrets.token_hex(6)}"
        if not any(mark in text for text in texts):
            return mark


def check_fence(fence: object, format: str) -> bool:
    """``fence``, where the format has room for it.

    Raises:
        ValidationError: it is not True or False, or the format is for programs.
    """
    if not isinstance(fence, bool):
        raise ValidationError(f"fence is True or False, not {fence!r:.60}")
    if fence and format == "json":
        raise ValidationError(
            "JSON escapes its texts and takes no fence: leave fence out, or choose a format for "
            "prompts"
        )
    return fence
