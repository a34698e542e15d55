"""Jobs in processes of their own, forked from one that has imported Triptych.

To start a process and import Triptych takes longer than most jobs. A job is a function of a module
that can be imported. Its process has the working directory of its caller, but the environment of
the first of them.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_SECONDS = 120.0


def context() -> Any:
    """What makes processes and pipes between them: a context of `multiprocessing`."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["pytest", "triptych_factory.wiring", "triptych_backends.sqlite"])
    return found


def started(job: Callable[..., object], *arguments: object) -> BaseProcess:
    """The process of ``job``, which runs."""
    process: BaseProcess = context().Process(target=job, args=arguments)
    process.start()
    return process


def run(job: Callable[..., object], *arguments: object) -> None:
    """Let ``job`` run to its end, which must be a good one."""
    process = started(job, *arguments)
    process.join(_SECONDS)
    assert process.exitcode == 0


def answer_of(job: Callable[..., Any], *arguments: object) -> Any:
    """What ``job`` returns."""
    ours, theirs = context().Pipe(duplex=False)
    process = started(_answer, theirs, job, *arguments)
    theirs.close()
    with ours:
        assert ours.poll(_SECONDS)
        found = ours.recv()
    process.join(_SECONDS)
    assert process.exitcode == 0
    return found


def _answer(connection: Connection, job: Callable[..., object], *arguments: object) -> None:
    connection.send(job(*arguments))
