"""Moves a dataset, and is killed after a step: ``move_script.py URL DATASET SERVER STEP``."""

from __future__ import annotations

import os
import signal
import sys

from triptych_backends.shards import ShardedStore
from triptych_backends.shards.move import move_dataset


def main(url: str, dataset: str, server: str, last: str) -> None:
    def step(name: str) -> None:
        if name == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with ShardedStore.open(url) as store:
        move_dataset(store.router, dataset, server, step=step)


if __name__ == "__main__":
    main(*sys.argv[1:])
