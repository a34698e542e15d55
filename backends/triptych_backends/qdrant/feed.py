"""The points of a dataset's units, written to Qdrant in requests of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from qdrant_client.models import FieldCondition, Filter, MatchAny, Range

from triptych.text import get_analyzer
from triptych_backends.index import Change, Field, Unit
from triptych_backends.qdrant.place import Place
from triptych_backends.qdrant.points import (
    DATASET,
    EMPTY,
    HEADINGS,
    LENGTH,
    OWNER,
    STATE,
    TOKENS,
    UNIT,
    Collections,
    Point,
    of_datasets,
    point_id,
)
from triptych_backends.qdrant.truth import Layout, Truth

OWNERS_AT_ONCE = 64
"""Documents and layers whose points are written before the position moves on."""

POINTS_AT_ONCE = 256
"""The most points in one request."""

BYTES_AT_ONCE = 4_000_000
"""About how large a request may become; Qdrant refuses those above 32 MB. One point is never
divided, however long its text is."""

_BYTES_OF_A_NUMBER = 20
"""A vector's number in JSON."""

_BYTES_OF_A_POINT = 400
"""Its id, and the names of its fields."""


def batches(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """The changes in parts, after each of which the position moves on."""
    return (changes[at : at + OWNERS_AT_ONCE] for at in range(0, len(changes), OWNERS_AT_ONCE))


def up_to(state: int) -> Filter:
    """The points of a state or of older ones."""
    return Filter(must=[FieldCondition(key=STATE, range=Range(lte=state))])


def write_changed(
    collections: Collections,
    truth: Truth,
    place: Place,
    dataset: str,
    changes: Sequence[Change],
    state: int,
) -> bool:
    """Write the current points of what changed, and remove those that they replace.

    Says whether a unit without tokens is among them.

    ``state`` is the number of this part; a point of a newer one stays.
    """
    older = up_to(state)
    has_empty = False
    fields: dict[Field, list[int]] = {}
    for change in changes:
        assert change.field is not None
        assert change.field != "vectors"
        fields.setdefault(change.field, []).append(change.owner)
    for field, owners in fields.items():
        units = truth.log.units(dataset, field, owners)
        for some in _requests(dataset, field, units, place.layout, state):
            collections.put(place.collection, some, over=older)
            has_empty = has_empty or any(point.payload[LENGTH] == 0 for point in some)
        replaced = [
            *of_datasets(field, [dataset]),
            FieldCondition(key=OWNER, match=MatchAny(any=owners)),
            FieldCondition(key=STATE, range=Range(lt=state)),
        ]
        collections.delete(place.collection, Filter(must=replaced))
    return has_empty


def _requests(
    dataset: str, field: Field, units: Iterator[Unit], layout: Layout, state: int
) -> Iterator[Sequence[Point]]:
    analyzer = get_analyzer(layout.language)
    waiting: list[Point] = []
    size = 0
    for unit in units:
        point = _point(dataset, field, unit, layout, state, analyzer)
        more = _BYTES_OF_A_POINT + len(point.payload[TOKENS].encode())
        if point.vector is not None:
            more += _BYTES_OF_A_NUMBER * len(point.vector)
        if waiting and (len(waiting) >= POINTS_AT_ONCE or size + more > BYTES_AT_ONCE):
            yield waiting
            waiting, size = [], 0
        waiting.append(point)
        size += more
    if waiting:
        yield waiting


def _point(
    dataset: str, field: Field, unit: Unit, layout: Layout, state: int, analyzer: Any
) -> Point:
    tokens = analyzer.analyze(unit.text)
    payload: dict[str, Any] = {
        DATASET: dataset,
        UNIT: field,
        OWNER: unit.owner,
        STATE: state,
        "key": unit.key,
        "name": unit.name,
        "index": unit.index,
        TOKENS: " ".join(tokens) or EMPTY,
        LENGTH: len(tokens),
    }
    if unit.headings:
        payload[HEADINGS] = sorted({heading.casefold() for heading in unit.headings})
    vector = unit.vector
    if vector is not None and len(vector) != layout.dimension:
        vector = None  # of a space that has just been left: the change that says so follows
    return Point(
        id=point_id(dataset, field, unit.owner, unit.index), payload=payload, vector=vector
    )
