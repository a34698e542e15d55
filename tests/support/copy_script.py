"""A process that copies, restores or backs up stores again and again, until it is killed.

It reads lines of JSON, ``{"do", "from", "to"}``, says "begun" and then "done" to each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.rich_stores import open_kind
from triptych.replication import Archive, copy_store, write_archive


def run(do: str, one: str, other: str) -> None:
    """Carry out one line; a store is given as its kind and its path."""
    if do == "backup":
        kind, _, path = one.partition(":")
        source = open_kind(kind, Path(path).parent, Path(path).name)
        print("begun", flush=True)
        write_archive(source, other, overwrite=True)
        source.close()
        return
    kind, _, path = other.partition(":")
    target = open_kind(kind, Path(path).parent, Path(path).name)
    print("begun", flush=True)
    if do == "restore":
        with Archive(one) as archive:
            copy_store(archive, target)
    else:
        kind, _, path = one.partition(":")
        source = open_kind(kind, Path(path).parent, Path(path).name)
        copy_store(source, target)
        source.close()
    target.close()


if __name__ == "__main__":
    for line in sys.stdin:
        given = json.loads(line)
        run(given["do"], given["from"], given["to"])
        print("done", flush=True)
