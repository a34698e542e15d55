"""Writing archives: the same state of a store gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from triptych import deadlines
from triptych._internal.files import left_drafts, written_whole
from triptych._internal.progress import Progress, ProgressCallback
from triptych.contracts import Store
from triptych.copies.archive_checks import DamagedError, DatasetCheck, check_settings
from triptych.copies.archive_format import (
    FORMAT,
    HEADER,
    MANIFEST,
    SETTINGS,
    VERSION,
    ArchiveSummary,
    DatasetSummary,
    dataset_folder,
)
from triptych.copies.copy import opened_source
from triptych.copies.notes import abandoned_drafts, noted_backup
from triptych.copies.report import Counts, count
from triptych.copies.states import StateSource, json_line
from triptych.errors import StoreError, ValidationError
from triptych.records import NameState

_OLDEST: Final = (1980, 1, 1, 0, 0, 0)
_UNIX: Final = 3
_SHOW_EVERY: Final = 64
_MODE: Final = 0o600
"""Only the user who writes an archive may read it: it has all texts and digests of access keys."""


def write_archive(
    store: Store,
    path: str | os.PathLike[str],
    *,
    datasets: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
) -> ArchiveSummary:
    """Write datasets of ``store`` (None: all, and the settings) to one file; return its contents.

    If the store supports snapshots, the state of one moment is written, while others may write. The
    file appears under ``path`` when it is complete; until then its name has a suffix. Its mode is
    0600; an overwritten file keeps its mode. Unfinished files of killed backups of this store on
    this machine, or to ``path``, are deleted. Equal stores give equal files, byte for byte.

    Raises:
        NotFoundError: the dataset does not exist.
        ValidationError: ``path`` exists, and ``overwrite`` is False.
        StoreError: the store cannot be read, is an unfinished copy, or has data that no store would
            accept from an archive; or the file cannot be written.
    """
    target = Path(path)
    if target.exists() and not overwrite:
        raise ValidationError(f"{target} exists: name another file, or give overwrite=True")
    kept = store.capabilities.settings
    left = [*left_drafts(target, remove=True), *abandoned_drafts(kept, remove=True)]
    try:
        with ExitStack() as held:
            states, chosen = held.enter_context(opened_source(store, datasets))
            stream = held.enter_context(written_whole(target, mode=_MODE))
            held.enter_context(noted_backup(kept, target))
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
                summary = _write(_Writer(archive), states, chosen, datasets is None, progress)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from error
    return attrs.evolve(summary, removed=tuple(map(str, left)))


@attrs.define
class _Writer:
    """Writes members, and remembers their digests."""

    archive: zipfile.ZipFile
    members: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    def write(self, name: str, lines: Iterable[bytes]) -> None:
        info = zipfile.ZipInfo(name, _OLDEST)
        info.create_system = _UNIX
        info.external_attr = 0o644 << 16
        digest, size = hashlib.sha256(), 0
        with self.archive.open(info, "w", force_zip64=True) as stream:
            for line in lines:
                stream.write(line)
                digest.update(line)
                size += len(line)
        self.members[name] = {"sha256": digest.hexdigest(), "size": size}

    def write_record(self, name: str, record: Any) -> None:
        self.write(name, [json_line(record) + b"\n"])


def _write(
    writer: _Writer,
    source: StateSource,
    chosen: Sequence[str],
    is_whole: bool,
    progress: ProgressCallback | None,
) -> ArchiveSummary:
    writer.write_record(HEADER, {"format": FORMAT, "version": VERSION})
    summaries = []
    for number, dataset_id in enumerate(sorted(chosen), start=1):
        folder, head = dataset_folder(number), source.head(dataset_id)
        with _refused(f"dataset {dataset_id!r:.80}"):
            check = DatasetCheck(head)
        writer.write_record(f"{folder}/dataset.json", head)
        written = _Written(check, progress)
        total = len(source.names(dataset_id)) if progress is not None else None
        lines = written.lines(source.states(dataset_id), total)
        writer.write(f"{folder}/names.jsonl", lines)
        summaries.append(
            DatasetSummary(dataset_id=dataset_id, names=written.names, counts=written.counts)
        )
    with _refused("the settings"):
        settings = check_settings(dict(source.settings())) if is_whole else {}
    writer.write_record(SETTINGS, settings)
    members = dict(writer.members)
    writer.write_record(MANIFEST, {"datasets": summaries, "members": members})
    return ArchiveSummary(datasets=tuple(summaries), settings=len(settings))


@attrs.define
class _Written:
    check: DatasetCheck
    progress: ProgressCallback | None
    names: int = 0
    counts: Counts = attrs.field(factory=Counts)

    def lines(self, states: Iterable[NameState], total: int | None) -> Iterator[bytes]:
        for state in states:
            with _refused(f"{state.name!r:.80}"):
                self.check.add(state)
            yield json_line(state) + b"\n"
            self.names += 1
            self.counts += count(state)
            if self.names % _SHOW_EVERY == 0:
                self._show(total)
        with _refused("the dataset"):
            self.check.end()
        self._show(total)

    def _show(self, total: int | None) -> None:
        deadlines.check("writing the archive")
        if self.progress is not None:
            self.progress(Progress(phase="documents", done=self.names, total=total))


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Refuse what no restore would take: better now than then."""
    try:
        yield
    except (DamagedError, ValueError) as error:
        raise StoreError(
            f"{what} cannot be in an archive, because no store would accept it ({error}). "
            "Check the store with `triptych doctor`, and store or delete the named documents again"
        ) from error
