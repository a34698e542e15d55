"""A process that copies, restores or backs up stores again and again, until it is killed.

It reads lines of JSON, ``{"do", "from", "to"}``, says "begun" and then "done" to each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.rich_stores import open_kind
from triptych.copies import copy_store
from triptych_backends.sqlite import open_backup, write_backup


def _half_way(progress: object) -> None:
    print("half", flush=True)
    sys.stdin.readline()  # until it is killed


def run(do: str, one: str, other: str, *, replace: bool = False) -> None:
    """Carry out one line; a store is given as its kind and its path.

    A copy or restore "-half" stops when it has written its first batch.
    """
    progress = _half_way if do.endswith("-half") else None
    do = do.removesuffix("-half")
    if do == "backup":
        kind, _, path = one.partition(":")
        source = open_kind(kind, Path(path).parent, Path(path).name)
        print("begun", flush=True)
        write_backup(source, other, overwrite=True, progress=progress)
        source.close()
        return
    kind, _, path = other.partition(":")
    target = open_kind(kind, Path(path).parent, Path(path).name)
    print("begun", flush=True)
    if do == "restore":
        with open_backup(one) as backup:
            copy_store(
                backup, target, replace=replace, progress=progress, again="triptych copy again"
            )
    else:
        kind, _, path = one.partition(":")
        source = open_kind(kind, Path(path).parent, Path(path).name)
        copy_store(source, target, replace=replace, progress=progress, again="triptych copy again")
        source.close()
    target.close()


if __name__ == "__main__":
    for line in sys.stdin:
        given = json.loads(line)
        run(given["do"], given["from"], given["to"], replace=given.get("replace", False))
        print("done", flush=True)
