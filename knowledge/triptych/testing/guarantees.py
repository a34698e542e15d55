"""Which tests of the kit show which of the ten guarantees (docs/concepts.md).

They are few enough to run on every store at every change; the whole kit takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

GUARANTEES = range(1, 11)

_Test = TypeVar("_Test", bound=Callable[..., Any])
_NAME = "triptych_guarantees"


def guarantee(*numbers: int) -> Callable[[_Test], _Test]:
    """Say that a test shows the guarantees of these numbers.

    An attribute and not a mark of pytest: a project that runs the kit with ``--strict-markers``
    has registered no mark of ours.
    """
    assert numbers, "name a guarantee"
    assert set(numbers) <= set(GUARANTEES), f"there is no such guarantee: {numbers}"

    def mark(test: _Test) -> _Test:
        setattr(test, _NAME, numbers)
        return test

    return mark


def guarantees_of(test: Callable[..., Any]) -> tuple[int, ...]:
    """The numbers of the guarantees that ``test`` shows; most tests show none."""
    numbers: tuple[int, ...] = getattr(test, _NAME, ())
    return numbers
