"""The base of models over HTTP: closing, error messages and batches."""

from __future__ import annotations

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

import attrs

from triptych import deadlines
from triptych.answers import high_token_estimate
from triptych.records import whole
from triptych_providers.errors import RefusedInputError, RefusedRequestError
from triptych_providers.http import HttpClient, J, T
from triptych_providers.response_parsing import MalformedAnswerError

R = TypeVar("R")

logger = logging.getLogger("triptych.providers")

_NUMBER = re.compile(r"(?<![\w.])\d{2,7}(?![\w.]*\w)")
_SMALLEST_SHARE, _LARGEST_SHARE, _USUAL_SHARE = 0.05, 0.95, 0.75


@attrs.frozen(kw_only=True, slots=True)
class BatchLimits:
    """The limits of one request: texts, and their tokens by `high_token_estimate`.

    A request of several texts that the provider refuses (400, 413, 422) is halved, whatever the
    refusal says. The size that it takes is the limit of later requests.
    """

    texts: int = attrs.field(validator=whole(least=1))
    tokens: int = attrs.field(validator=whole(least=1))


def batches(texts: Sequence[str], limits: BatchLimits, start: int = 0) -> Iterator[range]:
    """Ranges of positions that cover ``texts`` from ``start`` on in order, each within ``limits``.

    A text that alone is over the limit of tokens is a batch by itself.
    """
    tokens = 0
    for position in range(start, len(texts)):
        size = high_token_estimate(texts[position])
        full = position - start >= limits.texts or tokens + size > limits.tokens
        if full and position > start:
            yield range(start, position)
            start, tokens = position, 0
        tokens += size
    if start < len(texts):
        yield range(start, len(texts))


def shortened(text: str, refusal: str) -> str:
    """A beginning of ``text`` to try after ``refusal``: shorter, and never empty but of "".

    Refusals name the limit and what was sent ("maximum context length is 8192 tokens, however
    you requested 10001"): then by that share and a twentieth less; else three quarters.
    """
    numbers = [int(number) for number in _NUMBER.findall(refusal) if int(number) >= 16]
    share = _USUAL_SHARE
    if len(numbers) > 1 and min(numbers) < max(numbers):
        named = min(numbers) / max(numbers) * 0.95
        if _SMALLEST_SHARE <= named <= _LARGEST_SHARE:
            share = named
    return text[: max(min(int(len(text) * share), len(text) - 1), 1)]


BLANK = "."
"""The replacement for empty texts, which providers refuse."""

_FEW = 4
_LONG = 500
"""Characters from which on a text may be refused for its length."""
_MOST_CUTS = 24  # three quarters each: to a thousandth of the text


class RemoteModel(ABC):
    """A model behind HTTP. Thread-safe."""

    _PROVIDER: ClassVar[str]
    """Its name in a signature."""
    _PATH: ClassVar[str]
    """Where it is asked, from the client's address on."""
    _CHECK: ClassVar[str]
    """What is to be checked of a model whose answers cannot be used."""
    _SPARE: ClassVar[Mapping[str, str]] = {}
    """Fields that not every server takes, each with its other name, "" to leave it out."""

    def __init__(self, model: str, client: HttpClient) -> None:
        self._model = model
        self._client = client
        self._dialect: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    def close(self) -> None:
        """Close the connections; later calls raise `ProviderError`. Idempotent.

        Connections of an event loop are closed by `aclose`, in that loop.
        """
        self._client.close()

    async def aclose(self) -> None:
        """`close`, and the connections of the running event loop. Idempotent."""
        await self._client.aclose()

    @property
    def host(self) -> str:
        """The host that is asked, with its port if that is unusual."""
        return urlsplit(self._client.base_url).netloc

    @property
    @abstractmethod
    def signature(self) -> str:
        """What is derived with it carries."""

    async def _posted(self, payload: Mapping[str, Any], *, of: type[J]) -> J:
        """The answer to ``payload``, as `HttpClient.post` has it."""
        return await self._adapted(payload, lambda sent: self._client.post(self._PATH, sent, of=of))

    async def _adapted(
        self, payload: Mapping[str, Any], send: Callable[[Mapping[str, Any]], Awaitable[T]]
    ) -> T:
        """What ``send`` makes of ``payload``.

        If the server refuses a spare field by its name, it is asked once more without it, or with
        the other name. What worked is kept for further requests.
        """
        first: RefusedRequestError | None = None
        tried: list[str] = []
        while True:
            named = ((self._dialect.get(name, name), payload[name]) for name in payload)
            sent = {name: value for name, value in named if name}
            try:
                return await send(sent)
            except RefusedRequestError as error:
                first = first or error
                name = next(
                    (each for each in self._SPARE if self._refuses(each, payload, error)), ""
                )
                if not name:
                    for each in tried:  # the refusal was for something else
                        self._dialect.pop(each, None)
                    raise first from None
                tried.append(name)
                self._dialect[name] = self._SPARE[name]
                logger.info("%s refuses %r in a request", self._client.rules.name, name)

    def _refuses(self, name: str, asked: Mapping[str, Any], error: RefusedRequestError) -> bool:
        known = name in self._dialect or name not in asked
        return not known and re.search(rf"(?<!\w){name}(?!\w)", error.detail) is not None

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """A malformed answer as an error of the provider."""
        try:
            yield
        except MalformedAnswerError as error:
            raise self._client.failed(
                f"was answered with what cannot be used: the answer {error}: check base_url, and "
                f"that {self._CHECK}"
            ) from error


