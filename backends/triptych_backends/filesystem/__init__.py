"""The filesystem store: documents and layers as files that a person reads, edits and commits."""

from triptych_backends.filesystem.contents import RejectedFile
from triptych_backends.filesystem.store import FilesStore

__all__ = ["FilesStore", "RejectedFile"]
