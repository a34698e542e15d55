"""Search: validate, rewrite, retrieve, fuse, hydrate, postprocess, limit.

The stub ``__init__.pyi`` lists what a caller gives to a search, each with the module that defines
it; it is imported when it is first used.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
