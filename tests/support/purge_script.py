"""Two purges on a PostgreSQL server, by a process that kills itself at one of its statements.

Its arguments are the store's URL, two documents, and the statement (0: none) of the second purge.
It says when a purge has returned, and in the end how many statements the second one took.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import psycopg

import triptych


def main(url: str, first: str, second: str, last: str) -> None:
    with triptych.open(url, embedder="hash") as kb:
        kb.purge("d", first)
        print(first, flush=True)
        count = kill_at(int(last))
        kb.purge("d", second)
        print(second, len(count), flush=True)


def kill_at(last: int) -> list[None]:
    """Kill this process before its statement number ``last``; what grows by one with each."""
    execute = psycopg.Connection.execute
    seen: list[None] = []

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(None)
        if len(seen) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(self, *args, **kwargs)

    psycopg.Connection.execute = counted  # type: ignore[method-assign]
    return seen


if __name__ == "__main__":
    main(*sys.argv[1:])
