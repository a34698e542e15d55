"""Language models by Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triptych.errors import ValidationError
from triptych.records import Message
from triptych_providers.chat import Piece, RemoteLLM, finish_of
from triptych_providers.connection import Connection
from triptych_providers.http import hosted
from triptych_providers.response_parsing import (
    MOST_COUNTED,
    MalformedAnswerError,
    ServerSent,
    at,
    beside_text,
    count_at,
    part_text,
    text_at,
)

ANTHROPIC_URL = "https://api.anthropic.com"

_VERSION = "2023-06-01"
_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"


class AnthropicLLM(RemoteLLM):
    """A language model by ``POST /v1/messages``.

    All system messages are joined into one system prompt.

    Args:
        model: such as "claude-haiku-4-5".
        api_key: the account's key.
        base_url: without the version.
        temperature: 0 to 1; None leaves it to the provider.
        connection: how requests are sent.

    Raises:
        ValidationError: an argument is invalid, or the key is missing.
    """

    _PROVIDER, _PATH, _FORMAT = "anthropic", "/v1/messages", ServerSent

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str = ANTHROPIC_URL,
        temperature: float | None = None,
        connection: Connection | None = None,
    ) -> None:
        client = hosted(
            "Anthropic",
            "ANTHROPIC_API_KEY",
            model,
            base_url,
            api_key,
            connection,
            key_header="x-api-key",
            headers={"anthropic-version": _VERSION},
        )
        super().__init__(model, client, temperature)
        if self._temperature is not None and self._temperature > 1:
            raise ValidationError(f"temperature is a number from 0 to 1, not {temperature!r}")

    def _payload(
        self, messages: Sequence[Message], max_tokens: int, *, stream: bool
    ) -> Mapping[str, Any]:
        payload: dict[str, Any] = {
            "model": self._model,
            "max_tokens": max_tokens,
            "messages": [
                {"role": m.role, "content": m.content} for m in messages if m.role != "system"
            ],
            "stream": stream,
        }
        if system := "\n\n".join(m.content for m in messages if m.role == "system"):
            payload["system"] = system
        if self._temperature is not None:
            payload["temperature"] = self._temperature
        return payload

    def _read(self, answer: Mapping[str, Any]) -> Piece:
        finish = finish_of(text_at(answer, "stop_reason"))
        # A refusal may come without any content.
        blocks = [] if finish == "refused" else at(answer, "content", of=list)
        return Piece(
            text="".join(map(part_text, blocks)),
            input_tokens=_input_tokens(answer.get("usage")),
            output_tokens=count_at(answer, "usage", "output_tokens"),
            finish=finish,
            beside=beside_text({"content": blocks}),
            ended=True,
        )

    def _piece(self, event: dict[str, Any] | None) -> Piece:
        kind = None if event is None else event.get("type")
        if kind == "message_start":
            return Piece(input_tokens=_input_tokens(at(event, "message", of=dict).get("usage")))
        if kind == "content_block_start":
            return _of_part(at(event, "content_block", of=dict))
        if kind == "content_block_delta":
            return _of_part(at(event, "delta", of=dict))
        if kind == "message_delta":
            return Piece(
                output_tokens=count_at(event, "usage", "output_tokens"),
                finish=finish_of(text_at(event, "delta", "stop_reason")),
            )
        if kind == "message_stop":
            return Piece(ended=True, last=True)
        if refused := self._client.refused(event):
            raise refused
        if not isinstance(kind, str):
            raise MalformedAnswerError("has an event without a type")
        return Piece()


def _of_part(part: dict[str, Any]) -> Piece:
    return Piece(text=part_text(part), beside=beside_text({"content": [part]}))


def _input_tokens(usage: Any) -> int:
    """All of the prompt, whether it came from the provider's cache or not."""
    told = sum(count_at(usage, name) for name in ("input_tokens", _READ, _WRITTEN))
    return min(told, MOST_COUNTED)
