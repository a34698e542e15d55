"""Which sentences of other documents a change makes untrue: names, values, numbers and paths that
it removed or replaced, and where they are still held. No model is asked."""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
