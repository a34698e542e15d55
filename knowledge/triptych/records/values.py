"""What records are made of: enumerations, constants, types."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ValidationError

Vector = NDArray[np.float32]
"""A float32 array of shape (dimension,)."""

StaleReason = Literal["source", "chunker", "prompt", "embedder", "input", "vector"]
"""What has changed since a derived thing was made. "embedder" is another model's vectors; "vector"
means that nothing has changed, and that vectors are still to come."""

EmbedKind = Literal["document", "query"]
"""What a text is to an embedder: a passage that is stored, or a question."""

EmbedWhen = Literal["now", "later"]
"""When the vectors of what is put are made: in the call, or by `Service.embed_pending`."""

Answerability = Literal["enough", "weak", "nothing"]
"""Whether what a search found answers the question."""

NO_CHUNK = -1
"""`Hit.chunk_index` of a hit that is a layer or a whole document."""

OPENING = 512
"""How many code points of a whole document a hit on it shows, at most."""

MAX_NAME_BYTES = 1024
SNIPPET_LENGTH = 240


class Layer(StrEnum):
    """How much of a document a text tells."""

    ABSTRACT = "L0"
    OVERVIEW = "L1"
    DETAIL = "L2"


class Mode(StrEnum):
    """Which lanes a search runs."""

    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"


class Scope(StrEnum):
    """Whether a search asks one dataset or every one."""

    SINGLE = "single"
    ALL = "all"


class EventKind(StrEnum):
    """What happened to a document, or to a whole dataset (`BULK`)."""

    PUT = "put"
    DELETE = "delete"
    BULK = "bulk"


_E = TypeVar("_E", bound=StrEnum)


def _member(kind: type[_E], value: object) -> _E:
    try:
        return kind(str(value))
    except ValueError:
        choices = ", ".join(repr(str(member)) for member in kind)
        raise ValidationError(
            f"{value!r} is not a {kind.__name__.lower()}: choose one of {choices}"
        ) from None


def to_layer(value: object) -> Layer:
    """A `Layer`, or its plain string, as a `Layer`."""
    return _member(Layer, value)


def to_mode(value: object) -> Mode:
    """A `Mode`, or its plain string, as a `Mode`."""
    return _member(Mode, value)


def to_scope(value: object) -> Scope:
    """A `Scope`, or its plain string, as a `Scope`."""
    return _member(Scope, value)


def to_event_kind(value: object) -> EventKind:
    """An `EventKind`, or its plain string, as an `EventKind`."""
    return _member(EventKind, value)


def is_valid_layer(value: object) -> bool:
    """Whether ``value`` is a `Layer` or the plain string of one."""
    return isinstance(value, str) and value in set(Layer)


def is_valid_mode(value: object) -> bool:
    """Whether ``value`` is a `Mode` or the plain string of one."""
    return isinstance(value, str) and value in set(Mode)
