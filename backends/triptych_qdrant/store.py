"""`QdrantStore`: a store in SQLite or PostgreSQL whose vectors are searched in Qdrant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import attrs
from qdrant_client.models import FieldCondition, Filter, Range

from triptych import deadlines
from triptych.contracts import Capabilities, Diagnostics
from triptych.diagnostics import Check, FindingCollector
from triptych.records import Finding, HealthCheck, ScrubReport
from triptych_backends.index import FIELDS, Field
from triptych_backends.sql import SqlFilters, SqlStore
from triptych_qdrant.points import OWNER, AwayError, Collections, of_datasets, without_cut
from triptych_qdrant.projection import Projection, Trusted
from triptych_qdrant.searcher import QdrantSearcher
from triptych_qdrant.truth import Truth, TruthStore

_REPAIR: Final = "the dataset's points are made again from the documents"
_MISSING: Final = Check(
    "qdrant.missing", "Qdrant lacks stored data", "searches do not find it", repair=_REPAIR
)
_SURPLUS: Final = Check(
    "qdrant.surplus",
    "Qdrant has data that is not stored",
    "searches find what is gone",
    repair=_REPAIR,
)
_UNREADABLE: Final = Check(
    "qdrant.unreadable",
    "the data in Qdrant cannot be read",
    "searches fail, or run without Qdrant",
    remedy="start Qdrant, or check its address and key, and run the doctor again",
)
_OWNERS_AT_ONCE = 1_000
_TRIES = 3


class QdrantDiagnostics:
    """`Diagnostics` of a store whose vectors are searched in Qdrant, for the store to inherit.

    What a feed has not written yet is not missing: the next search does so first.
    """

    projection: Projection
    kept: Diagnostics
    """What the store that keeps everything checks of itself."""
    falls_back: bool

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`: the store's checks, and whether Qdrant answers."""
        collections = self.projection.collections
        try:
            collections.names()
        except AwayError as error:
            status: Literal["warning", "failed"] = "warning" if self.falls_back else "failed"
            found = HealthCheck(name="qdrant", status=status, detail=str(error), error=error)
        else:
            detail = f"Qdrant at {collections.where} answers"
            found = HealthCheck(name="qdrant", status="ok", detail=detail)
        return [*self.kept.check_health(), found]

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`; points are counted for each document and layer."""
        yield from self.kept.check_integrity(dataset_ids)
        for name in dataset_ids:
            found = FindingCollector()
            try:
                _examine(self.projection, name, found)
            except AwayError as error:
                found = FindingCollector()
                where = self.projection.collections.where
                found.add(_UNREADABLE, f"Qdrant at {where}", str(error))
            yield from found.findings()

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        done = list(self.kept.repair(checks, dataset_ids))
        if not {_MISSING.name, _SURPLUS.name}.intersection(checks):
            return done
        for name in sorted(dataset_ids):
            found = FindingCollector()
            try:
                _examine(self.projection, name, found)
                if found.findings():
                    self.projection.make_again(name)
                    done.append(f"made the points of dataset {name!r} in Qdrant again")
            except AwayError as error:
                done.append(f"left the points of dataset {name!r} as they are ({error})")
        return done


def _examine(projection: Projection, dataset: str, found: FindingCollector) -> None:
    for _ in range(_TRIES):
        trusted = projection.trusted(dataset)
        if trusted is None:
            return  # the next search makes all of its points
        differences = [
            (field, owner, name, there)
            for field in FIELDS
            if field != "document"
            for owner, name, there in _differences(projection, dataset, field, trusted)
        ]
        again = projection.trusted(dataset)
        if again is not None and again.position == trusted.position:
            break
    else:
        return  # another process writes all the time: it compares them by itself
    changes = projection.truth.log.changes(dataset, trusted.position.at.seq)
    if any(change.field is None for change in changes):
        return
    behind = {(change.field, change.owner) for change in changes}
    for field, owner, name, there in differences:
        if (field, owner) not in behind:
            check = _MISSING if there < 0 else _SURPLUS
            place = f"dataset {dataset!r}"
            found.add(check, place, name, dataset_id=dataset, count=abs(there))


def _differences(
    projection: Projection, dataset: str, field: Field, trusted: Trusted
) -> Iterator[tuple[int, str, int]]:
    """The owners that have more or fewer points than units with a vector, their names, and how many
    more."""
    dimension = trusted.place.layout.dimension
    log, collections = projection.truth.log, projection.collections
    after = -1
    while True:
        deadlines.check("the examination")
        owners = log.owners(dataset, field, after, _OWNERS_AT_ONCE)
        units: Counter[int] = Counter()
        names: dict[int, str] = {}
        for unit in log.units(dataset, field, owners):
            units[unit.owner] += unit.vector is not None and len(unit.vector) == dimension
            names[unit.owner] = unit.name
        last = owners[-1] if len(owners) == _OWNERS_AT_ONCE else None
        where = Filter(
            must=[
                *of_datasets(field, [dataset]),
                FieldCondition(key=OWNER, range=Range(gt=after, lte=last)),
                *without_cut({dataset: trusted.position.cut}),
            ]
        )
        held = collections.counts(trusted.place.collection, OWNER, where)
        for owner in sorted(units.keys() | held.keys()):
            if difference := held.get(owner, 0) - units[owner]:
                yield owner, names.get(owner, ""), difference
        if last is None:
            return
        after = last


class QdrantStore(QdrantDiagnostics, SqlStore):
    """A primary store in SQLite or PostgreSQL with a projection in Qdrant for vector searches.

    Everything is read from and written to the primary store, which also answers keyword searches; a
    vector search first updates the projection.
    Thread-safe and fork-safe; several processes may have it open if the primary store allows it.
    Use it as a context manager, or close it.

    Args:
        truth: the primary store; it is closed with this one.
        collections: Qdrant; it is closed with this one.
        prefix: the prefix of the collections' names, unique for each store.
        exact: whether to compare vectors exhaustively instead of using Qdrant's index.
        falls_back: whether to search in the primary store, with a warning, while Qdrant is
            unavailable; otherwise searches raise `StoreError`.
    """

    def __init__(
        self,
        truth: TruthStore,
        collections: Collections,
        *,
        prefix: str = "triptych",
        exact: bool = False,
        falls_back: bool = False,
    ) -> None:
        self.truth = truth
        self.database = truth.database
        self.collections = collections
        self.projection = Projection(Truth(truth.database), collections, prefix)
        self.searcher = QdrantSearcher(
            self.projection,
            SqlFilters(truth.database),
            truth.searcher,
            exact=exact,
            falls_back=falls_back,
        )
        kept = truth.capabilities.diagnostics
        assert kept is not None
        self.kept = kept
        self.falls_back = falls_back
        self.documents = truth.documents.searched_by(self.searcher)
        self.chunks = truth.chunks.searched_by(self.searcher)
        self.layers = truth.layers.searched_by(self.searcher)

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: all of them."""
        return attrs.evolve(
            super().capabilities,
            # All who open the truth, by whatever URL, share its own.
            diagnostics=self,
        )

    def get_setting(self, key: str) -> str | None:
        """See `SettingsStore.get_setting`. Reads the primary store."""
        return self.truth.get_setting(key)

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`. Reads the primary store."""
        return self.truth.list_settings(prefix)

    @property
    def results_path(self) -> Path | None:
        """The file of the semantic cache, which is that of the primary store."""
        return self.truth.results_path

    def scrub(self) -> ScrubReport | None:
        """See `SqlStore.scrub`: rewrite the primary store and delete the collections.

        Raises:
            AwayError: Qdrant does not respond. The primary store was rewritten; Qdrant may still
                contain deleted data until you scrub again.
        """
        return super().scrub()

    def close(self) -> None:
        """Close the primary store and every connection to Qdrant. Idempotent."""
        try:
            self.truth.close()
        finally:
            self.collections.close()
