"""What an event touches, and the smallest scope that covers several.

Scopes form a join-semilattice: sets of documents, as large as a scope can name, below their
dataset below everything. `join_scopes` is associative, commutative and idempotent, so a window
needs to remember one scope only, however many events it holds and in whatever order they came.
"""

from __future__ import annotations

from triptych.errors import ValidationError
from triptych.records import ChangeEvent, EventKind, RebuildReport, RebuildScope


def scope_of(event: ChangeEvent) -> RebuildScope:
    """The document of an event, its dataset, or everything.

    A bulk event, and one without ``doc_name``, means the whole dataset; one without
    ``dataset_id``, every dataset.
    """
    doc_name = "" if event.kind is EventKind.BULK else event.doc_name
    return _narrowest(event.dataset_id, doc_name)


def join_scopes(left: RebuildScope | None, right: RebuildScope | None) -> RebuildScope | None:
    """The smallest scope that covers both; None covers nothing."""
    if left is None or right is None or left == right:
        return right if left is None else left
    if left.dataset_id != right.dataset_id:
        return RebuildScope()
    names = {*left.doc_names, *right.doc_names} if left.doc_names and right.doc_names else ()
    if len(names) > RebuildScope.MAX_DOC_NAMES:
        names = ()
    return RebuildScope(dataset_id=left.dataset_id, doc_names=names)


def failed_scope(report: RebuildReport) -> RebuildScope | None:
    """The smallest scope that covers what a rebuild could not do; None when all was done."""
    scope: RebuildScope | None = None
    for failure in report.failed:
        scope = join_scopes(scope, _narrowest(failure.dataset_id, failure.name))
    return scope


def _narrowest(dataset_id: str, doc_name: str) -> RebuildScope:
    """The document if such a one can exist, else the dataset if it can, else everything.

    A watcher can meet file names that no document can have, undecodable bytes for one: what
    is wider than it had to be is rebuilt all the same, and what is stale in it is found.
    """
    if dataset_id:
        for name in (doc_name, ""):
            try:
                return RebuildScope(dataset_id=dataset_id, doc_name=name)
            except ValidationError:
                continue
    return RebuildScope()
