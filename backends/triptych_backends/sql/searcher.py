"""How a store's repositories search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from triptych.records import Candidate, ChunkQuery, FilterTree
from triptych.text import CorpusStats
from triptych_backends.index import Field


class Searcher(Protocol):
    """One lane over one kind of unit: in an index of this process, or in the database itself."""

    @property
    def in_process(self) -> bool:
        """The power `triptych.contracts.InProcess`."""
        ...

    def search(self, unit: Field, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`, `DocLevelSearcher`, `LayerRepo.search`."""
        ...

    def corpus_stats(
        self,
        unit: Field,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `DocLevelSearcher.corpus_stats`, for the units of any kind."""
        ...

    def renew(self) -> None:
        """Forget what was deleted, if anything of it is still held."""
        ...
