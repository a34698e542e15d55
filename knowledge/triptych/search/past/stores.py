"""The cached scratch stores of recently requested moments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

import attrs

from triptych import deadlines
from triptych._internal.wording import counted
from triptych.contracts import Retriever, Store, VersionReader
from triptych.derivation.deriver import Deriver
from triptych.errors import NotAvailableError, ProviderError, StoreError
from triptych.records import Mode, Query
from triptych.search.past.filling import DatasetFiller, OutdatedError
from triptych.search.past.moments import Moment, to_moment

_KEPT = 2
"""Moments whose stores are kept for the next query."""
_TRIES = 3
_NAP = 0.05  # seconds: how often a thread that waits looks at its deadline


@attrs.frozen(kw_only=True)
class Wants:
    """What a search needs beside the chunks: the vectors of some lanes, and layers."""

    lanes: Collection[str]
    layers: bool


class Movable(Retriever, Protocol):
    """A lane that can search another store: see `Retriever`."""

    def over(self, store: Store) -> Retriever:
        """Return the same lane over another store."""
        ...


class Searched(Protocol):
    """What searches a store of the past."""

    def close(self) -> None:
        """End its threads."""
        ...


R = TypeVar("R")
S = TypeVar("S", bound=Searched)


@attrs.frozen(kw_only=True)
class Past(Generic[S]):
    """A search of the past.

    Attributes:
        parts: what searches the store of the moment.
        query: the query without its ``as_of``.
        as_of: the moment.
        warnings: what results of the search should say.
    """

    parts: S
    query: Query
    as_of: Moment
    warnings: tuple[str, ...]

    def dated(self, result: R) -> R:
        """Return ``result``, a record with ``as_of`` and ``warnings``, with those of this."""
        made: Any = result
        warnings = (*self.warnings, *made.warnings)
        dated: R = attrs.evolve(made, as_of=self.as_of, warnings=warnings)
        return dated


class _Scratch(Generic[S]):
    """The store of one moment. It is closed when it is retired and nobody uses it any more."""

    def __init__(self, store: Store, parts: S) -> None:
        self.store = store
        self.parts = parts
        self.filling = threading.Lock()
        self.fillers: dict[str, DatasetFiller] = {}
        self.users = 0
        self.retired = False

    def close(self) -> None:
        self.parts.close()
        self.store.close()


@attrs.define(eq=False)
class PastStores(Generic[S]):
    """Makes stores as of a moment, and keeps the last two for the next query. ``over`` makes what
    searches one, from the retrievers that can; ``retrievers`` are the lanes beside the built-in.

    A store is filled when a moment is first asked for, which takes time in proportion to the
    datasets. Later queries of the moment take over what was written since, as far as it concerns
    the moment: what was deleted goes, and a put that was under way is found. Thread-safe.
    """

    _store: Store
    _versions: VersionReader | None
    _derivation: Deriver
    _scratch: Callable[[], Store] | None
    _retrievers: Sequence[Retriever]
    _over: Callable[[Store, Sequence[Retriever]], S]
    _kept: dict[Moment, _Scratch[S]] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    @contextmanager
    def at(self, query: Query, dataset_ids: Sequence[str], wants: Wants) -> Iterator[Past[S]]:
        """What searches these datasets, which exist, as of the moment that ``query.as_of`` names,
        for the length of the block. Texts without a vector that the search needs are embedded.

        Each document is at one version, that of the moment. What another writer commits while the
        store is filled is seen as by a search that begins then: by the one list of documents that
        each dataset is filled from.

        Raises:
            NotAvailableError: the store keeps no versions, there is no scratch store, or the mode
                is a lane that cannot search the past.
            CancelledError: the deadline passed. The next call goes on from here.
        """
        moment = to_moment(query.as_of)
        scratch, warnings = self._filled(moment, dataset_ids, wants)
        try:
            left_out = dict.fromkeys(each.name for each in self._retrievers if not _moves(each))
            if query.mode in left_out:
                raise NotAvailableError(
                    f"the lane {query.mode!r} searches only the current state: leave as_of out, or "
                    "give its retriever a method over (see Retriever)"
                )
            if left_out and query.mode in (None, Mode.HYBRID):
                names = ", ".join(map(repr, left_out))
                lacking = f"searched without {names}: a lane that cannot search the past"
                warnings = (*warnings, lacking)
            yield Past(
                parts=scratch.parts,
                query=attrs.evolve(query, as_of=None),
                as_of=moment,
                warnings=tuple(warnings),
            )
        finally:
            self._release(scratch)

    def close(self) -> None:
        """Close every store. Idempotent."""
        with self._lock:
            self._closed = True
            kept, self._kept = list(self._kept.values()), {}
        for scratch in kept:
            scratch.close()

    def _filled(
        self, moment: Moment, dataset_ids: Sequence[str], wants: Wants
    ) -> tuple[_Scratch[S], Sequence[str]]:
        for left in reversed(range(_TRIES)):
            scratch = self._taken(moment)
            try:
                with _waiting_for(scratch.filling):
                    return scratch, self._fill(scratch, moment, dataset_ids, wants)
            except OutdatedError as error:
                with self._lock:
                    if self._kept.get(moment) is scratch:
                        del self._kept[moment]
                self._end(scratch)
                self._release(scratch)
                if not left:
                    raise StoreError(
                        "the documents changed repeatedly while their old versions were read: "
                        "search again"
                    ) from error
            except BaseException:
                self._release(scratch)
                raise
        raise AssertionError("unreachable")

    def _fill(
        self,
        scratch: _Scratch[S],
        moment: Moment,
        dataset_ids: Sequence[str],
        wants: Wants,
    ) -> Sequence[str]:
        """Bring the datasets up to date; what their searches should say."""
        assert self._versions is not None
        embedded = 0
        errors: list[Exception] = []
        fillers: dict[str, DatasetFiller] = {}
        for dataset_id in dict.fromkeys(dataset_ids):
            filler = scratch.fillers.get(dataset_id)
            if filler is None:
                filler = scratch.fillers[dataset_id] = DatasetFiller(
                    dataset_id,
                    moment,
                    self._store,
                    self._versions,
                    scratch.store,
                    self._derivation,
                )
            filler.fill()
            count, failed = filler.embed(wants.lanes)
            embedded += count
            errors += failed
            if wants.layers:
                try:
                    embedded += filler.fill_layers(vectors=Mode.VECTOR in wants.lanes)
                except ProviderError as error:
                    errors.append(error)
            fillers[dataset_id] = filler
        return [*_warnings(fillers, wants.layers), *_of_embedding(embedded, errors)]

    def _taken(self, moment: Moment) -> _Scratch[S]:
        """The store of the moment, in use; others may be retired for it."""
        if self._versions is None:
            raise NotAvailableError(
                "this store keeps no old versions to search: use one that does (./kb.db, "
                "files:///… or memory://), or leave as_of out"
            )
        if self._scratch is None:
            raise NotAvailableError(
                "a search of the past needs an in-memory store: give ServiceOptions(scratch=…), "
                "such as triptych_backends.memory.MemoryStore; "
                "triptych.open sets it"
            )
        retired = []
        with self._lock:
            if self._closed:
                raise StoreError("this knowledge base is closed: open it again")
            scratch = self._kept.pop(moment, None)
            if scratch is None:
                store = self._scratch()
                lanes = [each.over(store) for each in self._retrievers if _moves(each)]
                scratch = _Scratch(store, self._over(store, lanes))
            self._kept[moment] = scratch  # the last that was asked for comes last
            scratch.users += 1
            while len(self._kept) > _KEPT:
                retired.append(self._kept.pop(next(iter(self._kept))))
        for each in retired:
            self._end(each)
        return scratch

    def _end(self, scratch: _Scratch[S]) -> None:
        """Close the store as soon as nobody uses it."""
        with self._lock:
            scratch.retired = True
            unused = scratch.users == 0
        if unused:
            scratch.close()

    def _release(self, scratch: _Scratch[S]) -> None:
        with self._lock:
            scratch.users -= 1
            unused = scratch.retired and scratch.users == 0
        if unused:
            scratch.close()


def _moves(lane: Retriever) -> TypeGuard[Movable]:
    """Whether a lane can search another store."""
    return callable(getattr(lane, "over", None))


def by_moment(queries: Sequence[Query]) -> Collection[Sequence[int]]:
    """The places of those queries that one store answers: of a moment, of datasets and of needs.

    Raises:
        ValidationError: an ``as_of`` is no moment.
    """
    places: dict[str, list[int]] = {}
    for at, query in enumerate(queries):
        key = ""
        if query.as_of is not None:
            where = query.scope, query.dataset_id, query.dataset_ids
            key = repr((to_moment(query.as_of), *where, query.mode, query.layer))
        places.setdefault(key, []).append(at)
    return places.values()


@contextmanager
def _waiting_for(lock: threading.Lock) -> Iterator[None]:
    while not lock.acquire(timeout=_NAP):
        deadlines.check("the search of the past")
    try:
        yield
    finally:
        lock.release()


def _warnings(fillers: Mapping[str, DatasetFiller], layers: bool) -> Iterator[str]:
    lost = [name for each in fillers.values() for name in each.lost]
    if lost:
        yield (
            f"{counted(len(lost), 'document')} of then left out, such as {lost[0]!r}: the version "
            "is no longer kept (the setting history says how many are)"
        )
    unknown = [name for each in fillers.values() for name in each.unknown]
    if unknown:
        yield (
            f"{counted(len(unknown), 'document')} left out, such as {unknown[0]!r}, that came "
            "later, or whose version of then is no longer kept"
        )
    deleted = [name for name, each in fillers.items() if each.deleted]
    if deleted:
        yield (
            f"documents of {', '.join(map(repr, deleted))} were deleted at some time: those that "
            "were there then are not found, for their versions went with them"
        )
    failed = {name: error for each in fillers.values() for name, error in each.failed.items()}
    if failed:
        name, error = next(iter(failed.items()))
        yield (
            f"{counted(len(failed), 'document')} of then could not be chunked, such as {name!r}: "
            f"{type(error).__name__}: {error}"
        )
    empty = [name for name, each in fillers.items() if each.is_empty]
    if empty:
        yield f"no document of {', '.join(map(repr, empty))} of then is kept"
    left_out = sum(each.left_out for each in fillers.values()) if layers else 0
    if left_out:
        yield f"{counted(left_out, 'layer')} left out: made from other text than that of then"


def _of_embedding(embedded: int, errors: Sequence[Exception]) -> Iterator[str]:
    if embedded:
        yield (
            f"embedded {counted(embedded, 'text')} of then without a vector by now; the next "
            "search of this moment has what was embedded"
        )
    if errors:
        yield f"texts of then could not be embedded, and are found by keyword only: {errors[0]}"
