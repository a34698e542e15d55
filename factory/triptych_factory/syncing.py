"""A `DirectorySync` beside a store: where its state lies, what it must not take for files, and
what a doctor sees of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import attrs

from triptych._internal.digests import digest
from triptych._internal.wording import counted
from triptych.diagnostics import Check, FindingCollector
from triptych.records import DoctorReport
from triptych.service import KnowledgeBase
from triptych.sync import DirectorySync, RememberedRoots, SyncOptions, SyncRoot
from triptych.sync.state import broken_states
from triptych_factory.locations import (
    base_of,
    is_server,
    parse_location,
    state_folder,
    store_paths,
    user_store,
)
from triptych_factory.settings import Settings
from triptych_factory.trust import Trust, remember

SYNC_STATE = Check(
    "sync.state",
    "the recorded state of synced files is damaged, incomplete or of another version",
    "the next sync of that folder reads every file again; stored documents are not affected",
    repair="it is removed, and the next sync makes it again",
)


def directory_sync(
    service: KnowledgeBase,
    settings: Settings,
    roots: Sequence[SyncRoot],
    options: SyncOptions | None = None,
) -> DirectorySync:
    """A sync into the Service that ``settings`` were wired to.

    Its state is kept beside the store, and the store is left out where it lies below a root. The
    state of syncs into a server is kept with the user's own data.
    """
    if is_server(settings.url):
        own: tuple[Path, ...] = ()
        state: Path | None = remote_state(settings.url)
    else:
        location = parse_location(settings.url)
        own, state = store_paths(location), state_folder(location)

    def without_store(options: SyncOptions) -> SyncOptions:
        ocr = settings.ocr if options.ocr is None else options.ocr
        return attrs.evolve(options, exclude_paths=(*options.exclude_paths, *own), ocr=ocr)

    return DirectorySync(
        service,
        [
            attrs.evolve(root, options=without_store(root.options)) if root.options else root
            for root in roots
        ],
        without_store(options or SyncOptions()),
        state=state,
    )


def remote_key(path: Path) -> str:
    """The key of a folder of this machine in a store that several machines sync into."""
    folder = Path(os.path.abspath(path.expanduser()))
    name = folder.name.encode("utf-8", "replace").decode()
    parts = socket.gethostname(), os.fsencode(folder).hex()
    return f"{name}-{digest('machine', *parts)[:12]}"


def remote_state(url: str) -> Path:
    """Where the state of syncs into a server is kept."""
    return user_store().parent / "syncs" / digest("server", url.rstrip("/"))[:16]


def remembered_roots(service: KnowledgeBase, settings: Settings) -> RememberedRoots:
    """The folders that the store remembers to which ``settings`` were wired.

    Those that lie beside the store, or below that place, move along with it. A store in a folder
    ``.triptych`` counts as lying where that folder is.

    Raises:
        NotAvailableError: the store keeps no settings.
    """
    location, trust = parse_location(settings.url), Trust()
    return RememberedRoots(
        service.capabilities.settings,
        base_of(location),
        own=location.path if location.scheme == "files" else None,
        trusted=partial(trust.has_root, location),
        trust=partial(remember, trust.add_root, location),
    )


def note_synced(remembered: RememberedRoots, directory: DirectorySync) -> None:
    """Remember when the folders of a sync that are remembered were synced: now."""
    here = [root for root in directory.roots if root.path.is_dir()]
    if any(each.root in here for each in remembered.all()):
        remembered.note_synced(here, datetime.now(UTC))


def examined_syncs(report: DoctorReport, settings: Settings, *, repair: bool) -> DoctorReport:
    """``report`` with what is wrong with the state of the store's syncs; ``repair`` drops that."""
    folder = state_folder(parse_location(settings.url))
    if folder is None or not folder.is_dir():
        return report
    broken, tally = broken_states(folder), FindingCollector()
    for file in broken:
        tally.add(SYNC_STATE, f"the syncs in {folder}", file.name)
    if not broken:
        return report
    if not repair or settings.read_only:
        return attrs.evolve(report, findings=(*report.findings, *tally.findings()))
    for file in broken:
        file.unlink(missing_ok=True)
    return attrs.evolve(
        report,
        repaired=(*report.repaired, *tally.findings()),
        actions=(*report.actions, f"removed {counted(len(broken), 'file')} of syncs' state"),
    )
