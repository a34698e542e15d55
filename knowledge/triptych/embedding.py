"""The one gate through which texts become vectors: what comes back is checked here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from triptych.contracts import CoverageEmbedder, Embedder, EmbedKind
from triptych.errors import ProviderError
from triptych.records import Vector

__all__ = ["CoverageGate", "embed", "embed_query"]

_UNIT_TOLERANCE = 1e-3  # float16 and int8 models are off by less; more is worth mending


def embed(embedder: Embedder, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
    """Embed and check: float32, one finite row of unit length and right width a text.

    Rows that are not of unit length are scaled to it.

    Raises:
        ProviderError: the embedder returned something else; the message says what, and for
            which text.
    """
    raw = np.asarray(embedder.embed(texts, kind=kind))
    who = f"the embedder {embedder.signature!r}"
    width = embedder.dimension
    if raw.ndim != 2 or raw.shape[0] != len(texts) or (width and raw.shape[1] != width):
        raise ProviderError(
            f"{who} returned an array of shape {raw.shape} for {len(texts)} texts; "
            f"({len(texts)}, {width or 'dimension'}) was expected: its model and its declared "
            "dimension do not belong together"
        )
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


class CoverageGate:
    """Whether an embedder's vocabulary covers enough of a text to embed it.

    What the embedder can say is found once: asking a Protocol costs more than a short text.
    """

    def __init__(self, embedder: object) -> None:
        self._covering = embedder if isinstance(embedder, CoverageEmbedder) else None

    def admits(self, text: str) -> bool:
        """True for an embedder that does not judge texts."""
        covering = self._covering
        return covering is None or covering.coverage(text) >= covering.coverage_floor

    def objection(self, text: str) -> str | None:
        """Why a query must not be embedded, None when it may be."""
        covering = self._covering
        if covering is None or (share := covering.coverage(text)) >= covering.coverage_floor:
            return None
        return (
            f"the embedder's vocabulary covers {share:.0%} of the query, below its floor of "
            f"{covering.coverage_floor:.0%}: its vectors would mislead (use a multilingual "
            "embedder, or mode='bm25')"
        )
