"""Progress of long calls on a terminal or in a notebook: totals, share, rate and time left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from triptych._internal.progress import Progress, ProgressCallback


@contextmanager
def show_progress() -> Iterator[ProgressCallback | None]:
    """A context with a ``progress`` argument that shows bars until the block ends.

    Bars are by `tqdm.auto` in a notebook, and by rich (extra ``cli``) or tqdm on a terminal, on
    stderr. It is None, and nothing is shown, if neither is installed or there is no terminal.

    >>> with show_progress() as progress:
    ...     progress is None  # nobody is watching a doctest
    True
    """
    bars = None
    if _in_notebook():
        bars = tqdm_bars() if find_spec("tqdm") else None
    elif sys.stderr.isatty():
        if find_spec("rich"):
            from rich.console import Console

            bars = rich_bars(Console(stderr=True))
        elif find_spec("tqdm"):
            bars = tqdm_bars()
    if bars is None:
        yield None
        return
    with bars as move:
        yield move


def _in_notebook() -> bool:
    """Whether the code runs in the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def rich_bars(console: Any) -> Iterator[ProgressCallback]:
    """Show a bar for each phase on a console of rich; remove it at the end of the block."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress as Bars,
        ProgressColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many a second."""

        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if not speed else f"{speed:,.{0 if speed >= 10 else 1}f}/s")

    with Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bars:
        tasks: dict[str, Any] = {}

        def move(progress: Progress) -> None:
            if progress.phase not in tasks:
                tasks[progress.phase] = bars.add_task(progress.phase, total=progress.total)
            bars.update(tasks[progress.phase], completed=progress.done, total=progress.total)

        yield move


@contextmanager
def tqdm_bars() -> Iterator[ProgressCallback]:
    """Show a bar of tqdm for each phase; close it at the end of the block."""
    tqdm = import_module("tqdm.auto").tqdm  # optional, and without types
    bars: dict[str, Any] = {}

    def move(progress: Progress) -> None:
        bar = bars.get(progress.phase)
        if bar is None:
            bar = bars[progress.phase] = tqdm(desc=progress.phase, total=progress.total)
        bar.total = progress.total
        bar.update(progress.done - bar.n)

    try:
        yield move
    finally:
        for bar in bars.values():
            bar.close()
