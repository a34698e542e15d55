"""What a copy of the store takes along: its settings, and all that it holds at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import attrs

from triptych.errors import CorruptStoreError, StoreError
from triptych.records import DocumentInfo, SourceDocument
from triptych_backends.filesystem import change_detection, history
from triptych_backends.filesystem.disk import Disk, disk_errors
from triptych_backends.filesystem.formats import FormatError, dump, parse
from triptych_backends.filesystem.journal import Intent
from triptych_backends.filesystem.layout import SETTINGS
from triptych_backends.filesystem.workspace import Workspace
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.change_log import SqlChanges
from triptych_backends.sql.documents import SqlDocuments
from triptych_backends.sql.store import SqlSnapshot
from triptych_backends.sqlite import SqliteStore


class FilesSettings:
    """`SettingsStore` over a file."""

    writer: Writer

    def get_setting(self, key: str) -> str | None:
        """See `SettingsStore.get_setting`."""
        return self._read().get(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """See `SettingsStore.set_setting`."""
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
        """See `SettingsStore.list_settings`."""
        settings = self._read()
        return {key: settings[key] for key in sorted(settings) if key.startswith(prefix)}

    def _read(self) -> dict[str, str]:
        workspace = self.writer.workspace
        with disk_errors(workspace.where):
            with workspace.database.reading():
                pass  # a store that is closed says so
            return _settings(workspace.disk)


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
        f"{disk.real(SETTINGS)} is damaged: restore it, or delete it, which forgets the "
        "remembered folders and nothing else"
    )


class _Documents(SqlDocuments):
    """The mirror's documents at that moment, with the old versions that still have a file."""

    workspace: Workspace

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """See `VersionReader.versions`."""
        return history.versions(self.workspace, self.get_info(dataset_id, name))

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """See `VersionReader.get_version`."""
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
        """See `SettingsStore.get_setting`."""
        return self._settings.get(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """Refuse to write.

        Raises:
            StoreError: always.
        """
        raise StoreError("this is a snapshot of a store: write to the store itself")

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`."""
        return {key: text for key, text in self._settings.items() if key.startswith(prefix)}


class FilesSnapshots(FilesSettings):
    """`CopyableStore` over a `FilesStore`, for the store to inherit."""

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
