"""Taking over what another store holds: its documents and layers as files, its chunks mirrored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from triptych import rules
from triptych.records import NameState, SourceDocument, copy_metadata
from triptych.records.metadata import same_metadata
from triptych_backends.filesystem import stat_cache
from triptych_backends.filesystem.adoption import adopt_by_name
from triptych_backends.filesystem.contents import FileLayer, find_layer
from triptych_backends.filesystem.formats import Sidecar
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.document_rows import read_rows
from triptych_backends.sql.state_loader import check_widths, load_or_remove_set

__all__ = ["FilesStateLoader"]


class FilesStateLoader:
    """`StateLoader` over a `FilesStore`, for the store to inherit."""

    writer: Writer
    workspace: Workspace

    def load_states(
        self, dataset_id: str, states: Sequence[NameState], *, replace: bool = False
    ) -> None:
        """See `StateLoader.load_states`. What was edited by hand is taken over first.

        Files and mirror are two writes: killed between them, a document is there without its
        chunks, and is loaded again.

        Raises:
            CorruptStoreError: a file that is not UTF-8 stands where a document goes.
        """
        with self.writer.locked():
            for state in states:
                self._load(dataset_id, state, replace=replace)

    def _load(self, dataset_id: str, state: NameState, *, replace: bool) -> None:
        writer, workspace, name = self.writer, self.workspace, state.name
        if state.versions:
            change = writer.change(dataset_id)
            problem = adopt_by_name(change, name)
            if problem is not None:
                raise problem.error(workspace.where)
            change.commit()
        known = workspace.known(dataset_id, name) if state.versions else None
        old = known.sidecar if known else None
        path = old.path if old else None

        def is_stored(document: SourceDocument) -> bool:
            made = _sidecar(document, path or "")
            return old == made and same_metadata(old.metadata, made.metadata)

        version = old.version if old else 0
        new, replaces = rules.versions_to_load(
            dataset_id, state.versions, version, is_stored, replace=replace
        )
        with workspace.database.reading() as session:
            check_widths(session, dataset_id, state)
        change = writer.change(dataset_id)
        if replaces and old is not None:
            change.remove(name, old.path, old.version, old.sha256)
        for document in new:
            path = path or change.new_path(name)
            change.put(_sidecar(document, path), document.content.encode(), write=True)
        if state.versions:  # what is replaced is kept now, and a layer lies beside its document
            change.commit()
            change = writer.change(dataset_id)
            change.forget_versions(name, below=state.versions[0].version)
        kinds = {str(layer.layer) for layer in state.layers}
        with workspace.database.reading() as session:
            found = stat_cache.find_layers(session, dataset_id, name)
        for look in found:
            if look.kind not in kinds:
                change.remove_layer(look)
        for layer in state.layers:
            place = change.layer_place(name, str(layer.layer))
            there = find_layer(workspace.disk, place)
            change.put_layer(
                layer, place, there.file.data if isinstance(there, FileLayer) else None
            )
        change.commit()
        if state.versions:
            with workspace.database.writing(durable=False) as tx:
                dataset = tx.dataset(dataset_id)
                row = read_rows(tx, dataset, [name], workspace.where)[name]
                load_or_remove_set(tx, dataset, row.id, name, state.chunks, state.sig)

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        """See `StateLoader.use_up_versions`."""
        with self.writer.locked():
            change = self.writer.change(dataset_id)
            change.use_up(version)
            change.commit()


def _sidecar(document: SourceDocument, path: str) -> Sidecar:
    return Sidecar(
        name=document.name,
        path=path,
        sha256=hashlib.sha256(document.content.encode()).hexdigest(),
        version=document.version,
        updated_at=document.updated_at,
        metadata=copy_metadata(document.metadata),
        original_sha256=document.original_sha256,
        parser_sig=document.parser_sig,
        system=document.system,
    )
