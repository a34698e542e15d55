"""Tables of cases as one test, which says of each row what is wrong with it.

A case of pytest's own costs more than most rows do: each process of a run lists all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def each_row(
    names: str | Iterable[str], rows: Iterable[Any], *, ids: object = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As ``pytest.mark.parametrize``, in one test: for what shares its fixtures between rows.

    Raises:
        AssertionError: in the test, with each row that fails and why.
    """
    given = [each.strip() for each in (names.split(",") if isinstance(names, str) else names)]
    sets = [ParameterSet.extract_from(row, force_tuple=len(given) == 1) for row in rows]
    assert sets, "a table has rows"
    assert not any(each.marks for each in sets), "a row has no marks of its own"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def all_rows(*args: Any, **fixtures: Any) -> None:
            wrong, left_out, first = [], [], None
            for each in sets:
                values = dict(zip(given, each.values, strict=True))
                try:
                    test(*args, **fixtures, **values)
                except pytest.skip.Exception as error:
                    left_out.append(f"{str(values)[:300]}: {error}")
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - each is reported
                    wrong.append(f"{str(values)[:300]}: {type(error).__name__}: {error}")
                    first = first or error
            if wrong:
                raise AssertionError("\n\n".join(wrong)) from first
            if left_out:
                pytest.skip(f"all rows but these passed: {'; '.join(left_out)}")

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in given]
        all_rows.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return all_rows

    return decorate
