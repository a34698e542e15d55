"""What packages of Triptych share at run time.

`lazy_exports` lists a package's names, each imported at its first use. `CloseOnExit` is for what
holds something until it is closed, `in_child` and `renewed_in_child` for what cannot be used in a
forked child as it is: locks, threads, connections. What computes for long, while others may search,
takes a turn of `SEARCHES`; `WouldWaitError` ends what must not wait for one.
"""

from triptych.runtime.lazy import lazy_exports as _lazy_exports

__all__, __getattr__, __dir__ = _lazy_exports(__name__, __file__)
