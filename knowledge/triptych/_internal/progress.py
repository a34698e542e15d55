"""Progress of long calls."""

from __future__ import annotations

from collections.abc import Callable

import attrs


@attrs.frozen(kw_only=True, slots=True)
class Progress:
    """The progress of a long call: ``done`` of ``total`` items (None: unknown) of a phase."""

    phase: str
    done: int
    total: int | None = None


ProgressCallback = Callable[[Progress], None]
"""Called between batches, in the caller's thread."""


class EmbeddingProgress:
    """Counts chunks that get vectors for a progress callback, and remembers what that raised.

    ``total`` is how many are to get one, where that is known from the start; else it is what was
    found so far.
    """

    def __init__(self, progress: ProgressCallback | None, total: int | None = None) -> None:
        self._progress = progress
        self._done = 0
        self._found = 0
        self._total = total
        self.error: Exception | None = None

    def expect(self, chunks: int) -> None:
        """So many more chunks are to get a vector."""
        self._found += chunks

    def advance(self, chunks: int) -> None:
        """So many more chunks have got theirs."""
        if not chunks:
            return
        self._done += chunks
        if self._progress is None:
            return
        total = max(self._found, self._total or 0)
        try:
            self._progress(Progress(phase="embedding", done=self._done, total=total))
        except Exception as error:
            self.error = error
            raise
