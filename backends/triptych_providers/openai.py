"""OpenAI and compatible servers: vLLM, LM Studio, llama.cpp and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from triptych.records import Message
from triptych_providers.arguments import checked_base_url, checked_model
from triptych_providers.chat import Piece, RemoteLLM, finish_of
from triptych_providers.connection import Connection
from triptych_providers.embedding import OPENAI, Answered, RemoteEmbedder
from triptych_providers.errors import ProviderErrorRules
from triptych_providers.http import HttpClient
from triptych_providers.remote_model import BatchLimits
from triptych_providers.response_parsing import (
    MalformedAnswerError,
    ServerSent,
    at,
    beside_text,
    by_index,
    content_at,
    count_at,
    rows_of,
    text_at,
)

if TYPE_CHECKING:
    from triptych.records import EmbedKind

OPENAI_URL = "https://api.openai.com/v1"


def _client(
    model: str, base_url: str, api_key: str | None, connection: Connection | None
) -> HttpClient:
    own = checked_base_url(base_url) == OPENAI_URL
    rules = ProviderErrorRules(
        name="OpenAI",
        model=checked_model(model),
        key_advice="set OPENAI_API_KEY, or give api_key",
        start_advice="check the network, a proxy and the certificates",
    )
    others = ProviderErrorRules(
        name="the OpenAI-compatible server",
        model=model,
        key_advice="set its key beside its address: OPENAI_API_KEY and OPENAI_BASE_URL, or api_key",
        model_advice="load it there first, or use a name that its /models lists",
        start_advice="start the server, or give base_url; by name, set OPENAI_BASE_URL (with /v1)",
    )
    return HttpClient(
        base_url=base_url,
        api_key=api_key,
        needs_key=own,
        rules=rules if own else others,
        connection=connection,
    )


class OpenAIEmbedder(RemoteEmbedder):
    """Embeddings by ``POST /embeddings``.

    Args:
        model: such as "text-embedding-3-small".
        api_key: required for OpenAI itself; other servers may need none.
        base_url: with the version at its end, such as "http://localhost:8000/v1".
        dimension: the dimension of the vectors. For a known model another dimension than its
            default is requested from the provider; for an unknown model it is the expected
            dimension, which saves a request.
        query_prefix: the model's prefix for queries.
        document_prefix: the model's prefix for documents.
        batch: the limits of one request.
        space: a word in the signature that distinguishes servers with different weights under the
            same model name (the address is not part of the signature).
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    _PROVIDER, _PATH = "openai", "/embeddings"
    _SPARE: ClassVar[Mapping[str, str]] = {"encoding_format": ""}
    # OpenAI takes 2,048 texts and 300,000 tokens; small servers far less.
    _MOST = BatchLimits(texts=256, tokens=200_000)

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str = OPENAI_URL,
        dimension: int | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        batch: BatchLimits | None = None,
        space: str = "",
        connection: Connection | None = None,
    ) -> None:
        super().__init__(
            checked_model(model),
            _client(model, base_url, api_key, connection),
            batch,
            known=OPENAI.get(model),
            dimension=dimension,
            space=space,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
        )
        # A third of the bytes of decimal numbers; not every other server knows it.
        self._format = "base64" if checked_base_url(base_url) == OPENAI_URL else "float"

    def _payload(self, texts: Sequence[str], kind: EmbedKind) -> Mapping[str, Any]:
        payload: dict[str, Any] = {
            "model": self._model,
            "input": texts,
            "encoding_format": self._format,
        }
        if self._asked_width is not None:
            payload["dimensions"] = self._asked_width
        return payload

    def _read(self, answer: Mapping[str, Any], texts: Sequence[str]) -> Answered:
        items = by_index(at(answer, "data", of=list), len(texts))
        rows = rows_of([at(item, "embedding", of=object) for item in items], len(texts))
        return Answered(rows, count_at(answer, "usage", "prompt_tokens"))


class OpenAILLM(RemoteLLM):
    """A language model by ``POST /chat/completions``.

    Args:
        model: such as "gpt-4o-mini".
        api_key: required for OpenAI itself; other servers may need none.
        base_url: with the version at its end.
        temperature: 0 to 2; None leaves it to the provider (some models take no other).
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    _PROVIDER, _PATH, _FORMAT = "openai", "/chat/completions", ServerSent
    # Mistral's API refuses the last one; Azure, and gateways, take one of the first two.
    _SPARE: ClassVar[Mapping[str, str]] = {
        "max_tokens": "max_completion_tokens",
        "max_completion_tokens": "max_tokens",
        "stream_options": "",
    }

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str = OPENAI_URL,
        temperature: float | None = None,
        connection: Connection | None = None,
    ) -> None:
        client = _client(checked_model(model), base_url, api_key, connection)
        super().__init__(model, client, temperature)
        # OpenAI's newer models refuse the old name, other servers do not know the new one.
        own = checked_base_url(base_url) == OPENAI_URL
        self._ceiling = "max_completion_tokens" if own else "max_tokens"

    def _payload(
        self, messages: Sequence[Message], max_tokens: int, *, stream: bool
    ) -> Mapping[str, Any]:
        payload: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            self._ceiling: max_tokens,
            "stream": stream,
        }
        if stream:
            payload["stream_options"] = {"include_usage": True}
        if self._temperature is not None:
            payload["temperature"] = self._temperature
        return payload

    def _read(self, answer: Mapping[str, Any]) -> Piece:
        choice = _first(at(answer, "choices", of=list)) or at(answer, "choices", 0, of=dict)
        self._check(choice)
        finish = finish_of(text_at(choice, "finish_reason"))
        if finish != "refused":  # which may come without any message
            at(choice, "message", of=dict)
        return Piece(
            text=content_at(choice, "message", "content"),
            input_tokens=count_at(answer, "usage", "prompt_tokens"),
            output_tokens=count_at(answer, "usage", "completion_tokens"),
            finish=finish,
            beside=beside_text(choice.get("message")),
            ended=True,
        )

    def _piece(self, event: dict[str, Any] | None) -> Piece:
        if event is None:
            return Piece(ended=True, last=True)
        if error := self._client.refused(event):
            raise error
        # Beside the usage they are empty, or null.
        choices = [] if event.get("choices") is None else at(event, "choices", of=list)
        usage = event.get("usage") or None
        if not choices and usage is None and "choices" not in event:
            raise MalformedAnswerError("has an event without choices")
        choice = _first(choices)
        self._check(choice)
        finish = text_at(choice, "finish_reason")
        return Piece(
            text=content_at(choice, "delta", "content"),
            input_tokens=None if usage is None else count_at(usage, "prompt_tokens"),
            output_tokens=None if usage is None else count_at(usage, "completion_tokens"),
            finish=finish_of(finish),
            beside=beside_text(choice.get("delta")),
            # Servers are known that leave out "[DONE]" and the tokens after it.
            ended=bool(finish),
        )

    def _check(self, choice: Any) -> None:
        """Raise the error in which a choice ended: gateways report it beside the text before it."""
        word = text_at(choice, "finish_reason")
        ended = finish_of(word) == "failed" and f"the answer ended in an error ({word})"
        if error := self._client.refused(choice) or self._client.refused({"error": ended}):
            raise error


def _first(choices: list[Any]) -> dict[str, Any]:
    """The choice with index 0, or without one; empty where there is none."""
    held = (choice for choice in choices if isinstance(choice, dict))
    return next((choice for choice in held if not choice.get("index")), {})
