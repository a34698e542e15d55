"""Checking numeric arguments and their bounds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from triptych.errors import ValidationError


def check_number(
    value: Any,
    what: str,
    *,
    least: float = 0,
    above: bool = False,
    most: float = sys.float_info.max,
    of: str = "",
) -> float:
    """``value`` as a float, if it is a finite number; a bool is none.

    Args:
        what: the argument, as the error calls it.
        least, most: its bounds; with ``above`` it is not ``least`` itself.
        of: its unit, such as "seconds".

    Raises:
        ValidationError: it is something else.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= value <= most and not (above and value == least):
        return float(value)
    unit = f"a number of {of}" if of else "a finite number"
    first, last = f"{'above' if above else 'from'} {least:g}", "" if above else " up"
    if most < sys.float_info.max:
        last = f", at most {most:g}" if above else f" to {most:g}"
    raise ValidationError(f"{what} is {unit} {first}{last}, not {value!r:.60}")


def number(called: str = "", **bounds: Any) -> Callable[[Any, Any, Any], None]:
    """A validator of a field, which is a number within `check_number`'s ``bounds``; the error calls
    it ``called``, or by its name."""

    def check(instance: Any, field: Any, value: Any) -> None:
        check_number(value, called or field.name, **bounds)

    return check
