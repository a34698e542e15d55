"""Folders as a source of documents: `DirectorySync`, and what drives it.

`DirectorySync` brings the documents of some folders up to date, and is a Rebuilder.
`PollingNotifier` tells an `EventReloader` when to run it; so does the notifier in
`triptych_backends.watching`, which is told by the system.
"""

from triptych.sync.directory import DirectorySync
from triptych.sync.file_set import FileSet
from triptych.sync.polling import PollingNotifier
from triptych.sync.read_ahead import MetadataFunction, SourceFile
from triptych.sync.report import SyncPlan, SyncReport
from triptych.sync.roots import SyncOptions, SyncRoot

__all__ = [
    "DirectorySync",
    "FileSet",
    "MetadataFunction",
    "PollingNotifier",
    "SourceFile",
    "SyncOptions",
    "SyncPlan",
    "SyncReport",
    "SyncRoot",
]
