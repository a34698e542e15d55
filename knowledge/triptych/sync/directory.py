"""`DirectorySync`, which mirrors folders into a knowledge base, and a polling notifier for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import attrs

from triptych._internal.progress import ProgressCallback
from triptych._open import every_format
from triptych.errors import NotFoundError, TriptychError, ValidationError
from triptych.parsing import FileParsers
from triptych.parsing.files import GENERATED, Skipped
from triptych.records import ChangeEvent, EventKind, RebuildReport, RebuildScope, check_text
from triptych.records.values import check_number
from triptych.scan import FileStat, compare
from triptych.search.file_location import remember_folder
from triptych.service import KnowledgeBase
from triptych.sync.changes import events_of
from triptych.sync.reading import FileReader, MetadataFunction
from triptych.sync.report import DeletionGuard, SyncPlan, SyncReport
from triptych.sync.roots import Root, SyncOptions, SyncRoot, check_roots
from triptych.sync.run import SyncRun
from triptych.sync.scanner import Scanner
from triptych.sync.state import SyncRecord, load_state, save_state, state_file
from triptych.sync.target import target_of

_logger = logging.getLogger("triptych.sync")


class DirectorySync:
    """Mirrors the files of folders into documents of a knowledge base.

    A document's name is the root's prefix and the file's path below the root. A file is read if its
    times or size have changed, parsed if its bytes have changed, and stored if the resulting
    document differs. Unchanged text keeps its vectors, and renamed files keep their layers.

    - Documents of a root have its key (`SystemData.sync_root`). A sync does not delete or replace
      other documents.
    - If a sync would delete more than half of a root's documents, it deletes none of them until you
      confirm: the report has them as ``held``. This protects against disks that are not mounted,
      which leave an empty folder. Deletions by successive calls of `rebuild` shortly after each
      other are counted together.
    - A file that fails is in the report and does not stop the others. Its document is kept, and the
      next sync tries again. Documents of inaccessible files and of missing roots are kept too.
    - Each document is written atomically and durably. If the process is killed, the next sync does
      the rest.

    It is a `Rebuilder`: `rebuild` syncs the documents in its scope. Thread-safe; only one sync runs
    at a time.
    """

    def __init__(
        self,
        service: KnowledgeBase,
        roots: Sequence[SyncRoot],
        options: SyncOptions | None = None,
        *,
        parser: FileParsers | None = None,
        metadata: MetadataFunction | None = None,
        metadata_sig: str = "",
        state: Path | None = None,
    ) -> None:
        """Set the folders and options; nothing is read yet.

        Args:
            service: the knowledge base; it is not closed.
            roots: the folders. If two contain the same name, the first one wins.
            options: options for roots without their own.
            parser: parses files; None parses every format whose library is installed.
            metadata: a function that adds metadata to a file's metadata.
            metadata_sig: the version of that function: if it changes, all files are read again.
            state: the folder for the recorded state of files between runs. It may be deleted at any
                time; the next sync then reads all files. None records nothing.

        Raises:
            ValidationError: there are no roots, two have the same key, or a pattern is invalid.
        """
        self._service = service
        self._options = options or SyncOptions()
        self._state = state
        formats = cache(every_format)

        def parser_of(options: SyncOptions) -> FileParsers:
            return formats(options.ocr) if parser is None else parser

        found = [(root, root.options or self._options) for root in check_roots(list(roots))]
        self._roots = [
            (root, Scanner(root.path, options, parser_of(options).takes)) for root, options in found
        ]
        self._preparer = FileReader(parser_of, metadata, metadata_sig, self._options)
        self._guard = DeletionGuard()
        self._lock = threading.Lock()
        self._known: dict[Root, dict[str, SyncRecord]] = {}
        self._linked: set[str] = set()
        self._left_out: dict[str, tuple[Skipped, ...]] = {}
        self._notes: dict[str, tuple[str, ...]] = {}
        self._running: dict[str, Sequence[str] | None] = {}

    @property
    def roots(self) -> tuple[SyncRoot, ...]:
        """The folders."""
        return tuple(root for root, _ in self._roots)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The distinct datasets of the folders."""
        return tuple(dict.fromkeys(root.dataset_id for root, _ in self._roots))

    @property
    def left_out(self) -> tuple[Skipped, ...]:
        """The folders of installed or generated files that the last full syncs skipped."""
        return tuple(each for found in self._left_out.values() for each in found)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the last sync of each dataset, as in `SyncReport`."""
        return tuple(note for found in self._notes.values() for note in found)

    def sync(
        self, *, progress: ProgressCallback | None = None, delete_most: bool = False
    ) -> SyncReport:
        """Update every document from its file; return a report.

        ``delete_most`` allows deleting more than half of a root's documents; otherwise such
        deletions are ``held`` in the report.

        Raises:
            ModelMismatchError, ConflictError: a dataset has another configuration; nothing was
                written to it. Rebuild it first.
            CancelledError: the deadline passed; committed work remains.
        """
        report = SyncReport()
        for dataset_id in self.datasets:
            report += self._sync(dataset_id, None, progress, delete_most)
        return report

    def plan(self, *, delete_most: bool = False) -> SyncPlan:
        """Return what `sync` would do and cost. It writes nothing and calls no model."""
        plan = SyncPlan()
        with self._lock:
            for dataset_id in self.datasets:
                plan += self._pass(dataset_id, delete_most).plan()
        return plan

    def rebuild(self, scope: RebuildScope) -> RebuildReport:
        """Sync the files of some documents, the roots of a dataset, or everything, by ``scope``.

        Raises:
            NotFoundError: no root is for the dataset.
            ModelMismatchError, ConflictError, CancelledError: as `sync`.
        """
        if not scope.dataset_id:
            return self.sync().as_rebuild()
        if scope.dataset_id not in self.datasets:
            raise NotFoundError(f"no folder is synced into the dataset {scope.dataset_id!r}")
        names: Sequence[str] | None = scope.doc_names or None
        # A name with a slash after is a folder's, which could not be read. Behind links, a
        # file may be that of documents which are not named.
        if scope.dataset_id in self._linked or any(n.endswith("/") for n in scope.doc_names):
            names = None
        return self._sync(scope.dataset_id, names, None).as_rebuild()

    # For notifiers

    def changes(self, paths: Iterable[str]) -> list[ChangeEvent]:
        """Yield the change events for changes at these absolute ``paths``.

        There are none for paths that cannot affect a document. More documents than a scope can
        name, or changed folders, give an event for the whole dataset.
        """
        return events_of(
            self._roots,
            self._known,
            list(paths),
            running=self._running,
            stored_below=self._stored_below,
        )

    def everything(self) -> list[ChangeEvent]:
        """Return an event for each dataset, for unknown changes."""
        return [
            ChangeEvent(kind=EventKind.BULK, dataset_id=dataset_id) for dataset_id in self.datasets
        ]

    def snapshot(self) -> dict[str, FileStat | None]:
        """Return the state of every included file by absolute path; None for inaccessible paths."""
        found: dict[str, FileStat | None] = {}
        for root, scanner in self._roots:
            scan = scanner.scan()
            found |= {str(root.path / relative): stat for relative, stat in scan.files.items()}
            found |= {str(root.path / relative): None for relative in scan.unlisted}
        return found

    # The work

    def _remember_folders(self, dataset_id: str) -> None:
        """Record the folders for `Hit.path`, if the store keeps settings."""
        store = self._service.capabilities.settings
        if store is not None:
            for root, _ in self._roots:
                if root.dataset_id == dataset_id:
                    remember_folder(store, root.key, root.path, root.prefix)

    def _sync(
        self,
        dataset_id: str,
        names: Sequence[str] | None,
        progress: ProgressCallback | None,
        delete_most: bool = False,
    ) -> SyncReport:
        with self._lock:
            one = self._pass(dataset_id, delete_most)
            self._running[dataset_id] = names
            try:
                # Before: while it runs, too, nobody outside may name documents as the folder's.
                self._remember_folders(dataset_id)
                report = one.run(names, progress)
                if names is None:
                    # The files of these roots decide about their own documents.
                    expired = target_of(self._service).expire(dataset_id, one.keys)
                    report = attrs.evolve(report, expired=expired)
            finally:
                del self._running[dataset_id]
                if names is None and one.changed:
                    self._save(dataset_id)
            if names is None:
                self._linked.discard(dataset_id)
                generated = (each for each in report.skipped if each.reason in GENERATED)
                self._left_out[dataset_id] = tuple(generated)
            self._notes[dataset_id] = report.notes
            if one.links:
                self._linked.add(dataset_id)
            return report

    def _pass(self, dataset_id: str, delete_most: bool) -> SyncRun:
        roots = [pair for pair in self._roots if pair[0].dataset_id == dataset_id]
        for root, _ in roots:
            if root not in self._known:
                file = self._file(root)
                self._known[root] = load_state(file) if file is not None else {}
        return SyncRun(
            self._service,
            dataset_id,
            roots,
            self._options,
            self._preparer,
            known=self._known,
            guard=None if delete_most else self._guard,
        )

    def _stored_below(self, dataset_id: str, folder: str) -> Sequence[str] | None:
        most = RebuildScope.MAX_DOC_NAMES + 1
        try:
            check_text(folder, "a folder")
        except ValidationError:
            return ()  # no document can have such a name
        try:
            found = target_of(self._service).below(dataset_id, folder, most)
        except TriptychError:
            return None
        return [info.name for info in found]

    def _file(self, root: SyncRoot) -> Path | None:
        return state_file(self._state, root.key, root.dataset_id) if self._state else None

    def _save(self, dataset_id: str) -> None:
        for root, _ in self._roots:
            file = self._file(root)
            if file is None or root.dataset_id != dataset_id:
                continue
            try:
                save_state(file, self._known[root])
            except OSError as error:
                # It is a cache: without it the next run reads all files.
                _logger.warning("the state of %s cannot be kept in %s: %s", root.path, file, error)


class PollingNotifier:
    """An `EventNotifier` that polls the files of a `DirectorySync`, for disks that do not report
    changes, such as network disks.

    It compares names, sizes and times, and reads no file. Documents of inaccessible files are kept.
    It starts with an event for each dataset, because earlier changes are unknown.
    """

    def __init__(self, sync: DirectorySync, *, every: float = 5.0) -> None:
        """Check every ``every`` seconds.

        Raises:
            ValidationError: ``every`` is not a number of seconds above 0.
        """
        self._sync = sync
        self._every = check_number(every, "every", above=True, of="seconds")
        self._stop = threading.Event()

    def events(self) -> Iterator[ChangeEvent]:
        """Yield each change as it is found; end soon after `close`."""
        if self._stop.is_set():
            return
        files, unseen, racy = self._look()
        yield from self._sync.everything()
        while not self._stop.wait(self._every):
            before, unseen_before, racy_before = files, unseen, racy
            files, unseen, racy = self._look()
            found = compare(before, files)
            # Once more when it is no longer racy: what it is then, it stays under these times.
            changed = {*found.new, *found.removed, *found.changed, *(racy_before - racy)}
            if unseen_before - unseen:
                yield from self._sync.everything()
            elif changed:
                yield from self._sync.changes(sorted(changed))

    def close(self) -> None:
        """End `events`. Idempotent."""
        self._stop.set()

    def _look(self) -> tuple[dict[str, FileStat | None], set[str], set[str]]:
        """Return the files, the paths that are inaccessible, and the files that may change again
        with the same times."""
        looked = time.time_ns()
        found = self._sync.snapshot()
        files = {path: stat for path, stat in found.items() if stat is not None}
        racy = {path for path, stat in files.items() if stat.unless_racy(looked) is None}
        return dict(files), found.keys() - files.keys(), racy
