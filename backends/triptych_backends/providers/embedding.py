"""What every embedder over HTTP does: batches, prefixes, cuts, widths, counters."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.errors import ValidationError
from triptych_backends.embedders.arguments import checked_texts
from triptych_backends.providers.batching import BatchLimits, batches, shortened
from triptych_backends.providers.errors import InputTooLongError
from triptych_backends.providers.http import HttpClient
from triptych_backends.providers.models import KnownModel
from triptych_backends.providers.response_parsing import MalformedAnswerError
from triptych_backends.providers.steps import Steps, answered, answered_async

if TYPE_CHECKING:
    from triptych.records import EmbedKind

__all__ = ["Answered", "RemoteEmbedder", "checked_model"]

T = TypeVar("T")

logger = logging.getLogger("triptych.providers")

_BLANK = "."  # what providers are sent for a text without a character: they refuse blank ones
_MOST_CUTS = 24  # three quarters each: to a thousandth of the text


def checked_model(model: str) -> str:
    """``model``.

    Raises:
        ValidationError: it is not a name.
    """
    if not isinstance(model, str) or not model.strip() or not model.isprintable():
        raise ValidationError(f"the model is a name such as 'nomic-embed-text', not {model!r}")
    return model


@attrs.frozen(slots=True, eq=False)
class Answered:
    """One request's unit vectors, shape (texts, width), and its tokens (0: not reported)."""

    rows: NDArray[np.float64]
    tokens: int


class RemoteEmbedder(ABC):
    """An `Embedder` behind HTTP; a provider adds how one batch is asked for.

    A text longer than the model's context is cut until the provider takes it, so that the
    beginning has a vector: it is counted in `inputs_cut`, and each call that cut anything logs
    one warning to ``triptych.providers``. A server that cuts in silence cannot be seen.
    A blank text is embedded as ".". Thread-safe.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        known: KnownModel | None,
        dimension: int | None,
        rules: str | None,
        query_prefix: str | None,
        document_prefix: str | None,
        batch: BatchLimits,
        path: str,
        client: HttpClient,
        space: str,
    ) -> None:
        if dimension is not None and (
            isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1
        ):
            raise ValidationError(f"dimension is a whole number from 1 up, not {dimension!r}")
        self._provider = provider
        self._model = model
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
        self._batch = batch
        self._path = path
        self._client = client
        self._probing = threading.Lock()
        self._counting = threading.Lock()
        self._cut = 0
        self._tokens = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    @property
    def signature(self) -> str:
        """The embedding space: provider, model, dimension, prefix rules; not the address.

        An unknown model's dimension is asked for once, by embedding one word.

        Raises:
            ProviderError: the dimension was to be asked for, and could not be.
        """
        width = self._width or self._probed()
        space = f"/{self._space}" if self._space else ""
        return f"{self._provider}/{self._model}/{width}/{self._rules}{space}"

    @property
    def dimension(self) -> int | None:
        """The vectors' width; None for an unknown model that was not used yet."""
        return self._width

    @property
    def inputs_cut(self) -> int:
        """How many texts were longer than the model takes, and cut, since it was made."""
        return self._cut

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
        return self._answered(self._steps(checked_texts(texts, kind), kind))

    async def aembed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """`embed` for an event loop, which goes on meanwhile.

        Raises:
            The errors of `embed`. Cancelling the task lets go of the connection.
        """
        steps = self._steps(checked_texts(texts, kind), kind)
        post = partial(self._client.asynchronous.post, self._path)
        return await answered_async(steps, post)

    def close(self) -> None:
        """Close the connections; later calls raise `ProviderError`. Idempotent.

        Connections of an event loop are closed by `aclose`, in that loop.
        """
        self._client.close()

    async def aclose(self) -> None:
        """`close`, and the connections of the running event loop. Idempotent."""
        await self._client.aclose()

    @abstractmethod
    def _payload(self, texts: Sequence[str], kind: EmbedKind) -> Mapping[str, Any]:
        """The request for one batch, whose texts have their prefixes."""

    @abstractmethod
    def _read(self, answer: Mapping[str, Any], texts: Sequence[str]) -> Answered:
        """Its answer; raises `MalformedAnswerError` when it is none."""

    def _answered(self, steps: Steps[T]) -> T:
        return answered(steps, partial(self._client.post, self._path))

    def _steps(self, texts: Sequence[str], kind: EmbedKind) -> Steps[NDArray[np.float32]]:
        if not texts:
            width = self._width or (yield from self._asked(["dimension"], "document")).shape[1]
            return np.empty((0, width), dtype=np.float32)
        parts: list[NDArray[np.float64]] = []
        cut: list[int] = []
        for span in batches(texts, self._batch):
            deadlines.check(self._client.profile.doing)
            some = texts[span.start : span.stop]
            parts.extend((yield from self._rows(some, span.start, kind, cut)))
        if cut:
            with self._counting:
                self._cut += len(cut)
            logger.warning(
                "%s of %s texts were longer than %s takes and were cut, the first at position "
                "%s: their ends are not in their vectors; make chunks smaller",
                len(cut),
                len(texts),
                self._model,
                cut[0],
            )
        return np.concatenate(parts).astype(np.float32)

    def _rows(
        self, texts: Sequence[str], start: int, kind: EmbedKind, cut: list[int]
    ) -> Steps[list[NDArray[np.float64]]]:
        try:
            return [(yield from self._asked(texts, kind))]
        except InputTooLongError as error:
            too_long = error
        if len(texts) > 1:
            half = len(texts) // 2
            first = yield from self._rows(texts[:half], start, kind, cut)
            return [*first, *(yield from self._rows(texts[half:], start + half, kind, cut))]
        rows = yield from self._rows_of_cut(texts[0], too_long, kind)
        cut.append(start)
        return [rows]

    def _rows_of_cut(
        self, text: str, error: InputTooLongError, kind: EmbedKind
    ) -> Steps[NDArray[np.float64]]:
        for _ in range(_MOST_CUTS):
            if len(text) <= 1:
                break
            text = shortened(text, error.detail)
            try:
                return (yield from self._asked([text], kind))
            except InputTooLongError as again:
                error = again
        raise error

    def _asked(self, texts: Sequence[str], kind: EmbedKind) -> Steps[NDArray[np.float64]]:
        prefix = self._prefixes[kind]
        sent = [prefix + (text if text.strip() else _BLANK) for text in texts]
        answer = yield self._payload(sent, kind)
        try:
            answered = self._read(answer, sent)
        except MalformedAnswerError as error:
            raise self._client.failed(
                f"was answered with what cannot be used: the answer {error}: check base_url, "
                "and that the model makes embeddings"
            ) from error
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

    def _probed(self) -> int:
        with self._probing:
            return self._width or self._answered(self._asked(["dimension"], "document")).shape[1]


def _rules(query: str, document: str) -> str:
    if not query and not document:
        return "no-prefix"
    digest = sha256(f"{query}\0{document}".encode()).hexdigest()
    return f"prefix@{digest[:12]}"
