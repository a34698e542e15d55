"""What the kit needs to know of a backend, and the fixtures all its tests share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import attrs
import pytest

from triptych.contracts import Store
from triptych.records import Finding

P = TypeVar("P")


@attrs.frozen(kw_only=True)
class Child:
    """How another process opens the same store: ``module:function`` called with ``argument``.

    ``function`` may be dotted (``Store.open``). The module must be importable with the parent's
    ``sys.path``.
    """

    opener: str
    argument: str


@attrs.frozen(kw_only=True)
class Contents:
    """What a dataset has in the store itself, read behind the repositories.

    ``content`` holds the stored bytes of each document by name. The counts are of rows, files
    or entries, orphans included; ``vectors`` counts each once, however many chunks share
    it, and leaves out those that belong to layers alone.
    """

    content: dict[str, bytes]
    chunks: int
    vectors: int
    layers: int


@attrs.frozen(kw_only=True)
class Harness:
    """A backend under test.

    Attributes:
        open: opens the one store of this test; called again, it opens it again.
        persistent: whether a store that was closed and opened again has its data.
        shared: whether several processes may have it open at a time; needs ``child``.
        child: how another process opens it; needed for races between processes and for kills.
        raw: reads an open store behind its repositories' backs; given a dataset, its contents.
            Without it, what a delete leaves behind cannot be seen, nor a put and a get that
            agree on a mistake.
        failing: given an open store, a context in which each of its writes fails half-way, as
            on a full disk. Without it, what a write that fails leaves behind cannot be seen.
        history: how many old versions of a document ``open`` has the store keep, if it keeps any.
        atomic_batches: whether `put_many`, `replace_many` and `delete_many` are one atomic write
            each. False for a store that takes them from the base classes.
        keeps_log: whether those who follow its changes go on after it was opened again. False for a
            store whose log begins again then.
        scratch: makes an empty store in memory, for searches of the past (`ServiceOptions.scratch`)
            and for what they must equal.
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
        store = harness.open()
        yield store
        store.close()


def or_skip(capability: P | None) -> P:
    """A capability of the store; skips the test if it has not got it."""
    if capability is None:
        pytest.skip("the store is not capable of this")
    return capability


def examined(store: Store, dataset_ids: Collection[str]) -> list[Finding]:
    """What the store's diagnostics find wrong; nothing where it has none."""
    diagnostics = store.capabilities.diagnostics
    if diagnostics is None:
        return []
    there = set(store.documents.list_datasets())
    return list(diagnostics.check_integrity([name for name in dataset_ids if name in there]))
