"""One atomic change of a dataset: its files first, then their mirror.

The mirror need not be durable: after a power cut the files tell it what it lacks.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable

import attrs

from triptych.errors import StoreError
from triptych.records import DerivedLayer, SourceDocument
from triptych.scan import FileRecord, FileStat
from triptych_backends.filesystem import history, stat_cache
from triptych_backends.filesystem.contents import RejectedFile, find_home
from triptych_backends.filesystem.formats import (
    MOST_VERSION,
    DatasetManifest,
    Sidecar,
    state_of,
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
from triptych_backends.filesystem.stat_cache import CONTENT, REJECT, SIDECAR, TrackedFile
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.sql import chunk_sets, deletes
from triptych_backends.sql.document_writes import DocumentRow, read_rows, write_rows
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
        self._mirrored = state_of(mirrored)
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
        self._files: dict[tuple[str, str], TrackedFile] = {}
        self._forgotten: set[tuple[str, str]] = set()
        self._nodes: dict[str, tuple[str, bool]] = {}
        self._ended = False

    @classmethod
    def of(cls, workspace: Workspace, dataset: str) -> ChangeSet:
        """A change of ``dataset``, which need not exist. For who holds the lock."""
        folder = workspace.folder(dataset) or workspace.new_folder(dataset)
        with workspace.database.reading() as session:
            mirrored = find_dataset(session, dataset)
        found = find_home(workspace.disk, folder)
        if isinstance(found, RejectedFile) and mirrored is None:
            raise found.error(workspace.where)
        written = found if isinstance(found, DatasetManifest) else None
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
            or self._files
            or self._forgotten
            or self._ended
            or self._plan.removals
            or self.home != self._written
            or state_of(self.home) != self._mirrored
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

    def put(self, sidecar: Sidecar, content: bytes, file: FileRecord | None = None) -> None:
        """Store a document in its sidecar, and in its file, unless that has it: ``file``."""
        if sidecar.version >= MOST_VERSION:
            raise StoreError(
                f"the versions of dataset {self.home.id!r} are used up: a sidecar file or "
                "dataset.json has a version near the maximum; correct it by hand"
            )
        if file is None:
            self._plan.writes[document_file(self.home.folder, sidecar.path)] = content
            file = FileRecord(None, sidecar.sha256)
        data = write_sidecar(sidecar)
        self._plan.writes[sidecar_file(self.home.folder, sidecar.path)] = data
        self.take(sidecar, content, file, _written(data))

    def take(self, sidecar: Sidecar, content: bytes, file: FileRecord, side: FileRecord) -> None:
        """Mirror a document that stands in its files."""
        before = self._documents.get(sidecar.name)
        if before is not None and before[0].version < sidecar.version:
            replaced = self._replaced.setdefault(sidecar.name, [])
            replaced.append(before[0].document(self.home.id, before[1].decode()))
        self._documents[sidecar.name] = (sidecar, content)
        if not self.home.live:
            self.set_home(live=True)
        self.remember(sidecar, file, side)

    def remember(self, sidecar: Sidecar, file: FileRecord, side: FileRecord) -> None:
        """Remember the records of a document's files."""
        path = document_file(self.home.folder, sidecar.path)
        for end, part in enumerate(path):
            if part == "/":
                self._nodes.setdefault(fold(path[:end]), (path[:end], True))
        self._nodes[fold(path)] = (path, False)
        self._forget(path, REJECT)
        self._track(sidecar.name, CONTENT, path, file)
        self._track(sidecar.name, SIDECAR, sidecar_file(self.home.folder, sidecar.path), side)

    def _track(self, name: str, kind: str, path: str, record: FileRecord) -> None:
        self._files[name, kind] = TrackedFile(
            name=name, kind=kind, path=path, stat=record.stat, sha256=record.sha256
        )

    def _forget(self, name: str, kind: str) -> None:
        self._files.pop((name, kind), None)
        self._forgotten.add((name, kind))

    def remove(self, sidecar: Sidecar, digest: str | None) -> None:
        """Delete a document with its sidecar and its layers.

        ``digest`` is its file's, None when that is gone already.
        """
        folder = self.home.folder
        self.use_up(sidecar.version)
        if digest is not None:
            self._plan.removals[document_file(folder, sidecar.path)] = digest
        self._plan.removals[sidecar_file(folder, sidecar.path)] = None
        history.forget_document(self.workspace.disk, self._plan, folder, sidecar.name)
        self._gone[sidecar.name] = None
        self._forget(sidecar.name, CONTENT)
        self._forget(sidecar.name, SIDECAR)
        self._remove_layers(sidecar.name)

    def forget_versions(self, name: str, *, below: int) -> None:
        """Delete the old versions of a document that are below one."""
        disk, folder = self.workspace.disk, self.home.folder
        history.forget_document(disk, self._plan, folder, name, below=below)

    def reject(self, path: str, stat: FileStat) -> None:
        """Remember a file (from the root) that is not a document."""
        proof = stat.unless_racy(time.time_ns())
        self._track(path, REJECT, path, FileRecord(proof, ""))

    def forget_rejected(self, path: str) -> None:
        """Forget a file that was not a document, and is gone."""
        self._forget(path, REJECT)

    def confirm(self, files: Iterable[TrackedFile]) -> None:
        """Remember that these have the bytes that they had."""
        self._files |= {(file.name, file.kind): file for file in files}

    # Layers

    def put_layer(self, layer: DerivedLayer, path: str, stored: bytes | None) -> None:
        """Store a layer in the file at ``path``, whose bytes are ``stored`` now."""
        data = layer_bytes(layer)
        if data != stored:
            self._plan.writes[path] = data
        self.take_layer(layer, path, _written(data))

    def take_layer(self, layer: DerivedLayer, path: str, file: FileRecord) -> None:
        """Mirror a layer that stands in its file."""
        self._layers.append(layer)
        self.remember_layer(layer, path, file)

    def remember_layer(self, layer: DerivedLayer, path: str, file: FileRecord) -> None:
        """Remember the record of a layer's file."""
        self._track(layer.doc_name, str(layer.layer), path, file)

    def remove_layer(self, file: TrackedFile) -> None:
        """Delete a layer."""
        self._plan.removals[file.path] = file.sha256
        self._gone_layers.append((file.name, file.kind))
        self._forget(file.name, file.kind)

    def remove_leftovers(self, name: str) -> None:
        """Delete the layers under a name without a document, and what is noted of them."""
        self._leftovers.append(name)
        self._remove_layers(name)

    def _remove_layers(self, name: str) -> None:
        for file in self.workspace.cache.layers(self.home.id, name):
            self.remove_layer(file)

    # The whole dataset

    def create(self) -> None:
        """Bring the dataset into being, with its folder."""
        disk = self.workspace.disk
        if disk.make_folder(self.home.folder):
            disk.sync_folder("")
        self.set_home(live=True)

    def end(self, documents: Iterable[Sidecar], layers: Iterable[TrackedFile]) -> None:
        """Delete the dataset."""
        for sidecar in documents:
            self.use_up(sidecar.version)
            file = document_file(self.home.folder, sidecar.path)
            self._plan.removals[file] = sidecar.sha256
            self._plan.removals[sidecar_file(self.home.folder, sidecar.path)] = None
        for layer in layers:
            self._plan.removals[layer.path] = layer.sha256
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
        with workspace.database.writing(durable=False) as tx:
            self._mirror(tx)
            stat_cache.keep_folder(tx, home.id, home.folder)
            stat_cache.forget(tx, home.id, self._forgotten)
            stat_cache.keep(tx, home.id, self._files.values())
            if self._ended:
                stat_cache.drop_dataset(tx, home.id)
        if self._plan.writes or self._plan.removals:
            workspace.journal.finish()
        self._prune()

    def _keep_versions(self) -> None:
        """Plan to keep what the documents of this change were before."""
        workspace, folder, disk = self.workspace, self.home.folder, self.workspace.disk
        for name, (sidecar, _) in self._documents.items():
            replaced = self._replaced.get(name, [])
            kept: list[int] = []
            # If this change deletes another of the name, what that one was goes with it.
            if name not in self._gone:
                known = workspace.cache.document(self.home.id, name)
                old = known.version if known else sidecar.version
                if old < sidecar.version and workspace.history and not self._may_be_deleted(old):
                    before = workspace.mirror.documents.get(self.home.id, name)
                    replaced = [*([before] if before else []), *replaced]
                if known is None and disk.entry(sidecar_file(folder, sidecar.path)) is None:
                    # Whatever is left there is of another document, which was deleted.
                    history.forget_document(disk, self._plan, folder, name)
                kept = history.kept(disk, folder, name)
            current = (name, sidecar.version)
            history.keep(self._plan, folder, current, replaced, kept, workspace.history)

    def _may_be_deleted(self, version: int) -> bool:
        """Whether a mirrored document may have been deleted, and made again, unseen by the mirror.

        Its text then must not come back. That of one that was not is in a file already, for who
        replaced it kept it.
        """
        return self.floor < self._written.deleted_version >= version

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
        tops = {folder, sidecars_folder(folder), layers_folder(folder), history_folder(folder)}
        for path in sorted(
            {path.rpartition("/")[0] for path in self._plan.removals}, key=len, reverse=True
        ):
            while path and path not in tops and workspace.disk.remove_folder(path):
                path = path.rpartition("/")[0]
        if self._ended:
            for top in tops:
                workspace.disk.remove_folder(top)


def _written(data: bytes) -> FileRecord:
    """The record of a file that a change writes: no stat proves yet that it has these bytes."""
    return FileRecord(None, hashlib.sha256(data).hexdigest())
