"""What every reranker over HTTP does: batches, cuts, and scores in the order of the texts."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.errors import ValidationError
from triptych_backends.embedders.arguments import checked_texts
from triptych_backends.providers.batching import BatchLimits, batches, shortened
from triptych_backends.providers.errors import InputTooLongError
from triptych_backends.providers.http import HttpClient
from triptych_backends.providers.response_parsing import MalformedAnswerError
from triptych_backends.providers.steps import Request, Steps, answered, answered_async

__all__ = ["RemoteReranker"]

logger = logging.getLogger("triptych.providers")

_BLANK = "."  # what providers are sent for a text without a character: they refuse blank ones
_MOST_CUTS = 24  # three quarters each: to a thousandth of the text


class RemoteReranker(ABC):
    """A `Reranker` over HTTP; a provider adds its wire format. Thread-safe.

    A text longer than the model takes, which the provider refuses, is cut until it takes it: it is
    counted in `inputs_cut`, and each call that cut anything logs one warning to
    ``triptych.providers``. Most providers cut such texts themselves, without a word.
    """

    def __init__(
        self, *, provider: str, model: str, path: str, batch: BatchLimits, client: HttpClient
    ) -> None:
        self._provider = provider
        self._model = model
        self._path = path
        self._batch = batch
        self._client = client
        self._counting = threading.Lock()
        self._cut = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    @property
    def signature(self) -> str:
        """Provider and model; not the address."""
        return f"{self._provider}/{self._model}" if self._model else self._provider

    @property
    def inputs_cut(self) -> int:
        """How many texts the provider refused as too long, and were cut, since it was made."""
        return self._cut

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
        return answered(self._steps(query, texts), self._post)

    async def ascores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """`scores` for an event loop, which goes on meanwhile.

        Raises:
            The errors of `scores`. Cancelling the task lets go of the connection.
        """
        return await answered_async(self._steps(query, texts), self._apost)

    def close(self) -> None:
        """Close the connections; later calls raise `ProviderError`. Idempotent.

        Connections of an event loop are closed by `aclose`, in that loop.
        """
        self._client.close()

    async def aclose(self) -> None:
        """`close`, and the connections of the running event loop. Idempotent."""
        await self._client.aclose()

    @abstractmethod
    def _payload(self, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        """The request for one batch."""

    @abstractmethod
    def _read(self, answer: Any, count: int) -> NDArray[np.float32]:
        """The scores in its answer; raises `MalformedAnswerError` when there are none."""

    def _post(self, request: Request) -> Any:
        return self._client.post(self._path, request)

    async def _apost(self, request: Request) -> Any:
        return await self._client.asynchronous.post(self._path, request)

    def _steps(self, query: str, texts: Sequence[str]) -> Steps[NDArray[np.float32]]:
        (asked,) = checked_texts([query], "query")
        checked = checked_texts(texts, "document")
        if not asked.strip():
            raise ValidationError("the query is blank: there is nothing to compare with")
        parts: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)]
        cut: list[int] = []
        for span in batches(checked, self._batch):
            deadlines.check(self._client.profile.doing)
            some = checked[span.start : span.stop]
            parts.extend((yield from self._scored(asked, some, span.start, cut)))
        if cut:
            with self._counting:
                self._cut += len(cut)
            logger.warning(
                "%s of %s texts were longer than %s takes and were cut, the first at position "
                "%s: their ends are not in their scores; make chunks smaller",
                len(cut),
                len(checked),
                self.signature,
                cut[0],
            )
        return np.concatenate(parts)

    def _scored(
        self, query: str, texts: Sequence[str], start: int, cut: list[int]
    ) -> Steps[list[NDArray[np.float32]]]:
        try:
            return [(yield from self._asked(query, texts))]
        except InputTooLongError as error:
            too_long = error
        if len(texts) > 1:
            half = len(texts) // 2
            first = yield from self._scored(query, texts[:half], start, cut)
            return [*first, *(yield from self._scored(query, texts[half:], start + half, cut))]
        scores = yield from self._scored_cut(query, texts[0], too_long)
        cut.append(start)
        return [scores]

    def _scored_cut(
        self, query: str, text: str, error: InputTooLongError
    ) -> Steps[NDArray[np.float32]]:
        for _ in range(_MOST_CUTS):
            if len(text) <= 1:
                break
            text = shortened(text, error.detail)
            try:
                return (yield from self._asked(query, [text]))
            except InputTooLongError as again:
                error = again
        raise error

    def _asked(self, query: str, texts: Sequence[str]) -> Steps[NDArray[np.float32]]:
        sent = [text if text.strip() else _BLANK for text in texts]
        answer = yield self._payload(query, sent)
        try:
            return self._read(answer, len(sent))
        except MalformedAnswerError as error:
            raise self._client.failed(
                f"was answered with what cannot be used: the answer {error}: check base_url, and "
                "that the model is a reranker"
            ) from error
