"""Searches in Qdrant: a query's vector in, ranked candidates out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray
from qdrant_client import models
from qdrant_client.models import FieldCondition, Filter as Where, MatchAny

from triptych.contracts import warn
from triptych.errors import ModelMismatchError, ValidationError
from triptych.records import (
    HEADING,
    NO_CHUNK,
    And,
    Candidate,
    Candidates,
    ChunkQuery,
    Condition,
    Filter,
    FilterTree,
    Mode,
    Not,
    Or,
    leaves_out_few,
)
from triptych.text import CorpusStats
from triptych_backends.index import Field, Filters, Owners, Scored, has_headings, without_part
from triptych_backends.sql import Searcher, let_go
from triptych_qdrant.points import (
    HEADINGS,
    OWNER,
    AwayError,
    Found,
    MissingError,
    of_datasets,
    without_cut,
)
from triptych_qdrant.projection import Projection
from triptych_qdrant.truth import Place

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
        # What does not pass is looked up: it is less than all else.
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


_TRIES = 5
"""How often a search starts over whose points another process removes."""

_PATIENCE = 2.0
"""Seconds that a search which can be answered without Qdrant waits for who writes to it."""

_SPARE = 10
"""Points asked for beyond the limit: equal scores at the end are put in order here."""


@frozen
class _Asked:
    """What a search found, and where it looked."""

    rows: list[Scored]
    places: Mapping[str, Place]


@frozen(eq=False)
class QdrantSearcher:
    """`triptych_backends.sql.Searcher` over a `Projection`.

    Nearness to a vector is asked of Qdrant. ``local``, the truth's own searcher, answers the rest:
    other lanes, and statistics of words. While Qdrant is away, or another process writes
    to it for long, it answers everything, with a warning, if ``falls_back``; else `AwayError` is
    raised.
    """

    in_process = False

    _projection: Projection
    _filters: Filters
    _local: Searcher
    _exact: bool = False
    _falls_back: bool = False

    def search(self, unit: Field, query: ChunkQuery) -> Sequence[Candidate]:
        if query.mode != Mode.VECTOR:
            return self._local.search(unit, query)
        try:
            rows = self._asked(unit, query)
        except AwayError as error:
            if not self._falls_back:
                raise
            warn(f"the {query.mode} lane was searched without Qdrant: {error}")
            return self._local.search(unit, query)
        if unit != "chunk":
            rows = [row._replace(index=NO_CHUNK) for row in rows]
        return Candidates(rows, str(query.mode))

    def _asked(self, unit: Field, query: ChunkQuery) -> list[Scored]:
        """What Qdrant finds.

        A search that meets points which another process removes starts over. So it does, once,
        where another process has written some, which may be of what it does not read yet.
        """
        for at in range(_TRIES):
            try:
                asked = self._by_vector(unit, query)
            except MissingError:
                continue
            now = {name: self._projection.now_at(name, p) for name, p in asked.places.items()}
            if now == asked.places or (at and None not in now.values()):
                return asked.rows
            let_go()
        where = self._projection.collections.where
        raise AwayError(
            f"another process keeps deleting the store's data from Qdrant at {where}: try again "
            "later"
        )

    def corpus_stats(
        self,
        unit: Field,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `Searcher.corpus_stats`: by the truth's own searcher."""
        return self._local.corpus_stats(unit, dataset_ids, terms, within=within)

    def renew(self) -> None:
        """See `Searcher.renew`: all of the projection's collections are removed."""
        self._local.renew()
        self._projection.forget()

    def _places(self, datasets: Sequence[str]) -> Mapping[str, Place]:
        wait = _PATIENCE if self._falls_back else None
        up_to_date = self._projection.up_to_date
        found = {name: up_to_date(name, wait=wait) for name in dict.fromkeys(datasets)}
        return {name: place for name, place in found.items() if place is not None}

    def _conditions(
        self, unit: Field, datasets: Sequence[str], where: Filter
    ) -> tuple[list[models.Condition], list[models.Condition]]:
        """Those that bound the collection, and those for what passes ``where`` in it."""
        among: Owners | None = None

        def owners(asked: Filter) -> Owners:
            return self._filters.owners(unit, datasets, asked, among)

        bounds: list[models.Condition] = []
        if leaves_out_few(where.within):
            bounds = passing_conditions(unit, Filter(tree=where.within), owners)
        elif where.within is not None:
            among = owners(Filter(tree=where.within))
            bounds = [owned(among)]
        return bounds, passing_conditions(unit, where, owners)

    def _by_vector(self, unit: Field, query: ChunkQuery) -> _Asked:
        """The units whose vectors are nearest, or the documents by their nearest chunks."""
        vector = query.vector
        if not isinstance(vector, np.ndarray) or query.top_k <= 0:
            return _Asked([], {})
        if not np.isfinite(vector).all():
            raise ValidationError("the query's vector has a number that is not finite")
        of: Field = "chunk" if unit == "document" else unit
        places = {
            name: place
            for name, place in self._places(query.dataset_ids).items()
            if place.layout.dimension and place.layout.space == query.embed_sig
        }
        if not places:
            return _Asked([], places)
        width = next(iter(places.values())).layout.dimension
        if {place.layout.dimension for place in places.values()} != {len(vector)}:
            raise ModelMismatchError(
                f"the query's vector has {len(vector)} numbers, those of the datasets have "
                f"{width}: search with the embedder that made them"
            )
        bounds, passing = self._conditions(unit, list(places), query.filter)
        must = [*_units(of, places), *bounds, *passing]
        collection = next(iter(places.values())).collection
        only_best = unit == "document"
        rows = _best(self._nearest(collection, vector, must), query.top_k, only_best=only_best)
        return _Asked(self._as_documents(rows) if only_best else rows, places)

    def _nearest(
        self, collection: str, vector: NDArray[np.float32], must: list[models.Condition]
    ) -> Callable[[int], Sequence[Found]]:
        # Qdrant's scores are cosines, those of a store are dot products.
        norm = float(np.linalg.norm(vector))

        def find(limit: int) -> Sequence[Found]:
            where = Where(must=must)
            ask = self._projection.collections.nearest
            found = ask(collection, vector, where, limit=limit, exact=self._exact)
            if len(found) < limit and not self._exact:
                # A graph may lead to fewer than there are: a filtered search is never short.
                found = ask(collection, vector, where, limit=limit, exact=True)
            return [evolve(each, score=each.score * norm) for each in found]

        return find

    def _as_documents(self, rows: Sequence[Scored]) -> list[Scored]:
        """The documents' own keys in place of those of their best chunks."""
        keys = self._filters.document_keys(rows)
        return [row._replace(key=keys[row.owner]) for row in rows if row.owner in keys]


