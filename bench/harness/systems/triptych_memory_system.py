"""Triptych in memory: what SQLite and the disk cost, by difference."""

from __future__ import annotations

from harness.systems.triptych_system import Triptych


class TriptychMemory(Triptych):
    persists = False
    updates = "in place, in memory"
    setup = 'triptych.open("memory://"): the English analyzer; reciprocal rank fusion'

    def _url(self) -> str:
        return "memory://"


SYSTEM = TriptychMemory
