"""What every reranker over HTTP does: batches, cuts, and scores in the order of the texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ValidationError
from triptych_backends.embedders.arguments import checked_texts
from triptych_backends.providers.background_loop import run
from triptych_backends.providers.remote_model import BatchedModel


class RemoteReranker(BatchedModel):
    """A `Reranker` over HTTP; a provider adds its wire format. Thread-safe.

    A text longer than the model takes, which the provider refuses, is cut until it takes it: it is
    counted in `inputs_cut`, and each call that cut anything logs one warning to
    ``triptych.providers``. Most providers cut such texts themselves, without a word.
    """

    _CHECK = "the model is a reranker"
    _ANSWER: ClassVar[type[Any]] = dict

    @property
    def signature(self) -> str:
        """Provider and model; not the address."""
        return f"{self._provider}/{self._model}" if self._model else self._provider

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
        return run(self._scored(*_checked(query, texts)))

    async def ascores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """`scores` for an event loop, which goes on meanwhile.

        Raises:
            The errors of `scores`. Cancelling the task lets go of the connection.
        """
        return await self._scored(*_checked(query, texts))

    @abstractmethod
    def _payload(self, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        """The request for one batch."""

    @abstractmethod
    def _read(self, answer: Any, count: int) -> NDArray[np.float32]:
        """The scores in its answer; raises `MalformedAnswerError` when there are none."""

    async def _scored(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        async def ask(some: Sequence[str]) -> NDArray[np.float32]:
            payload = self._payload(query, some)
            answer = await self._client.post(self._path, payload, of=self._ANSWER)
            with self._usable():
                return self._read(answer, len(some))

        none = np.empty(0, dtype=np.float32)
        return np.concatenate([none, *await self._in_batches(texts, ask, "scores")])


def _checked(query: str, texts: Sequence[str]) -> tuple[str, list[str]]:
    (asked,) = checked_texts([query], "query")
    checked = checked_texts(texts, "document")
    if not asked.strip():
        raise ValidationError("the query is blank: there is nothing to compare with")
    return asked, checked
