"""Copies that have not ended: noted in the store that is copied into, before it is written to."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import attrs

from triptych.contracts import SettingsStore, Store
from triptych.errors import StoreError
from triptych.repositories import capabilities_of

__all__ = ["UNFINISHED", "CopyMark", "check_finished", "forget_copies", "unfinished_copy"]

UNFINISHED: Final = "unfinished."
"""What the keys of these notes begin with in the settings of a store."""
_AGAIN: Final = "the same copy again"


@attrs.frozen
class CopyMark:
    """The note that a copy is under way, until `end`. A store without settings has none."""

    settings: SettingsStore | None
    datasets: Sequence[str]
    _own: dict[str, str]
    """This note, and those of earlier copies that this one finishes, too."""

    @classmethod
    def begin(cls, store: Store, datasets: Sequence[str], again: str) -> CopyMark:
        """Note that ``datasets`` are being copied into ``store``; ``again`` is what to type."""
        settings = capabilities_of(store).settings
        if settings is None:
            return cls(settings, datasets, {})
        before = {
            key: text
            for key, text in settings.list_settings(UNFINISHED).items()
            if set(_parsed(text)[0]) <= set(datasets)
        }
        key = UNFINISHED + secrets.token_hex(8)
        value = json.dumps({"datasets": list(datasets), "again": again})
        settings.set_setting(key, value, expected=None)
        return cls(settings, datasets, {**before, key: value})

    def end(self) -> None:
        """Forget it: what was copied is whole."""
        for key, text in self._own.items():
            assert self.settings is not None
            self.settings.set_setting(key, None, expected=text)


def unfinished_copy(
    settings: SettingsStore | None, datasets: Collection[str] | None = None
) -> StoreError | None:
    """What to say of a store into which a copy (of ``datasets``, None: of any) has not ended."""
    for names, again in _noted(settings):
        if datasets is None or not names or not set(names).isdisjoint(datasets):
            of = ", ".join(map(repr, names[:3])) + (", …" if names[3:] else "")
            return StoreError(
                f"this store is unfinished: a copy of {of or 'settings'} into it was ended, or is "
                "under way. Documents may be missing, or be those from before it"
            ).hinted(
                f"{f'`{again}`' if again else _AGAIN} finishes it. If you cannot, delete these "
                "datasets; `triptych doctor --repair` then forgets the copy"
            )
    return None


def forget_copies(settings: SettingsStore | None, there: Collection[str], *, do: bool) -> bool:
    """Forget copies of which the store has no dataset (any more), if ``do``; whether all are so."""
    kept = False
    for key, text in () if settings is None else settings.list_settings(UNFINISHED).items():
        if not set(_parsed(text)[0]).isdisjoint(there):
            kept = True
        elif do:
            assert settings is not None
            settings.set_setting(key, None, expected=text)
    return not kept


def check_finished(store: Store, datasets: Collection[str]) -> None:
    """Refuse to copy ``datasets`` of a store that has not got all of them itself.

    Raises:
        StoreError: a copy into it has not ended.
    """
    unfinished = unfinished_copy(capabilities_of(store).settings, datasets)
    if unfinished is not None:
        raise unfinished


def _noted(settings: SettingsStore | None) -> Iterator[tuple[Sequence[str], str]]:
    if settings is not None:
        yield from map(_parsed, settings.list_settings(UNFINISHED).values())


def _parsed(text: str) -> tuple[Sequence[str], str]:
    """The datasets of a note, and what to type; of one that others wrote, nothing."""
    try:
        value = json.loads(text)
        return [str(each) for each in value["datasets"]], str(value["again"])
    except (ValueError, KeyError, TypeError):
        return [], ""
