"""Texts that say again what was said: containment of shingles."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from triptych.text.shingles import shingles

__all__ = ["ShingleFilter"]


@attrs.define
class ShingleFilter:
    """The shingles of all that was taken so far.

    A text repeats it when at least ``share`` of its shingles were seen, as many as its
    containment in the union of what was taken.
    """

    share: float
    _held: set[Hashable] = attrs.field(factory=set)

    def repeats(self, text: str) -> bool:
        """Whether ``text`` says little that is new."""
        its = shingles(text)
        return len(its & self._held) >= self.share * len(its)

    def add(self, text: str) -> None:
        """Take ``text``."""
        self._held |= shingles(text)
