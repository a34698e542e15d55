"""What a copy of the store takes along, and brings: its settings, one moment of it, and states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import attrs

from triptych.contracts import rules
from triptych.errors import CorruptStoreError, StoreError
from triptych.records import DocumentInfo, NameState, SourceDocument
from triptych.records.metadata import same_metadata
from triptych_backends.filesystem import change_detection, history
from triptych_backends.filesystem.adoption import adopt_now
from triptych_backends.filesystem.change_set import ChangeSet
from triptych_backends.filesystem.contents import Parsed, find_layer
from triptych_backends.filesystem.disk import Disk, disk_errors
from triptych_backends.filesystem.formats import FormatError, Sidecar, dump, parse
from triptych_backends.filesystem.journal import Intent
from triptych_backends.filesystem.layout import SETTINGS
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.document_changes import SqlChanges
from triptych_backends.sql.document_writes import read_rows
from triptych_backends.sql.documents import SqlDocuments
from triptych_backends.sql.state_loader import batched, check_widths, load_or_remove_set
from triptych_backends.sql.store import SqlSnapshot
from triptych_backends.sqlite import SqliteStore


def _settings(disk: Disk) -> dict[str, str]:
    try:
        found = parse(disk.read(SETTINGS)[0])
    except FileNotFoundError:
        return {}
    except FormatError as error:
        raise _damaged(disk) from error
    if not all(isinstance(value, str) for value in found.values()):
        raise _damaged(disk)
    return found


def _damaged(disk: Disk) -> CorruptStoreError:
    return CorruptStoreError(
        f"{disk.real(SETTINGS)} is damaged: restore it, or delete it, which only removes the list "
        "of remembered folders"
    )


class _Documents(SqlDocuments):
    """The mirror's documents at that moment, with the old versions that still have a file."""

    workspace: Workspace

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        return history.versions(self.workspace, self.get_info(dataset_id, name))

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        return history.get_version(self.workspace, self.get(dataset_id, name), version)


class _Snapshot(SqlChanges):
    """A `Store` to be read: the mirror's snapshot, with the settings and versions of the files."""

    def __init__(
        self, mirror: SqlSnapshot, workspace: Workspace, settings: Mapping[str, str]
    ) -> None:
        self.database = mirror.database
        self.documents = _Documents(mirror.database, mirror.documents.searcher)
        self.documents.workspace = workspace
        self.chunks = mirror.chunks
        self.layers = mirror.layers
        self.scrub = mirror.scrub
        self.close = mirror.close
        self.stats = mirror.stats
        self._settings = settings
        self.capabilities = attrs.evolve(
            mirror.capabilities, versions=self.documents, changes=self, settings=self
        )

    def get_setting(self, key: str) -> str | None:
        return self._settings.get(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """Refuse to write.

        Raises:
            StoreError: always.
        """
        raise StoreError("this is a snapshot of a store: write to the store itself")

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        return {key: text for key, text in self._settings.items() if key.startswith(prefix)}


@attrs.frozen
class _Wanted:
    """A state to store, where its document lies, the versions that are not there, and the document
    of another history that goes."""

    state: NameState
    path: str | None
    new: Sequence[SourceDocument]
    replaced: Sidecar | None


class FilesCopies:
    """`SettingsStore` over a file, and `CopyableStore`, for a `FilesStore` to inherit."""

    writer: Writer
    workspace: Workspace
    mirror: SqliteStore

    @contextmanager
    def snapshot(self) -> Iterator[_Snapshot]:
        """See `CopyableStore.snapshot`. What was edited by hand is taken over first."""
        with ExitStack() as held:
            if self.workspace.database.read_only:
                mirror = held.enter_context(self.mirror.snapshot())
                settings = self.list_settings()
            else:
                change_detection.refresh_all(self.writer)
                with self.writer.locked():  # until the moment is there, and no longer
                    mirror = held.enter_context(self.mirror.snapshot())
                    settings = self.list_settings()
            yield _Snapshot(mirror, self.workspace, settings)

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
            adopt_now(writer.change(dataset_id), name)
        old = workspace.cache.document(dataset_id, name) if state.versions else None
        path = old.path if old else None

        def is_stored(document: SourceDocument) -> bool:
            made = Sidecar.of(document, path or "")
            return old == made and same_metadata(old.metadata, made.metadata)

        version = old.version if old else 0
        new, replaces = rules.versions_to_load(
            dataset_id, state.versions, version, is_stored, replace=replace
        )
        with workspace.database.reading() as session:
            check_widths(session, dataset_id, state.units)
        return _Wanted(state, path, new, old if replaces else None)

    def _write(self, dataset_id: str, wanted: Sequence[_Wanted]) -> None:
        if not wanted:
            return
        change = self.writer.change(dataset_id)
        for each in wanted:
            path, old = each.path, each.replaced
            if old is not None:
                change.remove(old, old.sha256)
            for document in each.new:
                path = path or change.new_path(each.state.name)
                change.put(Sidecar.of(document, path), document.content.encode())
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
        for file in workspace.cache.layers(dataset_id, name):
            if file.kind not in kinds:
                change.remove_layer(file)
        for layer in state.layers:
            place = change.layer_place(name, str(layer.layer))
            there = find_layer(workspace.disk, place)
            change.put_layer(layer, place, there.file.data if isinstance(there, Parsed) else None)

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        with self.writer.locked():
            change = self.writer.change(dataset_id)
            change.use_up(version)
            change.commit()

    # Settings. Those about making layers lie in the derived database: deleting that forgets what
    # layers cost, and lets what was quarantined be tried again.

    def get_setting(self, key: str) -> str | None:
        if key.startswith(rules.LAYER_SETTINGS):
            return self.mirror.get_setting(key)
        return self._read().get(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        if key.startswith(rules.LAYER_SETTINGS):
            return self.mirror.set_setting(key, value, expected=expected)
        disk = self.writer.workspace.disk
        with self.writer.locked():
            settings = _settings(disk)
            if settings.get(key) != expected:
                return False
            if value is None:
                settings.pop(key, None)
            else:
                settings[key] = value
            data = dump(dict(sorted(settings.items())))
            journal = self.writer.workspace.journal
            journal.clear()  # of a killed writer: logged questions, too
            journal.apply(Intent(writes={SETTINGS: data}))
            return True

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        settings = {**self._read(), **self.mirror.list_settings(rules.LAYER_SETTINGS)}
        return {key: settings[key] for key in sorted(settings) if key.startswith(prefix)}

    def _read(self) -> dict[str, str]:
        workspace = self.writer.workspace
        with disk_errors(workspace.where):
            with workspace.database.reading():
                pass  # a store that is closed says so
            return _settings(workspace.disk)
