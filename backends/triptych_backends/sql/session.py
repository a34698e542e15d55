"""How statements run: on one connection, one after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from triptych_backends.sql.dialect import Statement


class Session(ABC):
    """Runs statements on one connection; a list among the parameters is that of an `in_list`."""

    __slots__ = ()

    @abstractmethod
    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """Every row, read at once: no snapshot stays open."""

    def one(self, statement: Statement, **parameters: Any) -> tuple[Any, ...] | None:
        """The first row, None when there is none."""
        rows = self.all(statement, **parameters)
        return rows[0] if rows else None

    @abstractmethod
    def run(self, statement: Statement, **parameters: Any) -> int:
        """Run a writing statement; how many rows it touched."""

    @abstractmethod
    def run_many(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """Run a writing statement for each of ``rows``, tuples in the statement's own order."""
