"""Bars on stderr while somebody is watching, nothing otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from triptych_adapters.cli.output import Output

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback

__all__ = ["shown"]


@contextmanager
def shown(
    output: Output, phase: str, *, total: int | None = None
) -> Iterator[ProgressCallback | None]:
    """A callback that moves a bar per phase; None when nobody is watching.

    The first ``phase`` is shown from the start where its ``total`` is known.
    """
    from triptych._internal.progress import Progress
    from triptych_adapters.progress import rich_bars

    if not output.shows_progress:
        yield None
        return
    with rich_bars(output.stderr) as move:
        if total is not None:
            move(Progress(phase=phase, done=0, total=total))
        yield move
