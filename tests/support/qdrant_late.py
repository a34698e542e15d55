"""A Qdrant whose answers do not arrive in time, and which does later what it was asked to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from qdrant_client.models import Filter

from support.qdrant_edge import EdgeCollections
from triptych_qdrant import AwayError, Point


class Late(EdgeCollections):
    """All writes after the next ``left`` are cut off, and reach it by `arrive`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.left = 1_000_000
        self.under_way: list[Callable[[], None]] = []

    def put(self, name: str, points: Sequence[Point], *, over: Filter) -> None:
        self._write(lambda: super(Late, self).put(name, points, over=over))

    def delete(self, name: str, where: Filter) -> None:
        self._write(lambda: super(Late, self).delete(name, where))

    def arrive(self) -> None:
        """Do what was cut off; what concerns a removed collection fails."""
        under_way, self.under_way = self.under_way, []
        for write in under_way:
            with suppress(AwayError):
                write()

    def _write(self, write: Callable[[], None]) -> None:
        self.left -= 1
        if self.left < 0:
            self.under_way.append(write)
            raise AwayError("no answer in time")
        write()
