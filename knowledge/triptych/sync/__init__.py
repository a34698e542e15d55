"""Mirroring folders into documents.

`DirectorySync` mirrors folders, and is a Rebuilder. `PollingNotifier` tells an `EventReloader` when
to run it, as does the notifier in `triptych_backends.watching`, which uses the system's change
reports.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
