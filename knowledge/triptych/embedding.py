"""The one gate through which texts become vectors: what comes back is checked here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from triptych.contracts import CoverageEmbedder, Embedder, EmbedKind
from triptych.errors import ProviderError
from triptych.records import Vector

__all__ = ["covered", "embed", "embed_query"]

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


def covered(embedder: Embedder, text: str) -> bool:
    """Whether the embedder's vocabulary covers enough of ``text`` to embed it."""
    if not isinstance(embedder, CoverageEmbedder):
        return True
    return embedder.coverage(text) >= embedder.coverage_floor