@attrs.define(slots=True)
class _Halving:
    """How many texts of one call to send at a time, and what its refusals say about the limit."""

    most: int | None = None
    """Texts at a time since a refusal; None for as many as the limits allow."""
    end: int = 0
    """Where the refused batch ends; 0 where the last refusal was for a text's own sake."""
    taken: Sequence[str] = ()
    """The longest batch that was taken since the last refusal."""

    def refused(self, span: range) -> None:
        """A batch of several texts was refused."""
        self.most, self.end, self.taken = len(span) // 2, max(self.end, span.stop), ()

    def blamed(self) -> None:
        """The refusals were for the sake of one text: find the old size again, by doubling."""
        if self.most is not None:
            self.most, self.end, self.taken = 2, 0, ()

    def accepted(self, some: Sequence[str], end: int, limits: BatchLimits) -> BatchLimits | None:
        """A batch was taken; the limits that it proves, where the refused batch ends with it."""
        if self.most is None:
            return None
        if not self.end:
            self.most = 2 * self.most if 2 * self.most < limits.texts else None
            return None
        self.taken = max(self.taken, some, key=len)
        if end < self.end:
            return None
        taken, self.most, self.end = self.taken, None, 0
        if len(taken) >= _FEW:
            return attrs.evolve(limits, texts=len(taken))
        # No provider limits requests to so few texts: their length was too much.
        return attrs.evolve(limits, tokens=max(sum(map(high_token_estimate, taken)), 1))


class BatchedModel(RemoteModel):
    """A model that is asked about many texts at a time.

    A batch that the provider refuses is halved, as `BatchLimits` says. A text longer than the model
    takes, which the provider refuses, is cut until it takes it.
    """

    _MOST: ClassVar[BatchLimits]
    """What one request holds where nothing else is asked for."""

    def __init__(self, model: str, client: HttpClient, batch: BatchLimits | None) -> None:
        super().__init__(model, client)
        self._batch = batch or self._MOST
        self._counting = threading.Lock()
        self._cut = 0

    @property
    def inputs_cut(self) -> int:
        """How many texts were longer than the model takes, and cut, since it was made."""
        return self._cut

    async def _in_batches(
        self, texts: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[R]], results: str
    ) -> list[R]:
        """What ``ask`` finds for each batch of ``texts``, in order; ``results`` names it."""
        found: list[R] = []
        cut: list[int] = []
        halving = _Halving()
        at = 0
        while at < len(texts):
            deadlines.check(self._client.rules.doing)
            limits = self._batch
            most = min(halving.most or limits.texts, limits.texts)
            span = next(batches(texts, attrs.evolve(limits, texts=most), at))
            some = [text if text.strip() else BLANK for text in texts[at : span.stop]]
            try:
                found.append(await ask(some))
            except RefusedInputError as error:
                if len(some) > 1:
                    halving.refused(span)
                    continue
                found.append(await self._asked_shortened(texts[at], error, ask))
                cut.append(at)
                halving.blamed()
            else:
                self._limit(halving.accepted(some, span.stop, limits))
            at = span.stop
        if cut:
            with self._counting:
                self._cut += len(cut)
            logger.warning(
                "%s of %s texts were longer than %s takes and were cut, the first at position "
                "%s: their ends are not in their %s; make chunks smaller",
                len(cut),
                len(texts),
                self.signature,
                cut[0],
                results,
            )
        return found

    async def _asked_shortened(
        self, text: str, error: RefusedInputError, ask: Callable[[Sequence[str]], Awaitable[R]]
    ) -> R:
        """What ``ask`` finds for a beginning of ``text``, which was refused with ``error``."""
        length = len(text)
        for _ in range(_MOST_CUTS):
            if error.is_too_long and len(text) > 1:
                text = shortened(text, error.detail)
            elif len(text) == length >= _LONG:  # once: it may speak of a length in other words
                text = text[: length // 2]
            else:
                break
            try:
                return await ask([text if text.strip() else BLANK])
            except RefusedInputError as again:
                error = again
        raise error.of_text(length) from error

    def _limit(self, proven: BatchLimits | None) -> None:
        """Keep what a provider was found to take, for the batches of all threads."""
        if proven is None:
            return
        with self._counting:
            self._batch = BatchLimits(
                texts=min(self._batch.texts, proven.texts),
                tokens=min(self._batch.tokens, proven.tokens),
            )
        logger.info("%s takes at most %s", self.signature, self._batch)
