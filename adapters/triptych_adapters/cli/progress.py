"""A bar on stderr while somebody is watching, nothing otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from triptych_adapters.cli.output import Output

if TYPE_CHECKING:
    from triptych._internal.progress import Progress, ProgressCallback

__all__ = ["shown"]


@contextmanager
def shown(
    output: Output, phase: str, *, total: int | None = None
) -> Iterator[ProgressCallback | None]:
    """A callback that moves a bar per phase; None when nobody is watching.

    The first ``phase`` and its ``total`` are shown from the start.
    """
    if not output.shows_progress:
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress as Bars,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, TimeElapsedColumn(), console=output.stderr, transient=True) as bars:
        totals = {phase: total}
        tasks = {phase: bars.add_task(phase, total=total)}

        def move(progress: Progress) -> None:
            known = totals.setdefault(progress.phase, progress.total)
            if progress.phase not in tasks:
                tasks[progress.phase] = bars.add_task(progress.phase, total=known)
            bars.update(tasks[progress.phase], completed=progress.done, total=known)

        yield move
