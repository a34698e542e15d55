"""The contracts of models: embedders, encoders, language models.

A model that holds connections or threads has ``close()``, idempotent, which releases them. A local
one may have ``verify_weights()``, which compares its files with the digests that they are pinned
to, and raises `NotAvailableError` with the name of one that is missing or another; and
``preload()``, which begins to load it and returns at once. They are looked for by name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from triptych.records import EmbedKind, Generation, Message, SparseVector


class Embedder(Protocol):
    """Turns texts into unit vectors of one embedding space.

    One that knows how much its vocabulary covers has ``coverage(text)``, that share of a text from
    0 to 1, and ``coverage_floor``: a text with less gets no vector, as a document or as a query.
    """

    @property
    def signature(self) -> str:
        """The embedding space: model, revision, dimension, prefix rules."""
        ...

    @property
    def dimension(self) -> int | None:
        """The vectors' width, None while unknown."""
        ...

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Float32 of shape (len(texts), dimension), rows of unit length, in order.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class AsyncEmbedder(Protocol):
    """Capability: an embedder with a call for an event loop, beside `embed` or in its place.

    `triptych.aio.AsyncService.open` takes one that has no ``embed``.
    """

    @property
    def signature(self) -> str:
        """See `Embedder.signature`."""
        ...

    @property
    def dimension(self) -> int | None:
        """See `Embedder.dimension`."""
        ...

    async def aembed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """`Embedder.embed`, awaited. Cancelling the task ends the call.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class SparseEncoder(Protocol):
    """Turns texts into weights of the terms of one vocabulary, such as SPLADE does."""

    @property
    def signature(self) -> str:
        """The model, its revision, and every rule that decides the weights."""
        ...

    @property
    def vocabulary_size(self) -> int | None:
        """How many terms there are: indices are below it. None while unknown."""
        ...

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Sequence[SparseVector]:
        """One vector for each text, in order.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class LLM(Protocol):
    """A language model that answers a conversation."""

    @property
    def signature(self) -> str:
        """The model and its revision: part of the signature of what it writes."""
        ...

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """The answer to ``messages``, at most ``max_tokens`` long, with what it cost.

        Raises:
            ProviderError: the model could not answer.
        """
        ...

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        """The same answer in pieces, which joined are its text.

        Raises:
            ProviderError: the model could not answer, or broke off.
        """
        ...


class AsyncLLM(Protocol):
    """Capability: a language model with calls for an event loop, beside those of `LLM` or in their
    place.

    `triptych.aio.AsyncService.open` takes one that has no ``generate``.
    """

    @property
    def signature(self) -> str:
        """See `LLM.signature`."""
        ...

    async def agenerate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """`LLM.generate`, awaited. Cancelling the task ends the call.

        Raises:
            ProviderError: the model could not answer.
        """
        ...

    def astream(self, messages: Sequence[Message], *, max_tokens: int) -> AsyncIterator[str]:
        """`LLM.stream` as an async iterator, to be closed where it is not read out.

        Raises:
            ProviderError: the model could not answer, or broke off.
        """
        ...
