"""Notice of writes on any of several servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from select import select

from psycopg import sql

from triptych_backends.postgres.errors import driver_errors
from triptych_backends.postgres.session import Driver
from triptych_backends.shards.routing import Router
from triptych_backends.shards.server import Server

__all__ = ["listen_to_all"]


@contextmanager
def listen_to_all(router: Router) -> Iterator[Callable[[float], bool]]:
    """See `ChangeListener.listen_for_changes`: of the servers that the store has then."""
    with ExitStack() as held:
        drivers = []
        for server in router.servers().values():
            with server.named(), driver_errors(server.database.where):
                driver = held.enter_context(closing(server.database.connect()))
                channel = sql.Identifier(server.database.channel)
                driver.execute(sql.SQL("LISTEN {}").format(channel))
            drivers.append((server, driver))

        def wait(seconds: float) -> bool:
            until = time.monotonic() + seconds
            while True:
                # One look at each takes what came meanwhile.
                notified = [_is_notified(*each) for each in drivers]
                if any(notified):
                    return True
                left = until - time.monotonic()
                if left <= 0:
                    return False
                select([driver.fileno() for _, driver in drivers], [], [], left)

        yield wait


def _is_notified(server: Server, driver: Driver) -> bool:
    with server.named(), driver_errors(server.database.where):
        return bool(list(driver.notifies(timeout=0)))
