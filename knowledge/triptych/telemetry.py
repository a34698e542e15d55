"""Running operations, for observers of this process.

Nothing is measured unless `observe` was called: an operation without an observer only tests a
variable. `triptych_server.telemetry` has observers for OpenTelemetry and Prometheus.

An operation has only sizes, counts, names of lanes and signatures of models. It never has texts of
documents or queries, names of documents or datasets, or secrets.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Protocol, Self

from triptych.records.models import Generation, ModelUsage

if TYPE_CHECKING:
    from triptych.records import Answerability, Hit

Value = str | int | float | bool
_log = logging.getLogger(__name__)


class Observation:
    """An observer's view of one operation, from start to end.

    ``enter`` and ``leave`` are called in pairs in one thread; operations that start between them
    are parts of this one. A stream is entered once for each of its pieces.
    """

    def enter(self) -> None:
        """The operation starts or continues in this thread."""

    def leave(self) -> None:
        """The operation pauses, or has ended."""

    def end(self) -> None:
        """The operation has ended: its attributes, stages, seconds and error are known."""


class Observer(Protocol):
    """Called for each operation, in its thread. It must be fast and thread-safe."""

    def begin(self, operation: Operation) -> Observation | None:
        """An operation starts; return None to ignore it.

        Errors of an observer are logged and stop nothing.
        """
        ...


class AnswerObserver:
    """An observer of one Service, which sees questions and what was found, and no times.

    Its methods are called by the threads that search, and never raise. Each may return a warning
    for the result.
    """

    def note(
        self,
        text: str,
        dataset_ids: Sequence[str],
        answerability: Answerability | None,
        hits: Sequence[Hit],
    ) -> str | None:
        """A search for chunks found ``hits``; ``answerability`` None: that is not known."""

    def note_cited(self, documents: Iterable[tuple[str, str]]) -> str | None:
        """An answer cites documents, by dataset and name."""


class Operation:
    """A unit of work, such as a search, one of its lanes, a put, a model call or a request.

    Attributes:
        name: its kind: "search", "lane", "embed", "encode", "rerank", "generate", "put", "delete",
            "rebuild", "embed_pending", "context", "ask" or "request".
        attributes: its attributes, which may grow while it runs.
        carrier: the headers of the request, from which a trace may continue.
        stages: seconds by stage.
        seconds: its duration, once it has ended; 0 if it is not observed by itself.
        error: its error, None if it did not fail.
    """

    __slots__ = ("attributes", "carrier", "error", "name", "seconds", "stages")

    def __init__(
        self, name: str, attributes: dict[str, Value], carrier: Mapping[str, str] | None = None
    ) -> None:
        self.name: str = name
        self.attributes: dict[str, Value] = attributes
        self.carrier: Mapping[str, str] = carrier or {}
        self.stages: dict[str, float] = {}
        self.seconds: float = 0.0
        self.error: BaseException | None = None

    def note(self, **attributes: Value) -> None:
        """Add to the attributes."""
        self.attributes.update(attributes)

    def note_spent(self, usage: ModelUsage) -> None:
        """Note the usage of a model call."""
        self.note(
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=usage.cost
        )

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make operations that start in the block parts of this one."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def end(self, error: BaseException | None = None) -> None:
        """The operation has ended, with ``error`` if it failed."""

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._leave()
        self.end(error)

    def _enter(self) -> None:
        """It starts or continues in this thread."""

    def _leave(self) -> None:
        """It pauses, or has ended."""


class _Unobserved(Operation):
    """Every operation while nobody observes: it keeps nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        pass

    def note(self, **attributes: Value) -> None:
        pass


class _Observed(Operation):
    """An operation that observers see."""

    __slots__ = ("_began", "_observations", "_tokens")

    def __init__(
        self, name: str, attributes: dict[str, Value], carrier: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name, attributes, carrier)
        self._tokens: list[Token[Operation | None]] = []
        self._observations: list[Observation] = []
        for observer in _observers:
            try:
                made = observer.begin(self)
            except Exception:  # noqa: BLE001 - what observes may fail in any way; it is logged
                _log.exception("an observer failed")
            else:
                if made is not None:
                    self._observations.append(made)
        self._began = time.perf_counter()

    def end(self, error: BaseException | None = None) -> None:
        self.seconds = time.perf_counter() - self._began
        # What a reader does who stops a stream is no failure.
        self.error = None if isinstance(error, GeneratorExit) else error
        self._each(lambda each: each.end())
        self._observations.clear()

    def _enter(self) -> None:
        self._tokens.append(_current.set(self))
        self._each(lambda each: each.enter())

    def _leave(self) -> None:
        self._each(lambda each: each.leave())
        _current.reset(self._tokens.pop())

    def _each(self, call: Callable[[Observation], None]) -> None:
        for observation in self._observations:
            try:
                call(observation)
            except Exception:  # noqa: BLE001 - what observes may fail in any way; it is logged
                _log.exception("an observer failed")


_observers: tuple[Observer, ...] = ()
_changing = threading.Lock()
_current: ContextVar[Operation | None] = ContextVar("triptych_operation", default=None)
_NOBODY = _Unobserved("", {})


def observe(observer: Observer) -> Callable[[], None]:
    """Call ``observer`` for each operation of this process that starts from now on.

    Returns a function that ends this.
    """
    global _observers
    with _changing:
        _observers = (*_observers, observer)

    def stop() -> None:
        global _observers
        with _changing:
            _observers = tuple(each for each in _observers if each is not observer)

    return stop


def is_observed() -> bool:
    """Return whether there is an observer, to skip computing costly attributes."""
    return bool(_observers)


def operation(
    name: str, /, carrier: Mapping[str, str] | None = None, **attributes: Value
) -> Operation:
    """Start an operation; the end of the block or `Operation.end` ends it.

    Inside an operation of the same name it becomes a part of that.
    """
    if not _observers:
        return _NOBODY
    current = _current.get()
    if current is not None and current.name == name:
        return Operation(name, current.attributes)
    return _Observed(name, attributes, carrier)


def laps() -> Callable[[str], None] | None:
    """Time stages of the current operation: what this returns adds the time since it was called
    last, or made, to the stage of that name. None if nobody observes."""
    if not _observers or (current := _current.get()) is None:
        return None
    began = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal began
        before, began = began, time.perf_counter()
        current.stages[name] = current.stages.get(name, 0.0) + began - before

    return lap


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time a block as a stage of the current operation."""
    lap = laps()
    try:
        yield
    finally:
        if lap is not None:
            lap(name)


def note(**attributes: Value) -> None:
    """Add attributes to the current operation."""
    if _observers and (current := _current.get()) is not None:
        current.attributes.update(attributes)


def add(name: str, count: int = 1) -> None:
    """Add to a numeric attribute of the current operation."""
    if _observers and (current := _current.get()) is not None:
        before = current.attributes.get(name, 0)
        current.attributes[name] = (before if isinstance(before, int) else 0) + count


def note_usage(answer: object) -> None:
    """Note the token counts that a model reports, unless they are known already."""
    if _observers and isinstance(answer, Generation) and (current := _current.get()) is not None:
        current.attributes.setdefault("input_tokens", answer.usage.input_tokens)
        current.attributes.setdefault("output_tokens", answer.usage.output_tokens)
