"""What the three repositories of a store have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triptych_backends.sql.store import SqlStore

__all__ = ["Repository"]


class Repository:
    """A view of one `SqlStore`. Searches run in this process, in the local index."""

    in_process = True

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.where = store.where
