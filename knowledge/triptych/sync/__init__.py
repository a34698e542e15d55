"""Folders as a source of documents: `DirectorySync`, and what drives it.

`DirectorySync` brings the documents of some folders up to date, and is a Rebuilder.
`PollingNotifier` tells an `EventReloader` when to run it; so does the notifier in
`triptych_backends.watching`, to which the system reports changes.
`follow_rows` does the same for rows of a table, or points of a collection.
"""

from triptych.sync.directory import DirectorySync, PollingNotifier
from triptych.sync.reading import FileSet, MetadataFunction, SourceFile
from triptych.sync.remembered import RememberedRoot, RememberedRoots
from triptych.sync.report import HeldDeletions, SyncPlan, SyncReport
from triptych.sync.roots import SyncOptions, SyncRoot
from triptych.sync.rows import RowPage, RowReport, RowSource, SourceRow, follow_rows
from triptych.sync.target import delete_documents_of, documents_of

__all__ = [
    "DirectorySync",
    "FileSet",
    "HeldDeletions",
    "MetadataFunction",
    "PollingNotifier",
    "RememberedRoot",
    "RememberedRoots",
    "RowPage",
    "RowReport",
    "RowSource",
    "SourceFile",
    "SourceRow",
    "SyncOptions",
    "SyncPlan",
    "SyncReport",
    "SyncRoot",
    "delete_documents_of",
    "documents_of",
    "follow_rows",
]
