"""A filter as the owners that pass it: sorted ids of documents or layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import attrs
import numpy as np

from triptych._internal.turns import SEARCHES
from triptych.records import And, Condition, Filter, FilterTree, Layer, Not, Or, Subject
from triptych.records.filters import EXPIRES_AT, NAME, conditions_of, guard_of
from triptych_backends.index import Field, LogPosition, Owners, Scored
from triptych_backends.sql.change_log import read_head
from triptych_backends.sql.conditions import (
    DocumentConditions,
    Ids,
    ids_of,
    is_indexed,
    sorted_ids,
    union_of,
)
from triptych_backends.sql.database import Database
from triptych_backends.sql.deferred import (
    and_,
    bindparam,
    case,
    func,
    in_list,
    or_,
    select,
    tables as t,
)
from triptych_backends.sql.metadata_entries import entry_of, kind_prefix, next_prefix
from triptych_backends.sql.transaction import LAYER_OF_FIELD, Session, find_dataset

_m = t.document_meta.c
_NEXT = select(func.min(_m.pair)).where(
    _m.dataset_id == bindparam("dataset"), _m.pair > bindparam("low"), _m.pair < bindparam("high")
)


_MOST_IDS = 1 << 20  # 8 MB
_FILTER_AS_IDS = 16


@attrs.define
class FilterCache:
    """What filters found lately in each dataset, by its id; ``room``: for how many ids more."""

    datasets: dict[int, Kept] = attrs.field(factory=dict)
    room: int = _MOST_IDS


@attrs.define
class Kept:
    """What filters found in one dataset while the log ended at ``position``.

    ``expired``: which documents have expired at every moment from the first on and before the last.
    """

    position: LogPosition
    cache: FilterCache
    found: dict[FilterTree, Ids] = attrs.field(factory=dict)
    expired: tuple[bytes, bytes, Ids] | None = None

    def add(self, tree: FilterTree, ids: Ids) -> Ids:
        """Keep and return ``ids``; forget all else where that is too much."""
        cost = len(ids) + _FILTER_AS_IDS
        if cost > self.cache.room:
            self.cache.datasets, self.cache.room, self.found = {}, _MOST_IDS, {}
        self.cache.room -= cost
        self.found[tree] = ids
        return ids


class CachedConditions(DocumentConditions):
    """`DocumentConditions` that keep in ``cache`` what was found since the last write; which
    documents have expired, until the next one expires."""

    def __init__(self, session: Session, dataset: int, cache: FilterCache) -> None:
        super().__init__(session, dataset)
        self._cache = cache

    @cached_property
    def kept(self) -> Kept | None:
        """What was found at the position of this session."""
        position = read_head(self.session)
        kept = self._cache.datasets.get(self.dataset)
        if position is not None and (kept is None or kept.position != position):
            kept = self._cache.datasets[self.dataset] = Kept(position, self._cache)
        return None if position is None else kept

    def holding(self, condition: Condition) -> Ids:
        """See `DocumentConditions.holding`."""
        kept = self.kept
        is_of_time = condition.operator == "lte" and condition.values[0][0] == "time"
        if kept is None or condition.field != EXPIRES_AT or not is_of_time:
            return super().holding(condition)
        moment = entry_of(EXPIRES_AT, condition.values[0])
        expired = kept.expired
        if expired is None or not expired[0] <= moment < expired[1]:
            last = _next_moment(self.session, self.dataset, moment)
            expired = kept.expired = moment, last, super().holding(condition)
        return expired[2]


def _next_moment(session: Session, dataset: int, after: bytes) -> bytes:
    """The entry of the first moment after ``after`` at which a document expires."""
    end = next_prefix(kind_prefix(EXPIRES_AT, "time"))
    row = session.one(_NEXT, dataset=dataset, low=after, high=end)
    return end if row is None or row[0] is None else bytes(row[0])


_REVISIONS = select(t.document.c.id, t.document.c.revision).where(
    in_list(t.document.c.id, "owners")
)

_OF_DATASET = t.document.c.dataset_id == bindparam("dataset")
# `DerivedSig.stale_reason`: without a digest the version decides; no embedder means any.
FRESH = and_(
    case(
        (t.derivation.c.input_sig != "", t.derivation.c.input_sig == t.document.c.input_sig),
        else_=t.derivation.c.source_version >= t.document.c.version,
    ),
    t.derivation.c.chunker_sig == bindparam("chunker"),
    # A set that waits for vectors is of the newest text: it is not stale.
    or_(bindparam("embed") == "", t.derivation.c.embed_sig.in_(("", bindparam("embed")))),
)
"""That a document's set is fresh; NULL where it has none."""

