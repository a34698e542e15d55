"""Change events drive rebuilds: debounced, serialised, and no wider than they need to be.

An `EventNotifier` reports what changed; an `EventReloader` gathers events into windows and
hands the smallest scope that covers a window to a `Rebuilder`, which is a Service or a
directory sync. `QueueNotifier` is the notifier for programs that know what they change.
"""

from triptych.events.clock import Clock, SystemClock
from triptych.events.notifier import QueueNotifier
from triptych.events.options import ReloaderOptions
from triptych.events.record import RebuildCallback, RebuildRecord
from triptych.events.reloader import EventReloader
from triptych.events.scopes import join_scopes, scope_of

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
