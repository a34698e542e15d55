"""Chunk sets and layers over files, read and searched through their mirror."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from triptych.records import DatasetConfig, DerivedLayer, Finding, HealthCheck, Layer
from triptych_backends.filesystem import change_detection
from triptych_backends.filesystem.adoption import adopt_by_name
from triptych_backends.filesystem.checks import check_files, list_problems, repair_files
from triptych_backends.filesystem.contents import Parsed, find_layer
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.layers import SqlLayers
from triptych_backends.sql.state_loader import check_widths
from triptych_backends.sqlite import SqliteStore
from triptych_backends.sqlite.store import SqliteChunks


class FilesChunks(SqliteChunks):
    """Those of the mirror, but for configurations and checks, which are of the files too."""

    def __init__(self, writer: Writer, mirror: SqliteStore) -> None:
        super().__init__(mirror.database, mirror.searcher, mirror.index)
        self.writer = writer

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
        return [*super().check_health(), *unadopted]

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`: the files, then the derived database."""
        yield from check_files(self.writer, dataset_ids)
        yield from super().check_integrity(dataset_ids)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        # What is taken over from the files needs a database whose rows fit each other.
        done = super().repair(checks, dataset_ids)
        return [*done, *repair_files(self.writer, checks, dataset_ids)]

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
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
        writer = self.writer
        with writer.locked():
            if writer.workspace.folder(dataset_id) is None:
                return
            change = writer.change(dataset_id)
            change.set_home(config=None)
            change.commit()
        super().delete_by_dataset(dataset_id)


class FilesLayers(SqlLayers):
    """Those of the mirror, whose truth lies in files."""

    def __init__(self, writer: Writer, mirror: SqliteStore) -> None:
        super().__init__(mirror.database, mirror.searcher)
        self.writer = writer

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
                known = workspace.cache.document(layer.dataset_id, name)
                if known is None or known.version != layer.sig.source_version:
                    return False
                change = writer.change(layer.dataset_id)
            # Now, for the file is written before the mirror would refuse it.
            with workspace.database.reading() as session:
                check_widths(session, layer.dataset_id, [layer])
            path = change.layer_place(name, kind)
            found = find_layer(workspace.disk, path)
            stored = found.file.data if isinstance(found, Parsed) else None
            change.put_layer(layer, path, stored)
            change.commit()
            return True

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        change_detection.refresh_layers(self.writer, dataset_id, doc_name)
        return super().get(dataset_id, doc_name, layer, vectors=vectors)

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        change_detection.refresh_dataset(self.writer, dataset_id)
        return super().list(dataset_id, layer=layer)

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
        return super().page(dataset_id, layer, prefix=prefix, after=after, limit=limit)

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        self._delete(dataset_id, doc_name)
        super().delete_by_doc(dataset_id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        self._delete(dataset_id, None)
        super().delete_by_dataset(dataset_id)

    def _delete(self, dataset_id: str, name: str | None) -> None:
        writer = self.writer
        with writer.locked():
            if writer.workspace.folder(dataset_id) is None:
                return
            change = writer.change(dataset_id)
            for file in writer.workspace.cache.layers(dataset_id, name):
                change.remove_layer(file)
            change.commit()
