"""Files that are in a store's folder and are not taken for what they seem to be."""

from __future__ import annotations

import attrs

from triptych.errors import CorruptStoreError


@attrs.frozen(kw_only=True)
class RejectedFile:
    """A file that is not adopted: its ``path`` in the store, why not, and what helps."""

    path: str
    reason: str
    remedy: str

    def error(self, where: str) -> CorruptStoreError:
        """What a call raises that cannot do without the file."""
        return CorruptStoreError(f"{self.path!r} in the store {where} {self.reason}: {self.remedy}")
