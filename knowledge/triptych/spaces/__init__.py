"""Changing the embedder of datasets while they are in use.

Make the vectors of the next embedder in addition to the current ones (`fill_space`), evaluate them
(`space_service`), and swap them in by one write (`swap_space`). The old vectors are kept, so that
`swap_back` is as fast. A Service with a ``next_embedder`` follows both without a restart.
"""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
