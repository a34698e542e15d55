"""Processes that find the definitions in source files, kept for the next file, killed when late."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

import attrs

from triptych.runtime import in_child
from triptych_parsers import definitions
from triptych_parsers.definitions import Definition, TooSlowError
from triptych_parsers.languages import Language

_MOST_IDLE = 4
# -I keeps it from reading the user's environment and current directory; the path to the packages
# is this process's own.
_START = (
    "import sys, json, runpy; sys.path[:] = json.loads(sys.argv.pop()); "
    "runpy.run_path(sys.argv.pop(), run_name='__main__')"
)


class NoProcessError(Exception):
    """None could be started, or it ended over the text; the message says which."""


def definitions_apart(
    data: bytes, language: Language, seconds: float, *, memory: int
) -> list[Definition]:
    """`definitions` in another process, which has ``memory`` bytes and is killed when it is late.

    Raises:
        TooSlowError: it took longer than ``seconds``.
        ModuleNotFoundError: tree-sitter or the grammar is missing.
        NoProcessError: the definitions cannot be found for another reason.
    """
    end = time.monotonic() + seconds
    for is_fresh in (False, True):
        worker = _take(memory, fresh=is_fresh)
        if worker is None:
            continue
        answer = worker.ask(data, language, end)
        if answer is not None:
            _give_back(worker, memory)
            return _found(answer)
        if time.monotonic() >= end:
            raise TooSlowError
        # One that had waited may have ended meanwhile: a fresh one decides.
    raise NoProcessError("the process that read it crashed")


def _found(answer: dict[str, Any]) -> list[Definition]:
    if answer.get("late"):
        raise TooSlowError
    if answer.get("missing"):
        raise ModuleNotFoundError(answer["missing"], name=answer["missing"])
    if answer.get("failed"):
        raise NoProcessError(answer["failed"])
    return [(start, end, depth, title) for start, end, depth, title in answer["found"]]


class _Worker:
    """One process; used by one thread at a time."""

    def __init__(self, memory: int) -> None:
        if not sys.executable:
            raise NoProcessError("this Python does not know its own program (sys.executable)")
        path = json.dumps([*map(str, sys.path)])
        command = [sys.executable, "-I", "-c", _START, str(memory), str(definitions.__file__), path]
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise NoProcessError(f"no process can be started to read it ({error})") from error

    def ask(self, data: bytes, language: Language, end: float) -> dict[str, Any] | None:
        """The answer; None when it ended or was late, and then it is closed."""
        fields = {
            key: sorted(value) if isinstance(value, frozenset) else value
            for key, value in attrs.asdict(language).items()
        }
        seconds = max(end - time.monotonic(), 0.0)
        header = {"language": fields, "size": len(data), "seconds": seconds}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        alarm = threading.Timer(seconds, self.process.kill)
        alarm.daemon = True
        alarm.start()
        answer = None
        try:
            self.process.stdin.write(json.dumps(header).encode() + b"\n" + data)
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            return None
        finally:
            alarm.cancel()
            if answer is None:
                self.close()
        return dict(answer)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        with suppress(OSError):
            self.process.communicate()


_idle: dict[int, deque[_Worker]] = {}
"""By their memory."""
_parents: list[_Worker] = []
"""After a fork: kept, so that nothing is done to them when they are collected."""


def _take(memory: int, *, fresh: bool) -> _Worker | None:
    if fresh:
        return _Worker(memory)
    with suppress(KeyError, IndexError):
        return _idle[memory].pop()
    return None


def _give_back(worker: _Worker, memory: int) -> None:
    waiting = _idle.setdefault(memory, deque())
    if len(waiting) < _MOST_IDLE:
        waiting.append(worker)
    else:
        worker.close()


def _close_all() -> None:
    for waiting in _idle.values():
        while waiting:
            waiting.pop().close()


def _after_fork_in_child() -> None:
    for waiting in _idle.values():
        while waiting:
            worker = waiting.pop()
            worker.process.returncode = 0
            _parents.append(worker)


atexit.register(_close_all)
in_child(_after_fork_in_child)
