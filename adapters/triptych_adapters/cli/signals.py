"""What a signal does to a command: one that runs until it ends, one that leaves half a file."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.output import Output


@contextmanager
def until_stopped(output: Output, grace: float) -> Iterator[Callable[[Callable[[], None]], None]]:
    """SIGINT and SIGTERM close what the block names, and end the process ``grace`` seconds later
    in any case."""
    closers: list[Callable[[], None]] = []
    stopped = threading.Event()
    timers: list[threading.Timer] = []

    def stop(signum: int, frame: FrameType | None) -> None:
        if not stopped.is_set():
            stopped.set()
            timers.append(threading.Timer(grace, give_up))
            timers[0].daemon = True
            timers[0].start()
        for close in closers:
            close()

    def give_up() -> None:
        output.note("stopped while a model was being asked; its texts are embedded next time")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(Exit.OK)

    def on_stop(close: Callable[[], None]) -> None:
        closers.append(close)
        if stopped.is_set():
            close()

    here = threading.current_thread() is threading.main_thread()
    before = [(each, signal.signal(each, stop)) for each in (signal.SIGINT, signal.SIGTERM) if here]
    try:
        yield on_stop
    finally:
        for timer in timers:
            timer.cancel()
        for each, handler in before:
            signal.signal(each, handler)


@contextmanager
def until_terminated() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP where it ends the process, end the block as an exception does, so
    that half a file is removed."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = [each for each in ("SIGTERM", "SIGHUP") if hasattr(signal, each)]
    wanted = [getattr(signal, each) for each in ending]
    taken = [each for each in wanted if signal.getsignal(each) is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
