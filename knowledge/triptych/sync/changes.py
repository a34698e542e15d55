"""What changes to files mean: the narrowest events that cover them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from triptych.records import ChangeEvent, EventKind
from triptych.sync.ignoring import IGNORE_FILES
from triptych.sync.roots import SyncRoot
from triptych.sync.scanning import Scanner
from triptych.sync.state import Known

__all__ = ["events_of"]

_MANY = 1000
"""More changes than this at once are not told one by one."""


def events_of(
    roots: Sequence[tuple[SyncRoot, Scanner]],
    known: Mapping[SyncRoot, Mapping[str, Known]],
    paths: Sequence[str],
    *,
    busy: bool,
) -> list[ChangeEvent]:
    """The events that changes at the absolute ``paths`` make, each once, in order.

    ``busy`` says that a sync is running, which may have read files that are not yet ``known``.
    """
    found: dict[ChangeEvent, None] = {}
    for root, scanner in roots:
        below = [relative for path in paths if (relative := _below(root, path)) is not None]
        whole = ChangeEvent(kind=EventKind.BULK, dataset_id=root.dataset_id)
        if len(below) > _MANY:
            found[whole] = None
            continue
        for relative in dict.fromkeys(below):
            if whole in found:
                break
            event = _event(root, scanner, known.get(root, {}), relative, busy)
            if event is not None:
                found[event] = None
    return list(found)


def _below(root: SyncRoot, path: str) -> str | None:
    """``path`` from the root, "" for the root itself, None outside of it."""
    base = str(root.path)
    if path == base:
        return ""
    prefix = base.rstrip(os.sep) + os.sep
    return path[len(prefix) :].replace(os.sep, "/") if path.startswith(prefix) else None


def _event(
    root: SyncRoot, scanner: Scanner, known: Mapping[str, Known], relative: str, busy: bool
) -> ChangeEvent | None:
    whole = ChangeEvent(kind=EventKind.BULK, dataset_id=root.dataset_id)
    *above, name = relative.split("/")
    path = str(root.path / relative)
    if any(part.startswith(".") for part in above) or scanner.is_excluded_path(path):
        return None
    if not relative or name in IGNORE_FILES:
        return whole
    if name.startswith("."):
        return None
    if os.path.isdir(path):
        return whole if scanner.enters(relative) else None
    scan = scanner.look(relative)
    one = ChangeEvent(
        kind=EventKind.PUT if scan.files else EventKind.DELETE,
        dataset_id=root.dataset_id,
        doc_name=root.name_of(relative),
    )
    if relative in known or scan.files or scan.failed:
        return one
    if os.path.lexists(path):
        return None
    # What is gone may have been a folder. A copy, for a sync may be adding to it.
    if busy or any(each.startswith(f"{relative}/") for each in list(known)):
        return whole
    return one if scanner.wants(relative) else None
