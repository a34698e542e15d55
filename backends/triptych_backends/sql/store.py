"""A store over a `Database`, whichever it is."""

from __future__ import annotations

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import Capabilities
from triptych.leases import SettingsLeases
from triptych.records import ScrubReport
from triptych_backends.sql.answers import SqlAnswers
from triptych_backends.sql.searcher import Searcher
from triptych_backends.sql.snapshot import SqlReads, SqlSnapshots
from triptych_backends.sql.state_loader import SqlStateLoader


class SqlStore(CloseOnExit, SqlReads, SqlAnswers, SqlSnapshots, SqlStateLoader):
    """What the stores over a `Database` share, for each to inherit.

    Use it as a context manager, or close it.
    """

    searcher: Searcher

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: every one but `Diagnostics`, which is a database's own."""
        return attrs.evolve(
            super().capabilities,
            document_search=self.chunks,
            copying=self,
            leases=SettingsLeases(self),
            answers=self,
        )

    def scrub(self) -> ScrubReport | None:
        """See `Store.scrub`: rewrite the tables, and forget what is searched.

        Raises:
            StoreLockedError: another process is reading or writing; nothing is lost, try again.
        """
        with self.database.writing() as tx:
            tx.renew()
            tx.forget_deletions()
        try:
            self.searcher.renew()
        finally:  # also where the searches run elsewhere, and nobody answers there
            report = self.database.scrub()
        return report
