"""Folders of the server's disk and sources: which are synced, and syncing them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from triptych.errors import AccessDeniedError, CancelledError, NotAvailableError, ValidationError
from triptych.sync import RememberedRoot, Root, SyncReport
from triptych_server.console.progress import Task
from triptych_server.console.site import Made, html, render, see_other
from triptych_server.console.visit import Visit, may
from triptych_server.http.server import is_loopback
from triptych_sources import RememberedSource

_SHOWN: Final = 100
_COUNTED: Final = ("added", "updated", "unchanged", "renamed", "deleted", "failed", "skipped")


def datasets(visit: Visit, synced: SyncReport | None = None) -> dict[str, Any]:
    """All datasets with their counts, and the folders and sources that are synced into them."""
    return {
        "stats": visit.service.stats(),
        "report": None if synced is None else _told(visit, synced),
        "ended": visit.one("ended") != "",
        **offered(visit),
    }


def offered(visit: Visit) -> dict[str, Any]:
    """What whoever sees the whole store is shown of folders and sources, and may do with them."""
    server = visit.server
    sees_all = may(server.check_sees_all, visit.service, "folders of the server are")
    folders: Sequence[RememberedRoot | RememberedSource] = ()
    if sees_all and server.roots is not None:
        try:
            folders = server.roots(server.service)
        except NotAvailableError:  # a store without settings remembers none
            folders = ()
    known = server.roots is None or bool(folders)
    return {
        "folders": [(each, _root_of(each), _is_there(each)) for each in folders],
        "can_sync": sees_all and visit.can_write and server.sync is not None and known,
        "can_name": visit.can_write and _may_name(visit),
    }


def _root_of(each: RememberedRoot | RememberedSource) -> Root:
    return each.root if isinstance(each, RememberedRoot) else each.root(None)


def _is_there(each: RememberedRoot | RememberedSource) -> bool:
    """Whether a folder is there; of a source only a sync tells."""
    return not isinstance(each, RememberedRoot) or os.path.isdir(each.root.path)


def _may_name(visit: Visit) -> bool:
    """Whether a folder of this machine may be named: by a person at this machine, without keys."""
    server = visit.server
    has_keys = server.authenticate is not None
    return server.add_folder is not None and not has_keys and is_loopback(visit.request)


def act(visit: Visit) -> Made:
    """Sync what is remembered, or add a folder and sync it; the page shows the report."""
    try:
        report = sync_of(visit).run(None)
    except CancelledError:  # no time is left to show anything
        return see_other(visit.request, "/console/datasets?ended=1")
    return html(render("datasets", visit, **datasets(visit, report)))


def ended(visit: Visit, task: Task[SyncReport], came_to: SyncReport | CancelledError) -> bytes:
    """The page after a sync that was watched."""
    synced = None if isinstance(came_to, CancelledError) else came_to
    values = datasets(visit, synced) | {"ended": synced is None}
    return render("datasets", visit, layout="part.html", **values)


def sync_of(visit: Visit) -> Task[SyncReport]:
    """The sync that a form asks for.

    Raises:
        TriptychError: it is none, or not for this visitor.
    """
    server = visit.server
    match visit.one("do"):
        case "sync":
            server.check_sees_all(visit.service, "folders of the server are")
            if server.sync is None:
                raise NotAvailableError("this server has nothing to sync")
            return Task(name="sync", run=partial(server.sync, server.service))
        case "folder":
            if server.add_folder is None or not _may_name(visit):
                raise NotAvailableError(
                    "a folder is named only in `triptych console --write`, over a store without "
                    "keys, on the machine that it runs on"
                )
            if not secrets.compare_digest(visit.one("code").encode(), server.folder_code.encode()):
                raise AccessDeniedError(
                    "this is not the code that the terminal of `triptych console` shows: without "
                    "it, anyone who can log in to this machine could have your folders read"
                )
            path, dataset_id = _folder(visit.one("folder")), visit.one("dataset", "default")
            run = partial(server.add_folder, server.service, path, dataset_id)
            return Task(name="sync", run=run)
        case unknown:
            raise ValidationError(f"there is no action {unknown!r:.60}")


def _folder(text: str) -> Path:
    """The folder that was typed.

    Raises:
        ValidationError: it is no whole path of a folder.
    """
    try:
        path = Path(text).expanduser()
        if path.is_absolute() and path.is_dir():
            return path
    except (OSError, RuntimeError, ValueError):
        pass
    raise ValidationError(
        f"{text!r:.200} is no folder on this machine: write its whole path, such as /home/me/notes "
        "or ~/notes"
    )


def _told(visit: Visit, report: SyncReport) -> dict[str, Any]:
    """The result of a sync: counts, and what failed or waits for a person."""
    found = {name: getattr(report, name) for name in _COUNTED}
    failures = [*report.failed, *(each.failure for each in report.held)]
    return {
        "counts": {
            name: len(each) if isinstance(each, tuple) else each for name, each in found.items()
        },
        "held": bool(report.held),
        "notes": report.notes[:_SHOWN],
        "more_notes": max(len(report.notes) - _SHOWN, 0),
        "skipped": [(each.name, each.reason) for each in report.skipped[:_SHOWN]],
        "failures": [(each.name, visit.message_of(each.error)) for each in failures[:_SHOWN]],
        "more": max(len(failures) - _SHOWN, 0),
    }
