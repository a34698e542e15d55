"""Layers: Markdown files with front matter, read and searched through their mirror."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triptych.records import DerivedLayer, Layer
from triptych_backends.filesystem import change_detection as noticing, stat_cache as looks
from triptych_backends.filesystem.contents import FileLayer, find_layer
from triptych_backends.sql.layers import SqlLayers

if TYPE_CHECKING:
    from triptych_backends.filesystem.store import FilesStore

__all__ = ["FilesLayers"]


class FilesLayers(SqlLayers):
    """`LayerRepo` and `LayerJournal` over a `FilesStore`.

    The journal lies in the derived database: deleting that forgets what layers cost, and lets
    what was quarantined be tried again.
    """

    def __init__(self, files: FilesStore) -> None:
        super().__init__(files.sql)
        self._keeper = files.keeper

    def put(self, layer: DerivedLayer) -> bool:
        """See `LayerRepo.put`. What was edited in its file by hand is replaced."""
        keeper, name, kind = self._keeper, layer.doc_name, str(layer.layer)
        is_document = bool(name) and not name.endswith("/")
        with keeper.locked():
            if is_document and keeper.folder(layer.dataset_id) is None:
                return False
            change = keeper.change(layer.dataset_id)
            if is_document:
                keeper.look_by_name(change, name)
                change.commit()
                known = keeper.known(layer.dataset_id, name)
                if known is None or known.sidecar.version != layer.sig.source_version:
                    return False
                change = keeper.change(layer.dataset_id)
            path = keeper.layer_place(change, name, kind)
            found = find_layer(keeper.disk, path)
            stored = found.file.data if isinstance(found, FileLayer) else None
            change.put_layer(layer, path, stored)
            change.commit()
            return True

    def get(self, dataset_id: str, doc_name: str, layer: Layer) -> DerivedLayer | None:
        """See `LayerRepo.get`."""
        noticing.refresh_layers(self._keeper, dataset_id, doc_name)
        return super().get(dataset_id, doc_name, layer)

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        """See `LayerRepo.list`."""
        noticing.refresh_dataset(self._keeper, dataset_id)
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
            noticing.refresh_dataset(self._keeper, dataset_id)
        return super().page(dataset_id, layer, prefix=prefix, after=after, limit=limit)

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """See `LayerRepo.delete_by_doc`."""
        self._delete(dataset_id, doc_name)
        super().delete_by_doc(dataset_id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `LayerRepo.delete_by_dataset`."""
        self._delete(dataset_id, None)
        super().delete_by_dataset(dataset_id)

    def _delete(self, dataset_id: str, name: str | None) -> None:
        keeper = self._keeper
        with keeper.locked():
            if keeper.folder(dataset_id) is None:
                return
            change = keeper.change(dataset_id)
            with keeper.sql.reading() as session:
                found = looks.find_layers(session, dataset_id, name)
            for look in found:
                change.remove_layer(look)
            change.commit()
