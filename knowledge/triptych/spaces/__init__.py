"""Changing the embedder of datasets while they serve.

The vectors of the next embedder are made beside those that serve (`fill_space`), evaluated
(`space_service`), and swapped in by one write (`swap_space`), which keeps what served: `swap_back`
is as quick. Every Service whose ``next_embedder`` is set follows both without a restart.
"""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
