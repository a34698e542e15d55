"""Notes of copies in the settings of stores: unfinished copies, purges, running backups.

Whoever opens a store reads these notes, so this module imports little.
"""

from __future__ import annotations

import hashlib
import json
import platform
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from triptych.contracts import SettingsStore, Store
from triptych.errors import StoreError
from triptych.resources.files import drafts_of, left_drafts

UNFINISHED: Final = "unfinished."
"""What the keys of these notes begin with in the settings of a store."""


class UnfinishedStoreWarning(UserWarning):
    """A store was opened into which a copy has not ended."""


@contextmanager
def unfinished_until_done(
    settings: SettingsStore | None, datasets: Sequence[str], again: str
) -> Iterator[None]:
    """Note that ``datasets`` are being copied into a store, until the block ends well.

    Notes of earlier copies of no other datasets go with it. ``again`` is what to type.
    """
    if settings is None:
        yield
        return
    notes = {
        key: text
        for key, text in settings.list_settings(UNFINISHED).items()
        if set(_parsed(text)[0]) <= set(datasets)
    }
    key, text = note_copy(settings, datasets, again)
    notes[key] = text
    yield
    for key, text in notes.items():
        settings.set_setting(key, None, expected=text)


def note_copy(settings: SettingsStore, datasets: Sequence[str], again: str) -> tuple[str, str]:
    """Note that ``datasets`` are being copied, or what is not known yet; the key, and its value."""
    key = UNFINISHED + secrets.token_hex(8)
    text = json.dumps({"datasets": list(datasets), "again": again})
    settings.set_setting(key, text, expected=None)
    return key, text


def unfinished_copy(
    settings: SettingsStore | None, datasets: Collection[str] | None = None
) -> StoreError | None:
    """What to say of a store into which a copy (of ``datasets``, None: of any) has not ended."""
    for text in () if settings is None else settings.list_settings(UNFINISHED).values():
        names, again = _parsed(text)
        if datasets is None or not names or not set(names).isdisjoint(datasets):
            of = ", ".join(map(repr, names[:3])) + (", …" if names[3:] else "")
            what = f"a copy of {of} into it" if of else "a copy into it"
            return StoreError(
                f"this store is unfinished: {what} was interrupted, or is still running. Documents "
                "may be missing or outdated"
            ).hinted(
                f"{f'`{again}`' if again else 'the same copy again'} finishes it. If you cannot, "
                "delete these datasets; `triptych doctor --repair` then forgets the copy"
            )
    return None


def forget_copies(settings: SettingsStore) -> None:
    """Forget the copies of which no dataset is there."""
    for key, text in settings.list_settings(UNFINISHED).items():
        settings.set_setting(key, None, expected=text)


def _parsed(text: str) -> tuple[Sequence[str], str]:
    """The datasets of a note, and what to type; of one that others wrote, nothing."""
    try:
        value = json.loads(text)
        return [str(each) for each in value["datasets"]], str(value["again"])
    except (ValueError, KeyError, TypeError):
        return [], ""


ERASED: Final = "erased"
"""The setting that each purge changes. Keys of what copies have repeated begin with it, too."""


def note_purge(
    settings: SettingsStore | None, mark: str | None = None, *, key: str = ERASED
) -> None:
    """Tell the copies of a store that it was purged, once what is purged is deleted."""
    value = mark or secrets.token_hex(8)
    while settings and not settings.set_setting(key, value, expected=settings.get_setting(key)):
        pass


@attrs.define
class Erasures:
    """The purges of a source that a copy of some of its datasets (None: of all) has to repeat."""

    source: Store
    copy: Store
    datasets: Sequence[str] | None

    @property
    def _key(self) -> str:
        scope = None if self.datasets is None else sorted(set(self.datasets))
        return f"{ERASED}.{hashlib.sha256(json.dumps(scope).encode()).hexdigest()[:16]}"

    def mark(self) -> str | None:
        """The mark of the source's last purge; None if there was none."""
        settings = self.source.capabilities.settings
        return None if settings is None else settings.get_setting(ERASED)

    def pending(self) -> str | None:
        """The mark of a purge to repeat, None where there is none.

        Read it before what is copied: all that was purged by then is missing there.
        """
        mark, kept = self.mark(), self.copy.capabilities.settings
        return None if kept is None or mark == kept.get_setting(self._key) else mark

    def repeat(self, mark: str | None, *, scrub: bool = True) -> bool:
        """Erase from the copy what it has deleted, and note that; whether there was a ``mark``.

        ``scrub`` False notes it only, of a copy that began with nothing.

        Raises:
            StoreLockedError: the copy is in use; nothing was noted.
        """
        if mark is None:
            return False
        kept = self.copy.capabilities.settings
        if scrub:
            self.copy.scrub()
            note_purge(kept)  # for copies of the copy
        note_purge(kept, mark, key=self._key)
        return scrub


PARTIAL: Final = "copy.partial"
"""The setting by which a backup of some datasets says that it has no settings."""

DIGEST: Final = "copy.digest"
"""The setting of a backup with the digest of what it holds."""

BACKUPS: Final = "backup."
"""What the keys of these notes begin with in the settings of a store."""


@contextmanager
def noted_backup(settings: SettingsStore | None, path: Path) -> Iterator[None]:
    """Within it, a store that can be written to notes that a draft of ``path`` is there."""
    value = json.dumps([platform.node(), str(path.resolve())])
    key = BACKUPS + hashlib.sha256(value.encode()).hexdigest()[:16]
    with suppress(StoreError):
        if settings is not None:
            settings.set_setting(key, value, expected=None)
    try:
        yield
    finally:
        with suppress(StoreError):
            if settings is not None and len(drafts_of(path)) == 1:
                settings.set_setting(key, None, expected=value)


def abandoned_drafts(settings: SettingsStore | None, *, remove: bool) -> list[Path]:
    """What killed backups of the store have left on this machine; ``remove`` removes it."""
    found: list[Path] = []
    for key, value in () if settings is None else settings.list_settings(BACKUPS).items():
        with suppress(ValueError, TypeError, StoreError):  # others wrote it, or it is only read
            host, path = json.loads(value)
            if host == platform.node():
                found += left_drafts(Path(path), remove=remove)
                if remove and settings is not None and not drafts_of(Path(path)):
                    settings.set_setting(key, None, expected=value)
    return found
