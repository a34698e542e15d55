"""Workers: processes that share the derivation of chunks and vectors for one store.

A share is a group of documents whose chunks are stale or lack vectors. Leases in the store assign
them to one worker; when a worker dies, its leases expire and others take over.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs

from triptych import deadlines
from triptych.contracts import WorkLeases
from triptych.contracts.change_pages import check_poll
from triptych.contracts.pages import document_pages
from triptych.derivation.deriver import Deriver
from triptych.errors import (
    CancelledError,
    ConflictError,
    ModelMismatchError,
    NotAvailableError,
    NotFoundError,
    StoreError,
    TriptychError,
)
from triptych.leases import LEASE, LeaseHolder
from triptych.records import DocumentInfo, Failure, RebuildReport, RebuildScope
from triptych.records.reports import summed
from triptych.service import Service

_FIRST_SHARE, _LARGEST_SHARE = 16, 256
_SHARE_SECONDS = 3.0
"""The target duration of a share: short, because the share of a dead worker waits."""
_LOOK_EVERY, _LOOK_LEAST_OFTEN = 0.25, 2.0
"""Seconds between checks of the leases of others and of `Worker.stop`."""
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 300.0
"""Seconds until a failure is tried again."""
_SCAN_EVERY = 300.0
"""Seconds between full checks, even without a reported change."""


@attrs.frozen(kw_only=True)
class Share:
    """The outcome of one share, or of a dataset (``documents`` 0) that cannot be worked on.

    Attributes:
        dataset_id: its dataset; "" if the store failed.
        documents: the number of its documents.
        report: the report of their rebuild.
        seconds: the duration.
    """

    dataset_id: str
    documents: int
    report: RebuildReport
    seconds: float = 0.0


@attrs.frozen(kw_only=True)
class WorkReport:
    """The report of a worker: ``documents`` brought up to date, texts ``embedded``, ``reused`` and
    ``encoded``, and what ``failed`` in its last attempt."""

    shares: int = 0
    documents: int = 0
    embedded: int = 0
    reused: int = 0
    encoded: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.define
class _Failed:
    failure: Failure
    pause: float
    again: float


class Worker:
    """Brings documents of a store up to date, share by share, concurrently with other workers.

    It rebuilds documents with stale chunks or missing vectors as `Service.rebuild` does. A document
    that fails is tried again after a pause and does not block others. Datasets with another
    configuration than this Service are skipped: rebuild them once. Layers are not generated.

    Args:
        service: the knowledge base; the worker does not close it.
        dataset_ids: the datasets to work on; None for all, including new ones.
        poll: seconds between checks for new work, if the store does not report writes.
        lease: seconds after which others take over the share of a killed worker.
        on_share: called after each share, in the worker's thread.

    Raises:
        NotAvailableError: the store has no leases.
        ValidationError: ``poll`` or ``lease`` is not a number above 0.
    """

    def __init__(
        self,
        service: Service,
        dataset_ids: Sequence[str] | None = None,
        *,
        poll: float = 1.0,
        lease: float = LEASE,
        on_share: Callable[[Share], None] | None = None,
    ) -> None:
        self._leases = _required(service.capabilities.leases)
        self._poll = check_poll(poll)
        self._lease = check_poll(lease, "lease")
        self._service = service
        self._dataset_ids = None if dataset_ids is None else list(dict.fromkeys(dataset_ids))
        self._on_share = on_share
        self._stopped = threading.Event()
        self._is_stopped = False
        self._scope: deadlines.CancelScope | None = None
        options = service.options
        self._deriver = Deriver(
            service.chunks,
            options.chunkers,
            options.embedder,
            sparse_encoder=options.sparse_encoder,
            next_embedder=options.next_embedder,
        )
        self._size = _FIRST_SHARE
        self._failed: dict[tuple[str, str], _Failed] = {}
        self._report = WorkReport()

    def stop(self) -> None:
        """End `run` soon. Completed work is kept, and others take over the rest.

        It may be called from any thread and from a signal handler.
        """
        self._is_stopped = True
        # In a thread of its own: a handler runs in the thread that waits for the event, perhaps
        # while it holds the event's lock.
        threading.Thread(target=self._stopped.set, daemon=True).start()
        scope = self._scope
        if scope is not None:
            scope.cancel()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    def run(self, *, once: bool = False) -> WorkReport:
        """Work until `stop`; with ``once`` until no work is left, here or with other workers.

        With ``once`` each document is tried once, and an error of the store is raised. Otherwise
        the worker waits for new work and repeats failed work later.

        Raises:
            StoreError: with ``once``, or if it cannot listen for changes of the store.
            CancelledError: the deadline around this call passed.
        """
        with deadlines.deadline(None) as self._scope, self._waiting() as wait:
            try:
                self._work(wait, once=once)
            except CancelledError:
                if not self._is_stopped:
                    raise
        failed = tuple(each.failure for each in self._failed.values())
        return attrs.evolve(self._report, failed=failed)

    def _work(self, wait: Callable[[float], bool], *, once: bool) -> None:
        pause = _FIRST_PAUSE
        while not self._is_stopped:
            try:
                if self._round(wait, once=once):
                    return
                pause = _FIRST_PAUSE
            except StoreError as error:
                if once:
                    raise
                self._tell(Share(dataset_id="", documents=0, report=_failed("", error)))
                self._stopped.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _round(self, wait: Callable[[float], bool], *, once: bool) -> bool:
        """Do all available work, and return when there may be more; True if ``once`` and all is
        done.

        It checks the leases of others repeatedly, because they may have died.
        """
        head, began, look = self._head(), time.monotonic(), _LOOK_EVERY
        held = self._pass(None, once=once)
        self._failed = {
            key: each for key, each in self._failed.items() if once or each.again > began
        }
        while not self._is_stopped:
            deadlines.check("waiting for work")
            if once and not held:
                return not self._has_changed(head, once=once)
            if held:
                self._stopped.wait(look)
                look = min(2 * look, _LOOK_LEAST_OFTEN)
                held = self._pass(held, once=once)
            else:
                wait(self._poll)
            retries = (each.again for each in self._failed.values())
            is_due = time.monotonic() >= min([began + _SCAN_EVERY, *retries])
            if self._has_changed(head, once=once) or (is_due and not once):
                return False
        return True

    @contextmanager
    def _waiting(self) -> Iterator[Callable[[float], bool]]:
        listening = self._leases.listen_for_changes()
        if listening is None:
            yield self._stopped.wait
            return
        with listening as listen:

            def wait(seconds: float) -> bool:
                return listen(min(seconds, _LOOK_EVERY))

            yield wait

    def _head(self) -> str | None:
        """The end of the change log; None in a store without one."""
        changes = self._service.capabilities.changes
        return None if changes is None else changes.change_head()

    def _has_changed(self, head: str | None, *, once: bool) -> bool:
        """Return whether a document may have changed; without a log, True unless ``once``."""
        return not once if head is None else self._head() != head

    # One pass over what is to be done

    def _pass(
        self, only: Mapping[str, Sequence[str]] | None, *, once: bool
    ) -> Mapping[str, Sequence[str]]:
        """Do the work that nobody else has leased, of ``only`` (None: all); return what others
        have."""
        held: dict[str, Sequence[str]] = {}
        for dataset_id in self._datasets() if only is None else only:
            queue = json.dumps(["documents", dataset_id])
            with LeaseHolder(self._leases, queue, self._lease) as holder:
                names = self._unfinished(dataset_id, None if only is None else only[dataset_id])
                try:
                    others = self._dataset(dataset_id, names, holder, once=once)
                except (ModelMismatchError, ConflictError) as error:
                    self._note(dataset_id, [Failure(dataset_id=dataset_id, name="", error=error)])
                    self._tell(
                        Share(dataset_id=dataset_id, documents=0, report=_failed(dataset_id, error))
                    )
                    continue
                except NotFoundError:  # the dataset was deleted meanwhile
                    continue
            if others:
                held[dataset_id] = others
        return held

    def _datasets(self) -> Sequence[str]:
        there = self._service.list_datasets()
        if self._dataset_ids is None:
            return there
        return [dataset_id for dataset_id in self._dataset_ids if dataset_id in there]

    def _dataset(
        self, dataset_id: str, pages: Iterable[Sequence[str]], holder: LeaseHolder, *, once: bool
    ) -> list[str]:
        """Do the unleased work of ``pages``; return the names that others have."""
        others: list[str] = []
        if not self._may_try(dataset_id, "", once=once):
            return others
        for page in pages:
            left = [name for name in page if self._may_try(dataset_id, name, once=once)]
            while left and (share := holder.claim(left, self._size)):
                with holder.working():
                    self._do(dataset_id, share)
                holder.release(share)
                ours = set(share)
                left = [name for name in left if name not in ours]
            others += left
        return others

    def _do(self, dataset_id: str, names: Sequence[str]) -> None:
        began = time.monotonic()
        scope = RebuildScope(dataset_id=dataset_id, doc_names=tuple(names))
        report = self._service.rebuild(scope)
        seconds = time.monotonic() - began
        faster = min(max(_SHARE_SECONDS / max(seconds, 0.001), 0.5), 2.0)
        self._size = min(max(int(self._size * faster), 1), _LARGEST_SHARE)
        failed = {failure.name for failure in report.failed}
        for name in ("", *names):
            if name not in failed:
                self._failed.pop((dataset_id, name), None)
        self._note(dataset_id, report.failed)
        done = WorkReport(
            shares=1,
            documents=report.rebuilt,
            embedded=report.embedded,
            reused=report.reused,
            encoded=report.encoded,
        )
        self._report = summed(self._report, done)
        self._tell(
            Share(dataset_id=dataset_id, documents=len(names), report=report, seconds=seconds)
        )

    def _tell(self, share: Share) -> None:
        if self._on_share is not None:
            self._on_share(share)

    # What failed

    def _note(self, dataset_id: str, failures: Iterable[Failure]) -> None:
        for failure in failures:
            key = dataset_id, failure.name
            before = self._failed.get(key)
            pause = _FIRST_PAUSE if before is None else min(2 * before.pause, _LONGEST_PAUSE)
            self._failed[key] = _Failed(failure, pause, time.monotonic() + pause)

    def _may_try(self, dataset_id: str, name: str, *, once: bool) -> bool:
        failed = self._failed.get((dataset_id, name))
        return failed is None or (not once and time.monotonic() >= failed.again)

    # What is to be done

    def _unfinished(self, dataset_id: str, only: Sequence[str] | None) -> Iterator[list[str]]:
        """Yield pages of names of documents that are stale or lack vectors, limited to ``only``."""
        deriver = self._deriver.of_config(self._service.chunks.config(dataset_id))
        for page in self._pages(dataset_id, only):
            if self._is_stopped:
                return
            names = [info.name for info in page]
            have = self._service.chunks.get_doc_sigs(dataset_id, names)
            lacking = {
                name
                for model in deriver.further
                for name in self._service.chunks.waiting(dataset_id, model.space, names)
            }
            yield [
                info.name
                for info in page
                if info.name in lacking or have.get(info.name) != deriver.expected_signature(info)
            ]

    def _pages(
        self, dataset_id: str, only: Sequence[str] | None
    ) -> Iterator[Sequence[DocumentInfo]]:
        documents = self._service.documents
        if only is not None:
            infos = (documents.get_info(dataset_id, name) for name in only)
            yield [info for info in infos if info is not None]
            return
        yield from document_pages(documents, dataset_id)


def _required(leases: WorkLeases | None) -> WorkLeases:
    if leases is None:
        raise NotAvailableError(
            "this store keeps no settings, which workers need for leases: rebuild it in one process"
        )
    return leases


def _failed(dataset_id: str, error: TriptychError) -> RebuildReport:
    return RebuildReport(failed=(Failure(dataset_id=dataset_id, name="", error=error),))
