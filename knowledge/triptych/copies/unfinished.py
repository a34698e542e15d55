"""Copies that have not ended: noted in the store that is copied into, before it is written to."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from triptych.contracts import SettingsStore
from triptych.errors import StoreError

__all__ = [
    "UNFINISHED",
    "UnfinishedStoreWarning",
    "forget_copies",
    "note_copy",
    "unfinished_copy",
    "unfinished_until_done",
]

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
                f"this store is unfinished: {what} was ended, or is under way. "
                "Documents may be missing, or be those from before it"
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
