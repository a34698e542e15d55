"""The memory store: three repositories over one truth and one local index."""

from __future__ import annotations

from triptych.records import check_whole
from triptych_backends.index import LocalIndex, LocalSearcher
from triptych_backends.memory.change_log import MemoryChangeLog
from triptych_backends.memory.chunks import MemoryChunks
from triptych_backends.memory.documents import MemoryDocuments
from triptych_backends.memory.filters import MemoryFilters
from triptych_backends.memory.layers import MemoryLayers
from triptych_backends.memory.truth import Truth

__all__ = ["MemoryStore"]


class MemoryStore:
    """Keeps everything in this process's memory, until it is closed.

    Thread-safe. `Closeable` and `SecureEraser`; what a closed store is asked raises `StoreError`.
    ``history`` is how many old versions of each document are kept.
    """

    def __init__(self, *, history: int = 10) -> None:
        self._truth = Truth(check_whole(history, "history"))
        self._index = LocalIndex(MemoryChangeLog(self._truth))
        self._searcher = LocalSearcher(self._index, MemoryFilters(self._truth))
        self.documents = MemoryDocuments(self._truth)
        self.chunks = MemoryChunks(self._truth, self._searcher)
        self.layers = MemoryLayers(self._truth, self._searcher)

    def scrub(self) -> None:
        """Drop the index, which may still hold what was deleted; it is replayed when asked."""
        with self._truth:
            pass  # a store that is closed says so
        self._searcher.renew()

    def close(self) -> None:
        self._truth.close()
        self._index.close()

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
