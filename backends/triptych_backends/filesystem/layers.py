"""Layers: Markdown files with front matter, read and searched through their mirror."""

from __future__ import annotations

from collections.abc import Sequence

from triptych.records import DerivedLayer, Layer
from triptych_backends.filesystem import change_detection, stat_cache
from triptych_backends.filesystem.adoption import adopt_by_name
from triptych_backends.filesystem.contents import FileLayer, find_layer
from triptych_backends.filesystem.mirror import mirrored
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.layers import SqlLayers


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
