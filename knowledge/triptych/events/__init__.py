"""Rebuilds on change events: debounced, one at a time, and with the smallest possible scope.

An `EventNotifier` reports changes; an `EventReloader` collects events in windows and passes the
smallest scope that covers a window to a `Rebuilder`, such as a Service or a directory sync. A
program that makes the changes itself reports them with `QueueNotifier`.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
