"""What the three repositories of a store have in common."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Self

from triptych.records import Candidate, ChunkQuery
from triptych_backends.index import Field
from triptych_backends.sql.database import Database
from triptych_backends.sql.searcher import Searcher


class Repository:
    """A view of one `Database`, searched by ``searcher``."""

    def __init__(self, database: Database, searcher: Searcher) -> None:
        self.database = database
        self.searcher = searcher
        self.where = database.where

    def searched_by(self, searcher: Searcher) -> Self:
        """The same repository with another searcher."""
        other = copy(self)
        other.searcher = searcher
        return other

    @property
    def in_process(self) -> bool:
        """Whether searches run in this process: the power `InProcess`."""
        return self.searcher.in_process

    def find(self, unit: Field, query: ChunkQuery) -> Sequence[Candidate]:
        """One lane over one kind of unit; see `Searcher.search`."""
        # A search that begins while the store is being closed would open its index again.
        self.database.require_open()
        return self.searcher.search(unit, query)
