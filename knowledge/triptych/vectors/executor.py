"""Calling models in the workers of an executor."""

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
from typing import Any, Final, TypeVar

import attrs

from triptych import deadlines
from triptych.errors import ProviderError, ValidationError
from triptych.records import EmbedKind
from triptych.vectors.lanes import Lane

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
    """A model whose calls run on an executor; all else is the model's own.

    The model is pickled once, and each worker process keeps what it unpickled: a model loads once
    in each. Threads of this process take the model itself.

    Raises:
        ValidationError: the model cannot be pickled, and the executor is not one of threads.
    """

    def __init__(self, model: Any, executor: Executor) -> None:
        self._model = model
        self._call = _caller(model, executor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> Any:
        """See `Embedder.embed`.

        Raises:
            ProviderError: likewise, or the executor's workers are gone.
            CancelledError: the deadline around the call has passed.
        """
        return self._call("embed", texts, kind)

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Any:
        """As `embed`, of a model that encodes."""
        return self._call("encode", texts, kind)


def _caller(model: Any, executor: Executor) -> Callable[[str, Sequence[str], EmbedKind], Any]:
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


def _pickled(model: Any) -> bytes:
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


def on_executor(lane: Lane[V], executor: Executor) -> Lane[V]:
    """Return the same lane, whose model's calls run on ``executor``.

    Raises:
        ValidationError: the model cannot be sent to it.
    """
    if lane.model is None:
        return lane
    return attrs.evolve(lane, model=_OnExecutor(lane.model, executor))
