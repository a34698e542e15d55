"""Rerankers over HTTP: Cohere, Jina, text-embeddings-inference and llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych_backends.providers.arguments import checked_model
from triptych_backends.providers.batching import BatchLimits
from triptych_backends.providers.connection import Connection
from triptych_backends.providers.errors import ProviderErrorRules
from triptych_backends.providers.http import HttpClient
from triptych_backends.providers.reranking import RemoteReranker
from triptych_backends.providers.response_parsing import at, scores_in

COHERE_URL = "https://api.cohere.com"
JINA_URL = "https://api.jina.ai/v1"
LLAMA_CPP_URL = TEI_URL = "http://localhost:8080"


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
        name = checked_model(model)
        super().__init__(
            provider="cohere",
            model=name,
            path="/v2/rerank",
            batch=batch or BatchLimits(texts=1000, tokens=1_000_000),
            client=HttpClient(
                base_url=base_url,
                api_key=api_key,
                needs_key=True,
                rules=ProviderErrorRules(
                    name="Cohere", model=name, key_advice="set CO_API_KEY, or give api_key"
                ),
                connection=connection,
            ),
        )

    def _payload(self, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        return {"model": self._model, "query": query, "documents": texts}

    def _read(self, answer: Any, count: int) -> NDArray[np.float32]:
        return scores_in(at(answer, "results", of=list), count)


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

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str = JINA_URL,
        batch: BatchLimits | None = None,
        connection: Connection | None = None,
    ) -> None:
        name = checked_model(model)
        super().__init__(
            provider="jina",
            model=name,
            path="/rerank",
            batch=batch or BatchLimits(texts=500, tokens=500_000),
            client=HttpClient(
                base_url=base_url,
                api_key=api_key,
                needs_key=True,
                rules=ProviderErrorRules(
                    name="Jina", model=name, key_advice="set JINA_API_KEY, or give api_key"
                ),
                connection=connection,
            ),
        )

    def _payload(self, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        return {
            "model": self._model,
            "query": query,
            "documents": texts,
            "return_documents": False,
        }

    def _read(self, answer: Any, count: int) -> NDArray[np.float32]:
        return scores_in(at(answer, "results", of=list), count)


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

    def _payload(self, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        named = {"model": self._model} if self._model else {}
        return {**named, "query": query, "documents": texts}

    def _read(self, answer: Any, count: int) -> NDArray[np.float32]:
        return scores_in(at(answer, "results", of=list), count)
