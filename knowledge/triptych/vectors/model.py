"""Calling the model of one vector space, in this process or in workers of an executor."""

from __future__ import annotations

import functools
import hashlib
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError as FutureCancelledError,
    Executor,
    ThreadPoolExecutor,
    TimeoutError as FutureTimeoutError,
)
from typing import Any, Final, Generic, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.contracts import Embedder, SettingsStore, SparseEncoder, VectorRepo
from triptych.errors import ProviderError, ValidationError
from triptych.records import EmbedKind, SparseVector, Vector, VectorSpace
from triptych.records.spaces import dense, sparse
from triptych.vectors.embedding import CoverageGate, embed, encode_sparse
from triptych.vectors.refused import RefusedTexts
from triptych.vectors.run import EmbeddingRun

_LOOK_EVERY: Final = 0.1
"""Seconds between two looks at whether the deadline has passed."""
_SMALL: Final = 65_536
"""Bytes of a pickled model that goes with every call; a longer one goes to who lacks it."""
_KEPT: Final = 4
"""Models that a worker process keeps."""


def check_executor(executor: object) -> None:
    """Refuse what runs nothing, while nothing has been read or written.

    Raises:
        ValidationError: it is not an object with ``submit``.
    """
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ValidationError(
            f"{executor!r:.80} is not an executor: give an object such as "
            "concurrent.futures.ProcessPoolExecutor() or dask's Client(…).get_executor()"
        )


class _OnExecutor:
    """An embedder or a sparse encoder whose calls run on an executor; all else is the model's own.

    The model is pickled once, and each worker process keeps what it unpickled: a model loads once
    in each. Threads of this process take the model itself.

    Raises:
        ValidationError: the model cannot be pickled, and the executor is not one of threads.
    """

    def __init__(self, model: Embedder | SparseEncoder, executor: Executor) -> None:
        self._model = model
        self._call = _caller(model, executor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """See `Embedder.embed`.

        Raises:
            ProviderError: likewise, or the executor's workers are gone.
            CancelledError: the deadline around the call has passed.
        """
        rows: NDArray[np.float32] = self._call("embed", texts, kind)
        return rows

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Sequence[SparseVector]:
        """See `SparseEncoder.encode`; errors as `embed`."""
        vectors: Sequence[SparseVector] = self._call("encode", texts, kind)
        return vectors


def _caller(
    model: Embedder | SparseEncoder, executor: Executor
) -> Callable[[str, Sequence[str], EmbedKind], Any]:
    who = f"the executor {type(executor).__name__} of the model {model.signature!r}"
    if isinstance(executor, ThreadPoolExecutor):
        return functools.partial(_answer, executor, who, _call, model)
    pickled = _pickled(model)
    digest = hashlib.sha256(pickled).digest()
    sent = pickled if len(pickled) <= _SMALL else None

    def call(method: str, texts: Sequence[str], kind: EmbedKind) -> Any:
        begin = functools.partial(_answer, executor, who, _call_pickled, digest)
        rows = begin(sent, method, texts, kind)
        if rows is None:  # this worker does not have the model yet
            rows = begin(pickled, method, texts, kind)
        return rows

    return call


def _pickled(model: Embedder | SparseEncoder) -> bytes:
    try:
        return pickle.dumps(model)
    except Exception as error:  # a class may refuse in any way
        raise ValidationError(
            f"the model {model.signature!r} cannot be sent to the executor's workers "
            f"({type(error).__name__}: {error}): give its class a __reduce__ that makes it again "
            "from its arguments, or an executor of threads"
        ) from error


def _answer(executor: Executor, who: str, function: Callable[..., Any], *arguments: object) -> Any:
    """What a worker returns; other workers go on while this thread waits."""
    try:
        future = executor.submit(function, *arguments)
    except RuntimeError as error:  # shut down, or broken
        raise _gone(who, error) from error
    try:
        while True:
            try:
                return future.result(timeout=_LOOK_EVERY)
            except FutureTimeoutError:
                if future.done():
                    return future.result()  # or raise the model's own
            deadlines.check("embedding")
    except (BrokenExecutor, FutureCancelledError) as error:
        raise _gone(who, error) from error
    finally:
        future.cancel()


def _gone(who: str, error: Exception) -> ProviderError:
    return ProviderError(
        f"{who} has stopped working ({type(error).__name__}: {error}): open the knowledge base "
        "with a new executor, and embed pending documents"
    )


def _call(model: Any, method: str, texts: Sequence[str], kind: EmbedKind) -> Any:
    return getattr(model, method)(list(texts), kind=kind)


_models: OrderedDict[bytes, object] = OrderedDict()
"""The models of this worker process, by the digest of their pickles; the last used is last."""
_loading = threading.Lock()


def _call_pickled(
    digest: bytes, pickled: bytes | None, method: str, texts: Sequence[str], kind: EmbedKind
) -> Any:
    """What the model answers; None: it is not here, and was not sent."""
    with _loading:
        if digest not in _models:
            if pickled is None:
                return None
            _models[digest] = pickle.loads(pickled)
        _models.move_to_end(digest)
        while len(_models) > _KEPT:
            _models.popitem(last=False)
        model = _models[digest]
    return _call(model, method, texts, kind)


V = TypeVar("V")


@attrs.frozen(eq=False)
class VectorModel(Generic[V]):
    """What the fillers of a space need of its model.

    Attributes:
        space: where its vectors belong.
        encode: the vectors of texts, in order: a call of the model.
        admits: whether it makes a vector of a text.
    """

    space: VectorSpace[V]
    encode: Callable[[Sequence[str]], list[V]]
    admits: Callable[[str], bool] = lambda _: True

    def run(
        self,
        vectors: VectorRepo,
        dataset_id: str,
        concurrency: int = 1,
        settings: SettingsStore | None = None,
    ) -> EmbeddingRun[V]:
        """A run of the model for a dataset; ``settings`` remember the texts that it refuses."""
        space = self.space
        return EmbeddingRun(
            self.encode,
            concurrency,
            lambda digests: vectors.known_vectors(dataset_id, space, digests),
            RefusedTexts(settings, dataset_id, space),
        )


def embedding_model(embedder: Embedder, executor: Executor | None = None) -> VectorModel[Vector]:
    """The model of an embedder, whose calls run on ``executor``; None: in this process."""
    model: Any = embedder if executor is None else _OnExecutor(embedder, executor)
    return VectorModel(
        dense(embedder.signature),
        lambda texts: list(embed(model, texts, kind="document")),
        CoverageGate(embedder).admits,
    )


def encoding_model(
    encoder: SparseEncoder, executor: Executor | None = None
) -> VectorModel[SparseVector]:
    """The model of a sparse encoder, likewise."""
    model: Any = encoder if executor is None else _OnExecutor(encoder, executor)
    return VectorModel(
        sparse(encoder.signature), lambda texts: encode_sparse(model, texts, kind="document")
    )
