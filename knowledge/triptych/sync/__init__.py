"""Folders as a source of documents: `DirectorySync`, and what drives it.

`DirectorySync` brings the documents of some folders up to date, and is a Rebuilder.
`PollingNotifier` tells an `EventReloader` when to run it; so does the notifier in
`triptych_backends.watching`, to which the system reports changes.
`follow_rows` does the same for rows of a table, or points of a collection.
"""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
