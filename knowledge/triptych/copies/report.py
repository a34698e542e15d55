"""Reports of copies."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from triptych.records import NameState
from triptych.records.reports import Summed


@attrs.frozen(kw_only=True, slots=True)
class Counts(Summed):
    """How much there is: of ``versions`` the current ones are ``documents``."""

    documents: int = 0
    versions: int = 0
    chunks: int = 0
    vectors: int = 0
    further_vectors: int = 0
    layers: int = 0


def count(state: NameState) -> Counts:
    """What one name adds."""
    return Counts(
        documents=bool(state.versions),
        versions=len(state.versions),
        chunks=len(state.chunks),
        vectors=sum(unit.vector is not None for unit in state.units),
        further_vectors=sum(map(len, state.further.values())),
        layers=len(state.layers),
    )


@attrs.frozen(kw_only=True, slots=True)
class DatasetCopy:
    """The copy of one dataset.

    Attributes:
        dataset_id: the dataset.
        counts: its counts by kind, equal in source and destination.
        digest: the SHA-256 of its contents, equal in both.
        written: the number of names copied.
        unchanged: the number of names that were already equal.
        removed: the number of names deleted because the source does not have them.
    """

    dataset_id: str
    counts: Counts = Counts()
    digest: str = ""
    written: int = 0
    unchanged: int = 0
    removed: int = 0


@attrs.frozen(kw_only=True, slots=True)
class CopyReport:
    """The report of a copy, after each dataset was read again and compared with the source.

    Attributes:
        datasets: the copies of the datasets.
        settings: the number of settings copied.
        settings_removed: the number of settings deleted because the source does not have them.
        settings_different: the keys of settings that differ in the destination and were kept.
        erased: whether deleted data was erased from the destination's files, because the source was
            purged.
    """

    datasets: tuple[DatasetCopy, ...] = ()
    settings: int = 0
    settings_removed: int = 0
    settings_different: tuple[str, ...] = ()
    erased: bool = False

    @property
    def counts(self) -> Counts:
        """The total counts of all datasets."""
        return total(each.counts for each in self.datasets)


def total(counts: Iterable[Counts]) -> Counts:
    """All of them together."""
    return sum(counts, start=Counts())
