"""What the lanes share: a filter as a condition of SQL, and rows as one ranked list."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from triptych.records import (
    HEADING,
    And,
    Condition,
    Filter,
    FilterTree,
    Not,
    Or,
    leaves_out_few,
)
from triptych_backends.index import DECIMALS, Field, Owners, Scored, has_headings, without_part
from triptych_backends.sql import Dataset
from triptych_postgres.search_tables import stored_heading
from triptych_postgres.session import PostgresSession


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
        """What bounds the collection whose statistics count; "" for all of it."""
        self.outside = ""
        """What does not count, where that is few units; then `corpus` is all others."""
        if leaves_out_few(within):
            assert isinstance(within, Not)
            self.outside = self._owned(Filter(tree=within.part))
            self.corpus = f"NOT ({self.outside})"
        elif within is not None:
            self._among = owners(Filter(tree=within), None)
            self.corpus = self._is_owner(self._among, bounds=True)
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
                # What does not pass is looked up: it is less than all else.
                return f"NOT ({self._owned(Filter(tree=where.tree.part))})"
            return self._owned(where, bounds=True)
        parts = [self._condition(where.tree)]
        if where.fresh is not None:
            parts.append(self._owned(Filter(fresh=where.fresh)))
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


def _joined(parts: Iterable[str], word: str) -> str:
    return f"({f' {word} '.join(parts)})"


_DOCUMENTS = "SELECT id, name FROM document"
_LAYERS = "SELECT id, doc_name AS name FROM layer"
NAMES: Mapping[Field, str] = {
    "chunk": _DOCUMENTS,
    "document": _DOCUMENTS,
    "abstract": _LAYERS,
    "overview": _LAYERS,
}
"""The names of the owners of each kind of unit."""


@attrs.frozen
class Asked:
    """What each lane is asked: for the ``limit`` best units of one kind that pass ``predicates``.

    ``where`` is what messages call the store.
    """

    session: PostgresSession
    unit: Field
    datasets: Sequence[Dataset]
    predicates: Predicates
    limit: int
    where: str

    @property
    def ids(self) -> list[int]:
        """The ids of the datasets."""
        return [each.id for each in self.datasets]

    @property
    def names(self) -> dict[int, str]:
        """Their names by their ids."""
        return {each.id: each.name for each in self.datasets}


def scored(rows: Sequence[Sequence[Any]], datasets: Mapping[int, str]) -> list[Scored]:
    """Rows of key, owner, position, dataset, score and name."""
    rounded = np.round([row[4] for row in rows], DECIMALS).tolist()
    return [
        Scored(-score, row[5], row[2], datasets[row[3]], row[0], row[1])
        for score, row in zip(rounded, rows, strict=True)
    ]


def best(found: Iterable[Scored], limit: int) -> list[Scored]:
    """The ``limit`` best: by score rounded to 1e-6, name, index, dataset."""
    return sorted(found)[: max(limit, 0)]


def best_of_owner(found: Iterable[Scored]) -> list[Scored]:
    """Only the best unit of each owner, the first of equal ones."""
    kept: dict[int, Scored] = {}
    for row in found:
        other = kept.get(row.owner)
        if other is None or row < other:
            kept[row.owner] = row
    return list(kept.values())
