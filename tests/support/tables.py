"""Tables of cases: one test that says of each row what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Row = TypeVar("Row")


def failures(rows: Iterable[Row], check: Callable[[Row], None]) -> list[str]:
    """What ``check`` raises for each of ``rows``: a test compares it with []."""
    failed = []
    for row in rows:
        try:
            check(row)
        except Exception as error:  # noqa: BLE001 - each row is reported
            failed.append(f"{row}: {type(error).__name__}: {error}")
    return failed
