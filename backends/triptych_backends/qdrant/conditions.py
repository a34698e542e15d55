"""A `Filter` of a query as Qdrant's: what the truth knows by the ids of owners, headings by the
points' own."""

from __future__ import annotations

from collections.abc import Callable

from qdrant_client import models
from qdrant_client.models import FieldCondition, MatchAny

from triptych.records import And, Condition, Filter, FilterTree, Not, Or
from triptych.records.filters import HEADING
from triptych_backends.index import Field, Owners
from triptych_backends.index.selection import has_headings, without_part
from triptych_backends.qdrant.points import HEADINGS, OWNER

__all__ = ["OwnersOf", "owned", "passing_conditions"]

OwnersOf = Callable[[Filter], Owners]
"""Given a filter without headings, the owners that pass it; see `Filters.owners`."""

_NOBODY = -1
"""No owner's id: a list of none would be no condition."""


def passing_conditions(unit: Field, where: Filter, owners: OwnersOf) -> list[models.Condition]:
    """Conditions for the points that pass ``where``, but for its ``within``.

    As `LocalSearcher` does, it asks the truth which documents or layers pass, so that a filter
    holds for the metadata of this moment.
    """
    tree, fresh = without_part(where.tree, where.within), where.fresh
    if tree is None and fresh is None:
        return []
    headed = unit == "chunk" and has_headings(tree)
    if isinstance(tree, Not) and fresh is None and not headed:
        # What does not pass is looked up: it is less than all else, as what has expired is.
        return [models.Filter(must_not=[owned(owners(Filter(tree=tree.part)))])]
    if tree is None or not headed:
        return [owned(owners(Filter(tree=tree, fresh=fresh)))]
    found = [_condition(tree, owners)]
    return found if fresh is None else [*found, owned(owners(Filter(fresh=fresh)))]


def _condition(tree: FilterTree, owners: OwnersOf) -> models.Condition:
    if isinstance(tree, Condition) and tree.field == HEADING:
        headings = sorted(text for _, text in tree.values)
        return FieldCondition(key=HEADINGS, match=MatchAny(any=headings))
    if isinstance(tree, Not):
        return models.Filter(must_not=[_condition(tree.part, owners)])
    if not has_headings(tree):
        return owned(owners(Filter(tree=tree)))
    assert isinstance(tree, And | Or)
    parts = [_condition(part, owners) for part in tree.parts]
    return models.Filter(must=parts) if isinstance(tree, And) else models.Filter(should=parts)


def owned(owners: Owners) -> models.Condition:
    """The condition that a point is of one of these owners."""
    ids = [int(owner) for some in owners.values() for owner in some]
    return FieldCondition(key=OWNER, match=MatchAny(any=ids or [_NOBODY]))
