"""The base of language models over HTTP: checks, single responses and streams."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, ClassVar, Literal, Self

import attrs

from triptych.errors import ValidationError
from triptych.records import Generation, Message, Usage, check_number
from triptych_providers.arguments import checked_count
from triptych_providers.background_loop import BlockingIterator, run
from triptych_providers.http import HttpClient
from triptych_providers.remote_model import RemoteModel
from triptych_providers.response_parsing import EventFormat, MalformedAnswerError

_MOST_OF_A_HEAD = 1 << 16
Finish = Literal["stop", "length", "refused", "failed"]
_FINISHES: Mapping[Finish, str] = {
    "stop": "stop end_turn stop_sequence complete",
    "length": "length max_tokens model_length model_context_window_exceeded",
    "refused": "refusal content_filter safety recitation sensitive blocklist prohibited_content "
    "spii error_toxic",
    "failed": "error network_error insufficient_system_resource",
}


def finish_of(word: str) -> Finish | None:
    """What a server's word for the end of an answer says, in any case; None if it is unknown."""
    return next((said for said, of in _FINISHES.items() if word.lower() in of.split()), None)


def checked_temperature(temperature: float | None) -> float | None:
    """``temperature``; None leaves it to the provider.

    Raises:
        ValidationError: it is not a number from 0 to 2.
    """
    return None if temperature is None else check_number(temperature, "temperature", most=2)


@attrs.frozen(kw_only=True, slots=True)
class Piece:
    """What one event of a stream, or a whole answer, adds; None: it says nothing of it.

    ``beside``: what it has that is no text. ``ended``: the answer is whole. ``last``: nothing
    follows that is to be read.
    """

    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish: Finish | None = None
    beside: str = ""
    ended: bool = False
    last: bool = False


class _Gathered:
    """The state of an answer while its pieces come."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.finish: Finish | None = None
        self.beside = ""
        self.ended = False
        self.length = 0
        self.visible = False
        self._half = ""

    def take(self, piece: Piece) -> str:
        """The text to give on: a character that two pieces share comes with the second."""
        old = self.usage
        self.usage = Usage(
            input_tokens=old.input_tokens if piece.input_tokens is None else piece.input_tokens,
            output_tokens=old.output_tokens if piece.output_tokens is None else piece.output_tokens,
        )
        self.beside = piece.beside or self.beside
        if self.finish != "refused":  # OpenAI ends a refusal with "stop"
            self.finish = "refused" if self.beside == "a refusal" else piece.finish or self.finish
        self.ended = self.ended or piece.ended
        text, self._half = self._half + piece.text, ""
        if not self.ended and "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return self._given(text)

    def rest(self) -> str:
        """What is left of the text when nothing follows."""
        text, self._half = self._half, ""
        return self._given(text)

    def _given(self, text: str) -> str:
        text = _without_surrogates(text)
        self.length += len(text)
        self.visible = self.visible or bool(text.strip())
        return text


def _without_surrogates(text: str) -> str:
    """``text`` with halves of a character joined, and U+FFFD for a half without its other."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class _Counted:
    """What a stream knows of its answer.

    ``usage`` and ``truncated`` are complete when the last piece was read. A count of 0 was not
    reported: a stream is whole when it says why it ended, and some servers end there, before the
    tokens.
    """

    _gathered: _Gathered

    @property
    def usage(self) -> Usage:
        """Tokens reported so far."""
        return self._gathered.usage

    @property
    def truncated(self) -> bool:
        """Whether the model stopped at its ceiling of tokens."""
        return self._gathered.finish == "length"


class TextStream(_Counted, BlockingIterator[str]):
    """The pieces of a response; joined they are its text. Close it if you do not read it to the
    end."""

    def __init__(self, pieces: AsyncGenerator[str, None], gathered: _Gathered) -> None:
        super().__init__(pieces)
        self._gathered = gathered


