"""The base of embedders over HTTP, and the properties of known models."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych_models import checked_texts
from triptych_providers.arguments import checked_count
from triptych_providers.background_loop import run
from triptych_providers.http import HttpClient
from triptych_providers.remote_model import BatchedModel, BatchLimits

if TYPE_CHECKING:
    from triptych.records import EmbedKind


@attrs.frozen(slots=True)
class KnownModel:
    """A model's native dimension, and what it wants before a query and before a document."""

    dimension: int
    query_prefix: str = attrs.field(default="", kw_only=True)
    document_prefix: str = attrs.field(default="", kw_only=True)


OPENAI: Mapping[str, KnownModel] = {
    "text-embedding-3-small": KnownModel(1536),
    "text-embedding-3-large": KnownModel(3072),
    "text-embedding-ada-002": KnownModel(1536),
}

# Voyage's models take the kind of text as a field, and no prefix.
VOYAGE: Mapping[str, KnownModel] = {
    "voyage-3": KnownModel(1024),
    "voyage-3-large": KnownModel(1024),
    "voyage-3-lite": KnownModel(512),
    "voyage-3.5": KnownModel(1024),
    "voyage-3.5-lite": KnownModel(1024),
    "voyage-4": KnownModel(1024),
    "voyage-4-large": KnownModel(1024),
    "voyage-4-lite": KnownModel(1024),
    "voyage-code-2": KnownModel(1536),
    "voyage-code-3": KnownModel(1024),
    "voyage-finance-2": KnownModel(1024),
    "voyage-law-2": KnownModel(1024),
    "voyage-multilingual-2": KnownModel(1024),
}

_SENTENCE = "Represent this sentence for searching relevant passages: "
_NOMIC = {"query_prefix": "search_query: ", "document_prefix": "search_document: "}
_GEMMA = {
    "query_prefix": "task: search result | query: ",
    "document_prefix": "title: none | text: ",
}
_QWEN = {
    "query_prefix": "Instruct: Given a web search query, retrieve relevant passages that answer "
    "the query\nQuery:"
}

OLLAMA: Mapping[str, KnownModel] = {
    "all-minilm": KnownModel(384),
    "bge-large": KnownModel(1024, query_prefix=_SENTENCE),
    "bge-m3": KnownModel(1024),
    "embeddinggemma": KnownModel(768, **_GEMMA),
    "mxbai-embed-large": KnownModel(1024, query_prefix=_SENTENCE),
    "nomic-embed-text": KnownModel(768, **_NOMIC),
    "nomic-embed-text:v1.5": KnownModel(768, **_NOMIC),
    "paraphrase-multilingual": KnownModel(768),
    "qwen3-embedding:0.6b": KnownModel(1024, **_QWEN),
    "qwen3-embedding:4b": KnownModel(2560, **_QWEN),
    "qwen3-embedding:8b": KnownModel(4096, **_QWEN),
    "snowflake-arctic-embed": KnownModel(1024, query_prefix=_SENTENCE),
    "snowflake-arctic-embed:22m": KnownModel(384, query_prefix=_SENTENCE),
    "snowflake-arctic-embed:335m": KnownModel(1024, query_prefix=_SENTENCE),
    "snowflake-arctic-embed2": KnownModel(1024, query_prefix="query: "),
}


def known_ollama(model: str) -> KnownModel | None:
    """What is known of a model by its Ollama name, whose tag ``latest`` may be left out."""
    return OLLAMA.get(model.removesuffix(":latest"))


@attrs.frozen(slots=True, eq=False)
class Answered:
    """One request's unit vectors, shape (texts, width), and its tokens (0: not reported)."""

    rows: NDArray[np.float64]
    tokens: int


