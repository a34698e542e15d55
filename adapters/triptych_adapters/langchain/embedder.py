"""LangChain's `Embeddings` as an `Embedder`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from triptych.records import EmbedKind


class LangChainEmbedder:
    """Embeds with LangChain's ``embeddings``, whose vectors are made of unit length.

    ``signature`` names the model and its revision: vectors of two signatures are never compared. By
    default it is the class, with its ``model`` or ``model_name`` if it has one.
    """

    def __init__(self, embeddings: Embeddings, *, signature: str | None = None) -> None:
        self.embeddings = embeddings
        model = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", "")
        self._signature = signature or f"langchain/{type(embeddings).__name__}/{model}"

    @property
    def signature(self) -> str:
        """See `Embedder.signature`."""
        return self._signature

    @property
    def dimension(self) -> int | None:
        """See `Embedder.dimension`: known after the first text."""
        return None

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        if kind == "query":
            rows = [self.embeddings.embed_query(text) for text in texts]
        else:
            rows = self.embeddings.embed_documents(list(texts))
        if not rows:
            return np.empty((0, 0), np.float32)
        vectors = np.asarray(rows, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, lengths, out=vectors, where=lengths > 0)
