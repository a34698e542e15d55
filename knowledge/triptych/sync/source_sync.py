"""`SourceSync`, which mirrors a source into a knowledge base."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from triptych import deadlines
from triptych._internal.digests import digest
from triptych._internal.progress import ProgressCallback
from triptych._open import every_format
from triptych.errors import CancelledError, StoreAwayError, ValidationError
from triptych.parsing import FileParsers
from triptych.parsing.files import Skipped
from triptych.search.file_location import remember_folder
from triptych.service import KnowledgeBase
from triptych.sync.patterns import IgnoreStack
from triptych.sync.reading import FileReader, MetadataFunction, file_error
from triptych.sync.report import DeletionGuard, SyncPlan, SyncReport
from triptych.sync.roots import SourceRoot, SyncOptions
from triptych.sync.run import SyncRun
from triptych.sync.scanner import Scan, Scanner
from triptych.sync.source import SourceEntry, stat_of
from triptych.sync.state import SyncRecord, load_state, save_state, state_file

_logger = logging.getLogger("triptych.sync")

_WHOLE = ""
"""The name of the record that holds the revision of the whole source: no entry has it."""


class SourceSync:
    """Mirrors the entries of a source into documents of a knowledge base.

    It does what `DirectorySync` does with the files of folders, by the same rules: a document's
    name is the root's prefix and the entry's name; documents of others are not touched; what fails
    is in the report and keeps its document; most documents are never deleted unconfirmed. An
    unchanged source costs one call of `Source.revision`, and only new and changed entries are
    fetched. If the list is incomplete, no document is deleted.

    Thread-safe; only one sync runs at a time.
    """

    def __init__(
        self,
        service: KnowledgeBase,
        root: SourceRoot,
        options: SyncOptions | None = None,
        *,
        parser: FileParsers | None = None,
        metadata: MetadataFunction | None = None,
        metadata_sig: str = "",
        state: Path | None = None,
    ) -> None:
        """Set the source and options; nothing is read yet.

        Args:
            service: the knowledge base; it is not closed.
            root: the source, with its dataset and prefix.
            options: options, unless the root has its own.
            parser, metadata, metadata_sig: as for `DirectorySync`.
            state: the folder for what is known of entries between runs. It may be deleted at any
                time; the next sync then fetches all entries. None records nothing.

        Raises:
            ValidationError: a pattern is invalid.
        """
        self._service = service
        self.root: SourceRoot = root
        self._options = root.options or options or SyncOptions()
        formats = cache(every_format)
        self._parser = formats(self._options.ocr) if parser is None else parser
        self._reader = FileReader(lambda _: self._parser, metadata, metadata_sig, self._options)
        kept = self._options.include, self._options.exclude, self._options.max_bytes
        self._signature = digest("source", self._parser.signature(""), metadata_sig, repr(kept))
        self._file = None if state is None else state_file(state, root.key, root.dataset_id)
        self._known: dict[str, SyncRecord] | None = None
        self._guard = DeletionGuard()
        self._lock = threading.Lock()
        self._scanner()  # checks the patterns

    def sync(
        self, *, progress: ProgressCallback | None = None, delete_most: bool = False
    ) -> SyncReport:
        """Update every document from its entry; return a report.

        ``delete_most`` allows deleting more than half of the documents; otherwise such deletions
        are ``held`` in the report.

        Raises:
            ModelMismatchError, ConflictError: the dataset has another configuration; nothing was
                written to it. Rebuild it first.
            CancelledError: the deadline passed; committed work remains.
        """
        settings = self._service.capabilities.settings
        if settings is not None:
            # Nobody outside may name documents as the source's. They have no files on this machine.
            remember_folder(settings, self.root.key, Path(os.devnull), self.root.prefix)
        with self._pass(delete_most) as (run, scanner, known):
            try:
                before = known.pop(_WHOLE, None)
                report = run.run(None, progress)
                if scanner.is_settled(known):
                    record = SyncRecord(None, "", self._signature, scanner.revision)
                    known[_WHOLE] = record
                run.changed = run.changed or before != known.get(_WHOLE)
            finally:
                if run.changed:
                    self._save(known)
        return report

    def plan(self, *, delete_most: bool = False) -> SyncPlan:
        """Return what `sync` would do and cost. It writes no document and calls no model, but
        fetches new and changed entries."""
        with self._pass(delete_most) as (run, _, _):
            return run.plan()

    @contextmanager
    def _pass(
        self, delete_most: bool
    ) -> Iterator[tuple[SyncRun, SourceScanner, dict[str, SyncRecord]]]:
        source: Any = self.root.source
        entered = source if isinstance(source, AbstractContextManager) else nullcontext()
        with self._lock, entered:
            if self._known is None:
                self._known = load_state(self._file) if self._file is not None else {}
            scanner = self._scanner(self._known)
            run = SyncRun(
                self._service,
                self.root.dataset_id,
                [(self.root, scanner)],
                self._options,
                self._reader,
                known={self.root: self._known},
                guard=None if delete_most else self._guard,
            )
            yield run, scanner, self._known

    def _scanner(self, known: dict[str, SyncRecord] | None = None) -> SourceScanner:
        whole = (known or {}).get(_WHOLE)
        unchanged = None if whole is None or whole.signature != self._signature else whole.outcome
        return SourceScanner(self.root, self._options, self._parser.takes, known or {}, unchanged)

    def _save(self, known: dict[str, SyncRecord]) -> None:
        try:
            if self._file is not None:
                save_state(self._file, known)
        except OSError as error:
            # It is a cache: without it the next run fetches all entries.
            _logger.warning(
                "the state of %s cannot be kept in %s: %s", self.root.place, self._file, error
            )


_IGNORES = IgnoreStack()


class SourceScanner(Scanner):
    """Applies the rules for files to the entries of a source, which is listed once.

    If the revision is ``unchanged``, the entries are those that are ``known``.
    """

    def __init__(
        self,
        root: SourceRoot,
        options: SyncOptions,
        takes: Callable[[str], bool],
        known: dict[str, SyncRecord],
        unchanged: str | None,
    ) -> None:
        super().__init__(Path(os.devnull), options, takes)
        self._of, self._source = root, root.source
        self._known = known
        self._unchanged = unchanged
        self._found: Scan | None = None
        self._hint = ""
        self.revision: str = ""

    def scan(self) -> Scan:
        """Everything that is listed."""
        if self._found is None:
            self._found = Scan()
            try:
                self._list(self._found)
            except (CancelledError, StoreAwayError):
                raise
            except Exception as error:  # noqa: BLE001 - a source of somebody else's may fail in any way
                self.revision = ""
                self._found.unlisted.add("")
                self._found.failed[""] = file_error(self._of.place, error)
        return self._found

    def look(self, *relatives: str) -> Scan:
        """Those of these entries that are listed."""
        found = self.scan()
        files = {name: found.files[name] for name in relatives if name in found.files}
        return Scan(files=files, hints=found.hints, unlisted=found.unlisted)

    def wants(self, relative: str) -> bool:
        """Whether an entry of this name is taken, by its name or its hint."""
        return super().wants(relative) or (
            self._include is None and bool(self._hint) and self._takes(self._hint)
        )

    def is_settled(self, known: dict[str, SyncRecord]) -> bool:
        """Whether the list was complete, and all that it names has been read as it is listed."""
        found = self.scan()
        return bool(self.revision) and all(
            name in known and known[name].stat == stat for name, stat in found.files.items()
        )

    def _list(self, found: Scan) -> None:
        self.revision = self._source.revision()
        if self.revision and self.revision == self._unchanged:
            found.files |= {name: e.stat for name, e in self._known.items() if e.stat is not None}
            return
        folders: dict[str, str] = {"": ""}
        for entry in self._source.list():
            deadlines.check("listing the source")
            name, above = entry.name, ""
            if not self._is_name(name):
                found.failed[name] = ValidationError(
                    f"{name!r:.200} is no name of a document: the source must list names of UTF-8 "
                    "with parts between slashes, none of them empty, '.' or '..'"
                )
                continue
            for part in name.split("/")[:-1]:
                folder = f"{above}/{part}" if above else part
                if folder not in folders:
                    reason = folders[above] or self.left_out(_IGNORES, folder, is_folder=True)
                    folders[folder] = reason
                    if reason and not folders[above]:
                        found.skipped.append(Skipped(name=f"{folder}/", reason=reason))
                above = folder
            if folders[above]:
                continue
            reason = self._reason(entry)
            if reason:
                found.skipped.append(Skipped(name=name, reason=reason))
            elif name in found.files:
                found.skipped.append(Skipped(name=name, reason="listed twice"))
            else:
                found.files[name] = stat_of(entry)
                if entry.hint:
                    found.hints[name] = entry.hint

    def _is_name(self, name: str) -> bool:
        encoded = name.encode("utf-8", "replace").decode()
        return encoded == name and self._of.relative_of(self._of.name_of(name)) is not None

    def _reason(self, entry: SourceEntry) -> str:
        self._hint = entry.hint
        size = attrs.evolve(stat_of(entry), size=entry.size or 0)
        return entry.skip or self.file_left_out(_IGNORES, entry.name, size)
