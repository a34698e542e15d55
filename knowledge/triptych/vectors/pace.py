"""How long a model takes."""

from __future__ import annotations

_CHEAP = 0.02
"""A call that is shorter than so many seconds costs little more than claiming its texts."""


class Pace:
    """How long the last call of an embedder took, for all that call it in this process."""

    def __init__(self) -> None:
        self._call = float("inf")
        self._each = 0.0

    def took(self, seconds: float, texts: int) -> None:
        """A call for so many texts took so long."""
        self._call, self._each = seconds, seconds / max(texts, 1)

    def is_cheap(self, texts: int) -> bool:
        """Whether a call for so many texts is too short to claim them; False before the first."""
        return max(self._call, self._each * texts) < _CHEAP
