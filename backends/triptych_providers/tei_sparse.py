"""Sparse vectors over HTTP: text-embeddings-inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from triptych.errors import ValidationError
from triptych.records import SparseVector
from triptych_models import checked_texts
from triptych_providers.arguments import checked_count
from triptych_providers.background_loop import run
from triptych_providers.connection import Connection
from triptych_providers.errors import ProviderErrorRules
from triptych_providers.http import HttpClient
from triptych_providers.remote_model import BatchedModel, BatchLimits
from triptych_providers.response_parsing import MalformedAnswerError, at

if TYPE_CHECKING:
    from triptych.records import EmbedKind

_LARGEST_TERM = 2**32 - 1


class TEISparseEncoder(BatchedModel):
    """A `SparseEncoder` by ``POST /embed_sparse`` of text-embeddings-inference. Thread-safe.

    The server runs a SPLADE model (``--pooling splade``). It cuts texts that are too long.

    Args:
        base_url: such as "http://localhost:8080".
        model: the name of the model in the signature, because responses do not name it. Use another
            name for another model.
        api_key: a key, if the server requires one.
        top_k: the maximum number of terms of a vector, the heaviest; None keeps all.
        batch: the limits of one request.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid.
    """

    _PROVIDER, _PATH = "tei-sparse", "/embed_sparse"
    _CHECK = "the server runs a SPLADE model"
    _MOST = BatchLimits(texts=32, tokens=16_384)
    vocabulary_size: int | None = None  # the server does not say

    def __init__(
        self,
        base_url: str,
        *,
        model: str = "",
        api_key: str | None = None,
        top_k: int | None = None,
        batch: BatchLimits | None = None,
        connection: Connection | None = None,
    ) -> None:
        if not isinstance(model, str) or (model and not model.isprintable()):
            raise ValidationError(f"the model is a name such as 'splade-v3', not {model!r:.60}")
        client = HttpClient(
            base_url=base_url,
            api_key=api_key,
            rules=ProviderErrorRules(
                name="text-embeddings-inference",
                model=model or "its model",
                key_advice="give api_key",
                model_advice="start the server with a SPLADE model and --pooling splade",
                start_advice="start the server, or check its address",
            ),
            connection=connection,
        )
        super().__init__(model, client, batch)
        self._base_url = base_url.rstrip("/")
        self._top_k = checked_count("top_k", top_k)

    def __repr__(self) -> str:
        return f"TEISparseEncoder({self._base_url!r})"

    @property
    def signature(self) -> str:
        """The server's address, or the model's name if given, and ``top_k``."""
        kept = "" if self._top_k is None else f"/top-{self._top_k}"
        return f"tei-sparse/{self._model or self._base_url}{kept}"

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> list[SparseVector]:
        """Return one vector for each text, in order.

        Raises:
            ValidationError: an argument is invalid for `SparseEncoder.encode`.
            RateLimitedError: the server's rate limit was reached, even after retries.
            ProviderTimeoutError: the server did not respond in time.
            ProviderError: the server refused, disconnected, or sent an invalid response.
            CancelledError: the deadline around the call passed.
        """
        return run(self._encoded(checked_texts(texts, kind)))

    async def _encoded(self, texts: Sequence[str]) -> list[SparseVector]:
        async def ask(some: Sequence[str]) -> list[SparseVector]:
            answer = await self._posted({"inputs": some, "truncate": True}, of=list)
            with self._usable():
                if len(answer) != len(some):
                    raise MalformedAnswerError(f"has {len(answer)} vectors for {len(some)} texts")
                return [self._vector(answer, place) for place in range(len(some))]

        return [each for batch in await self._in_batches(texts, ask, "vectors") for each in batch]

    def _vector(self, answer: list[Any], place: int) -> SparseVector:
        items = at(answer, place, of=list)
        terms = [at(item, "index", of=int) for item in items]
        weights = [at(item, "value", of=object) for item in items]
        if any(not 0 <= term <= _LARGEST_TERM for term in terms) or len(set(terms)) < len(terms):
            raise MalformedAnswerError(f"has terms out of range or twice, in vector {place}")
        if not all(type(weight) in (int, float) for weight in weights):
            raise MalformedAnswerError(f"has weights that are no numbers, in vector {place}")
        try:
            with np.errstate(all="ignore"):
                values = np.array(weights, dtype=np.float64).astype(np.float32)
            return SparseVector.of(np.array(terms, np.int64), values, most=self._top_k)
        except (ValidationError, OverflowError) as error:
            raise MalformedAnswerError(
                f"has weights that are not finite, in vector {place}"
            ) from error
