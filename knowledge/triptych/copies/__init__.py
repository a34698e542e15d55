"""Copies of stores into others; `triptych_backends.sqlite` writes and reads backups.

Nothing is derived again: versions, chunks, vectors and layers are taken over as they are, so that
no model is called and what was fresh stays fresh. The stub ``__init__.pyi`` lists the names, which
are imported when they are asked for: whoever opens a store reads the notes that copies leave, and
needs no more.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
