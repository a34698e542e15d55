"""One atomic change of a dataset: its files first, then their mirror.

The mirror need not be durable: after a power cut the files tell it what it lacks.
"""

from __future__ import annotations

import hashlib
import time

import attrs

from triptych.errors import StoreError
from triptych.records import DerivedLayer, SourceDocument
from triptych_backends.filesystem import history, stat_cache
from triptych_backends.filesystem.contents import RejectedFile, find_home
from triptych_backends.filesystem.disk import FileStat
from triptych_backends.filesystem.formats import (
    MOST_VERSION,
    DatasetManifest,
    Sidecar,
    write_home,
    write_layer as layer_bytes,
    write_sidecar,
)
from triptych_backends.filesystem.journal import Intent
from triptych_backends.filesystem.layout import (
    dataset_file,
    document_file,
    fold,
    history_folder,
    layers_folder,
    sidecar_file,
    sidecars_folder,
)
from triptych_backends.filesystem.stat_cache import FileRecord, TrackedFile
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.sql import chunk_sets, deletes
from triptych_backends.sql.document_rows import DocumentRow, read_rows, write_rows
from triptych_backends.sql.layers import write_layer
from triptych_backends.sql.transaction import Dataset, find_dataset
from triptych_backends.sqlite.session import SqliteTransaction


