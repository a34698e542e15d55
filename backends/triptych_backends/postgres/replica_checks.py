"""What a health check says of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from triptych.records import HealthCheck
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.replica_status import ReplicaStatus

__all__ = ["replica_checks"]

_LATE: Final = 30.0
"""Seconds behind from which on a replica is worth a warning."""


def replica_checks(database: PostgresDatabase) -> Sequence[HealthCheck]:
    """How far each replica is behind the primary; a warning where reads cannot use it."""
    return [_check(each) for each in database.replicas()]


def _check(status: ReplicaStatus) -> HealthCheck:
    if status.error or status.behind is None:
        return HealthCheck(
            name="replica",
            status="warning",
            detail=f"reads do not use the replica {status.where}: {status.error}",
            remedy="start it, or take it out of the store's URL",
        )
    detail = f"the replica {status.where} is {status.behind:,} bytes behind"
    if status.behind and status.seconds >= _LATE:
        return HealthCheck(
            name="replica",
            status="warning",
            detail=f"{detail}, its last transaction is {status.seconds:,.0f} s old",
            remedy="check its connection to the primary, and whether it can keep up",
        )
    return HealthCheck(name="replica", status="ok", detail=detail)
