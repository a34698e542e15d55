"""The filesystem store: documents and layers as files that a person reads, edits and commits."""

from .problems import Problem
from .store import FilesStore

__all__ = ["FilesStore", "Problem"]
