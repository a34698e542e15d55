"""Starting and ending the processes of a server."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import reduction
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from triptych.errors import StoreError, TriptychError, ValidationError
from triptych_backends.index import available_cores
from triptych_factory import Settings, parse_location
from triptych_server.http.guard import LOGGER
from triptych_server.keys.authenticator import Authenticator, KeyAuthenticator, RateLimiter

_MEMORY: Final = 300 << 20
"""Bytes that a worker may take beside what all of them map: the interpreter, a local model."""
_CGROUP: Final = Path("/sys/fs/cgroup")
_MEMINFO: Final = Path("/proc/meminfo")
_END: Final = 2.0
"""Seconds that a worker has to end after its last request."""
_BURST, _YIELD = 0.002, 0.0005
"""Seconds after a connection in which a process leaves the next to others, and for how long."""
_RECENT, _MANY = 60.0, 5
"""Seconds in which so many deaths of workers are more than accidents."""
_SIGNALS = {each.value: each.name for each in signal.Signals}
_log = logging.getLogger(LOGGER)


def default_workers(settings: Settings) -> int:
    """How many processes serve the store of ``settings`` unless somebody says.

    One for each core, as long as half of the memory that is free holds them. A store in memory is
    one process's own. In front of PostgreSQL their pools have half of the server's connections.
    On Windows, where processes share no socket that waits, there is one.
    """
    location = parse_location(settings.url)
    if location.scheme in ("memory", "http", "https") or sys.platform == "win32":
        return 1
    most = [available_cores()]
    memory = available_memory()
    if memory is not None:
        most.append(memory // 2 // _MEMORY)
    if location.scheme == "postgresql":
        # Whatever is wrong with the server is said when the store is opened.
        with suppress(TriptychError, ImportError):
            from triptych_postgres.connection import most_pools

            most.append(most_pools(location.address) // 2)
    return max(min(most), 1)


def check_shared(settings: Settings, workers: int) -> None:
    """Refuse several workers on a store that is one process's own.

    Raises:
        ValidationError: it is in memory.
    """
    if workers > 1 and settings.url.startswith("memory:"):
        raise ValidationError(
            "a store in memory belongs to one process: serve it with --workers 1, or serve a store "
            "in a file"
        )


def available_memory() -> int | None:
    """The bytes that this process and others may still take; None where nobody says."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        (line,) = [
            each for each in _MEMINFO.read_text().splitlines() if each.startswith("MemAvailable:")
        ]
        found.append(int(line.split()[1]) << 10)
    with suppress(OSError, ValueError, KeyError):
        most = int((_CGROUP / "memory.max").read_text())  # "max" where there is no limit
        stat = dict(map(str.split, (_CGROUP / "memory.stat").read_text().splitlines()))
        found.append(max(most - int(stat["anon"]), 0))
    if not found:
        with suppress(OSError, ValueError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return min(found, default=None)


@contextmanager
def shared_folder() -> Iterator[Path | None]:
    """A folder in which the processes count together, where they can lock files."""
    if sys.platform == "win32":
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="triptych-serve-") as folder:
        yield Path(folder)


def counting_in(folder: Path | None, authenticate: Authenticator | None) -> Authenticator | None:
    """``authenticate``, whose keys have their rates over all processes of a `shared_folder`."""
    if folder is not None and isinstance(authenticate, KeyAuthenticator):
        authenticate.limiter = RateLimiter(shared=folder)
    return authenticate


