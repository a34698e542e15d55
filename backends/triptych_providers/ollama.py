"""Ollama: ``/api/chat``, and ``/api/embed`` with real batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triptych.records import Message
from triptych_providers.arguments import checked_count, checked_model
from triptych_providers.chat import Piece, RemoteLLM, finish_of
from triptych_providers.connection import Connection
from triptych_providers.embedding import Answered, RemoteEmbedder, known_ollama
from triptych_providers.errors import ProviderErrorRules
from triptych_providers.http import HttpClient
from triptych_providers.remote_model import BatchLimits
from triptych_providers.response_parsing import (
    JsonLines,
    MalformedAnswerError,
    at,
    beside_text,
    content_at,
    count_at,
    rows_of,
    text_at,
)

if TYPE_CHECKING:
    from triptych.records import EmbedKind

OLLAMA_URL = "http://127.0.0.1:11434"


def _named(model: str) -> str:
    return checked_model(model).removesuffix(":latest")


def _client(
    model: str, base_url: str, api_key: str | None, connection: Connection | None
) -> HttpClient:
    return HttpClient(
        base_url=base_url,
        api_key=api_key,
        rules=ProviderErrorRules(
            name="Ollama",
            model=model,
            key_advice="give api_key as the server in front of Ollama wants it",
            model_advice=f"pull it first, with `ollama pull {model}`",
            start_advice="start it with `ollama serve`, or give base_url; by name, set OLLAMA_HOST",
        ),
        connection=connection,
    )


class OllamaEmbedder(RemoteEmbedder):
    """Embeddings by ``POST /api/embed``, without ``truncate``: texts that are too long are refused.

    Args:
        model: such as "nomic-embed-text"; it must have been pulled.
        api_key: for a proxy in front of Ollama that requires one.
        base_url: the address of Ollama.
        dimension, query_prefix, document_prefix, batch, space, connection: as for
            `OpenAIEmbedder`; prefixes of known models are filled in.
        num_ctx: the context to load the model with; None leaves it to Ollama.

    Raises:
        ValidationError: an argument is invalid.
    """

    _PROVIDER, _PATH = "ollama", "/api/embed"
    _MOST = BatchLimits(texts=64, tokens=32_000)

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str = OLLAMA_URL,
        dimension: int | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        batch: BatchLimits | None = None,
        num_ctx: int | None = None,
        space: str = "",
        connection: Connection | None = None,
    ) -> None:
        named = _named(model)
        super().__init__(
            named,
            _client(named, base_url, api_key, connection),
            batch,
            known=known_ollama(named),
            dimension=dimension,
            space=space,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
        )
        self._num_ctx = checked_count("num_ctx", num_ctx)

    def _payload(self, texts: Sequence[str], kind: EmbedKind) -> Mapping[str, Any]:
        payload: dict[str, Any] = {"model": self._model, "input": texts, "truncate": False}
        if self._asked_width is not None:
            payload["dimensions"] = self._asked_width
        if self._num_ctx is not None:
            payload["options"] = {"num_ctx": self._num_ctx}
        return payload

    def _read(self, answer: Mapping[str, Any], texts: Sequence[str]) -> Answered:
        rows = rows_of(at(answer, "embeddings", of=list), len(texts))
        return Answered(rows, count_at(answer, "prompt_eval_count"))


class OllamaLLM(RemoteLLM):
    """A language model by ``POST /api/chat``.

    The request tells Ollama to refuse prompts longer than its context. Versions without this option
    silently drop the beginning, so set ``num_ctx`` for long prompts.

    Args:
        model: such as "llama3.2"; it must have been pulled.
        api_key: for a proxy in front of Ollama that requires one.
        base_url: the address of Ollama.
        temperature: 0 to 2; None leaves it to the model.
        num_ctx: the context size (prompt and response) to load the model with; None is Ollama's
            default.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid.
    """

    _PROVIDER, _PATH, _FORMAT = "ollama", "/api/chat", JsonLines

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str = OLLAMA_URL,
        temperature: float | None = None,
        num_ctx: int | None = None,
        connection: Connection | None = None,
    ) -> None:
        named = _named(model)
        super().__init__(named, _client(named, base_url, api_key, connection), temperature)
        self._num_ctx = checked_count("num_ctx", num_ctx)

    def _payload(
        self, messages: Sequence[Message], max_tokens: int, *, stream: bool
    ) -> Mapping[str, Any]:
        options: dict[str, Any] = {"num_predict": max_tokens}
        if self._temperature is not None:
            options["temperature"] = self._temperature
        if self._num_ctx is not None:
            options["num_ctx"] = self._num_ctx
        return {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "options": options,
            "stream": stream,
            "truncate": False,
            "shift": False,
        }

    def _read(self, answer: Mapping[str, Any]) -> Piece:
        at(answer, "message", of=dict)
        if answer.get("done") is not True:
            raise MalformedAnswerError("does not say that it is done")
        return self._part(answer)

    def _piece(self, event: dict[str, Any] | None) -> Piece:
        if refused := self._client.refused(event):
            raise refused
        at(event, "message", of=dict)
        return self._part(event or {})

    def _part(self, event: Mapping[str, Any]) -> Piece:
        done = event.get("done") is True
        return Piece(
            text=content_at(event, "message", "content"),
            input_tokens=count_at(event, "prompt_eval_count") if done else None,
            output_tokens=count_at(event, "eval_count") if done else None,
            finish=finish_of(text_at(event, "done_reason")) if done else None,
            beside=beside_text(event.get("message")),
            ended=done,
            last=done,
        )
