"""The search index against the truth: its files' checksums, and the key of every unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from triptych.doctor import Check, Tally
from triptych.errors import CancelledError
from triptych.records import Finding

from .feed import FIELDS, ChangeFeed, Field
from .local import LocalIndex
from .segment import View
from .storage import DamagedError

__all__ = ["CHECKS", "examine_index", "live_keys"]

_OWNERS = 256
_TRIES = 5
_DROPPED = "the index is dropped, and the next search builds it from the documents"

CHECKS = {
    check.name: check
    for check in (
        Check(
            "index.damaged",
            "a file of the search index fails its checksum, or is gone",
            "the next process to search reads everything again before it answers",
            repair=_DROPPED,
        ),
        Check(
            "index.missing",
            "the search index lacks what is stored",
            "searches do not find it",
            repair=_DROPPED,
        ),
        Check(
            "index.surplus",
            "the search index holds what is not stored",
            "searches come back short, and scores are counted over what is gone",
            repair=_DROPPED,
        ),
    )
}


def examine_index(index: LocalIndex, dataset: str) -> Iterator[Finding]:
    """What is wrong with the index of one dataset.

    Damage ends the examination: an index is made anew of a damaged one when it is next used.
    """
    tally = Tally()
    place = f"the search index of dataset {dataset!r}"
    folder = index.folder(dataset)
    if folder is not None:
        try:
            folder.load({})
        except (DamagedError, OSError) as error:
            tally.add(CHECKS["index.damaged"], place, str(error), dataset_id=dataset)
            yield from tally.findings()
            return
    for field in FIELDS:
        try:
            _compare(index, dataset, field, tally, place)
        except CancelledError:
            raise
        except Exception:  # noqa: BLE001 - whatever a damaged row of the truth ends with
            # The truth cannot be read for it; that is told where it is looked at.
            continue
    yield from tally.findings()


def _compare(index: LocalIndex, dataset: str, field: Field, tally: Tally, place: str) -> None:
    feed = index.feed
    for _ in range(_TRIES):
        before = feed.head()
        found = Tally()
        held = live_keys(index.views(dataset, field))
        _compare_at(feed, held, dataset, field, found, place)
        # Of what was written meanwhile, the two saw different states.
        if not found.findings() or feed.head() == before:
            tally.extend(found.findings())
            return


def _compare_at(
    feed: ChangeFeed,
    held: Mapping[int, Sequence[int]],
    dataset: str,
    field: Field,
    tally: Tally,
    place: str,
) -> None:
    owners = sorted({change.owner for change in feed.changes(dataset, 0) if change.field == field})
    seen: set[int] = set()
    for start in range(0, len(owners), _OWNERS):
        some = owners[start : start + _OWNERS]
        stored: dict[int, set[int]] = {}
        names: dict[int, str] = {}
        for unit in feed.units(dataset, field, some):
            stored.setdefault(unit.owner, set()).add(unit.key)
            names[unit.owner] = unit.name
        for owner in some:
            seen.add(owner)
            keys, has = stored.get(owner, set()), set(held.get(owner, ()))
            label = f"{field} of {names.get(owner, owner)!r}"
            if keys - has:
                tally.add(CHECKS["index.missing"], place, label, dataset_id=dataset)
            if has - keys:
                tally.add(CHECKS["index.surplus"], place, label, dataset_id=dataset)
    for owner in held.keys() - seen:
        label = f"{field} of {owner}"
        tally.add(CHECKS["index.surplus"], place, label, dataset_id=dataset)


def live_keys(views: Sequence[View]) -> dict[int, list[int]]:
    """The keys of all live units, by owner."""
    found: dict[int, list[int]] = {}
    for view in views:
        segment = view.segment
        units: NDArray[np.int64] = np.flatnonzero(view.live_mask())
        owners = segment.owners[segment.group_numbers(units.astype(np.int32))]
        for owner, key in zip(owners.tolist(), segment.keys[units].tolist(), strict=True):
            found.setdefault(owner, []).append(key)
    return found
