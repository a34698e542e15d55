"""Change events drive rebuilds: debounced, serialised, and no wider than they need to be.

An `EventNotifier` reports what changed; an `EventReloader` gathers events into windows and
hands the smallest scope that covers a window to a `Rebuilder`, which is a Service or a
directory sync. `QueueNotifier` is the notifier for programs that know what they change.
"""

from triptych.events.loop import join_scopes, scope_of
from triptych.events.notifier import QueueNotifier
from triptych.events.options import (
    Clock,
    RebuildCallback,
    RebuildRecord,
    ReloaderOptions,
    SystemClock,
)
from triptych.events.reloader import EventReloader

__all__ = [
    "Clock",
    "EventReloader",
    "QueueNotifier",
    "RebuildCallback",
    "RebuildRecord",
    "ReloaderOptions",
    "SystemClock",
    "join_scopes",
    "scope_of",
]
