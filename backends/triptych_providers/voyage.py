"""Voyage AI: embeddings, and a reranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from triptych_providers.connection import Connection
from triptych_providers.embedding import VOYAGE, Answered, RemoteEmbedder
from triptych_providers.http import hosted
from triptych_providers.remote_model import BatchLimits
from triptych_providers.rerankers import HostedReranker
from triptych_providers.response_parsing import at, by_index, count_at, rows_of

if TYPE_CHECKING:
    from triptych.records import EmbedKind

VOYAGE_URL = "https://api.voyageai.com/v1"


class VoyageEmbedder(RemoteEmbedder):
    """Embeddings by ``POST /embeddings``; ``input_type`` says which are queries.

    ``truncation`` is off, so that Voyage refuses long texts instead of silently cutting them.

    Args:
        model: such as "voyage-3".
        api_key: the account's key.
        base_url: with the version at its end.
        dimension, batch, space, connection: as for `OpenAIEmbedder`.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    _PROVIDER, _PATH = "voyage", "/embeddings"
    # The models that take the least: 128 texts, and 120,000 tokens.
    _MOST = BatchLimits(texts=128, tokens=100_000)

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
            model,
            hosted("Voyage", "VOYAGE_API_KEY", model, base_url, api_key, connection),
            batch,
            known=VOYAGE.get(model),
            dimension=dimension,
            space=space,
            rules="input-type",
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


class VoyageReranker(HostedReranker):
    """Relevance of texts to a query by ``POST /rerank``. Voyage cuts texts that are too long.

    A model is such as "rerank-2.5". ``base_url`` has the version at its end; the arguments are
    those of `HostedReranker`.
    """

    _PROVIDER, _NAME, _KEY, _URL = "voyage", "Voyage", "VOYAGE_API_KEY", VOYAGE_URL
    # 1,000 texts; 600,000 tokens, of which the query may take a part for each text.
    _MOST = BatchLimits(texts=1000, tokens=300_000)
    _ALSO: ClassVar[Mapping[str, Any]] = {"truncation": True}
    _RESULTS = "data"
