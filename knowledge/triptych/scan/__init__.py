"""Reading folders without following links, and finding which of their files have changed.

A synced folder and a store of files are scanned alike: a `Tree` opens the folders, a `FileStat`
says what a file looked like, and `compare` finds the files to read again.
"""

from triptych.scan.stats import Comparison, FileRecord, FileStat, Kind, compare
from triptych.scan.tree import Folder, Tree, is_hidden, is_link

__all__ = [
    "Comparison",
    "FileRecord",
    "FileStat",
    "Folder",
    "Kind",
    "Tree",
    "compare",
    "is_hidden",
    "is_link",
]
