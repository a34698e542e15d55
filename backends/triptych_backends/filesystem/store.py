"""`FilesStore`: a folder of files that people read and edit, with its derived data."""

from __future__ import annotations

import contextlib
import os
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import Capabilities
from triptych.errors import CorruptStoreError, SchemaVersionError, StoreError, ValidationError
from triptych.records import ChangeCursor, ChangePage, DatasetStats, check_whole
from triptych_backends.filesystem import change_detection, history as old_versions, stat_cache
from triptych_backends.filesystem.checks import list_problems
from triptych_backends.filesystem.contents import RejectedFile
from triptych_backends.filesystem.copies import FilesCopies
from triptych_backends.filesystem.derived import FilesChunks, FilesLayers
from triptych_backends.filesystem.disk import Disk, disk_errors
from triptych_backends.filesystem.documents import FilesDocuments
from triptych_backends.filesystem.formats import FormatError, dump, parse
from triptych_backends.filesystem.journal import Intent, Journal
from triptych_backends.filesystem.layout import DATASETS, DERIVED, JOURNAL, LOCK, OWN, STORE
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.filesystem.writer import Writer, WritersLock
from triptych_backends.sqlite import SqliteStore
from triptych_backends.sqlite.connection import FORK_WAIT
from triptych_backends.sqlite.location import refuse_unusable

LAYOUT_VERSION = 1
"""What `store.json` says of a store of this version of Triptych."""

_IGNORED = (
    b"# What can be made again, or is this machine's.\nderived/\njournal/\nlock\n*.tmp\n"
    b"# Git has its own.\nhistory/\n"
)
_DATABASE = "kb.db"