class RemoteEmbedder(BatchedModel):
    """An `Embedder` behind HTTP; a provider adds how one batch is asked for.

    A text longer than the model's context is cut until the provider takes it, so that the
    beginning has a vector: it is counted in `inputs_cut`, and each call that cut anything logs
    one warning to ``triptych.providers``. A server that cuts in silence cannot be seen.
    A blank text is embedded as ".". Thread-safe.
    """

    _CHECK = "the model makes embeddings"

    def __init__(
        self,
        model: str,
        client: HttpClient,
        batch: BatchLimits | None,
        *,
        known: KnownModel | None,
        dimension: int | None,
        space: str,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        rules: str | None = None,
    ) -> None:
        super().__init__(model, client, batch)
        dimension = checked_count("dimension", dimension)
        self._width = dimension or (known.dimension if known else None)
        self._asked_width = (
            dimension if known and dimension and dimension != known.dimension else None
        )
        self._prefixes: dict[EmbedKind, str] = {
            "query": (known.query_prefix if known else "")
            if query_prefix is None
            else query_prefix,
            "document": (known.document_prefix if known else "")
            if document_prefix is None
            else document_prefix,
        }
        self._rules = rules or _rules(self._prefixes["query"], self._prefixes["document"])
        self._space = space
        self._probing = threading.Lock()
        self._tokens = 0

    @property
    def signature(self) -> str:
        """The embedding space: provider, model, dimension, prefix rules; not the address.

        An unknown model's dimension is asked for once, by embedding one word.

        Raises:
            ProviderError: the dimension was to be asked for, and could not be.
        """
        width = self._width or self._found_width()
        space = f"/{self._space}" if self._space else ""
        return f"{self._PROVIDER}/{self._model}/{width}/{self._rules}{space}"

    @property
    def dimension(self) -> int | None:
        """The vectors' width; None for an unknown model that was not used yet."""
        return self._width

    @property
    def input_tokens(self) -> int:
        """Tokens that the provider has counted, since this was made."""
        return self._tokens

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Float32 of shape (len(texts), dimension), rows of unit length, in order.

        Raises:
            ValidationError: an argument is not what `Embedder.embed` takes.
            RateLimitedError: the provider refused for now, also after the retries.
            ProviderTimeoutError: it did not answer in time.
            ProviderError: it refused, broke off, or gave an invalid answer.
            CancelledError: the deadline around the call passed; what was not asked for yet
                is not.
        """
        return run(self._embedded(checked_texts(texts, kind), kind))

    async def aembed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """`embed` for an event loop, which goes on meanwhile.

        Raises:
            TriptychError: as `embed` does. Cancelling the task lets go of the connection.
        """
        return await self._embedded(checked_texts(texts, kind), kind)

    @abstractmethod
    def _payload(self, texts: Sequence[str], kind: EmbedKind) -> Mapping[str, Any]:
        """The request for one batch, whose texts have their prefixes."""

    @abstractmethod
    def _read(self, answer: Mapping[str, Any], texts: Sequence[str]) -> Answered:
        """Its answer; raises `MalformedAnswerError` when it is none."""

    async def _embedded(self, texts: Sequence[str], kind: EmbedKind) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self._width or await self._probed()), dtype=np.float32)
        rows = await self._in_batches(texts, lambda some: self._asked(some, kind), "vectors")
        return np.concatenate(rows).astype(np.float32)

    async def _asked(self, texts: Sequence[str], kind: EmbedKind) -> NDArray[np.float64]:
        sent = [self._prefixes[kind] + text for text in texts]
        answer = await self._posted(self._payload(sent, kind), of=dict)
        with self._usable():
            answered = self._read(answer, sent)
        width = answered.rows.shape[1]
        with self._counting:
            self._tokens += answered.tokens
            expected = self._width = self._width or width
        if width != expected:
            raise self._client.failed(
                f"was answered with vectors of dimension {width} where {expected} was expected: "
                f"the server runs another model under this name, or the dimension is wrong "
                f"(give dimension={width} if it is meant)"
            )
        return answered.rows

    async def _probed(self) -> int:
        return int((await self._asked(["dimension"], "document")).shape[1])

    def _found_width(self) -> int:
        with self._probing:
            return self._width or run(self._probed())


def _rules(query: str, document: str) -> str:
    if not query and not document:
        return "no-prefix"
    digest = sha256(f"{query}\0{document}".encode()).hexdigest()
    return f"prefix@{digest[:12]}"
