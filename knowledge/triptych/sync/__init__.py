"""Folders as a source of documents: `DirectorySync`, and what drives it.

`DirectorySync` brings the documents of some folders up to date, and is a Rebuilder.
`PollingNotifier` tells an `EventReloader` when to run it; so does the notifier in
`triptych_backends.watching`, to which the system reports changes.
"""

from triptych.sync.deletes import delete_documents_of, documents_of
from triptych.sync.directory import DirectorySync
from triptych.sync.file_set import FileSet
from triptych.sync.polling import PollingNotifier
from triptych.sync.read_ahead import MetadataFunction, SourceFile
from triptych.sync.remembered import RememberedRoot, RememberedRoots
from triptych.sync.report import HeldDeletions, SyncPlan, SyncReport
from triptych.sync.roots import SyncOptions, SyncRoot

__all__ = [
    "DirectorySync",
    "FileSet",
    "HeldDeletions",
    "MetadataFunction",
    "PollingNotifier",
    "RememberedRoot",
    "RememberedRoots",
    "SourceFile",
    "SyncOptions",
    "SyncPlan",
    "SyncReport",
    "SyncRoot",
    "delete_documents_of",
    "documents_of",
]