_FRESH = (
    select(t.document.c.id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(_OF_DATASET, FRESH)
)
_LAYERS = (
    select(t.layer.c.id, t.layer.c.doc_name, t.document.c.id)
    .join(
        t.document,
        (t.document.c.dataset_id == t.layer.c.dataset_id)
        & (t.document.c.name == t.layer.c.doc_name),
        isouter=True,
    )
    .where(t.layer.c.dataset_id == bindparam("dataset"), t.layer.c.layer == bindparam("layer"))
)
# Only a document's layer is judged by its source: what a folder's is made from, other layers,
# is not in the database's reach.
_FRESH_LAYERS = _LAYERS.where(
    case(
        (t.document.c.id.is_(None), True),
        (t.layer.c.input_sig != "", t.layer.c.input_sig == t.document.c.content_sha256),
        else_=t.layer.c.source_version >= t.document.c.version,
    ),
    or_(bindparam("prompt") == "", t.layer.c.prompt_sig == bindparam("prompt")),
    or_(bindparam("embed") == "", t.layer.c.embed_sig.in_(("", bindparam("embed")))),
)


class SqlFilters:
    """`triptych_backends.index.Filters` over a `Database`.

    ``cache`` is what several of them share.
    """

    def __init__(self, database: Database, *, cache: FilterCache | None = None) -> None:
        self._database = database
        self._cache = FilterCache() if cache is None else cache

    def owners(
        self, unit: Field, datasets: Sequence[str], where: Filter, among: Owners | None = None
    ) -> Owners:
        """See `Filters.owners`.

        Of layers, name conditions hold for the layer's own name; metadata and headings are its
        document's, so that a folder's layer has none.
        """
        kind = LAYER_OF_FIELD.get(unit)
        with self._database.snapshot() as session:
            found = {name: find_dataset(session, name) for name in datasets}
            passing = {}
            for name, dataset in found.items():
                if dataset is not None:
                    conditions = CachedConditions(session, dataset.id, self._cache)
                    some = None if among is None else among.get(name, union_of(()))
                    passing[name] = (
                        _documents(conditions, where, some)
                        if kind is None
                        else _layers(conditions, kind, where, some)
                    )
            return passing

    def document_keys(self, found: Sequence[Scored]) -> Mapping[int, int]:
        """See `Filters.document_keys`: revisions."""
        with self._database.reading() as session:
            return dict(session.all(_REVISIONS, owners=[row.owner for row in found]))


def documents_passing(session: Session, dataset: int, tree: FilterTree) -> Ids:
    """The ids of the dataset's documents that pass."""
    return _documents(CachedConditions(session, dataset, FilterCache()), Filter(tree=tree))


def _documents(conditions: CachedConditions, where: Filter, among: Ids | None = None) -> Ids:
    parts = [] if among is None else [among]
    if where.tree is not None:
        parts = [_evaluate(where.tree, conditions, among)]
    if where.fresh is not None:
        fresh = where.fresh
        parts.append(
            ids_of(
                conditions.session,
                _FRESH,
                dataset=conditions.dataset,
                chunker=fresh.chunker_sig,
                embed=fresh.embed_sig,
            )
        )
    return _intersection(parts)


def _layers(conditions: DocumentConditions, kind: Layer, where: Filter, among: Ids | None) -> Ids:
    session, dataset = conditions.session, conditions.dataset
    if where.fresh is None:
        rows = session.all(_LAYERS, dataset=dataset, layer=str(kind))
    else:
        rows = session.all(
            _FRESH_LAYERS,
            dataset=dataset,
            layer=str(kind),
            prompt=where.fresh.prompt_sig,
            embed=where.fresh.embed_sig,
        )
    found = _LayerConditions(conditions, rows)
    some = None if among is None else _intersection([found.every, among])
    if where.tree is None:
        return found.every if some is None else some
    return _evaluate(where.tree, found, some)


class _Conditions(Protocol):
    """Finds the ids for which a condition holds, among ``every``."""

    @property
    def kept(self) -> Kept | None: ...

    @property
    def every(self) -> Ids: ...

    def holding(self, condition: Condition) -> Ids: ...

    def judged(self, ids: Ids, tree: FilterTree) -> Ids: ...


class _LayerConditions:
    """Conditions on layers: names are their own, all else is their document's."""

    kept: None = None

    def __init__(self, documents: DocumentConditions, rows: Sequence[Any]) -> None:
        self._documents = documents
        self._rows = rows
        self.every: Ids = sorted_ids(row[0] for row in rows)

    def holding(self, condition: Condition) -> Ids:
        if condition.field == NAME:
            return sorted_ids(
                pk for pk, name, _ in self._rows if condition.admits(Subject(name=name))
            )
        found = set(self._documents.holding(condition).tolist())
        return sorted_ids(pk for pk, _, document in self._rows if document in found)

    def judged(self, ids: Ids, tree: FilterTree) -> Ids:
        some = set(ids.tolist())
        rows = [row for row in self._rows if row[0] in some]
        documents = sorted_ids(document for _, _, document in rows if document is not None)
        known = dict(self._documents.subjects(documents, tree))
        nothing = Subject(name="")
        return sorted_ids(
            pk
            for pk, name, document in rows
            if tree.admits(attrs.evolve(known.get(document, nothing), name=name))
        )


def _evaluate(tree: FilterTree, conditions: _Conditions, among: Ids | None = None) -> Ids:
    """The ids that pass, of all or of those ``among``: these are read, and nothing else is."""
    SEARCHES.pass_on("the filter")
    if among is not None:
        return conditions.judged(among, tree)
    kept = conditions.kept
    if kept is None or any(each.field == EXPIRES_AT for each in conditions_of(tree)):
        return _evaluated(tree, conditions)
    ids = kept.found.get(tree)
    return kept.add(tree, _evaluated(tree, conditions)) if ids is None else ids


def _evaluated(tree: FilterTree, conditions: _Conditions) -> Ids:
    guard, rest = guard_of(tree)
    if guard is not None:
        found = _evaluate(guard, conditions)
        return found if rest is None else _evaluate(rest, conditions, found)
    if not is_indexed(tree):
        return _scanned(tree, conditions)
    if isinstance(tree, Condition):
        return conditions.holding(tree)
    if isinstance(tree, Not):
        return _difference(conditions.every, _evaluate(tree.part, conditions))
    if isinstance(tree, Or):
        return union_of(_evaluate(part, conditions) for part in tree.parts)
    # What is negated is taken away from the rest, not from everything.
    plain = [part for part in tree.parts if not isinstance(part, Not)]
    found = _intersection([_evaluate(part, conditions) for part in plain] or [conditions.every])
    for part in tree.parts:
        if isinstance(part, Not):
            found = _difference(found, _evaluate(part.part, conditions))
    return found


def _scanned(tree: FilterTree, conditions: _Conditions) -> Ids:
    """The ids that pass a tree for which documents are read: each once, for all its conditions."""
    parts = tree.parts if isinstance(tree, And | Or) else ()
    indexed = tuple(part for part in parts if is_indexed(part))
    if not indexed:
        return conditions.judged(conditions.every, tree)
    others = tuple(part for part in parts if part not in indexed)
    if isinstance(tree, And):
        return conditions.judged(_evaluate(And(indexed), conditions), And(others))
    found = _evaluate(Or(indexed), conditions)
    rest = conditions.judged(_difference(conditions.every, found), Or(others))
    return union_of([found, rest])


def _intersection(parts: Sequence[Ids]) -> Ids:
    passing = parts[0]
    for ids in parts[1:]:
        passing = np.intersect1d(passing, ids, assume_unique=True)
    return passing


def _difference(left: Ids, right: Ids) -> Ids:
    return np.setdiff1d(left, right, assume_unique=True)
