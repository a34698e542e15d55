"""Words of messages: how many there are of a thing, and what somebody meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def counted(count: int, noun: str, plural: str = "") -> str:
    """``count`` with its noun; ``plural`` "" is the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The question after the nearest of the ``known`` names; ``otherwise`` where none is near."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {nearest[0]!r}?" if nearest else otherwise
