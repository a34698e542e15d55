"""`QdrantStore`: the repositories of another store, whose searches run in Qdrant."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from triptych.contracts import Capabilities
from triptych.records import ScrubReport
from triptych_backends.qdrant.diagnostics import QdrantDiagnostics
from triptych_backends.qdrant.points import Collections
from triptych_backends.qdrant.projection import Projection
from triptych_backends.qdrant.searcher import QdrantSearcher
from triptych_backends.qdrant.truth import Truth, TruthStore
from triptych_backends.sql import SqlStore
from triptych_backends.sql.filters import SqlFilters


class QdrantStore(QdrantDiagnostics, SqlStore):
    """A store in SQLite or PostgreSQL, the truth, with a projection in Qdrant to search.

    Everything is read from and written to the truth; a search brings the projection up to it
    first. Thread-safe, and fork-safe; any number of processes may have it open, as far as the
    truth allows that. Use as a context manager, or close.

    Args:
        truth: the store that keeps everything; it is closed with this one.
        collections: Qdrant; closed with this one.
        prefix: what the names of the collections begin with. Two stores need two prefixes.
        exact: whether vectors are compared one by one instead of by Qdrant's index.
        falls_back: whether the truth's own search answers, with a warning, while Qdrant is away;
            else searches raise `StoreError`.
    """

    def __init__(
        self,
        truth: TruthStore,
        collections: Collections,
        *,
        prefix: str = "triptych",
        exact: bool = False,
        falls_back: bool = False,
    ) -> None:
        self.truth = truth
        self.database = truth.database
        self.collections = collections
        self.projection = Projection(Truth(truth.database), collections, prefix)
        self.searcher = QdrantSearcher(
            self.projection,
            SqlFilters(truth.database),
            truth.searcher,
            exact=exact,
            falls_back=falls_back,
        )
        kept = truth.capabilities.diagnostics
        assert kept is not None
        self.kept = kept
        self.falls_back = falls_back
        self.documents = truth.documents.searched_by(self.searcher)
        self.chunks = truth.chunks.searched_by(self.searcher)
        self.layers = truth.layers.searched_by(self.searcher)

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: every one."""
        return attrs.evolve(
            super().capabilities,
            # All who open the truth, by whatever URL, share its own.
            leases=self.truth.capabilities.leases,
            diagnostics=self,
        )

    def get_setting(self, key: str) -> str | None:
        """See `SettingsStore.get_setting`: as the truth reads it."""
        return self.truth.get_setting(key)

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`: as the truth reads them."""
        return self.truth.list_settings(prefix)

    def scrub(self) -> ScrubReport | None:
        """See `SqlStore.scrub`: the truth is rewritten, the collections are removed.

        Raises:
            AwayError: Qdrant does not answer. The truth was rewritten all the same; Qdrant may
                hold what was deleted until you scrub again.
        """
        return super().scrub()

    def close(self) -> None:
        """Close the truth and every connection to Qdrant. Idempotent."""
        try:
            self.truth.close()
        finally:
            self.collections.close()
