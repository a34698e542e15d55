"""A filter as a condition of SQL on the units of one kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from triptych.records import And, Condition, DerivedSig, Filter, FilterTree, Not, Or
from triptych.records.filters import HEADING
from triptych_backends.index import Field, Owners
from triptych_backends.index.selection import has_headings, without_part
from triptych_backends.postgres.search_tables import stored_heading


class Predicates:
    """Writes conditions on the column ``owner``, and on ``headings`` of `search_unit` as ``u``.

    ``owners`` finds, for each dataset, the owners of the units, of all or of some owners, that pass
    a filter without headings. What the conditions compare with is gathered in ``parameters``.
    """

    def __init__(
        self,
        unit: Field,
        where: Filter,
        owners: Callable[[Filter, Owners | None], Owners],
        *,
        owner: str = "u.owner",
    ) -> None:
        self._unit = unit
        self._owners = owners
        self._among: Owners | None = None
        self._owner = owner
        self.headed = False
        """Whether a condition is on headings."""
        self.greatest: float = math.inf
        """At most so many owners pass, as far as is known."""
        self.parameters: dict[str, Any] = {}
        within = where.within
        self.corpus = ""
        if within is not None:
            self._among = owners(Filter(tree=within), None)
            self.corpus = self._is_owner(self._among, bounds=True)
        """What bounds the collection whose statistics count; "" for all of it."""
        tree = without_part(where.tree, within)
        passing = self._passing(Filter(tree=tree, fresh=where.fresh))
        if self.corpus and self.headed:
            # The server may choose the order of conditions, but not that in a CASE.
            passing = f"CASE WHEN {self.corpus} THEN {passing} ELSE false END"
        self.selection = " AND ".join(part for part in (self.corpus, passing) if part)
        """What may be found; "" for all."""

    def _passing(self, where: Filter) -> str:
        if where.is_trivial:
            return ""
        if where.tree is None or not (self._unit == "chunk" and has_headings(where.tree)):
            if isinstance(where.tree, Not) and where.fresh is None:
                # What does not pass is looked up: it is less than all else, as what has expired is.
                return f"NOT ({self._owned(Filter(tree=where.tree.part))})"
            return self._owned(where, bounds=True)
        parts = [self._condition(where.tree)]
        if where.fresh is not None:
            parts.append(self._owned(_fresh(where.fresh)))
        return _joined(parts, "AND")

    def _condition(self, tree: FilterTree) -> str:
        if isinstance(tree, Condition) and tree.field == HEADING:
            self.headed = True
            titles = sorted(stored_heading(text) for _, text in tree.values)
            return f"u.headings && {self._bound(titles)}::text[]"
        if isinstance(tree, Not):
            return f"NOT ({self._condition(tree.part)})"
        if not has_headings(tree):
            return self._owned(Filter(tree=tree))
        assert isinstance(tree, And | Or)
        # What the truth knows is asked at once.
        plain = tuple(part for part in tree.parts if not has_headings(part))
        parts = [self._condition(part) for part in tree.parts if has_headings(part)]
        if plain:
            whole = plain[0] if len(plain) == 1 else type(tree)(plain)
            parts.append(self._condition(whole))
        return _joined(parts, "AND" if isinstance(tree, And) else "OR")

    def _owned(self, where: Filter, *, bounds: bool = False) -> str:
        return self._is_owner(self._owners(where, self._among), bounds=bounds)

    def _is_owner(self, owners: Owners, *, bounds: bool) -> str:
        ids = np.concatenate([np.empty(0, np.int64), *owners.values()])
        if bounds:
            self.greatest = min(self.greatest, len(ids))
        return f"{self._owner} = ANY({self._bound(ids.tolist())}::bigint[])"

    def _bound(self, value: object) -> str:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f"%({name})s"


def _fresh(fresh: DerivedSig) -> Filter:
    return Filter(fresh=fresh)


def _joined(parts: Iterable[str], word: str) -> str:
    return f"({f' {word} '.join(parts)})"
