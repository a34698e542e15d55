"""Chunk sets and layers over files, read and searched through their mirror."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from triptych.records import DatasetConfig, DerivedLayer, Finding, HealthCheck, Layer
from triptych_backends.filesystem import change_detection, stat_cache
from triptych_backends.filesystem.adoption import adopt_by_name
from triptych_backends.filesystem.checks import check_files, list_problems, repair_files
from triptych_backends.filesystem.contents import FileLayer, find_layer
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.layers import SqlLayers
from triptych_backends.sqlite.store import SqliteChunks

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


class HasMirror(Protocol[M_co]):
    """A repository beside the one of the derived database."""

    @property
    def mirror(self) -> M_co:
        """The repository of the derived database."""
        ...


def mirrored(
    method: Callable[Concatenate[M, P], R],
) -> Callable[Concatenate[HasMirror[M], P], R]:
    """``method``, called on the mirror."""

    @functools.wraps(method)
    def call(self: HasMirror[M], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self.mirror, *args, **kwargs)

    return call


class FilesChunks:
    """`ChunkRepo` over a `FilesStore`, with the capabilities of `SqliteChunks`."""

    in_process = True

    def __init__(self, writer: Writer, mirror: SqliteChunks) -> None:
        self.writer = writer
        self.mirror = mirror

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`: also the files that were not adopted."""
        unadopted = [
            HealthCheck(
                name="store",
                status="warning",
                detail=f"{problem.path}: {problem.reason}",
                remedy=problem.remedy,
            )
            for problem in list_problems(self.writer.workspace)
        ]
        return [*self.mirror.check_health(), *unadopted]

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`: the files, then the derived database."""
        yield from check_files(self.writer, dataset_ids)
        yield from self.mirror.check_integrity(dataset_ids)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        # What is taken over from the files needs a database whose rows fit each other.
        done = self.mirror.repair(checks, dataset_ids)
        return [*done, *repair_files(self.writer, checks, dataset_ids)]

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """See `ChunkRepo.configure`."""
        writer = self.writer
        with writer.locked():
            change = writer.change(dataset_id)
            # What a checkout brought is the dataset's, whatever becomes of this.
            change.commit()
            if change.home.config != expected:
                return False
            change = writer.change(dataset_id)
            change.set_home(config=config)
            change.commit()
            return True

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `ChunkRepo.delete_by_dataset`."""
        writer = self.writer
        with writer.locked():
            if writer.workspace.folder(dataset_id) is None:
                return
            change = writer.change(dataset_id)
            change.set_home(config=None)
            change.commit()
        self.mirror.delete_by_dataset(dataset_id)

    config = mirrored(SqliteChunks.config)
    configs = mirrored(SqliteChunks.configs)
    get_doc_sig = mirrored(SqliteChunks.get_doc_sig)
    get_doc_sigs = mirrored(SqliteChunks.get_doc_sigs)
    doc_names = mirrored(SqliteChunks.doc_names)
    replace = mirrored(SqliteChunks.replace)
    replace_many = mirrored(SqliteChunks.replace_many)
    put_vectors = mirrored(SqliteChunks.put_vectors)
    waiting = mirrored(SqliteChunks.waiting)
    count_waiting = mirrored(SqliteChunks.count_waiting)
    vector_spaces = mirrored(SqliteChunks.vector_spaces)
    drop_space = mirrored(SqliteChunks.drop_space)
    count_sets = mirrored(SqliteChunks.count_sets)
    update_source_version = mirrored(SqliteChunks.update_source_version)
    delete_by_doc = mirrored(SqliteChunks.delete_by_doc)
    known_vectors = mirrored(SqliteChunks.known_vectors)
    corpus_stats = mirrored(SqliteChunks.corpus_stats)
    search = mirrored(SqliteChunks.search)
    search_docs = mirrored(SqliteChunks.search_docs)
    search_docs_by_vector = mirrored(SqliteChunks.search_docs_by_vector)
    fetch = mirrored(SqliteChunks.fetch)
    fetch_docs = mirrored(SqliteChunks.fetch_docs)
    iter_chunks = mirrored(SqliteChunks.iter_chunks)


class FilesLayers:
    """`LayerRepo` and `LayerJournal` over a `FilesStore`.

    The journal lies in the derived database: deleting that forgets what layers cost, and lets
    what was quarantined be tried again.
    """

    in_process = True

    def __init__(self, writer: Writer, mirror: SqlLayers) -> None:
        self.writer = writer
        self.mirror = mirror

    def put(self, layer: DerivedLayer) -> bool:
        """See `LayerRepo.put`. What was edited in its file by hand is replaced."""
        writer, name, kind = self.writer, layer.doc_name, str(layer.layer)
        is_document = bool(name) and not name.endswith("/")
        workspace = writer.workspace
        with writer.locked():
            if is_document and workspace.folder(layer.dataset_id) is None:
                return False
            change = writer.change(layer.dataset_id)
            if is_document:
                adopt_by_name(change, name)
                change.commit()
                known = workspace.known(layer.dataset_id, name)
                if known is None or known.sidecar.version != layer.sig.source_version:
                    return False
                change = writer.change(layer.dataset_id)
            path = change.layer_place(name, kind)
            found = find_layer(workspace.disk, path)
            stored = found.file.data if isinstance(found, FileLayer) else None
            change.put_layer(layer, path, stored)
            change.commit()
            return True

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        """See `LayerRepo.get`."""
        change_detection.refresh_layers(self.writer, dataset_id, doc_name)
        return self.mirror.get(dataset_id, doc_name, layer, vectors=vectors)

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        """See `LayerRepo.list`."""
        change_detection.refresh_dataset(self.writer, dataset_id)
        return self.mirror.list(dataset_id, layer=layer)

    def page(
        self,
        dataset_id: str,
        layer: Layer,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int,
    ) -> Sequence[DerivedLayer]:
        """See `LayerRepo.page`. Folders are looked through for a first page alone."""
        if after is None:
            change_detection.refresh_dataset(self.writer, dataset_id)
        return self.mirror.page(dataset_id, layer, prefix=prefix, after=after, limit=limit)

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """See `LayerRepo.delete_by_doc`."""
        self._delete(dataset_id, doc_name)
        self.mirror.delete_by_doc(dataset_id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `LayerRepo.delete_by_dataset`."""
        self._delete(dataset_id, None)
        self.mirror.delete_by_dataset(dataset_id)

    def _delete(self, dataset_id: str, name: str | None) -> None:
        writer = self.writer
        with writer.locked():
            if writer.workspace.folder(dataset_id) is None:
                return
            change = writer.change(dataset_id)
            with writer.workspace.database.reading() as session:
                found = stat_cache.find_layers(session, dataset_id, name)
            for look in found:
                change.remove_layer(look)
            change.commit()

    search = mirrored(SqlLayers.search)
    fetch = mirrored(SqlLayers.fetch)
    quarantine = mirrored(SqlLayers.quarantine)
    release_quarantined = mirrored(SqlLayers.release_quarantined)
    quarantined = mirrored(SqlLayers.quarantined)
    record_usage = mirrored(SqlLayers.record_usage)
    usage = mirrored(SqlLayers.usage)
    put_checkpoint = mirrored(SqlLayers.put_checkpoint)
    checkpoints = mirrored(SqlLayers.checkpoints)
    prune_checkpoints = mirrored(SqlLayers.prune_checkpoints)
