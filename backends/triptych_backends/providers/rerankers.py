"""Rerankers over HTTP: what all do, and Cohere, Jina, text-embeddings-inference, llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from triptych_backends.embedders.shared import checked_question
from triptych_backends.providers.arguments import checked_model
from triptych_backends.providers.background_loop import run
from triptych_backends.providers.connection import Connection
from triptych_backends.providers.errors import ProviderErrorRules
from triptych_backends.providers.http import HttpClient, hosted
from triptych_backends.providers.remote_model import BatchedModel, BatchLimits
from triptych_backends.providers.response_parsing import at, scores_in

COHERE_URL = "https://api.cohere.com"
JINA_URL = "https://api.jina.ai/v1"
LLAMA_CPP_URL = TEI_URL = "http://localhost:8080"


class RemoteReranker(BatchedModel):
    """A `Reranker` over HTTP; a provider adds its wire format. Thread-safe.

    A text longer than the model takes, which the provider refuses, is cut until it takes it: it is
    counted in `inputs_cut`, and each call that cut anything logs one warning to
    ``triptych.providers``. Most providers cut such texts themselves, without a word.
    """

    _CHECK = "the model is a reranker"
    _ANSWER: ClassVar[type[Any]] = dict
    _ALSO: ClassVar[Mapping[str, Any]] = {}
    """Further fields of a request."""
    _RESULTS: ClassVar[str] = "results"
    """The field of an answer that holds the scores."""

    @property
    def signature(self) -> str:
        """Provider and model; not the address."""
        return f"{self._provider}/{self._model}" if self._model else self._provider

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """The relevance of each text, shape (len(texts),), in the order of ``texts``.

        The greater, the more relevant. A blank text is sent as ".".

        Raises:
            ValidationError: the query is blank, or a text is not a string.
            RateLimitedError: the provider refused for now, also after the retries.
            ProviderTimeoutError: it did not answer in time.
            ProviderError: it refused, broke off, or gave an invalid answer: a score that is
                missing, doubled or not finite.
            CancelledError: the deadline around the call passed; the rest is not sent.
        """
        return run(self._scored(*checked_question(query, texts)))

    async def ascores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """`scores` for an event loop, which goes on meanwhile.

        Raises:
            The errors of `scores`. Cancelling the task lets go of the connection.
        """
        return await self._scored(*checked_question(query, texts))

    def _payload(self, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        """The request for one batch."""
        named = {"model": self._model} if self._model else {}
        return {**named, "query": query, "documents": texts, **self._ALSO}

    def _read(self, answer: Any, count: int) -> NDArray[np.float32]:
        """The scores in its answer; raises `MalformedAnswerError` when there are none."""
        return scores_in(at(answer, self._RESULTS, of=list), count)

    async def _scored(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        async def ask(some: Sequence[str]) -> NDArray[np.float32]:
            payload = self._payload(query, some)
            answer = await self._client.post(self._path, payload, of=self._ANSWER)
            with self._usable():
                return self._read(answer, len(some))

        none = np.empty(0, dtype=np.float32)
        return np.concatenate([none, *await self._in_batches(texts, ask, "scores")])


class CohereReranker(RemoteReranker):
    """Relevance of texts to a query by ``POST /v2/rerank`` of Cohere, 0 to 1.

    Cohere cuts texts that are too long.

    Args:
        model: such as "rerank-v3.5".
        api_key: the account's key.
        base_url: without the version.
        batch: the most that one request holds.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str = COHERE_URL,
        batch: BatchLimits | None = None,
        connection: Connection | None = None,
    ) -> None:
        super().__init__(
            provider="cohere",
            model=checked_model(model),
            path="/v2/rerank",
            batch=batch or BatchLimits(texts=1000, tokens=1_000_000),
            client=hosted("Cohere", "CO_API_KEY", model, base_url, api_key, connection),
        )


class JinaReranker(RemoteReranker):
    """Relevance of texts to a query by ``POST /rerank`` of Jina AI.

    Args:
        model: such as "jina-reranker-v2-base-multilingual".
        api_key: the account's key.
        base_url: with the version at its end.
        batch: the most that one request holds.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    _ALSO: ClassVar[Mapping[str, Any]] = {"return_documents": False}

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str = JINA_URL,
        batch: BatchLimits | None = None,
        connection: Connection | None = None,
    ) -> None:
        super().__init__(
            provider="jina",
            model=checked_model(model),
            path="/rerank",
            batch=batch or BatchLimits(texts=500, tokens=500_000),
            client=hosted("Jina", "JINA_API_KEY", model, base_url, api_key, connection),
        )


class TEIReranker(RemoteReranker):
    """Relevance of texts to a query by ``POST /rerank`` of text-embeddings-inference, 0 to 1.

    The server has one model, and cuts texts that are too long for it.

    Args:
        base_url: where the server is.
        model: the name of its model, for the signature; "" for none.
        api_key: the key that the server was started with, if any.
        batch: the most that one request holds; the default of the server is 32.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid.
    """

    _ANSWER = list

    def __init__(
        self,
        base_url: str = TEI_URL,
        *,
        model: str = "",
        api_key: str | None = None,
        batch: BatchLimits | None = None,
        connection: Connection | None = None,
    ) -> None:
        name = checked_model(model) if model else ""
        super().__init__(
            provider="tei",
            model=name,
            path="/rerank",
            batch=batch or BatchLimits(texts=32, tokens=1_000_000),
            client=HttpClient(
                base_url=base_url,
                api_key=api_key,
                rules=ProviderErrorRules(
                    name="text-embeddings-inference",
                    model=name or "of the server",
                    key_advice="set TEI_API_KEY, or give api_key",
                    start_advice="start the server with a reranker, and check base_url",
                ),
                connection=connection,
            ),
        )

    def _payload(self, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        return {"query": query, "texts": texts, "truncate": True}

    def _read(self, answer: Any, count: int) -> NDArray[np.float32]:
        return scores_in(answer, count, key="score")


class LlamaCppReranker(RemoteReranker):
    """Relevance of texts to a query by ``POST /v1/rerank`` of llama.cpp's server.

    Start the server with ``--reranking`` and a model that is a reranker. Scores are those of the
    model, of any size.

    Args:
        base_url: where the server is, with or without ``/v1``.
        model: the name of its model, for a server that has several and for the signature; "" for
            none.
        api_key: the key that the server was started with, if any.
        batch: the most that one request holds.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid.
    """

    def __init__(
        self,
        base_url: str = LLAMA_CPP_URL,
        *,
        model: str = "",
        api_key: str | None = None,
        batch: BatchLimits | None = None,
        connection: Connection | None = None,
    ) -> None:
        name = checked_model(model) if model else ""
        super().__init__(
            provider="llamacpp",
            model=name,
            path="/v1/rerank",
            batch=batch or BatchLimits(texts=64, tokens=100_000),
            client=HttpClient(
                base_url=base_url.rstrip("/").removesuffix("/v1"),
                api_key=api_key,
                rules=ProviderErrorRules(
                    name="llama.cpp",
                    model=name or "of the server",
                    key_advice="set LLAMA_API_KEY, or give api_key",
                    start_advice="start it with llama-server --reranking, and check base_url",
                ),
                connection=connection,
            ),
        )
