"""Whether Qdrant answers, and whether it holds what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

from qdrant_client.models import FieldCondition, Filter, Range

from triptych import deadlines
from triptych.contracts import Diagnostics
from triptych.diagnostics import Check, FindingCollector
from triptych.records import Finding, HealthCheck
from triptych_backends.index import Field
from triptych_backends.index.change_log import FIELDS
from triptych_backends.qdrant.points import OWNER, AwayError, of_datasets, without_cut
from triptych_backends.qdrant.projection import Projection, Trusted

_REPAIR: Final = "the dataset's points are made again from the documents"
_MISSING: Final = Check(
    "qdrant.missing", "Qdrant lacks what is stored", "searches do not find it", repair=_REPAIR
)
_SURPLUS: Final = Check(
    "qdrant.surplus",
    "Qdrant holds what is not stored",
    "scores are counted over what is gone",
    repair=_REPAIR,
)
_UNREADABLE: Final = Check(
    "qdrant.unreadable",
    "what Qdrant holds cannot be read",
    "searches fail, or are answered without Qdrant",
    remedy="start Qdrant, or check its address and key, and run the doctor again",
)
_OWNERS_AT_ONCE = 1_000
_TRIES = 3


class QdrantDiagnostics:
    """`Diagnostics` of a store whose searches run in Qdrant, for the store to inherit.

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
            is_ranked = collections.ranks_words()
        except AwayError as error:
            status: Literal["warning", "failed"] = "warning" if self.falls_back else "failed"
            found = HealthCheck(name="qdrant", status=status, detail=str(error), error=error)
        else:
            words = (
                "" if is_ranked else "; it does not rank words, which the store does in its place"
            )
            detail = f"Qdrant at {collections.where} answers{words}"
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
        """See `Diagnostics.repair`."""
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
            for owner, name, there in _differences(projection, dataset, field, trusted)
        ]
        again = projection.trusted(dataset)
        if again is not None and again.position == trusted.position:
            break
    else:
        return  # another process writes all the time: it compares them by itself
    changes = projection.truth.log.changes(dataset, trusted.position.at.seq)
    if any(change.concerns_all for change in changes):
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
    """The owners that have more or fewer points than units, their names, and how many more."""
    log, collections = projection.truth.log, projection.collections
    after = -1
    while True:
        deadlines.check("the examination")
        owners = log.owners(dataset, field, after, _OWNERS_AT_ONCE)
        units: Counter[int] = Counter()
        names: dict[int, str] = {}
        for unit in log.units(dataset, field, owners):
            units[unit.owner] += 1
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
