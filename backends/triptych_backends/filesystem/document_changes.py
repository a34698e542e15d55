"""The log of documents that others follow: that of the derived database."""

from __future__ import annotations

from triptych.records import ChangeCursor, ChangePage
from triptych_backends.filesystem import change_detection
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sqlite import SqliteStore

__all__ = ["FilesChanges"]


class FilesChanges:
    """`ChangeReader` over the mirror, which takes over what was edited by hand first.

    Where the derived database is deleted, the log begins again, and so do those who follow it.
    """

    writer: Writer
    mirror: SqliteStore

    def change_head(self) -> str:
        """See `ChangeReader.change_head`. Looks through all folders."""
        change_detection.refresh_all(self.writer)
        return self.mirror.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`. Looks through the folders of what is asked for."""
        if dataset_id is None:
            change_detection.refresh_all(self.writer)
        else:
            change_detection.refresh_dataset(self.writer, dataset_id)
        return self.mirror.read_changes(since, dataset_id=dataset_id, limit=limit)
