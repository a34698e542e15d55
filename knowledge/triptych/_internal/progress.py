"""Progress of long calls, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable

import attrs


@attrs.frozen(kw_only=True, slots=True)
class Progress:
    """Where a long call stands: ``done`` of ``total`` items (None: unknown) of a phase."""

    phase: str
    done: int
    total: int | None = None


ProgressCallback = Callable[[Progress], None]
"""Called between batches, in the caller's thread."""
