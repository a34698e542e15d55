"""The store's settings: one JSON file in its own folder, which a copy of the store takes along."""

from __future__ import annotations

from collections.abc import Mapping

from triptych.errors import CorruptStoreError
from triptych_backends.filesystem.disk import Disk, disk_errors
from triptych_backends.filesystem.formats import FormatError, dump, parse
from triptych_backends.filesystem.journal import Intent
from triptych_backends.filesystem.layout import SETTINGS
from triptych_backends.filesystem.writer import Writer


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
