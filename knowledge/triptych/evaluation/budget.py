"""Evidence under a budget: how much of what answers a question fits into so many tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DEFAULT_BUDGETS = (500, 1_000, 2_000, 4_000)
"""Tokens of returned text."""


def evidence_within(
    budget: int,
    found: Iterable[tuple[str, int]],
    grades: Mapping[str, int],
    *,
    least_grade: int = 1,
) -> float:
    """The share of relevant units whose text ends within the first ``budget`` tokens returned.

    ``found`` has, best first, the unit that each returned text holds ("" for none) and the
    tokens of that text. The text that would pass the budget ends the count, and so do all after
    it. Without a relevant unit the share is 0.
    """
    relevant = {unit for unit, grade in grades.items() if grade >= least_grade}
    held: set[str] = set()
    spent = 0
    for unit, tokens in found:
        spent += tokens
        if spent > budget:
            break
        held.add(unit)
    return len(held & relevant) / len(relevant) if relevant else 0.0