def run(config: uvicorn.Config, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, in as many processes as ``config`` has workers.

    The app of several is a factory that can be pickled; it calls `end_with_parent`.

    Raises:
        StoreError: a worker could not start.
    """
    if config.workers == 1:
        # What uvicorn raises once more after its shutdown is no failure.
        with suppress(KeyboardInterrupt):
            _Once(config).run([listening])
        return
    if sys.platform != "win32":
        listening = _Shared(fileno=listening.detach())
    supervisor = _Supervisor(config, [listening])
    supervisor.run()
    if any(each.exitcode == STARTUP_FAILURE for each in supervisor.processes):
        raise StoreError("a worker could not start: its last lines of the log say why")


class _Once(uvicorn.Server):
    """A server whose process goes on after the signal that ended it, and logs its stop."""

    _signal = ""

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop; a second signal stops at once."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()
        self._signal = self._signal or _SIGNALS[sig]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests under way end, and log how many did."""
        tasks = set(self.server_state.tasks)
        _note(logging.INFO, "stop", signal=self._signal, under_way=len(tasks))
        ending = asyncio.ensure_future(super().shutdown(sockets))
        while not ending.done() and not self.force_exit:
            await asyncio.wait({ending}, timeout=0.1)
        # uvicorn waits on for each connection, from Python 3.12, whatever the second signal said.
        if not ending.cancel():
            ending.result()
        broken = sum(not each.done() or each.cancelling() > 0 for each in tasks)
        level = logging.WARNING if broken else logging.INFO
        _note(level, "stopped", finished=len(tasks) - broken, broken_off=broken)


def _note(level: int, event: str, **fields: Any) -> None:
    _log.log(level, event, extra={"fields": fields})


class _Worker(Process):
    """A process of a server; it ends as `_Once` does."""

    @property
    def server(self) -> uvicorn.Server:
        """The server, made when it is first needed, in the process itself."""
        self._server = self._server or _Once(self.config)
        return self._server


class _Shared(socket.socket):
    """A socket whose connections several processes take, one at a time.

    asyncio accepts until there is none: who wakes first would have them all, and keep them.
    """

    _took = False
    _last = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; after each there seems to be none, until the loop asks again."""
        if self._took:
            self._took = False
            raise BlockingIOError
        if time.monotonic() - self._last < _BURST:
            time.sleep(_YIELD)  # also where all wait for few cores
        found = super().accept()
        self._took, self._last = True, time.monotonic()
        return found

    def __reduce__(self) -> Any:
        return _taken_over, (reduction.DupFd(self.fileno()),)


def _taken_over(descriptor: Any) -> _Shared:
    return _Shared(fileno=descriptor.detach())


class _Supervisor(Multiprocess):
    """Replaces a worker that dies, whatever it was doing, and waits for none that hangs."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._asked: dict[Process, float] = {}
        self._deaths: list[float] = []

    def init_processes(self) -> None:
        """Start the workers."""
        self.processes += [self._started() for _ in range(self.processes_num)]

    def _started(self) -> _Worker:
        worker = _Worker(self.config, self.sockets)
        worker.start()
        return worker

    def handle_signals(self) -> None:
        """Do what signals ask for."""
        for number in self.signal_queue:
            _note(logging.INFO, "signal", signal=_SIGNALS[number])
        super().handle_signals()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that are dead, or have not said for long that they live."""
        for at, process in enumerate(self.processes):
            if self._lives(process):
                continue
            asked = self._asked.pop(process, float("inf"))
            hung = time.monotonic() - asked >= self.config.timeout_worker_healthcheck
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                self.should_exit.set()
                return
            self.processes[at] = other = self._started()
            self._note_death(process, other, hung)

    def _note_death(self, dead: Process, other: _Worker, hung: bool) -> None:
        now, code = time.monotonic(), dead.exitcode or 0
        self._deaths = [*(each for each in self._deaths if now - each < _RECENT), now]
        level, event = logging.WARNING, "a worker hung" if hung else "a worker died"
        if len(self._deaths) >= _MANY:
            level, event = logging.ERROR, "workers die again and again"
        how = {"signal": _SIGNALS.get(-code, -code)} if code < 0 else {"exit_code": code}
        deaths = len(self._deaths)
        _note(level, event, worker=dead.pid, **how, replacement=other.pid, deaths=deaths)

    def _lives(self, process: Process) -> bool:
        """Ask a worker whether it lives, and look at what it answered before."""
        # Its end of the pipe is its own: a worker that was killed would seem to answer.
        process.child_conn.close()
        pipe, now = process.parent_conn, time.monotonic()
        try:
            while pipe.poll():
                pipe.recv()
                self._asked.pop(process, None)
            if process not in self._asked:
                pipe.send(b"ping")
        except (OSError, EOFError):
            return False
        since = self._asked.setdefault(process, now)
        return process.process.is_alive() and now - since < self.config.timeout_worker_healthcheck

    def join_all(self) -> None:
        """Wait for the workers to end, and kill those that do not: one may be stopped."""
        until = time.monotonic() + (self.config.timeout_graceful_shutdown or 0) + _END
        for process in self.processes:
            process.process.join(max(until - time.monotonic(), 0))
            if process.exitcode is None:
                _note(logging.WARNING, "a worker did not end, and is killed", worker=process.pid)
                process.process.kill()
                process.join()
        _note(logging.INFO, "stopped", workers=len(self.processes))


def end_with_parent() -> None:
    """End this worker as soon as the process that started it is gone: it holds the port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    _log.warning("the process that started this worker is gone")
    os.kill(os.getpid(), signal.SIGTERM)
