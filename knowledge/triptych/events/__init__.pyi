"""The names of `triptych.events`, each with the module that defines it."""

from triptych.events.loop import join_scopes as join_scopes, scope_of as scope_of
from triptych.events.notifier import QueueNotifier as QueueNotifier
from triptych.events.options import (
    Clock as Clock,
    RebuildCallback as RebuildCallback,
    RebuildRecord as RebuildRecord,
    ReloaderOptions as ReloaderOptions,
    SystemClock as SystemClock,
)
from triptych.events.reloader import EventReloader as EventReloader
