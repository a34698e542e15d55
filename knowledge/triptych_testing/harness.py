"""The description of a backend for the conformance tests, and their fixtures and marks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from threading import Barrier, Event
from typing import Any, TypeVar

import attrs
import pytest

from triptych.contracts import ChunkRepo, Store
from triptych.records import Finding, SpaceKind
from triptych_testing.work import Child, Worker

GUARANTEES = range(1, 11)

_Test = TypeVar("_Test", bound=Callable[..., Any])
_NAME = "triptych_guarantees"


def guarantee(*numbers: int) -> Callable[[_Test], _Test]:
    """Say that a test shows the guarantees of these numbers (docs/concepts.md).

    Such tests are few enough to run on every store at every change; the whole kit takes longer.
    An attribute and not a mark of pytest: a project that runs the kit with ``--strict-markers``
    has registered no mark of ours.
    """
    assert numbers, "name a guarantee"
    assert set(numbers) <= set(GUARANTEES), f"there is no such guarantee: {numbers}"

    def mark(test: _Test) -> _Test:
        setattr(test, _NAME, numbers)
        return test

    return mark


def guarantees_of(test: Callable[..., Any]) -> tuple[int, ...]:
    """The numbers of the guarantees that ``test`` shows; most tests show none."""
    numbers: tuple[int, ...] = getattr(test, _NAME, ())
    return numbers


P = TypeVar("P")
THREADS = 4


@attrs.frozen(kw_only=True)
class Contents:
    """The contents of a dataset, read directly from the store without the repositories.

    ``content`` has the stored bytes of each document by name. The counts are of rows, files or
    entries, including orphans; ``vectors`` counts each vector once, even if chunks share it, and
    excludes vectors that only layers have.
    """

    content: dict[str, bytes]
    chunks: int
    vectors: int
    layers: int


@attrs.frozen(kw_only=True)
class Harness:
    """A backend under test.

    Attributes:
        open: opens the store of this test; each further call opens the same store again.
        persistent: whether a reopened store has its data.
        shared: whether several processes may have it open at a time; needs ``child``.
        child: how another process opens it; required for races between processes and for kills.
        raw: reads a dataset directly from an open store, without the repositories. Without it, the
            tests cannot see remains of a delete, or a put and a get with the same bug.
        failing: given an open store, a context in which each of its writes fails half-way, as on a
            full disk. Without it, the tests cannot see remains of a failed write.
        history: the number of old versions that the store keeps, if any.
        atomic_batches: whether `put_many`, `replace_many` and `delete_many` are one atomic write
            each. False for a store that inherits them from the base classes.
        keeps_log: whether the change log continues after the store was reopened. False for a store
            whose log then starts again.
        scratch: makes an empty store in memory, for searches of the past (`ServiceOptions.scratch`)
            and for their expected results.
    """

    open: Callable[[], Store]
    persistent: bool = False
    shared: bool = False
    child: Child | None = None
    raw: Callable[[Any, str], Contents] | None = None
    failing: Callable[[Any], AbstractContextManager[object]] | None = None
    history: int = 10
    atomic_batches: bool = True
    keeps_log: bool = True
    scratch: Callable[[], Store] | None = None


class HarnessTests:
    """The base of each group of tests: the ``harness`` fixture is the backend's to give."""

    @pytest.fixture
    def harness(self) -> Harness:
        """Override this one."""
        raise NotImplementedError("a conformance class needs a fixture named harness")

    @pytest.fixture
    def store(self, harness: Harness) -> Iterator[Store]:
        with closing(harness.open()) as store:
            yield store

    @pytest.fixture
    def lasting(self, harness: Harness) -> Harness:
        """The harness, if its store is kept when it is closed."""
        if not harness.persistent:
            pytest.skip("the store is not kept")
        return harness

    @pytest.fixture
    def worker(self, harness: Harness) -> Iterator[Worker]:
        """Another process that has the store open."""
        if not harness.shared or harness.child is None:
            pytest.skip("no other process can open this store")
        with Worker() as worker:
            worker.open(harness.child)
            yield worker


def failures(rows: Iterable[P], check: Callable[[P], object]) -> list[str]:
    """What ``check`` raises for each of ``rows``: a test compares it with []."""
    failed = []
    for row in rows:
        try:
            check(row)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - each row is reported
            failed.append(f"{row}: {type(error).__name__}: {error}")
    return failed


def or_skip(capability: P | None) -> P:
    """A capability of the store; skips the test if it has not got it."""
    if capability is None:
        pytest.skip("the store is not capable of this")
    return capability


def keeps_or_skip(chunks: ChunkRepo, kind: SpaceKind) -> None:
    """Skip the test if the store keeps no vectors of this kind."""
    if kind not in chunks.kinds:
        pytest.skip(f"the store keeps no {kind} vectors")


def there(value: P | None) -> P:
    """A value that must not be None."""
    assert value is not None, "it is not there"
    return value


def check_contents(harness: Harness, store: Store, **contents: object) -> None:
    """Check fields of the `Contents` of the dataset "d", where they can be seen."""
    if harness.raw is not None:
        seen = harness.raw(store, "d")
        assert {name: getattr(seen, name) for name in contents} == contents


def examined(store: Store, dataset_ids: Collection[str]) -> list[Finding]:
    """What the store's diagnostics find wrong; nothing where it has none."""
    diagnostics = store.capabilities.diagnostics
    if diagnostics is None:
        return []
    there = set(store.documents.list_datasets())
    return list(diagnostics.check_integrity([name for name in dataset_ids if name in there]))


def in_threads(work: Callable[[int], P], threads: int = THREADS) -> list[P]:
    """What ``work`` returned in each of several threads, started together."""
    start = Barrier(threads)

    def started(number: int) -> P:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(started, range(threads)))


@contextmanager
def beside(step: Callable[[], object]) -> Iterator[Future[None]]:
    """Take ``step`` over and over in another thread until the block ends; raise what it raised."""
    ended = Event()

    def work() -> None:
        while not ended.is_set():
            step()

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            yield working
        finally:
            ended.set()
        working.result()