class AsyncTextStream(_Counted, AsyncIterator[str]):
    """The pieces of an answer as they come; joined, they are its text.

    Use it in ``async with``, or call `aclose`, when it is not read out.
    """

    def __init__(self, pieces: AsyncGenerator[str, None], gathered: _Gathered) -> None:
        self._pieces = pieces
        self._gathered = gathered

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Let go of the connection; the provider stops writing. Idempotent."""
        await self._pieces.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class RemoteLLM(RemoteModel):
    """An `LLM` behind HTTP; a provider adds its wire format. Thread-safe."""

    _CHECK = "the model chats"
    _FORMAT: ClassVar[type[EventFormat]]
    """That of a stream's lines."""

    def __init__(self, model: str, client: HttpClient, temperature: float | None) -> None:
        super().__init__(model, client)
        self._temperature = checked_temperature(temperature)

    @property
    def signature(self) -> str:
        """Provider and model, and the temperature where one is set; not the address."""
        heat = "" if self._temperature is None else f"/temperature={self._temperature:g}"
        return f"{self._PROVIDER}/{self._model}{heat}"

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """The answer, with what it cost; ``truncated`` when it stopped at ``max_tokens``.

        Half of a surrogate pair in the answer, which no encoding can store, becomes U+FFFD.

        Raises:
            ValidationError: there is no message of a user, or ``max_tokens`` is below 1.
            RateLimitedError: the provider refused for now, also after the retries.
            ProviderTimeoutError: it did not answer in time.
            UnusableAnswerError: the model refused, answered an empty text, or wrote nothing
                within ``max_tokens``. It is not asked again.
            ProviderError: the provider refused, broke off, or gave an invalid answer.
            CancelledError: the deadline around the call passed.
        """
        return run(self._generated(*self._asked(messages, max_tokens)))

    async def agenerate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """`generate` for an event loop, which goes on meanwhile.

        Raises:
            TriptychError: as `generate` does. Cancelling the task lets go of the connection.
        """
        return await self._generated(*self._asked(messages, max_tokens))

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> TextStream:
        """The same answer in pieces as they come; a place of the connection is held meanwhile.

        Raises:
            TriptychError: as `generate` does, for the provider's errors while it is read. What
                came before one is not the answer.
        """
        asked, gathered = self._asked(messages, max_tokens, stream=True), _Gathered()
        return TextStream(self._pieces(*asked, gathered), gathered)

    def astream(self, messages: Sequence[Message], *, max_tokens: int) -> AsyncTextStream:
        """`stream` for an event loop::

            async with llm.astream(messages, max_tokens=500) as pieces:
                async for piece in pieces:
                    print(piece, end="")

        Raises:
            TriptychError: as `stream` does. Cancelling the task lets go of the connection.
        """
        asked, gathered = self._asked(messages, max_tokens, stream=True), _Gathered()
        return AsyncTextStream(self._pieces(*asked, gathered), gathered)

    def _asked(
        self, messages: Sequence[Message], max_tokens: int, *, stream: bool = False
    ) -> tuple[Mapping[str, Any], int]:
        most = checked_count("max_tokens", max_tokens)
        return self._payload(_checked(messages), most, stream=stream), most

    async def _generated(self, payload: Mapping[str, Any], max_tokens: int) -> Generation:
        answer = await self._posted(payload, of=dict)
        gathered = _Gathered()
        with self._usable():
            text = gathered.take(self._read(answer))
        self._check_end(gathered, max_tokens)
        return Generation(text=text, usage=gathered.usage, truncated=gathered.finish == "length")

    async def _pieces(
        self, payload: Mapping[str, Any], max_tokens: int, gathered: _Gathered
    ) -> AsyncGenerator[str, None]:
        events, head = self._FORMAT(), ""
        line, following = await self._adapted(payload, self._begun)
        async with aclosing(following):
            while line is not None:
                if not gathered.length and len(head) < _MOST_OF_A_HEAD:
                    head += line + "\n"
                    self._check_no_page(line)
                with self._usable():
                    try:
                        pieces = [self._piece(event) for event in events.feed(line)]
                    except MalformedAnswerError:
                        if not gathered.length or await anext(following, None) is not None:
                            raise
                        break  # the end of the last line was cut off
                for piece in pieces:
                    if text := gathered.take(piece):
                        yield text
                if any(piece.last for piece in pieces):
                    break
                line = await anext(following, None)
        if text := gathered.rest():
            yield text
        if not gathered.ended and not gathered.length:
            with suppress(ValueError, RecursionError):
                if refused := self._client.refused(json.loads(head)):
                    raise refused
        if not gathered.ended:
            raise self._client.failed(
                f"ended early after {gathered.length} characters, without the end of the answer: "
                "discard the text and try again"
            )
        self._check_end(gathered, max_tokens)

    async def _begun(
        self, payload: Mapping[str, Any]
    ) -> tuple[str | None, AsyncGenerator[str, None]]:
        """The first line of a streamed answer, and those that follow."""
        lines = self._client.lines(self._PATH, payload)
        try:
            return await anext(lines, None), lines
        except BaseException:
            await lines.aclose()
            raise

    def _check_no_page(self, line: str) -> None:
        if line.lstrip().startswith("<"):
            raise self._client.failed(
                "was answered with a web page: check base_url, and any proxy between you and the "
                "provider"
            )

    def _check_end(self, gathered: _Gathered, max_tokens: int) -> None:
        if gathered.finish == "refused":
            raise self._client.unusable(
                "ended in a refusal: the model, or the provider's filter, will not answer this "
                "input; change it, or use another model",
                "refusal",
            )
        if gathered.visible:
            return
        if gathered.finish == "length":
            raise self._client.unusable(
                f"wrote nothing within max_tokens={max_tokens}: a model that thinks before it "
                "answers needs more",
                "endless",
            )
        only = f", and {gathered.beside} beside it" if gathered.beside else ""
        raise self._client.unusable(
            f"was answered with an empty text{only}: change the input, or use another model",
            "empty",
        )

    @abstractmethod
    def _payload(
        self, messages: Sequence[Message], max_tokens: int, *, stream: bool
    ) -> Mapping[str, Any]:
        """The request's body."""

    @abstractmethod
    def _read(self, answer: Mapping[str, Any]) -> Piece:
        """A whole answer; raises `MalformedAnswerError` when it is none."""

    @abstractmethod
    def _piece(self, event: dict[str, Any] | None) -> Piece:
        """What one event adds; raises likewise, or `ProviderError` of an event that is one."""


def _checked(messages: Sequence[Message]) -> Sequence[Message]:
    kept = list(messages)
    for message in kept:
        if not isinstance(message, Message):
            raise ValidationError(f"messages are triptych.Message, not {type(message).__name__}")
        try:
            message.content.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValidationError(
                f"a message of the {message.role} holds a lone surrogate at index {error.start}: "
                "decode the text with errors='replace' first"
            ) from error
    if not any(message.role == "user" for message in kept):
        raise ValidationError("messages have no user message: there is nothing to answer")
    return kept
