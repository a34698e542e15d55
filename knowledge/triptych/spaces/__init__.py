"""Changing the embedder of datasets while they serve.

The vectors of the next embedder are made beside those that serve (`fill_space`), evaluated
(`space_service`), and swapped in by one write (`swap_space`), which keeps what served: `swap_back`
is as quick. Every Service whose ``next_embedder`` is set follows both without a restart.
"""

from triptych.spaces.filling import FillReport, SpaceState, SwapReport, fill_space
from triptych.spaces.swapping import drop_space, list_spaces, space_service, swap_back, swap_space

__all__ = [
    "FillReport",
    "SpaceState",
    "SwapReport",
    "drop_space",
    "fill_space",
    "list_spaces",
    "space_service",
    "swap_back",
    "swap_space",
]
