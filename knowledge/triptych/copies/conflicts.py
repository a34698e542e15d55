"""What keeps a copy from being made: found before anything is written."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from triptych.contracts import Store
from triptych.copies.states import MARKS, StateSource, StoreStates
from triptych.errors import ConflictError, ValidationError

REPLACE: Final = "the same command with --replace makes what is copied equal to the source"
"""What to do where the destination holds something else."""

_SHOWN: Final = 3


def check_two_stores(source: Store, destination: Store) -> None:
    """Refuse one store as source and destination, by whatever paths and addresses it was opened.

    Raises:
        ValidationError: they are one store.
    """
    if source is destination or _is_one_store(source, destination):
        raise ValidationError("source and destination are one store: name another to copy into")


def _is_one_store(source: Store, destination: Store) -> bool:
    one, other = source.capabilities, destination.capabilities
    if one.settings is None or other.settings is None:
        return False
    if one.changes is None or other.changes is None:
        return False
    if one.changes.change_head() != other.changes.change_head():
        return False
    # Logs of two stores may end alike, such as of one and a copy of its file: a write shows it.
    key = f"{MARKS}same.{secrets.token_hex(8)}"
    other.settings.set_setting(key, key, expected=None)
    try:
        return one.settings.get_setting(key) is not None
    finally:
        other.settings.set_setting(key, None, expected=key)


def check_conflicts(source: StateSource, there: StoreStates, dataset_id: str) -> None:
    """Refuse a dataset that cannot be copied without replacing what the destination has of it.

    A document that both have is a conflict if the source has not, and had not among the versions
    that it keeps, just that version which the destination has.

    Raises:
        ConflictError: the destination has a name that the source does not have, another
            configuration, or a document with another history.
    """
    if dataset_id not in there.datasets():
        return
    before = set(there.names(dataset_id))
    if not before:
        return
    extra = sorted(before.difference(source.names(dataset_id)))
    if extra:
        raise ConflictError(
            f"dataset {dataset_id!r} of the destination holds what the source does not have: "
            f"{listed(extra)}. Copy into a new store, or replace what is there"
        ).hinted(REPLACE)
    config = there.head(dataset_id).config
    if config is not None and config != source.head(dataset_id).config:
        raise another_configuration(dataset_id)
    other = list(source.other_histories(dataset_id, there.infos(dataset_id)))
    if other:
        raise ConflictError(
            f"dataset {dataset_id!r} of the destination has another history than the source of: "
            f"{listed(other)}. Copy into a new store, or replace what is there"
        ).hinted(REPLACE)


def another_configuration(dataset_id: str) -> ConflictError:
    """The error where the destination's dataset is of another configuration."""
    return ConflictError(
        f"dataset {dataset_id!r} of the destination is of another configuration: copy into a new "
        "store, or replace what is there"
    ).hinted(REPLACE)


def another_writer(dataset_id: str, what: str) -> ConflictError:
    """The error where the destination's dataset is not as the source's when it should be."""
    return ConflictError(
        f"dataset {dataset_id!r} of the destination is not as in the source{what}. Another "
        "process wrote to it meanwhile: copy again"
    ).hinted("run the same command again: what is equal is skipped")


def listed(names: Sequence[str]) -> str:
    """The first of ``names``, and how many more there are."""
    shown = ", ".join(map(repr, names[:_SHOWN]))
    more = len(names) - _SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown
