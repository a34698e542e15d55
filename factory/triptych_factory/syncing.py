"""A `DirectorySync` beside a store: where its state lies, what it must not take for files, and
what a doctor sees of it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from triptych.diagnostics import Check, FindingCollector
from triptych.parsing import FileParsers
from triptych.records import DoctorReport
from triptych.service import Service
from triptych.sync import DirectorySync, SyncOptions, SyncRoot
from triptych.sync.state import broken_states
from triptych_factory.locations import parse_location, state_folder, store_paths
from triptych_factory.settings import Settings

__all__ = [
    "SYNC_STATE",
    "directory_sync",
    "examined_syncs",
]

SYNC_STATE = Check(
    "sync.state",
    "what syncs remember of files is damaged, of another version, or was left half written",
    "the next sync of that folder reads every file again; what is stored is not concerned",
    repair="it is removed, and the next sync makes it again",
)


def directory_sync(
    service: Service,
    settings: Settings,
    roots: Sequence[SyncRoot],
    options: SyncOptions | None = None,
    *,
    parser: FileParsers | None = None,
) -> DirectorySync:
    """A sync into the Service that ``settings`` were wired to.

    Its state is kept beside the store, and the store is left out where it lies below a root.
    """
    location = parse_location(settings.url)
    options = options or SyncOptions()
    return DirectorySync(
        service,
        roots,
        attrs.evolve(options, exclude_paths=(*options.exclude_paths, *store_paths(location))),
        parser=parser,
        state=state_folder(location),
    )


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
        actions=(*report.actions, f"removed {len(broken)} files of syncs' state"),
    )
