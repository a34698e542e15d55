"""The capability of stores that several workers share: who has what, and when to look again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol


class WorkLeases(Protocol):
    """Capability: which worker has which piece of work, among all that have the store open.

    A worker that ends without a release has its names until their time has passed. Every store
    with a `SettingsStore` can have this: ``leases=SettingsLeases(self)``, of `triptych.leases`.
    """

    def hold_leases(
        self,
        queue: str,
        names: Sequence[str],
        *,
        holder: str,
        seconds: float,
        limit: int | None = None,
    ) -> Sequence[str]:
        """Let ``holder`` have those of ``names`` that nobody else has, and release all others.

        They are the holder's for ``seconds`` from now, at most the first ``limit`` of them; returns
        them in the order of ``names``. So the same names again renew them, and none release all.
        The names of two queues have nothing to do with each other. Atomic: of several holders that
        ask at once each name goes to one. A name whose time has passed is nobody's. The leases need
        not survive a crash of the machine.
        """
        ...

    def listen_for_changes(self) -> AbstractContextManager[Callable[[float], bool]] | None:
        """Within the context, a function that waits for a write of another process or thread.

        It waits up to so many seconds for one that was committed after the context began, or after
        the last wait returned; whether there was one. It may report a write that changed no
        document. Where the store cannot be reached it raises `StoreError`. None where the store
        does not report writes, and has to be looked at.
        """
        ...
