"""Taking over what another store holds: its documents and layers as files, its chunks mirrored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs

from triptych.contracts import rules
from triptych.records import NameState, SourceDocument, copy_metadata
from triptych.records.metadata import same_metadata
from triptych_backends.filesystem import stat_cache
from triptych_backends.filesystem.adoption import adopt_by_name
from triptych_backends.filesystem.change_set import ChangeSet
from triptych_backends.filesystem.contents import FileLayer, find_layer
from triptych_backends.filesystem.formats import Sidecar
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.document_rows import read_rows
from triptych_backends.sql.state_loader import batched, check_widths, load_or_remove_set


@attrs.frozen
class _Wanted:
    """A state to store, where its document lies, the versions that are not there, and the document
    of another history that goes."""

    state: NameState
    path: str | None
    new: Sequence[SourceDocument]
    replaced: Sidecar | None


class FilesStateLoader:
    """`CopyableStore` over a `FilesStore`, for the store to inherit."""

    writer: Writer
    workspace: Workspace

    def load_states(
        self, dataset_id: str, states: Sequence[NameState], *, replace: bool = False
    ) -> None:
        """See `CopyableStore.load_states`. What was edited by hand is taken over first.

        Files and mirror are two writes: killed between them, a document is there without its
        chunks, and is loaded again.

        Raises:
            CorruptStoreError: a file that is not UTF-8 stands where a document goes.
        """
        with self.writer.locked():
            for batch in batched(states):
                self._load(dataset_id, batch, replace=replace)

    def _load(self, dataset_id: str, states: Sequence[NameState], *, replace: bool) -> None:
        """Store ``states``, in three writes for all: documents, layers, chunks."""
        wanted: list[_Wanted] = []
        try:
            for state in states:
                if any(each.state.name == state.name for each in wanted):
                    self._write(dataset_id, wanted)
                    wanted = []
                wanted.append(self._wanted(dataset_id, state, replace=replace))
        finally:  # those before one that is refused are stored
            self._write(dataset_id, wanted)

    def _wanted(self, dataset_id: str, state: NameState, *, replace: bool) -> _Wanted:
        """What there is to store of ``state``. Raises as `load_states`."""
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
        return _Wanted(state, path, new, old if replaces else None)

    def _write(self, dataset_id: str, wanted: Sequence[_Wanted]) -> None:
        if not wanted:
            return
        change = self.writer.change(dataset_id)
        for each in wanted:
            path, old = each.path, each.replaced
            if old is not None:
                change.remove(old.name, old.path, old.version, old.sha256)
            for document in each.new:
                path = path or change.new_path(each.state.name)
                change.put(_sidecar(document, path), document.content.encode(), write=True)
        # What is replaced is kept now, and a layer lies beside its document.
        change.commit()
        change = self.writer.change(dataset_id)
        for each in wanted:
            if each.state.versions:
                change.forget_versions(each.state.name, below=each.state.versions[0].version)
            self._put_layers(change, dataset_id, each.state)
        change.commit()
        with self.workspace.database.writing(durable=False) as tx:
            dataset = tx.dataset(dataset_id)
            states = {each.state.name: each.state for each in wanted if each.state.versions}
            rows = read_rows(tx, dataset, list(states), self.workspace.where)
            for name, state in states.items():
                load_or_remove_set(tx, dataset, rows[name].id, name, state.chunks, state.sig)

    def _put_layers(self, change: ChangeSet, dataset_id: str, state: NameState) -> None:
        workspace, name = self.workspace, state.name
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

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        """See `CopyableStore.use_up_versions`."""
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
