"""The errors that stores in a database share."""

from __future__ import annotations

from triptych.errors import CorruptStoreError, StoreError

DAMAGE = (ValueError, TypeError, AttributeError, OverflowError)
"""What reading a row ends with when a value in it is not of its column's type or form."""


def damaged_chunk(where: str, reason: object) -> CorruptStoreError:
    """The error for a chunk that fails its check: its document has it still."""
    return CorruptStoreError(
        f"the store {where} is damaged: {reason}. Run `triptych doctor --repair`, or "
        "`Service.doctor(repair=True)`: chunks are derived again from their documents"
    )


def corrupt(where: str, reason: object) -> CorruptStoreError:
    """The error for stored bytes that fail their check."""
    return CorruptStoreError(
        f"the store {where} is damaged: {reason}. Restore it from a backup; documents that "
        "can be read can be exported"
    )


def closed_error(where: str) -> StoreError:
    """The error of every call after `close`."""
    return StoreError(f"the store {where} is closed: open it again")
