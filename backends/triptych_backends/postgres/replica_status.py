"""How far a replica is behind its primary."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ReplicaStatus:
    """How far a replica is.

    Attributes:
        where: the replica, without a password.
        behind: the bytes of log that it has not replayed; None where that cannot be told.
        seconds: how old the last transaction is that it has replayed, if it is behind.
        error: why it cannot be used, "" if it can be.
    """

    where: str
    behind: int | None = None
    seconds: float = 0.0
    error: str = ""
