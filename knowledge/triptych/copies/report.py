"""What a copy did, and what it found at its end."""

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
    sparse_vectors: int = 0
    layers: int = 0


def count(state: NameState) -> Counts:
    """What one name adds."""
    return Counts(
        documents=bool(state.versions),
        versions=len(state.versions),
        chunks=len(state.chunks),
        vectors=sum(unit.vector is not None for unit in state.units),
        sparse_vectors=len(state.sparse),
        layers=len(state.layers),
    )


@attrs.frozen(kw_only=True, slots=True)
class DatasetCopy:
    """What became of one dataset.

    Attributes:
        dataset_id: the dataset.
        counts: what it has now, in the source and in the destination alike.
        digest: the SHA-256 of all of it, which both have.
        written: how many names were taken over.
        unchanged: how many were there already.
        removed: how many were removed, for the source does not have them.
    """

    dataset_id: str
    counts: Counts = Counts()
    digest: str = ""
    written: int = 0
    unchanged: int = 0
    removed: int = 0


@attrs.frozen(kw_only=True, slots=True)
class CopyReport:
    """What a copy did. When it is returned, each dataset was read again and is as in the source.

    Attributes:
        datasets: what became of each.
        settings: how many settings were taken over.
        settings_removed: how many were removed, for the source does not have them.
        settings_different: the keys of those that are other in the destination, and stayed as they
            are there.
        erased: whether the destination was made to forget what it has deleted, since the source
            was purged.
    """

    datasets: tuple[DatasetCopy, ...] = ()
    settings: int = 0
    settings_removed: int = 0
    settings_different: tuple[str, ...] = ()
    erased: bool = False

    @property
    def counts(self) -> Counts:
        """What all datasets have together."""
        return total(each.counts for each in self.datasets)


def total(counts: Iterable[Counts]) -> Counts:
    """All of them together."""
    return sum(counts, start=Counts())
