"""What the kit needs to know of a backend, and the fixtures all its tests share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, cast

import attrs
import pytest

from triptych.contracts import ChunkRepo, DocumentRepo, IntegrityChecker, LayerRepo
from triptych.records import Finding

__all__ = ["Child", "Contents", "Harness", "HarnessTests", "Store", "examined", "power"]

P = TypeVar("P")


class Store(Protocol):
    """An opened backend: its three repositories."""

    @property
    def documents(self) -> DocumentRepo: ...

    @property
    def chunks(self) -> ChunkRepo: ...

    @property
    def layers(self) -> LayerRepo: ...

    def close(self) -> None: ...


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
    """

    open: Callable[[], Store]
    persistent: bool = False
    shared: bool = False
    child: Child | None = None
    raw: Callable[[Any, str], Contents] | None = None
    failing: Callable[[Any], AbstractContextManager[object]] | None = None
    history: int = 10


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


def power(store: Store, protocol: Callable[..., P]) -> P:
    """The part of the store that has an optional power; skips the test if none has."""
    for part in (store.chunks, store.documents, store.layers, store):
        if isinstance(part, cast(type, protocol)):
            return cast(P, part)
    pytest.skip(f"the backend has no {protocol.__name__}")


def examined(store: Store, dataset_ids: Collection[str]) -> list[Finding]:
    """What those parts of the store that can examine it find wrong; nothing where none can."""
    there = set(store.documents.list_datasets())
    parts = {id(part): part for part in (store.documents, store.chunks, store.layers)}
    examiners = [part for part in parts.values() if isinstance(part, IntegrityChecker)]
    return [
        finding
        for examiner in examiners
        for finding in examiner.check_integrity([name for name in dataset_ids if name in there])
    ]
