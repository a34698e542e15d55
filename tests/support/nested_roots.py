"""What a process does that adds folders to a store while another adds those in them."""

from __future__ import annotations

from pathlib import Path

import triptych
from triptych.errors import ValidationError
from triptych.sync import RememberedRoots, SyncRoot


def add_nested(url: str, base: str, number: int) -> int:
    """Add ten folders, or the folder in each; how many were refused."""
    refused = 0
    with triptych.open(url, embedder=None) as kb:
        remembered = RememberedRoots(kb.capabilities.settings, Path(base))
        for each in range(10):
            place = Path(base, f"root{each}")
            try:
                remembered.add([SyncRoot(path=place / f"in{each}" if number else place)])
            except ValidationError:
                refused += 1
    return refused
