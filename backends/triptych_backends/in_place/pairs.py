"""Pairs of columns that are searched one by one: one that fails leaves the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from triptych._internal.lane_warnings import warn
from triptych.errors import CancelledError, TriptychError
from triptych.records.failure_warning import FailureWarning

__all__ = ["found_in_pairs"]

T = TypeVar("T")


def found_in_pairs(searches: Iterable[tuple[str, Callable[[], list[T]]]]) -> list[T]:
    """What all ``searches`` find, each with the name of its pair.

    One that fails while another answers is a warning of the search. Where all fail, the first error
    is raised.
    """
    found: list[T] = []
    failed: list[tuple[str, TriptychError]] = []
    answered = False
    for name, search in searches:
        try:
            found += search()
            answered = True
        except CancelledError:
            raise
        except TriptychError as error:
            failed.append((name, error))
    if failed and not answered:
        raise failed[0][1]
    for name, reason in failed:
        warn(FailureWarning(f"the vectors of {name} were not searched", reason))
    return found
