"""The interface to Qdrant: collections and their points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID, uuid5

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from qdrant_client.models import Condition, FieldCondition, Filter, MatchAny, MatchValue

from triptych.errors import StoreError, StoreLockedError
from triptych_backends.index import Field

VECTOR = "dense"
"""The name of a point's vector."""

DATASET = "dataset"
UNIT = "unit"
OWNER = "owner"
HEADINGS = "headings"
STATE = "state"
"""The number of the part that the point was written in."""

POSITION = "position"
"""The unit of the one point of a dataset that says how far the change log was followed."""

_NAMESPACE = UUID("6f1f6f0e-7c0b-5a52-9d0e-1d3c1c9f2b47")


class AwayError(StoreError):
    """Qdrant did not answer, or answered with an error."""


class BusyError(AwayError, StoreLockedError):
    """Another thread or process writes to Qdrant, and has for too long."""


class MissingError(AwayError):
    """A collection is not there: another process removed it during the call."""


@frozen(kw_only=True)
class Point:
    """A point to store; ``vector`` is float32 of shape (dimension,), None for a position."""

    id: str
    payload: Mapping[str, Any]
    vector: NDArray[np.float32] | None = field(default=None, eq=False, repr=False)


@frozen
class Found:
    """A point that a search found: its payload, and its score."""

    payload: Mapping[str, Any]
    score: float


class Collections(Protocol):
    """Qdrant as the projection uses it: on a server, or an engine in this process.

    Thread-safe. What is written can be searched when a call returns. Every method raises
    `AwayError` where Qdrant does not answer, and `MissingError` where the collection is missing,
    unless it says otherwise.
    """

    @property
    def where(self) -> str:
        """What messages call it; it shows no key."""
        ...

    def names(self) -> Sequence[str]:
        """The names of all collections."""
        ...

    def make(self, name: str, dimension: int) -> None:
        """Make a collection and its payload indexes, if it is not there.

        Vectors have ``dimension`` numbers and cosine as their measure; 0 is for positions alone.
        """
        ...

    def drop(self, name: str) -> None:
        """Remove a collection, if it is there."""
        ...

    def put(self, name: str, points: Sequence[Point], *, over: Filter) -> None:
        """Store points; one whose id is there replaces it if that one passes ``over``."""
        ...

    def delete(self, name: str, where: Filter) -> None:
        """Remove the points that pass."""
        ...

    def read(self, name: str, point: str) -> Mapping[str, Any] | None:
        """The payload of one point; None where the point or the collection is missing."""
        ...

    def list_points(self, name: str, where: Filter) -> Sequence[Mapping[str, Any]]:
        """The payloads of all points that pass."""
        ...

    def nearest(
        self, name: str, vector: NDArray[np.float32], where: Filter, *, limit: int, exact: bool
    ) -> Sequence[Found]:
        """The points with the greatest cosine, best first; by an index unless ``exact``."""
        ...

    def counts(self, name: str, field: str, where: Filter) -> Mapping[int, int]:
        """How many of the points that pass have which whole number in a field of the payload."""
        ...

    def close(self) -> None:
        """Close its connections. Idempotent."""
        ...


def point_id(dataset: str, *identity: str | int) -> str:
    """The id of a point: a UUIDv5 of its dataset and its identity in it."""
    return str(uuid5(_NAMESPACE, "\0".join([dataset, *map(str, identity)])))


def of_states(dataset: str, states: Sequence[int]) -> list[Condition]:
    """Conditions for the points of some states of a dataset."""
    return [
        FieldCondition(key=DATASET, match=MatchValue(value=dataset)),
        FieldCondition(key=STATE, match=MatchAny(any=list(states))),
    ]


def without_cut(cut: Mapping[str, Sequence[int]]) -> list[Condition]:
    """Conditions that the points of some states of each dataset do not pass; see `Position.cut`."""
    of: list[Condition] = [
        Filter(must=of_states(name, states)) for name, states in cut.items() if states
    ]
    return [Filter(must_not=of)] if of else []


def of_datasets(unit: Field | None, datasets: Sequence[str]) -> list[Condition]:
    """Conditions for the points of one kind (None: of any) of some datasets."""
    mine: list[Condition] = [FieldCondition(key=DATASET, match=MatchAny(any=list(datasets)))]
    if unit is not None:
        mine.append(FieldCondition(key=UNIT, match=MatchValue(value=unit)))
    return mine