class _Changes:
    """`ChangeReader` over the mirror, which takes over what was edited by hand first.

    Where the derived database is deleted, the log begins again, and so do those who follow it.
    """

    writer: Writer
    mirror: SqliteStore

    def change_head(self) -> str:
        """See `ChangeReader.change_head`. Looks through all folders."""
        change_detection.refresh_all(self.writer)
        return self.mirror.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`. Looks through the folders of what is asked for."""
        if dataset_id is None:
            change_detection.refresh_all(self.writer)
        else:
            change_detection.refresh_dataset(self.writer, dataset_id)
        return self.mirror.read_changes(since, dataset_id=dataset_id, limit=limit)


class FilesStore(CloseOnExit, FilesCopies, _Changes):
    """Documents and layers as files in a folder; thread-safe, and fork-safe.

    ``documents``, ``chunks`` and ``layers`` are the repositories. Derived data is in
    ``.triptych/derived``, which can be deleted while the store is closed. Use it as a context
    manager, or close it.
    """

    def __init__(self, disk: Disk, mirror: SqliteStore, *, wait: float, history: int) -> None:
        self.path = Path(disk.root)
        self.mirror = mirror
        self.workspace = Workspace(disk, mirror, history=history)
        self.writer = Writer(self.workspace, wait=wait)
        self.documents = FilesDocuments(self.writer, mirror.documents)
        self.chunks = FilesChunks(self.writer, mirror)
        self.layers = FilesLayers(self.writer, mirror)
        _LOCKS.add(self.writer.lock)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        lock_timeout: float = 30.0,
        create: bool = True,
        history: int = 10,
        background_index: bool = True,
        disk: Callable[[str], Disk] = Disk,
    ) -> FilesStore:
        """Open the store in the folder ``path``, and adopt files that were changed by hand.

        A missing folder is created, but not its parents.

        Args:
            lock_timeout: seconds that a write waits for other writers.
            create: whether to create a missing store.
            read_only: whether to refuse writes, and not to adopt changes.
            history: the number of old versions kept for each document.
            background_index: whether a second process, given several cores, indexes bulk writes.
            disk: makes the object that accesses the files of the given absolute path, for tests.

        Raises:
            ValidationError: ``path`` is a URL, or ``history`` is below 0.
            StoreError: it cannot be opened; the message says why.
            StoreLockedError: another process holds the lock for too long.
            CorruptStoreError: one of its own files is damaged.
            SchemaVersionError: a newer version of Triptych wrote it.
        """
        root = _root(path)
        check_whole(history, "history")
        _refuse_unusable(root, create=create, read_only=read_only)
        files = disk(root)
        with disk_errors(root):
            if not read_only:
                _prepare(files, lock_timeout)
            _require_layout(files)
            _refuse_links(files)
        database = Path(files.real(f"{DERIVED}/{_DATABASE}"))
        if read_only and not database.exists():
            raise _unready(root)
        mirror = _open_derived(
            database,
            read_only=read_only,
            lock_timeout=lock_timeout,
            background_index=background_index,
        )
        try:
            store = cls(files, mirror, wait=lock_timeout, history=history)
            with mirror.database.reading() as session:
                ready = stat_cache.has_tables(session)
            if not read_only:
                store._begin(ready=ready)
            elif not ready:
                raise _unready(root)
        except BaseException:
            mirror.close()
            raise
        return store

    def _begin(self, *, ready: bool) -> None:
        if not ready:
            with self.mirror.database.writing() as tx:
                stat_cache.create_tables(tx)
        with self.writer.locked():
            self.workspace.journal.clear()
        change_detection.refresh_all(self.writer)

    def problems(self) -> tuple[RejectedFile, ...]:
        """The files in the store's folder that were not adopted, by path, with reasons and
        remedies."""
        return list_problems(self.workspace)

    @property
    def searched_log(self) -> SqliteStore:
        """The log of what searches find, which do not look at the files."""
        return self.mirror

    @property
    def results_path(self) -> Path | None:
        """The file of the semantic cache, beside the derived database."""
        return self.mirror.results_path

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: all of them."""
        return Capabilities(
            document_search=self.chunks,
            versions=self.documents,
            changes=self,
            copying=self,
            settings=self,
            diagnostics=self.chunks,
        )

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        return self.mirror.stats(dataset_id, chunker_sig=chunker_sig, embed_sig=embed_sig)

    def scrub(self) -> None:
        """See `Store.scrub`: rewrite the derived database and its index.

        Deleted files are only unlinked: the disk may keep their contents, and Git does.
        """
        with self.writer.locked():
            self.workspace.journal.clear()
            old_versions.sweep(self.workspace)
            self.mirror.scrub()

    def close(self) -> None:
        """Close the derived database and its index. Idempotent."""
        self.mirror.close()


def _unready(root: str) -> StoreError:
    return StoreError(
        f"the store {root} cannot be read before its derived database is made: open it for "
        "writing once"
    )


def _root(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if "://" in text:
        raise ValidationError(f"{text!r} is a URL: give FilesStore the path of a folder")
    if not text or "\0" in text:
        raise ValidationError(f"{text!r} names no folder")
    try:
        folder = Path(text).expanduser()
    except RuntimeError as error:
        raise ValidationError(
            f"{text!r}: there is no user of that name with a home folder"
        ) from error
    # A link that leads to the store is the caller's; those inside are followed by nobody.
    return os.path.realpath(folder)


def _refuse_unusable(root: str, *, create: bool, read_only: bool) -> None:
    if os.path.lexists(root) and not os.path.isdir(root):
        raise StoreError(f"{root} is a file: name a folder, or open it as sqlite:///")
    if not os.path.isdir(os.path.join(root, OWN)) and (read_only or not create):
        raise StoreError(f"there is no store in {root}: check the path, or open it for writing")
    if not os.path.isdir(os.path.dirname(root)):
        raise StoreError(f"the folder {os.path.dirname(root)} does not exist: create it first")
    # The derived database has SQLite's demands on the disk.
    if os.path.isdir(root):
        refuse_unusable(Path(root, "kb.db"), create=True, read_only=False)


def _prepare(disk: Disk, wait: float) -> None:
    """Make the store's own folders and files, those that are missing."""
    if not os.path.isdir(disk.root):
        with contextlib.suppress(FileExistsError):
            os.mkdir(disk.root)
    for folder in (OWN, DERIVED, JOURNAL, DATASETS):
        if disk.make_folder(folder):
            disk.sync_folder(folder.rpartition("/")[0])
    for path, data in ((f"{OWN}/.gitignore", _IGNORED), (STORE, dump({"layout": LAYOUT_VERSION}))):
        if disk.entry(path) is None:
            # Several may do so at once, each with the same bytes.
            with WritersLock(disk.real(LOCK), disk.root, wait).held():
                Journal(disk).apply(Intent(writes={path: data}))


def _require_layout(disk: Disk) -> None:
    try:
        version = parse(disk.read(STORE)[0])["layout"]
    except (FormatError, KeyError) as error:
        raise CorruptStoreError(f"{disk.real(STORE)} is damaged: restore it") from error
    if version != LAYOUT_VERSION:
        raise SchemaVersionError(
            f"the store {disk.root} has layout {version}, and this version of Triptych knows "
            f"layout {LAYOUT_VERSION}: update triptych, or open it with the version that wrote it"
        )


def _refuse_links(disk: Disk) -> None:
    """SQLite follows links: one in the derived database would lead it out of the root."""
    for end in ("", "-wal", "-shm", "-journal", ".index", ".results", ".results-journal"):
        path = f"{DERIVED}/{_DATABASE}{end}"
        found = disk.entry(path)
        if found is not None and found.kind == "link":
            raise disk.refused(path)


def _open_derived(
    path: Path, *, read_only: bool, lock_timeout: float, background_index: bool
) -> SqliteStore:
    try:
        return SqliteStore.open(
            path, read_only=read_only, lock_timeout=lock_timeout, background_index=background_index
        )
    except CorruptStoreError:
        if read_only:
            raise
    # All that is in it can be made again.
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)
    shutil.rmtree(path.with_name(f"{path.name}.index"), ignore_errors=True)
    return SqliteStore.open(path, lock_timeout=lock_timeout, background_index=background_index)


_LOCKS: weakref.WeakSet[WritersLock] = weakref.WeakSet()
_HELD: list[tuple[WritersLock, bool]] = []


def _before_fork() -> None:
    _HELD[:] = [(lock, lock.before_fork(FORK_WAIT)) for lock in list(_LOCKS)]


def _after_fork_in_parent() -> None:
    for lock, acquired in _HELD:
        lock.after_fork_in_parent(acquired)
    _HELD.clear()


def _after_fork_in_child() -> None:
    _HELD.clear()
    for lock in _LOCKS:
        lock.after_fork_in_child()


# Registered after the database's, and so run before it: its calls are over when ours are.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
