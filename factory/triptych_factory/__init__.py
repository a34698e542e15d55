"""Creating a Service from settings.

The names are imported when they are used, as those of `triptych`: settings need no store.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
