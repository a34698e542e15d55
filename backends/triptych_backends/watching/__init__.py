"""Changes to folders, as the system tells of them. Needs the extra ``watch``."""

from triptych_backends.watching.notifier import WatchfilesNotifier

__all__ = ["WatchfilesNotifier"]
