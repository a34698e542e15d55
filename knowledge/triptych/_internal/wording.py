"""Phrases of messages: counts, suggestions and failures."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Self


def counted(count: int, noun: str, plural: str = "") -> str:
    """``count`` with its noun; ``plural`` "" is the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The question after the nearest of the ``known`` names; ``otherwise`` where none is near."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {nearest[0]!r}?" if nearest else otherwise


class FailureWarning(str):
    """The text of a warning that ends with an error's message: ``what: reason``.

    A message of a model's provider or of a driver may name hosts and files: who must not see them
    is shown ``what`` alone.
    """

    __slots__ = ("what",)
    what: str

    def __new__(cls, what: str, error: object, *, kind: bool = False) -> Self:
        """``kind`` names the error's class too, in brackets."""
        text = f"{what} ({type(error).__name__}: {error})" if kind else f"{what}: {error}"
        made = super().__new__(cls, text)
        made.what = what
        return made


def public_warning(warning: str) -> str:
    """``warning`` without what an error said."""
    return warning.what if isinstance(warning, FailureWarning) else warning
