"""A `SourceSync` beside a store: its state, the mirrors, and which sources are trusted."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs

from triptych import ProgressCallback
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import Failure
from triptych.service import KnowledgeBase
from triptych.sync import SourceSync, SyncReport
from triptych.sync.state import MIRRORS
from triptych_factory.locations import is_server, parse_location, state_folder
from triptych_factory.settings import Settings
from triptych_factory.syncing import (
    directory_sync,
    note_synced,
    remembered_roots,
    remote_state,
)
from triptych_factory.trust import Trust, remember
from triptych_sources import RememberedSource, RememberedSources


def remembered_sources(service: KnowledgeBase) -> RememberedSources:
    """The sources that the store remembers.

    Raises:
        NotAvailableError: the store keeps no settings.
    """
    kept = service.capabilities.settings
    if kept is None:
        raise NotAvailableError("this store keeps no settings: name the sources in each sync")
    return RememberedSources(kept)


def source_sync(
    service: KnowledgeBase,
    settings: Settings,
    source: RememberedSource,
    *,
    keep: bool = True,
) -> SourceSync:
    """A sync of a source, remembered or not, into the Service that ``settings`` were wired to.

    Its state and the mirror of a repository are kept beside the store (not with ``keep=False``),
    those of syncs into a server with the user's own data.
    """
    state: Path | None = None
    if keep:
        url = settings.url
        state = remote_state(url) if is_server(url) else state_folder(parse_location(url))
    ocr = settings.ocr if source.options.ocr is None else source.options.ocr
    source = attrs.evolve(source, options=attrs.evolve(source.options, ocr=ocr))
    root = source.root(None if state is None else state / MIRRORS)
    return SourceSync(service, root, state=state)


def note_sources_synced(
    service: KnowledgeBase, sources: Sequence[SourceSync], failed: Sequence[Failure]
) -> None:
    """Remember that these sources were synced now, but for those that could not be listed."""
    names = {each.name for each in failed}
    for root in (each.root for each in sources if each.root.place not in names):
        remembered_sources(service).note_synced(root, datetime.now(UTC))


def sync_remembered(
    settings: Settings, service: KnowledgeBase, progress: ProgressCallback | None
) -> SyncReport:
    """Sync the folders and sources that the store remembers, and remember when.

    Raises:
        NotAvailableError: the store keeps no settings.
        NotFoundError: it remembers none.
        ValidationError: one of them is not trusted.
    """
    roots, sources = remembered_roots(service, settings), remembered_sources(service).all()
    check_trusted(settings, sources)
    report = SyncReport()
    if roots.all() or not sources:
        directory = directory_sync(service, settings, roots.to_sync())
        report += directory.sync(progress=progress)
        note_synced(roots, directory)
    for each in sources:
        sync = source_sync(service, settings, each)
        synced = sync.sync(progress=progress)
        note_sources_synced(service, [sync], synced.failed)
        report += synced
    return report


def forget_source(service: KnowledgeBase, settings: Settings, source: RememberedSource) -> None:
    """Forget a source, but keep its documents; the mirror of a repository is removed."""
    remembered_sources(service).forget(source)
    state = state_folder(parse_location(settings.url))
    if state is not None:
        shutil.rmtree(state / MIRRORS / source.root(None).key, ignore_errors=True)


def trust_source(settings: Settings, source: RememberedSource) -> None:
    """Keep in mind that somebody added this source on this machine."""
    remember(Trust().add_root, parse_location(settings.url), source.told)


def check_trusted(settings: Settings, sources: Sequence[RememberedSource]) -> None:
    """Refuse to read what a store remembers that came from elsewhere.

    Raises:
        ValidationError: nobody added one of them on this machine.
    """
    if foreign := foreign_sources(settings, sources):
        raise ValidationError(
            "this store remembers sources that nobody added on this machine: "
            f"{', '.join(repr(each.location) for each in foreign)}: if it may read them, run "
            "`triptych trust`; else name what to sync"
        )


def foreign_sources(
    settings: Settings, sources: Sequence[RememberedSource]
) -> list[RememberedSource]:
    """Those of ``sources`` that nobody added on this machine."""
    location, trust = parse_location(settings.url), Trust()
    return [each for each in sources if not trust.has_root(location, each.told)]
