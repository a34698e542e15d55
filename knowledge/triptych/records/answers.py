"""Answers of searches that a store keeps, and what they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import attrs

from triptych.records.checks import vector_comparison
from triptych.records.values import Vector


@attrs.frozen(kw_only=True, slots=True)
class CachedQuestion:
    """A question whose answer is kept: the answer's key, and the question's unit vector."""

    key: int
    vector: Vector = attrs.field(eq=vector_comparison, repr=False)


@attrs.frozen(kw_only=True, slots=True)
class CachedAnswer:
    """An answer as a store keeps it.

    Attributes:
        request: the digest of all that decides the answer but the question's wording and what
            the datasets hold: options, filters, configuration.
        vector: the question's unit vector.
        revisions: the revision of each dataset that was searched, by its id.
        created_at: when the search began.
        body: the answer itself, in a form that the store does not read.
    """

    request: str
    vector: Vector = attrs.field(eq=vector_comparison, repr=False)
    revisions: Mapping[str, str]
    created_at: datetime
    body: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True, slots=True)
class CacheStats:
    """How many answers are kept, and how many searches found one or found none."""

    entries: int = 0
    hits: int = 0
    misses: int = 0
