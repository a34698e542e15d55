"""The SQLite store: documents, chunks, vectors and layers in one file, searched by an index.

The stub ``__init__.pyi`` lists the names, which are imported when they are asked for: whoever opens
a store needs nothing of backups.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
