"""Change events drive rebuilds: debounced, serialised, and no wider than they need to be.

An `EventNotifier` reports what changed; an `EventReloader` gathers events into windows and
hands the smallest scope that covers a window to a `Rebuilder`, which is a Service or a
directory sync. `QueueNotifier` is the notifier for programs that know what they change.
"""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
