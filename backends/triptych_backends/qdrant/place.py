"""Where the points of a dataset are: the names of the collections of a store."""

from __future__ import annotations

import hashlib
import re

from attrs import frozen

from triptych_backends.qdrant.truth import Layout

_REST = re.compile(r"text|[0-9a-f]{12}-\d+")


@frozen(kw_only=True)
class Place:
    """Where a dataset's points are, and how they were made.

    ``has_empty`` is False if no unit is without tokens. ``made`` says which points they are: those
    that are made from the beginning have another. Points of the states ``cut`` do not count: see
    `Position`.
    """

    collection: str
    layout: Layout
    has_empty: bool = False
    made: str = ""
    cut: tuple[int, ...] = ()


def place_of(prefix: str, layout: Layout) -> Place:
    """The collection of the layout's embedding space, or the one for points of text alone."""
    if not layout.dimension:
        return Place(collection=f"{prefix}-text", layout=layout)
    space = hashlib.sha256(layout.space.encode()).hexdigest()[:12]
    return Place(collection=f"{prefix}-{space}-{layout.dimension}", layout=layout)


def is_of_store(prefix: str, name: str) -> bool:
    """Whether a collection is of the store with this prefix, not of one whose prefix is longer."""
    rest = name.removeprefix(f"{prefix}-")
    return rest != name and _REST.fullmatch(rest) is not None
