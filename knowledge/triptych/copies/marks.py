"""How a replica remembers what it is a replica of, and how far it has come."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import attrs

from triptych.contracts import ChangeReader, SettingsStore, Store
from triptych.copies.conflicts import listed
from triptych.copies.states import MARKS, StateSource, is_kept_setting
from triptych.errors import ConflictError, ValidationError
from triptych.records import ChangeCursor

_MAKES_REPLICA: Final = (
    "the same command with --replace makes it a replica: what the source does not have is then "
    "removed from it"
)


@attrs.frozen(kw_only=True, slots=True)
class _Mark:
    """The datasets that follow a source (None: all, and the settings), and a cursor of its log."""

    cursor: ChangeCursor
    datasets: Sequence[str] | None


class ReplicaMark:
    """The mark of a replica in its settings: which datasets follow, and the last cursor of the
    source's log that was applied.

    A source knows it for its own by the cursor, also where its log does not go back so far any
    more. A store without settings has no mark.
    """

    def __init__(
        self, changes: ChangeReader, destination: Store, datasets: Sequence[str] | None
    ) -> None:
        self._changes = changes
        self._destination = destination
        self._settings: SettingsStore | None = destination.capabilities.settings
        self._datasets = None if datasets is None else sorted(set(datasets))
        scope = json.dumps(self._datasets).encode()
        self._key = MARKS + hashlib.sha256(scope).hexdigest()[:16]

    def check(self, source: StateSource) -> bool:
        """Whether the destination is a replica already; else it may become one without a loss.

        Raises:
            ConflictError: it has datasets, or settings, that do not follow this source.
        """
        marks = list(self._marks())
        whole = any(mark.datasets is None for mark in marks)
        followed = {each for mark in marks for each in mark.datasets or ()}
        there = [each for each in self._destination.documents.list_datasets() if self._has(each)]
        own = [] if whole else [each for each in there if each not in followed]
        if own:
            raise _refused(f"it has datasets that do not follow this source: {listed(own)}")
        if self._datasets is None and self._settings is not None and not whole:
            wanted = source.settings()
            found = self._settings.list_settings()
            other = [key for key in found if is_kept_setting(key) and wanted.get(key) != found[key]]
            if other:
                raise _refused(f"it has settings that the source does not have: {listed(other)}")
        return bool(there)

    def write(self, cursor: str) -> None:
        """Remember that the destination has all until ``cursor``."""
        settings = self._settings
        if settings is None:
            return
        value = json.dumps({"cursor": cursor, "datasets": self._datasets})
        before = settings.get_setting(self._key)
        while before != value and not settings.set_setting(self._key, value, expected=before):
            before = settings.get_setting(self._key)

    def _has(self, dataset_id: str) -> bool:
        return self._datasets is None or dataset_id in self._datasets

    def _marks(self) -> Iterator[_Mark]:
        """Those marks of the destination that are of the source's log."""
        found: Collection[str] = ()
        if self._settings is not None:
            found = self._settings.list_settings(MARKS).values()
        for text in found:
            mark = _parsed(text)
            if mark is None:
                continue
            # As who began with nothing, from whom no deletion that was forgotten is missing.
            end = mark.cursor.marked
            probe = attrs.evolve(mark.cursor, number=end, base=0, until=end)
            page = self._changes.read_changes(probe, dataset_id=None, limit=0)
            if not page.reset:
                yield mark


def _parsed(text: str) -> _Mark | None:
    try:
        value = json.loads(text)
        datasets = value["datasets"]
        names = None if datasets is None else [str(each) for each in datasets]
        return _Mark(cursor=ChangeCursor.parse(value["cursor"]), datasets=names)
    except (ValueError, KeyError, TypeError, ValidationError):
        return None


def _refused(why: str) -> ConflictError:
    return ConflictError(
        f"the destination is not a replica of the source: {why}. Follow into a new store, or "
        "replace what is there"
    ).hinted(_MAKES_REPLICA)
