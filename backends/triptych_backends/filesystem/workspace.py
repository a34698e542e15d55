"""The truth in files, beside its mirror in the derived database.

All changes of either go through here, under the writers' lock. What a person changed meanwhile is
adopted first: an edited file gets the next version, a new one a version above all deleted ones, a
file that is gone takes its document with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import attrs

from triptych.errors import CorruptStoreError, StoreError
from triptych.records import DerivedLayer
from triptych_backends.filesystem import stat_cache as looks
from triptych_backends.filesystem.change_set import ChangeSet
from triptych_backends.filesystem.contents import (
    BEHIND,
    FileContent,
    FileLayer,
    FileSidecar,
    find_content,
    find_home,
    find_layer,
    find_sidecar,
)
from triptych_backends.filesystem.disk import Disk, LinkError, disk_errors
from triptych_backends.filesystem.formats import DatasetManifest, Sidecar
from triptych_backends.filesystem.journal import Journal
from triptych_backends.filesystem.layout import (
    DATASETS,
    LOCK,
    OWN,
    document_file,
    layer_file,
    layer_paths,
    sidecar_file,
)
from triptych_backends.filesystem.lock import WritersLock
from triptych_backends.filesystem.names import (
    fallback,
    fold,
    folder_fallback,
    folder_of,
    id_of,
    name_of,
    path_of,
)
from triptych_backends.filesystem.problems import RejectedFile
from triptych_backends.filesystem.stat_cache import CachedStat, TrackedFile
from triptych_backends.sql import SqlStore
from triptych_backends.sql.transaction import find_dataset

__all__ = ["Workspace", "same_layer"]


class Workspace:
    """Holds ``disk`` and ``sql`` together, and of each document ``history`` old versions."""

    def __init__(self, disk: Disk, sql: SqlStore, *, wait: float, history: int) -> None:
        self.disk = disk
        self.sql = sql
        self.where = disk.root
        self.history = history
        self.journal = Journal(disk)
        self.lock = WritersLock(disk.real(LOCK), disk.root, wait)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the writers' lock over files that are whole.

        Raises:
            StoreLockedError: others held it for too long.
            StoreError: the store is read-only, or the disk failed.
        """
        if self.sql.read_only:
            raise StoreError(f"the store {self.where} was opened read-only: open it for writing")
        with disk_errors(self.where), self.lock.held():
            with self.sql.reading():
                pass  # a store that is closed says so before anything is written
            left = self.journal.recover()
            if left is not None:
                from triptych_backends.filesystem.reconcile import reconcile

                for dataset in sorted(left):
                    reconcile(self, dataset)
                self.journal.finish()
            yield

    # Datasets

    def folder(self, dataset: str) -> str | None:
        """The dataset's folder, None if it has none yet."""
        with self.sql.reading() as session:
            known = looks.folder_of_dataset(session, dataset)
        if known is not None:
            return known
        for folder in (folder_of(dataset), folder_fallback(dataset), dataset):
            if folder is None or not _is_component(folder):
                continue
            home = find_home(self.disk, folder)
            if isinstance(home, RejectedFile):
                raise home.error(self.where)
            if isinstance(home, DatasetManifest):
                if home.id == dataset:
                    return folder
            elif home is None and id_of(folder) == dataset:
                entry = self.disk.entry(folder)
                if entry is not None and entry.kind == "folder" and self._is_spelt(folder):
                    return folder
        return None

    def change(self, dataset: str) -> ChangeSet:
        """A change of ``dataset``, which need not exist. For who holds the lock."""
        folder = self.folder(dataset) or self._new_folder(dataset)
        with self.sql.reading() as session:
            mirrored = find_dataset(session, dataset)
        told = find_home(self.disk, folder)
        if isinstance(told, RejectedFile) and mirrored is None:
            raise told.error(self.where)
        written = told if isinstance(told, DatasetManifest) else None
        home = written or DatasetManifest(id=dataset, folder=folder)
        if mirrored is not None:
            home = attrs.evolve(
                home,
                live=mirrored.live or home.live,
                deleted_version=max(home.deleted_version, mirrored.deleted_version),
                config=mirrored.config if written is None else home.config,
            )
        return ChangeSet(self, home, written, mirrored)

    def _new_folder(self, dataset: str) -> str:
        folder = folder_of(dataset)
        return folder if folder and self._is_free(folder) else folder_fallback(dataset)

    # Documents

    def find_path(self, folder: str, name: str) -> str | None:
        """Where a document that is not mirrored stands, file or sidecar; None if nowhere."""
        paths = [path_of(name), name if name_of(name) == name else None, fallback(name)]
        for path in dict.fromkeys(path for path in paths if path is not None):
            if not all(map(_is_component, path.split("/"))):
                continue
            try:
                if self._stands(folder, path) and (
                    path == path_of(name) or self.name_at(folder, path) == name
                ):
                    return path
            except LinkError:
                return path
        return None

    def _stands(self, folder: str, path: str) -> bool:
        """Whether a document's file is there; or, without one, its sidecar."""
        for place in (document_file(folder, path), sidecar_file(folder, path)):
            entry = self.disk.entry(place)
            if entry is not None:
                return entry.kind != "folder" and self._is_spelt(place)
        return False

    def name_at(self, folder: str, path: str) -> str | None:
        """The name of the document at ``path``: its sidecar tells it, else the path itself."""
        side = find_sidecar(self.disk, folder, path)
        return side.sidecar.name if isinstance(side, FileSidecar) else name_of(path)

    def known(self, dataset: str, name: str) -> TrackedFile | None:
        """The document as it is mirrored."""
        with self.sql.reading() as session:
            return looks.find_document(session, dataset, name)

    def look(
        self, change: ChangeSet, name: str, path: str, known: TrackedFile | None
    ) -> RejectedFile | None:
        """Let ``change`` take over what happened to the files of a document by hand."""
        folder = change.home.folder
        file = find_content(self.disk, folder, path)
        if isinstance(file, RejectedFile):
            entry = None if file.reason.startswith(BEHIND) else self.disk.entry(file.path)
            if entry is not None:
                change.reject(file.path, entry.seen, file.reason)
            return file
        found = find_sidecar(self.disk, folder, path)
        side = found.sidecar if isinstance(found, FileSidecar) else None
        if file is None:
            versions = [state.version for state in (side, known and known.sidecar) if state]
            if versions:
                change.remove(name, path, max(versions), None)
            return None
        if side is not None and side.name != name:
            return _two_names(file, document_file(folder, path), side.name)
        if isinstance(found, RejectedFile) and known is None:
            return found
        self._judge(change, name, path, file, found if side else None, known)
        return None

    def _judge(
        self,
        change: ChangeSet,
        name: str,
        path: str,
        file: FileContent,
        found: FileSidecar | RejectedFile | None,
        known: TrackedFile | None,
    ) -> None:
        """What the file, its sidecar and the mirror say of a document, brought together."""
        side = found.sidecar if isinstance(found, FileSidecar) else None
        mirrored = known.sidecar if known else None
        fits = side if side is not None and side.sha256 == file.digest else None
        if fits and isinstance(found, FileSidecar):
            if mirrored is not None and fits.same(mirrored):
                change.remember(mirrored, file.seen, found.seen, file.looked)
                return
            # A version that a checkout brought, or that the mirror has lost, is kept if it
            # cannot have been another one's here.
            if fits.version > max(mirrored.version if mirrored else 0, change.floor):
                change.take(fits, file.data, file.seen, found.seen, file.looked)
                return
        if mirrored is not None and mirrored.sha256 == file.digest:
            # The sidecar alone was lost, or was set back to an earlier one that says the same.
            base = side or mirrored
            if base.metadata == mirrored.metadata and base.version <= mirrored.version:
                change.put(mirrored, file.data, write=False)
                return
        latest = side or mirrored
        used = [change.home.deleted_version, change.floor]
        used += [state.version for state in (side, mirrored) if state is not None]
        change.put(
            Sidecar(
                name=name,
                path=path,
                sha256=file.digest,
                version=max(used) + 1,
                updated_at=datetime.now(UTC),
                metadata=latest.metadata if latest else {},
                original_sha256=fits.original_sha256 if fits else "",
                parser_sig=fits.parser_sig if fits else "",
            ),
            file.data,
            write=False,
        )

    def look_by_name(self, change: ChangeSet, name: str) -> RejectedFile | None:
        """`look` at the document of this name, wherever it stands."""
        known = self.known(change.home.id, name)
        path = known.look.path if known else self.find_path(change.home.folder, name)
        return None if path is None else self.look(change, name, path, known)

    def new_path(self, change: ChangeSet, name: str) -> str:
        """Where a document that does not exist yet, not even in ``change``, goes.

        Raises:
            LinkError: a symbolic link stands in the way.
        """
        path = path_of(name)
        if path is not None and self._is_free(document_file(change.home.folder, path), change):
            return path
        return fallback(name)

    def _is_free(self, path: str, change: ChangeSet | None = None) -> bool:
        """Whether ``path`` can be made without another being in its way, on any disk.

        ``change`` is the one that will make the file; None: it is a dataset's folder.
        """
        parts = path.split("/")
        dataset = change is None
        with self.sql.reading() as session:
            for end in range(1, len(parts) + 1):
                way = "/".join(parts[:end])
                is_folder = end < len(parts) or dataset
                entry = self.disk.entry(way)
                if entry is not None and entry.kind == "link":
                    raise self.disk.refused(way)
                planned = change.node(fold(way)) if change else None
                if planned is not None and (planned != (way, True) or not is_folder):
                    return False
                node = looks.node(session, fold(way))
                if node is not None and (node != (way, is_folder) or not is_folder):
                    other = self.disk.entry(node[0])
                    if not node[1] or (other is not None and other.kind == "folder"):
                        return False
                if entry is None:
                    continue
                if entry.kind != "folder" or not is_folder:
                    return False
                if node is None and not self._is_spelt(way):
                    return False
        return True

    def stands_otherwise(self, path: str) -> bool:
        """Whether a disk that ignores case finds a file at ``path`` that is spelt otherwise."""
        try:
            return self.disk.entry(path) is not None and not self._is_spelt(path)
        except LinkError:
            return False

    def _is_spelt(self, path: str) -> bool:
        """Whether what stands at ``path`` is spelt so, all the way.

        A disk that ignores case finds it under another spelling as well.
        """
        while path:
            folder, _, name = path.rpartition("/")
            if folder != OWN and name not in {found for found, _ in self.disk.names(folder)}:
                return False
            path = "" if folder in (OWN, DATASETS) else folder
        return True

    # Layers

    def layer_place(self, change: ChangeSet, name: str, kind: str) -> str:
        """The file for a layer."""
        folder = change.home.folder
        with self.sql.reading() as session:
            for look in looks.find_layers(session, change.home.id, name):
                if look.kind == kind:
                    return look.path
        known = self.known(change.home.id, name)
        paths = layer_paths(folder, name, kind, known.look.path if known else None)
        return (
            paths[0]
            if self._is_free(paths[0], change)
            else layer_file(folder, fallback(name), kind)
        )

    def find_layer_file(self, folder: str, name: str, kind: str, path: str | None) -> str | None:
        """Where a layer that is not mirrored stands; None if nowhere."""
        for place in layer_paths(folder, name, kind, path):
            entry = self.disk.entry(place)
            if entry is not None and entry.kind != "folder":
                return place
        return None

    def look_layer(
        self, change: ChangeSet, path: str, known: CachedStat | None
    ) -> RejectedFile | None:
        """Let ``change`` take over what happened to a layer's file by hand."""
        found = find_layer(self.disk, path)
        if found is None:
            if known is not None:
                change.remove_layer(known)
            return None
        if isinstance(found, RejectedFile):
            return found
        problem = self._misfiled(change, path, found, known)
        if problem is not None:
            return problem
        layer, file = found.layer, found.file
        try:
            mirrored = self.sql.layers.get(change.home.id, layer.doc_name, layer.layer)
        except CorruptStoreError:
            mirrored = None  # the file has it
        kind = str(layer.layer)
        if mirrored is not None and same_layer(mirrored, layer):
            change.remember_layer(layer.doc_name, kind, path, file.digest, file.seen, file.looked)
        else:
            change.take_layer(layer, path, file.digest, file.seen, file.looked)
        return None

    def _misfiled(
        self, change: ChangeSet, path: str, found: FileLayer, known: CachedStat | None
    ) -> RejectedFile | None:
        layer = found.layer
        name, kind, dataset = layer.doc_name, str(layer.layer), change.home.id
        document = self.known(dataset, name)
        taken = change.pending(name) or (document.sidecar if document else None)
        places = layer_paths(change.home.folder, name, kind, taken.path if taken else None)
        wrong = ""
        if layer.dataset_id != dataset or path not in places:
            wrong = f"says that it is layer {kind} of {name!r} in {layer.dataset_id!r}"
        elif known is not None and (known.name, known.kind) != (name, kind):
            wrong = f"was layer {known.kind} of {known.name!r}"
        elif name and not name.endswith("/") and taken is None:
            wrong = f"is of {name!r}, which does not exist"
        if not wrong:
            return None
        return RejectedFile(path=path, reason=wrong, remedy="put it right, or remove it")


def same_layer(mirrored: DerivedLayer, layer: DerivedLayer) -> bool:
    """Whether the mirror has the layer of a file, in whatever embedding space."""
    sig = attrs.evolve(mirrored.sig, embed_sig=layer.sig.embed_sig)
    return (sig, mirrored.content) == (layer.sig, layer.content)


def _two_names(file: FileContent, path: str, other: str) -> RejectedFile:
    return RejectedFile(
        path=path,
        reason=f"is the document {other!r} by its sidecar",
        remedy="rename the file, or remove the sidecar",
    )


def _is_component(text: str) -> bool:
    return text not in ("", ".", "..") and not any(c in text for c in "/\\\0")