def _units(unit: Field, places: Mapping[str, Place]) -> list[models.Condition]:
    """Conditions for the points of one kind, without those of parts that were cut short."""
    cut = {name: place.cut for name, place in places.items()}
    return [*of_datasets(unit, list(places)), *without_cut(cut)]


def _best(
    find: Callable[[int], Sequence[Found]], limit: int, *, only_best: bool = False
) -> list[Scored]:
    """The ``limit`` best, equal scores by name, index and dataset; with ``only_best`` the best of
    each owner alone. ``find`` gives so many of them, in any order of equal scores."""
    if limit <= 0:
        return []
    asked = limit + _SPARE
    while True:
        found = find(asked)
        rows = sorted(map(_scored, found))
        if only_best:
            rows = list(_first_of_each(rows))
        # Those that were left out are no better than the last one: enough once it is worse.
        last = max((-round(each.score, 6) for each in found), default=0.0)
        if len(found) < asked or (len(rows) >= limit and rows[limit - 1].negative < last):
            return rows[:limit]
        asked *= 4


def _first_of_each(rows: Iterable[Scored]) -> Iterable[Scored]:
    seen = set()
    for row in rows:
        if row.owner not in seen:
            seen.add(row.owner)
            yield row


def _scored(found: Found) -> Scored:
    payload = found.payload
    return Scored(
        -round(found.score, 6),
        payload["name"],
        payload["index"],
        payload["dataset"],
        payload["key"],
        payload[OWNER],
    )
