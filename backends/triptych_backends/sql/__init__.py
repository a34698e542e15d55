"""The base of stores in a relational database.

A store of one database brings a `Database` with its `Dialect`, and a `Searcher`; the store and the
repositories over these are here.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
