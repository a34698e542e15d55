"""Rerankers over HTTP: what all do, and Cohere, Jina, text-embeddings-inference, llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from triptych_models import checked_question
from triptych_providers.arguments import checked_base_url, checked_model
from triptych_providers.background_loop import run
from triptych_providers.connection import Connection
from triptych_providers.errors import ProviderErrorRules
from triptych_providers.http import HttpClient, hosted
from triptych_providers.remote_model import BatchedModel, BatchLimits
from triptych_providers.response_parsing import at, scores_in

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
        return f"{self._PROVIDER}/{self._model}" if self._model else self._PROVIDER

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
            TriptychError: as `scores` does. Cancelling the task lets go of the connection.
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
            answer = await self._posted(self._payload(query, some), of=self._ANSWER)
            with self._usable():
                return self._read(answer, len(some))

        none = np.empty(0, dtype=np.float32)
        return np.concatenate([none, *await self._in_batches(texts, ask, "scores")])


class HostedReranker(RemoteReranker):
    """A reranker of a provider whose accounts have keys; a class of its own says which.

    Args:
        model: its name at the provider.
        api_key: the account's key.
        base_url: where the provider is; None is its own address.
        batch: the most that one request holds; None is what the provider takes.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    _NAME: ClassVar[str]
    _KEY: ClassVar[str]
    """The variable that users keep the key in."""
    _URL: ClassVar[str]
    _PATH = "/rerank"

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str | None = None,
        batch: BatchLimits | None = None,
        connection: Connection | None = None,
    ) -> None:
        url = self._URL if base_url is None else base_url
        client = hosted(self._NAME, self._KEY, model, url, api_key, connection)
        super().__init__(model, client, batch)


class CohereReranker(HostedReranker):
    """Relevance of texts to a query by ``POST /v2/rerank`` of Cohere, 0 to 1.

    A model is such as "rerank-v3.5". Cohere cuts texts that are too long. ``base_url`` is without
    the version; the arguments are those of `HostedReranker`.
    """

    _PROVIDER, _NAME, _KEY = "cohere", "Cohere", "CO_API_KEY"
    _URL, _PATH = COHERE_URL, "/v2/rerank"
    _MOST = BatchLimits(texts=1000, tokens=1_000_000)


class JinaReranker(HostedReranker):
    """Relevance of texts to a query by ``POST /rerank`` of Jina AI.

    A model is such as "jina-reranker-v2-base-multilingual". ``base_url`` has the version at its
    end; the arguments are those of `HostedReranker`.
    """

    _PROVIDER, _NAME, _KEY, _URL = "jina", "Jina", "JINA_API_KEY", JINA_URL
    _MOST = BatchLimits(texts=500, tokens=500_000)
    _ALSO: ClassVar[Mapping[str, Any]] = {"return_documents": False}
    _SPARE: ClassVar[Mapping[str, str]] = {"return_documents": ""}


class ServedReranker(RemoteReranker):
    """A reranker on a server of one's own; a class of its own says which software.

    Args:
        base_url: where the server is.
        model: the name of its model, for a server that has several and for the signature; "" for
            none.
        api_key: the key that the server was started with, if any.
        batch: the most that one request holds; None is what the server takes.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid.
    """

    _NAME: ClassVar[str]
    _KEY: ClassVar[str]
    _START: ClassVar[str]
    """How the server is started with a reranker."""
    _VERSION: ClassVar[str] = ""
    """What the address may end in, and is left out."""

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
        client = HttpClient(
            base_url=checked_base_url(base_url).removesuffix(self._VERSION),
            api_key=api_key,
            rules=ProviderErrorRules(
                name=self._NAME,
                model=name or "of the server",
                key_advice=f"set {self._KEY}, or give api_key",
                start_advice=f"start {self._START}, and check base_url",
            ),
            connection=connection,
        )
        super().__init__(name, client, batch)


class TEIReranker(ServedReranker):
    """Relevance of texts to a query by ``POST /rerank`` of text-embeddings-inference, 0 to 1.

    The server has one model, and cuts texts that are too long for it. The arguments are those of
    `ServedReranker`.
    """

    _PROVIDER, _NAME, _KEY = "tei", "text-embeddings-inference", "TEI_API_KEY"
    _START = "the server with a reranker"
    _PATH, _MOST = "/rerank", BatchLimits(texts=32, tokens=1_000_000)
    _ANSWER = list

    def _payload(self, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        return {"query": query, "texts": texts, "truncate": True}

    def _read(self, answer: Any, count: int) -> NDArray[np.float32]:
        return scores_in(answer, count, key="score")


class LlamaCppReranker(ServedReranker):
    """Relevance of texts to a query by ``POST /v1/rerank`` of llama.cpp's server.

    Start the server with ``--reranking`` and a model that is a reranker. Scores are those of the
    model, of any size. ``base_url`` is with or without ``/v1``; the arguments are those of
    `ServedReranker`.
    """

    _PROVIDER, _NAME, _KEY = "llamacpp", "llama.cpp", "LLAMA_API_KEY"
    _START = "it with llama-server --reranking"
    _PATH, _VERSION, _MOST = "/v1/rerank", "/v1", BatchLimits(texts=64, tokens=100_000)
