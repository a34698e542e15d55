"""What somebody meant who wrote a name that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The question after the nearest of the ``known`` names; ``otherwise`` where none is near."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {nearest[0]!r}?" if nearest else otherwise
