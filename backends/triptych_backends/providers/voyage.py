"""Voyage AI: embeddings, and a reranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ProviderError, ValidationError
from triptych_backends.embedders.arguments import checked_texts
from triptych_backends.providers.batching import BatchLimits
from triptych_backends.providers.connection import Connection
from triptych_backends.providers.embedding import Answered, RemoteEmbedder, checked_model
from triptych_backends.providers.errors import ProviderErrorRules
from triptych_backends.providers.http import HttpClient, checked_key
from triptych_backends.providers.models import VOYAGE
from triptych_backends.providers.response_parsing import (
    MalformedAnswerError,
    at,
    by_index,
    count_at,
    numbers,
    rows_of,
)

if TYPE_CHECKING:
    from triptych.records import EmbedKind

__all__ = ["VOYAGE_URL", "VoyageEmbedder", "VoyageReranker"]

VOYAGE_URL = "https://api.voyageai.com/v1"

_KEY_ADVICE = "set VOYAGE_API_KEY, or give api_key"
_MOST_RERANKED = 1000


def _client(
    model: str, base_url: str, api_key: str | None, connection: Connection | None
) -> HttpClient:
    key = checked_key(api_key, advice=_KEY_ADVICE, required=True)
    return HttpClient(
        base_url=base_url,
        headers={"authorization": f"Bearer {key}"},
        key=key,
        profile=ProviderErrorRules(
            name="Voyage",
            model=checked_model(model),
            key_advice=_KEY_ADVICE,
            model_advice="check the name, and that your account may use it",
            start_advice="check the network, a proxy, the certificates and base_url",
        ),
        connection=connection or Connection(),
    )


class VoyageEmbedder(RemoteEmbedder):
    """Embeddings by ``POST /embeddings``; queries and documents are told by ``input_type``.

    Voyage is told to refuse a long text rather than cut it in silence.

    Args:
        model: such as "voyage-3".
        api_key: the account's key.
        base_url: with the version at its end.
        dimension, batch, space, connection: as for `OpenAIEmbedder`.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str = VOYAGE_URL,
        dimension: int | None = None,
        batch: BatchLimits | None = None,
        space: str = "",
        connection: Connection | None = None,
    ) -> None:
        super().__init__(
            provider="voyage",
            model=checked_model(model),
            known=VOYAGE.get(model),
            dimension=dimension,
            path="/embeddings",
            rules="input-type",
            query_prefix=None,
            document_prefix=None,
            # The models that take the least: 128 texts, and 120,000 tokens.
            batch=batch or BatchLimits(texts=128, tokens=100_000),
            client=_client(model, base_url, api_key, connection),
            space=space,
        )

    def _payload(self, texts: Sequence[str], kind: EmbedKind) -> Mapping[str, Any]:
        payload: dict[str, Any] = {
            "model": self._model,
            "input": texts,
            "input_type": kind,
            "truncation": False,
        }
        if self._asked_width is not None:
            payload["output_dimension"] = self._asked_width
        return payload

    def _read(self, answer: Mapping[str, Any], texts: Sequence[str]) -> Answered:
        items = by_index(at(answer, "data", of=list), len(texts))
        rows = rows_of([at(item, "embedding", of=list) for item in items], len(texts))
        return Answered(rows, count_at(answer, "usage", "total_tokens"))


class VoyageReranker:
    """Relevance of texts to a query by ``POST /rerank``. Thread-safe.

    Args:
        model: such as "rerank-2".
        api_key: the account's key.
        base_url: with the version at its end.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str = VOYAGE_URL,
        connection: Connection | None = None,
    ) -> None:
        self._model = checked_model(model)
        self._client = _client(model, base_url, api_key, connection)

    def __repr__(self) -> str:
        return f"VoyageReranker({self._model!r})"

    @property
    def signature(self) -> str:
        """Provider and model."""
        return f"voyage/{self._model}"

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """The relevance of each text, shape (len(texts),), in the order of ``texts``.

        Larger is more relevant. Voyage cuts texts that are too long for the model.

        Raises:
            ValidationError: the query is blank, or there are more than 1,000 texts.
            RateLimitedError, ProviderTimeoutError, ProviderError, CancelledError: as
                `VoyageEmbedder.embed`.
        """
        (asked,) = checked_texts([query], "query")
        checked = checked_texts(texts, "document")
        if not asked.strip():
            raise ValidationError("the query is blank: there is nothing to compare with")
        if len(checked) > _MOST_RERANKED:
            raise ValidationError(
                f"{len(checked)} texts are more than the {_MOST_RERANKED} that one call ranks: "
                "give the best of them"
            )
        if not checked:
            return np.empty(0, dtype=np.float32)
        answer = self._client.post(
            "/rerank",
            {
                "model": self._model,
                "query": asked,
                "documents": [text if text.strip() else "." for text in checked],
                "truncation": True,
            },
        )
        try:
            return self._read(answer, len(checked))
        except MalformedAnswerError as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Close the connections; later calls raise `ProviderError`. Idempotent."""
        self._client.close()

    def _read(self, answer: dict[str, Any], count: int) -> NDArray[np.float32]:
        items = by_index(at(answer, "data", of=list), count)
        return numbers([at(item, "relevance_score", of=object) for item in items])

    def _unusable(self, error: MalformedAnswerError) -> ProviderError:
        return self._client.failed(
            f"was answered with what cannot be used: the answer {error}: check base_url and the "
            "model"
        )
