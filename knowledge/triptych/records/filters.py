"""Filters: a tree that every store evaluates, which `triptych.records.where` parses.

The nodes are a `Condition` on one field, and `And`, `Or` and `Not`. ``$ne``, ``$nin`` and
``{"$exists": False}`` become `Not` of their opposites, so that they hold if the field is missing.
Nodes are frozen and hashable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, assert_never

import attrs

from triptych.records.metadata import (
    ComparisonKey,
    Metadata,
    comparison_key,
)

OrderOperator: TypeAlias = Literal["lt", "lte", "gt", "gte"]
Operator: TypeAlias = OrderOperator | Literal["in", "contains", "exists", "starts"]
"""Stores match on it with `assert_never`, so that type checkers report a missing operator."""

NAME = "$name"
HEADING = "$heading"
VERSION = "$version"
UPDATED_AT = "$updated_at"
EXPIRES_AT = "$expires_at"
OF_DOCUMENTS = {VERSION: "version", UPDATED_AT: "updated_at", EXPIRES_AT: "expires_at"}


@attrs.frozen(kw_only=True, slots=True)
class Subject:
    """The values that a filter tests: of a document, or of a layer or chunk of one.

    ``version``, ``updated_at``, ``expires_at`` and ``metadata`` are the document's; None and empty
    for the layer of a folder or dataset. ``headings`` are the case-folded headings of the chunk, or
    of all chunks of the document.
    """

    name: str
    metadata: Metadata = attrs.field(factory=dict)
    version: int | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    headings: Collection[str] = ()


@attrs.frozen(slots=True)
class Condition:
    """A comparison of one field with ``values``.

    ``field`` is a metadata key or a field of the document: `NAME`, `HEADING`, `VERSION`,
    `UPDATED_AT`, `EXPIRES_AT`. ``operator`` "in" holds for any of the values, "starts" for a name
    that starts with any of them, "exists" if the field has a value; the others take one value.
    """

    field: str
    operator: Operator
    values: tuple[ComparisonKey, ...] = ()

    def admits(self, subject: Subject) -> bool:
        """Whether it holds for ``subject``."""
        if self.field == HEADING:
            return any(text in subject.headings for _, text in self.values)
        key = self.key_of(subject)
        return key is not None and self.holds(key)

    def key_of(self, subject: Subject) -> ComparisonKey | None:
        """Return the field's comparison key, None if it is missing."""
        if self.field == NAME:
            return comparison_key(subject.name)
        if self.field in OF_DOCUMENTS:
            own = getattr(subject, OF_DOCUMENTS[self.field])
            return None if own is None else comparison_key(own)
        if self.field not in subject.metadata:
            return None
        return comparison_key(subject.metadata[self.field])

    def holds(self, key: ComparisonKey) -> bool:
        """Return whether the condition holds for a field with this key."""
        kind, value = key
        match self.operator:
            case "exists":
                return True
            case "in":
                return key in self.values
            case "starts":
                return str(value).startswith(tuple(text for _, text in self.values))
            case "contains":
                (wanted,) = self.values
                if kind == "list":
                    return wanted in value
                return kind == wanted[0] == "text" and wanted[1] in value
            case "lt" | "lte" | "gt" | "gte" as order:
                (wanted,) = self.values
                return kind == wanted[0] and _COMPARE[order](value, wanted[1])
            case _:
                assert_never(self.operator)


@attrs.frozen(slots=True)
class And:
    """Holds if all ``parts`` hold.

    If it is ``guarded``, a store evaluates the first part first and the others only for units that
    pass it, so that their run time does not depend on the other units. See `guarded`.
    """

    parts: tuple[FilterTree, ...]
    guarded: bool = False

    def admits(self, subject: Subject) -> bool:
        """Whether it holds for ``subject``."""
        return all(part.admits(subject) for part in self.parts)


@attrs.frozen(slots=True)
class Or:
    """Holds if any of ``parts`` holds."""

    parts: tuple[FilterTree, ...]

    def admits(self, subject: Subject) -> bool:
        """Whether it holds for ``subject``."""
        return any(part.admits(subject) for part in self.parts)


@attrs.frozen(slots=True)
class Not:
    """Holds if ``part`` does not hold."""

    part: FilterTree

    def admits(self, subject: Subject) -> bool:
        """Whether it holds for ``subject``."""
        return not self.part.admits(subject)


FilterTree: TypeAlias = Condition | And | Or | Not

_COMPARE: Mapping[OrderOperator, Callable[[Any, Any], bool]] = {
    "lt": lambda value, bound: value < bound,
    "lte": lambda value, bound: value <= bound,
    "gt": lambda value, bound: value > bound,
    "gte": lambda value, bound: value >= bound,
}


def all_of(*parts: FilterTree | None) -> FilterTree | None:
    """Return the conjunction of the ``parts`` that are not None."""
    given = [part for part in parts if part is not None]
    if len(given) < 2:
        return given[0] if given else None
    return And(tuple(given))


def guarded(guard: FilterTree | None, tree: FilterTree | None) -> FilterTree | None:
    """Return a tree that evaluates ``tree`` only for units that pass ``guard``; None if both
    are."""
    if guard is None or tree is None:
        return tree if guard is None else guard
    return And((guard, tree), guarded=True)


def guard_of(tree: FilterTree | None) -> tuple[FilterTree | None, FilterTree | None]:
    """Split ``tree`` into the part that is evaluated first (or None) and the rest."""
    if not isinstance(tree, And):
        return None, tree
    if tree.guarded:
        return tree.parts[0], all_of(*tree.parts[1:])
    for at, part in enumerate(tree.parts):
        guard, rest = guard_of(part)
        if guard is not None:
            return guard, all_of(rest, *tree.parts[:at], *tree.parts[at + 1 :])
    return None, tree


def leaves_out_few(tree: FilterTree | None) -> bool:
    """Whether what does not pass ``tree`` is few documents, and no secret: stores look these up,
    not all others. It is where ``tree`` is that a document does not expire by a moment, and no
    more.
    """
    if not isinstance(tree, Not) or not isinstance(tree.part, Condition):
        return False
    return (tree.part.field, tree.part.operator) == (EXPIRES_AT, "lte")


def conditions_of(tree: FilterTree | None) -> Iterator[Condition]:
    """Yield all conditions in ``tree``, in order."""
    if isinstance(tree, Condition):
        yield tree
    elif isinstance(tree, Not):
        yield from conditions_of(tree.part)
    elif tree is not None:
        for part in tree.parts:
            yield from conditions_of(part)
