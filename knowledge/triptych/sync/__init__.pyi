"""The names of `triptych.sync`, each with the module that defines it."""

from triptych.sync.directory import (
    DirectorySync as DirectorySync,
    PollingNotifier as PollingNotifier,
)
from triptych.sync.reading import (
    FileSet as FileSet,
    MetadataFunction as MetadataFunction,
    SourceFile as SourceFile,
    read_file as read_file,
)
from triptych.sync.remembered import (
    RememberedRoot as RememberedRoot,
    RememberedRoots as RememberedRoots,
)
from triptych.sync.report import (
    HeldDeletions as HeldDeletions,
    SyncPlan as SyncPlan,
    SyncReport as SyncReport,
)
from triptych.sync.roots import (
    Root as Root,
    SourceRoot as SourceRoot,
    SyncOptions as SyncOptions,
    SyncRoot as SyncRoot,
)
from triptych.sync.source import (
    Fetched as Fetched,
    Source as Source,
    SourceEntry as SourceEntry,
)
from triptych.sync.source_sync import SourceSync as SourceSync
from triptych.sync.target import (
    delete_documents_of as delete_documents_of,
    documents_of as documents_of,
)
