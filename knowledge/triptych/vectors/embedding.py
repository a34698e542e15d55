"""The one gate through which texts become vectors: what comes back is checked here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from triptych import telemetry
from triptych.contracts import Embedder
from triptych.errors import ProviderError, TriptychError, ValidationError
from triptych.records import EmbedKind, Vector, check_text

_CANCELLED = 1e-6  # a mean shorter than this has no direction but that of rounding
_UNIT_TOLERANCE = 1e-3  # float16 and int8 models are off by less; more is worth repairing


def check_embedder(embedder: object) -> None:
    """Refuse what cannot embed, while nothing has been read or written.

    Raises:
        ValidationError: it is a class, or lacks ``embed``, a signature or a dimension that
            can be meant.
    """
    kind = type(embedder).__name__
    if isinstance(embedder, type):
        raise ValidationError(
            f"the embedder is the class {embedder.__name__}: give an object of it, "
            f"{embedder.__name__}(…)"
        )
    if not callable(getattr(embedder, "embed", None)):
        raise ValidationError(
            f"a {kind} is not an embedder: give a name such as 'local', None, or an object with "
            "signature, dimension and embed(texts, *, kind)"
        )
    signature = check_text(getattr(embedder, "signature", None), f"the signature of the {kind}")
    if not signature.strip():
        raise ValidationError(
            f"the signature of the {kind} is empty: it names the space of its vectors, so give "
            "the model, its revision and its dimension"
        )
    width = getattr(embedder, "dimension", None)
    if width is not None and (isinstance(width, bool) or not isinstance(width, int) or width < 1):
        raise ValidationError(
            f"the dimension of the embedder {signature!r} is {width!r}: give the length of its "
            "vectors, or None when it is not known before the first"
        )


def embed(embedder: Embedder, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
    """Embed and check: float32, one finite row of unit length and right width a text.

    Rows that are not of unit length are scaled to it.

    Raises:
        ProviderError: the embedder raised, which is the ``__cause__``, or returned something
            else; the message says what, and for which text. Errors of Triptych's own pass.
    """
    signature = embedder.signature
    with telemetry.operation("embed", model=signature, kind=kind, texts=len(texts)):
        return _embedded(embedder, texts, kind=kind, who=f"the embedder {signature!r}")


def _embedded(
    embedder: Embedder, texts: Sequence[str], *, kind: EmbedKind, who: str
) -> NDArray[np.float32]:
    try:
        raw = np.asarray(embedder.embed(texts, kind=kind))
    except TriptychError:
        raise
    except Exception as error:
        raise ProviderError(
            f"{who} failed on {len(texts)} texts, of which the first begins "
            f"{texts[0][:60]!r} ({type(error).__name__}: {error}): fix it and call again"
        ) from error
    width = embedder.dimension
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
    for kind in dict.fromkeys(kind for kind, _ in texts):
        several = list(dict.fromkeys(text for of, text in texts if of == kind))
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
            f"{self._floor:.0%}: its vectors would mislead (use a multilingual "
            "embedder, or mode='bm25')"
        )
