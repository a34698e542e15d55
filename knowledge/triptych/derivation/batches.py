"""Bulk writes: batches of a stream of documents, and their report."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

import attrs

from triptych._internal.forks import in_child
from triptych.errors import ValidationError
from triptych.records import Failure, NewDocument, PutOutcome, PutReport
from triptych.records.reports import summed

_BATCH_DOCUMENTS = 256
_MOST_DOCUMENTS = 2_048
"""A batch may have twice as many documents as the one before it, up to so many."""
BATCH_CHARACTERS = 1_000_000
_BATCH_SECONDS = 1.0
"""A document does not wait longer for others before it is stored, once the next one is read."""


@attrs.frozen(kw_only=True)
class RefreshResult:
    """What bringing some documents up to date came to: whose sets were swapped in or are being
    filled, and counts of chunks."""

    names: tuple[str, ...] = ()
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    encoded: int = 0
    failed: tuple[Failure, ...] = ()


class PutReportBuilder:
    """Adds up a bulk put; a document that is stored but not derived counts as failed."""

    def __init__(self, dataset_id: str) -> None:
        self._dataset_id = dataset_id
        self._changes: list[tuple[str, str]] = []
        self._failed: list[Failure] = []
        self._done = RefreshResult()

    def refused(self, name: str, error: Exception) -> None:
        self._failed.append(Failure(dataset_id=self._dataset_id, name=name, error=error))

    def stored(self, outcomes: Iterable[PutOutcome]) -> None:
        for outcome in outcomes:
            if outcome.error is None:
                self._changes.append((outcome.change, outcome.name))
            else:
                self.refused(outcome.name, outcome.error)

    def derived(self, done: RefreshResult) -> None:
        if done.failed:
            failed = {failure.name for failure in done.failed}
            self._changes = [change for change in self._changes if change[1] not in failed]
            self._failed.extend(done.failed)
        self._done = summed(self._done, attrs.evolve(done, names=(), failed=()))

    def report(self, pending: int = 0) -> PutReport:
        kinds = [kind for kind, _ in self._changes]
        return PutReport(
            added=kinds.count("added"),
            updated=kinds.count("updated"),
            unchanged=kinds.count("unchanged"),
            chunks=self._done.chunks,
            embedded=self._done.embedded,
            reused=self._done.reused,
            encoded=self._done.encoded,
            pending=pending,
            failed=tuple(self._failed),
        )


def new_documents(
    documents: Iterable[object] | Mapping[str, str], tally: PutReportBuilder
) -> Iterator[NewDocument]:
    """The documents that can be stored; the tally gets those that cannot.

    Raises:
        ValidationError: one is not a document at all, which is a mistake of the program.
    """
    if not isinstance(documents, Mapping):
        for document in documents:
            yield _document(document)
        return
    for name, content in documents.items():
        try:
            document = NewDocument(name=name, content=content)
        except ValidationError as error:
            tally.refused(str(name)[:80], error)
        else:
            yield document


def _document(document: object) -> NewDocument:
    if not isinstance(document, NewDocument):
        raise ValidationError(
            f"put_documents takes NewDocument records, not {type(document).__name__} "
            f"({document!r:.60}): make a NewDocument of each name and its content"
        )
    return document


def _check_texts(name: object, content: object) -> None:
    for of, value in ((f"name {name!r:.60}", name), (f"content of {name!r:.60}", content)):
        if not isinstance(value, str):
            raise ValidationError(
                f"put_documents maps names to contents, both text: the {of} is of type "
                f"{type(value).__name__}"
            )


def batches(documents: Iterable[NewDocument]) -> Iterator[list[NewDocument]]:
    """Batches of bounded count, size and time, so that a stream of any length fits in memory, and
    what comes slowly is stored soon."""
    batch: list[NewDocument] = []
    size, most = 0, _BATCH_DOCUMENTS
    began = time.monotonic()
    for document in documents:
        batch.append(document)
        size += len(document.content)
        late = time.monotonic() - began >= _BATCH_SECONDS
        if len(batch) >= most or size >= BATCH_CHARACTERS or late:
            yield batch
            batch, size, most = [], 0, min(2 * most, _MOST_DOCUMENTS)
            began = time.monotonic()
    if batch:
        yield batch


_LOCK = Lock()
_pauses = 0


@contextmanager
def paused_collector() -> Iterator[None]:
    """Let Python not search for cycles, in any thread, until all who asked for it are done.

    A batch is tens of thousands of records, hardly any of them in a cycle, and all are gone at its
    end: without this a tenth of the time goes into searching them. Where the program has switched
    the search off, it stays off.
    """
    global _pauses
    with _LOCK:
        mine = _pauses > 0 or gc.isenabled()
        _pauses += mine
        gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            _pauses = max(_pauses - mine, 0)
            if mine and not _pauses:
                gc.enable()


def _after_fork_in_child() -> None:
    """Whoever paused the search stayed in the parent, but for the thread that forked."""
    global _LOCK, _pauses
    _LOCK = Lock()
    if _pauses:
        _pauses = 0
        gc.enable()


in_child(_after_fork_in_child)


def check_documents(documents: object) -> None:
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        raise ValidationError(
            "put_documents takes NewDocument records, or maps names to contents, not "
            f"{type(documents).__name__}"
        )
    # What is there at once is checked at once: nothing is written then.
    if isinstance(documents, Mapping):
        for name, content in documents.items():
            _check_texts(name, content)
    elif isinstance(documents, Sequence):
        for document in documents:
            _document(document)


def check_progress(progress: object) -> None:
    if progress is not None and not callable(progress):
        raise ValidationError(
            f"progress is called with a Progress between batches: a {type(progress).__name__} "
            "cannot be called"
        )