class ChangeSet:
    """Collects what is to be done in the dataset ``home``; `commit` does it.

    ``written`` is what its own file says, ``mirrored`` what the mirror has of it. Once it is
    committed, ``leftovers`` are the names under which `remove_leftovers` found something.
    """

    def __init__(
        self,
        workspace: Workspace,
        home: DatasetManifest,
        written: DatasetManifest | None,
        mirrored: Dataset | None,
    ) -> None:
        self.home = home
        self._mirrored = (
            (mirrored.live, mirrored.config, mirrored.deleted_version)
            if mirrored
            else (False, None, 0)
        )
        self.workspace = workspace
        self._written = written or DatasetManifest(id=home.id, folder=home.folder)
        self._plan = Intent(datasets={home.id})
        self._documents: dict[str, tuple[Sidecar, bytes]] = {}
        self._replaced: dict[str, list[SourceDocument]] = {}
        self._gone: dict[str, None] = {}  # in order
        self._layers: list[DerivedLayer] = []
        self._gone_layers: list[tuple[str, str]] = []
        self._leftovers: list[str] = []
        self.leftovers: list[str] = []
        self._records: dict[tuple[str, str], FileRecord] = {}
        self._rejects: dict[str, FileRecord] = {}
        self._forgotten: set[tuple[str, str]] = set()
        self._settled: list[FileRecord] = []
        self._freed: set[str] = set()
        self._nodes: dict[str, tuple[str, bool]] = {}
        self._created = False
        self._ended = False

    @classmethod
    def of(cls, workspace: Workspace, dataset: str) -> ChangeSet:
        """A change of ``dataset``, which need not exist. For who holds the lock."""
        folder = workspace.folder(dataset) or workspace.new_folder(dataset)
        with workspace.database.reading() as session:
            mirrored = find_dataset(session, dataset)
        told = find_home(workspace.disk, folder)
        if isinstance(told, RejectedFile) and mirrored is None:
            raise told.error(workspace.where)
        written = told if isinstance(told, DatasetManifest) else None
        home = written or DatasetManifest(id=dataset, folder=folder)
        if mirrored is not None:
            home = attrs.evolve(
                home,
                live=mirrored.live or home.live,
                deleted_version=max(home.deleted_version, mirrored.deleted_version),
                config=mirrored.config if written is None else home.config,
            )
        return cls(workspace, home, written, mirrored)

    @property
    def floor(self) -> int:
        """The greatest deleted version that the mirror knows of."""
        return self._mirrored[2]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (
            self._documents
            or self._gone
            or self._layers
            or self._gone_layers
            or self._leftovers
            or self._records
            or self._rejects
            or self._forgotten
            or self._settled
            or self._ended
            or self._plan.removals
            or self.home != self._written
            or (self.home.live, self.home.config, self.home.deleted_version) != self._mirrored
        )

    def set_home(self, **values: object) -> None:
        """Change what the dataset's own file says."""
        self.home = attrs.evolve(self.home, **values)  # type: ignore[arg-type]  # fields of Home

    def use_up(self, version: int) -> None:
        """No new document gets ``version`` or one below it."""
        if version > self.home.deleted_version:
            self.set_home(deleted_version=version)

    def pending(self, name: str) -> Sidecar | None:
        """The document as this change leaves it; None when it leaves it alone."""
        found = self._documents.get(name)
        return found[0] if found else None

    def new_path(self, name: str) -> str:
        """Where a document that does not exist yet, not even in this change, goes.

        Raises:
            LinkError: a symbolic link stands in the way.
        """
        return self.workspace.new_path(self.home.folder, name, self._nodes)

    def layer_place(self, name: str, kind: str) -> str:
        """The file for a layer."""
        return self.workspace.layer_place(self.home.id, self.home.folder, name, kind, self._nodes)

    # Documents

    def put(self, sidecar: Sidecar, content: bytes, *, write: bool) -> None:
        """Store a document: in its file as well, if ``write``, and always in its sidecar."""
        if sidecar.version >= MOST_VERSION:
            raise StoreError(
                f"the versions of dataset {self.home.id!r} are used up: a sidecar file or "
                "dataset.json has a version near the maximum; correct it by hand"
            )
        file = document_file(self.home.folder, sidecar.path)
        place = sidecar_file(self.home.folder, sidecar.path)
        if write:
            self._plan.writes[file] = content
        self._plan.writes[place] = write_sidecar(sidecar)
        self.take(sidecar, content, None, None, time.time_ns())

    def take(
        self,
        sidecar: Sidecar,
        content: bytes,
        seen: FileStat | None,
        side: FileStat | None,
        looked: int,
    ) -> None:
        """Mirror a document that stands in its files."""
        before = self._documents.get(sidecar.name)
        if before is not None and before[0].version < sidecar.version:
            replaced = self._replaced.setdefault(sidecar.name, [])
            replaced.append(before[0].document(self.home.id, before[1].decode()))
        self._documents[sidecar.name] = (sidecar, content)
        if not self.home.live:
            self.set_home(live=True)
        self.remember(sidecar, seen, side, looked)

    def remember(
        self, sidecar: Sidecar, seen: FileStat | None, side: FileStat | None, looked: int
    ) -> None:
        """Remember what a document's files look like."""
        file = document_file(self.home.folder, sidecar.path)
        for end, part in enumerate(file):
            if part == "/":
                self._nodes.setdefault(fold(file[:end]), (file[:end], True))
        self._nodes[fold(file)] = (file, False)
        self._forgotten.add((file, stat_cache.REJECT))
        self._records[sidecar.name, ""] = FileRecord(
            sidecar.name, "", sidecar.path, sidecar.sha256, seen, side, looked
        )

    def remove(self, name: str, path: str, version: int, digest: str | None) -> None:
        """Delete a document with its sidecar and its layers.

        ``digest`` is its file's, None when that is gone already.
        """
        self.use_up(version)
        if digest is not None:
            self._plan.removals[document_file(self.home.folder, path)] = digest
        self._plan.removals[sidecar_file(self.home.folder, path)] = None
        history.forget_document(self.workspace.disk, self._plan, self.home.folder, name)
        self._freed.add(document_file(self.home.folder, path))
        self._gone[name] = None
        self._forgotten.add((name, ""))
        self._remove_layers(name)

    def forget_versions(self, name: str, *, below: int) -> None:
        """Delete the old versions of a document that are below one."""
        disk, folder = self.workspace.disk, self.home.folder
        history.forget_document(disk, self._plan, folder, name, below=below)

    def reject(self, path: str, seen: FileStat, reason: str) -> None:
        """Remember a file (from the root) that is not a document."""
        self._rejects[path] = FileRecord(
            path, stat_cache.REJECT, path, reason, seen, None, time.time_ns()
        )

    def forget(self, name: str, kind: str) -> None:
        """Forget what was seen of a file that is gone."""
        self._forgotten.add((name, kind))

    def settle(self, found: list[FileRecord]) -> None:
        """Remember that these were looked at again, and are as they were."""
        self._settled += found

    # Layers

    def put_layer(self, layer: DerivedLayer, path: str, stored: bytes | None) -> None:
        """Store a layer in the file at ``path``, whose bytes are ``stored`` now."""
        data = layer_bytes(layer)
        if data != stored:
            self._plan.writes[path] = data
        self.take_layer(layer, path, hashlib.sha256(data).hexdigest(), None, time.time_ns())

    def take_layer(
        self, layer: DerivedLayer, path: str, digest: str, seen: FileStat | None, looked: int
    ) -> None:
        """Mirror a layer that stands in its file."""
        self._layers.append(layer)
        self.remember_layer(layer.doc_name, str(layer.layer), path, digest, seen, looked)

    def remember_layer(
        self, name: str, kind: str, path: str, digest: str, seen: FileStat | None, looked: int
    ) -> None:
        """Remember what a layer's file looks like."""
        self._forgotten.add((path, stat_cache.REJECT))
        self._records[name, kind] = FileRecord(name, kind, path, digest, seen, None, looked)

    def remove_layer(self, record: FileRecord) -> None:
        """Delete a layer."""
        self._plan.removals[record.path] = record.digest
        self._gone_layers.append((record.name, record.kind))
        self._forgotten.add((record.name, record.kind))

    def remove_leftovers(self, name: str) -> None:
        """Delete the layers under a name without a document, and what is noted of them."""
        self._leftovers.append(name)
        self._remove_layers(name)

    def _remove_layers(self, name: str) -> None:
        with self.workspace.database.reading() as session:
            found = stat_cache.find_layers(session, self.home.id, name)
        for record in found:
            self.remove_layer(record)

    # The whole dataset

    def create(self) -> None:
        """Bring the dataset into being, with its folder."""
        disk = self.workspace.disk
        if disk.make_folder(self.home.folder):
            disk.sync_folder("")
        self._created = True
        self.set_home(live=True)

    def end(self, documents: list[TrackedFile], layers: list[FileRecord]) -> None:
        """Delete the dataset."""
        for known in documents:
            sidecar = known.sidecar
            self.use_up(sidecar.version)
            file = document_file(self.home.folder, sidecar.path)
            self._plan.removals[file] = sidecar.sha256
            self._plan.removals[sidecar_file(self.home.folder, sidecar.path)] = None
        for record in layers:
            self._plan.removals[record.path] = record.digest
        history.forget_dataset(self.workspace.disk, self._plan, self.home.folder)
        self.set_home(live=False, config=None)
        self._ended = True

    def commit(self) -> None:
        """Do it all: files, then mirror."""
        if self.is_empty:
            return
        workspace, home = self.workspace, self.home
        if home != self._written:
            self._plan.writes[dataset_file(home.folder)] = write_home(home)
        self._keep_versions()
        if self._plan.writes or self._plan.removals:
            workspace.journal.apply(self._plan)
        records = [*self._settled, *map(self._read_back, self._records.values())]
        with workspace.database.writing(durable=False) as tx:
            self._mirror(tx)
            stat_cache.keep_folder(tx, home.id, home.folder)
            stat_cache.forget(tx, home.id, self._forgotten)
            for path in self._freed.union(self._plan.removals):
                stat_cache.forget_node(tx, fold(path), path)
            for record in [*records, *self._rejects.values()]:
                if record.seen is not None:
                    stat_cache.keep(tx, home.id, record)
            for record in self._records.values():
                _keep_nodes(tx, self._file(record))
            if self._created:
                stat_cache.keep_node(tx, fold(home.folder), home.folder, folder=True)
            if self._ended:
                stat_cache.drop_dataset(tx, home.id)
        if self._plan.writes or self._plan.removals:
            workspace.journal.finish()
        self._prune()

    def _keep_versions(self) -> None:
        """Plan to keep what the documents of this change were before."""
        workspace, folder = self.workspace, self.home.folder
        for name, (sidecar, _) in self._documents.items():
            replaced = self._replaced.get(name, [])
            current = (name, sidecar.version)
            if name in self._gone:
                # Put in place of one that this change deletes: what that one was goes with it.
                history.keep_new(self._plan, folder, current, replaced, workspace.history)
                continue
            known = workspace.known(self.home.id, name)
            old = known.sidecar.version if known else sidecar.version
            if old < sidecar.version and workspace.history and not self._may_be_deleted(old):
                before = workspace.mirror.documents.get(self.home.id, name)
                replaced = [*([before] if before else []), *replaced]
            if known is None and workspace.disk.entry(sidecar_file(folder, sidecar.path)) is None:
                # Whatever is left there is of another document, which was deleted.
                history.forget_document(workspace.disk, self._plan, folder, name)
            history.keep(workspace.disk, self._plan, folder, current, replaced, workspace.history)

    def _may_be_deleted(self, version: int) -> bool:
        """Whether a mirrored document may have been deleted, and made again, unseen by the mirror.

        Its text then must not come back. That of one that was not is in a file already, for who
        replaced it kept it.
        """
        return self.floor < self._written.deleted_version >= version

    def _file(self, record: FileRecord) -> str:
        return record.path if record.kind else document_file(self.home.folder, record.path)

    def _read_back(self, record: FileRecord) -> FileRecord:
        """The record with what this change wrote; without ``seen`` if the file is gone."""
        disk, seen, side = self.workspace.disk, record.seen, record.side
        if seen is None:
            entry = disk.entry(self._file(record))
            seen = entry.seen if entry else None
        if side is None and not record.kind:
            entry = disk.entry(sidecar_file(self.home.folder, record.path))
            side = entry.seen if entry else None
        return attrs.evolve(record, seen=seen, side=side)

    def _mirror(self, tx: SqliteTransaction) -> None:
        home = self.home
        dataset = tx.dataset(home.id, live=home.live)
        if self._ended:
            deletes.remove_dataset(tx, dataset)
        for name in self._gone:
            deletes.remove_document(tx, dataset, name)
        self.leftovers = [
            name for name in self._leftovers if deletes.remove_layers(tx, dataset.id, name)
        ]
        for name, kind in self._gone_layers:
            deletes.remove_layers(tx, dataset.id, name, kind=kind)
        self._mirror_documents(tx, dataset)
        for layer in self._layers:
            write_layer(tx, dataset.id, layer)
        if home.deleted_version > dataset.deleted_version:
            deletes.raise_floor(tx, dataset.id, home.deleted_version)
        if self._ended or home.config == dataset.config:
            return
        if home.config is None:
            deletes.remove_chunk_sets(tx, dataset)
        else:
            chunk_sets.configure(tx, home.id, home.config, dataset.config)

    def _mirror_documents(self, tx: SqliteTransaction, dataset: Dataset) -> None:
        rows = read_rows(tx, dataset, self._documents, self.workspace.where)
        for name, (sidecar, content) in self._documents.items():
            row = rows.get(name)
            if row is None:
                row = rows[name] = DocumentRow.new(tx, name)
            document = sidecar.document(self.home.id, content.decode())
            row.change(tx, dataset.id, document, content, sidecar.sha256)
        write_rows(tx, dataset.id, rows.values())

    def _prune(self) -> None:
        """Remove folders that this left empty; the dataset's own only with the dataset."""
        workspace, folder = self.workspace, self.home.folder
        tops = {folder, *(top(folder) for top in (sidecars_folder, layers_folder, history_folder))}
        folders = {path.rpartition("/")[0] for path in self._plan.removals}
        emptied = []
        for path in sorted(folders, key=len, reverse=True):
            while path and path not in tops and workspace.disk.remove_folder(path):
                emptied.append(path)
                path = path.rpartition("/")[0]
        if self._ended:
            emptied += [top for top in tops if workspace.disk.remove_folder(top)]
        if emptied:
            with workspace.database.writing(durable=False) as tx:
                for path in emptied:
                    stat_cache.forget_node(tx, fold(path), path)


def _keep_nodes(tx: SqliteTransaction, path: str) -> None:
    parts = path.split("/")
    for end in range(1, len(parts)):
        way = "/".join(parts[:end])
        stat_cache.keep_node(tx, fold(way), way, folder=True)
    stat_cache.keep_node(tx, fold(path), path, folder=False)
