"""The process beside this one that replays a bulk write's changes, and publishes them.

The index is a projection of the change log: another process can make it while this one still
writes, on another core. What it publishes is checked and adopted like anything else in the index's
folder, so that a helper that fails at any moment takes nothing but time. It ends with this process,
whatever ends that: it reads a pipe that this process holds open. `IndexHelper` is the side of the
writer, `Orders` and `follow` are the helper's.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from triptych._internal.forks import renewed_in_child

logger = logging.getLogger("triptych.index")

# Chunks that are written to a dataset, and not searched, before the helper is worth its start of
# half a second.
HELP_FROM = 2_048
_STOP_SECONDS = 2.0
_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
# -I keeps it from reading the user's environment and current directory; the path to the packages
# is this process's own.
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from importlib import import_module; import_module(sys.argv[2]).main(*sys.argv[3:])"
)
# The other core is the writer's.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class IndexHelper:
    """At most one process, started when it is first worth it; thread-safe.

    ``module`` has a function ``main``, which is given ``arguments`` and follows the datasets that
    it reads from its standard input (see `follow`). One that cannot be
    started, or fails, is reported once, and there is no other: the index is then made here.
    """

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self._command = [module, *arguments]
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._unseen: dict[str, int] = {}
        self._followed: set[str] = set()
        # The datasets that it is working at, and how many numbers of the log it takes in.
        self._claims: dict[str, int] = {}
        self._news: set[str] = set()
        self._is_off = False
        _HELPERS.add(self)

    def written(self, dataset: str, chunks: int) -> None:
        """Count chunks that were committed; of so many, the helper begins to follow."""
        if self._is_off:
            return
        with self._changed:
            unseen = self._unseen[dataset] = self._unseen.get(dataset, 0) + chunks
            if unseen >= HELP_FROM and dataset not in self._followed and not self._is_off:
                self._follow(dataset)

    def searched(self, dataset: str) -> bool:
        """Begin to count again; True where the helper has published since the last search.

        Where it is about to publish what the search needs, wait for it, for no longer than it
        would take to do the same here.
        """
        if not self._unseen and not self._claims and not self._news:
            return False
        with self._changed:
            self._unseen.pop(dataset, None)
            if dataset in self._claims:
                seconds = 2.0 + 200e-6 * self._claims[dataset]
                self._changed.wait_for(lambda: dataset not in self._claims, seconds)
            if dataset in self._news:
                self._news.discard(dataset)
                return True
            return False

    @property
    def process_id(self) -> int | None:
        """The id of the running process, None without one."""
        with self._changed:
            return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """End the process, at once and for now: later writes may start another. Idempotent."""
        with self._changed:
            process, self._process = self._process, None
            self._forget()
        if process is None:
            return
        _close(process.stdin)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _follow(self, dataset: str) -> None:
        if self._process is None:
            self._start()
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._followed.add(dataset)
        # Its reader reports one that has just ended.
        with suppress(OSError):
            self._process.stdin.write(json.dumps(dataset).encode() + b"\n")
            self._process.stdin.flush()

    def _start(self) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            self._give_up("this program brings its own Python, which starts no other script")
            return
        paths = json.dumps([*map(str, sys.path)])
        flags = 0
        if sys.platform == "win32":
            flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, paths, *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD},
                # Ctrl-C is for the writer, which ends this one.
                start_new_session=True,
                creationflags=flags,
            )
        except OSError as error:
            self._give_up(str(error))
            return
        threading.Thread(
            target=self._listen, args=(self._process,), name="triptych-index-helper", daemon=True
        ).start()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Take in what the process says, until it ends."""
        assert process.stdout is not None
        reason = ""
        with process.stdout:
            for line in process.stdout:
                said = json.loads(line)
                reason = said.get("failed", reason)
                with self._changed:
                    if self._process is not process:
                        continue
                    for dataset, numbers in said.get("begins", {}).items():
                        self._claims[dataset] = numbers
                    for dataset in said.get("ended", ()):
                        self._claims.pop(dataset, None)
                        self._news.add(dataset)
                    self._changed.notify_all()
        with self._changed:
            if self._process is not process:
                return  # it was stopped
            self._process = None
            self._forget()
            _close(process.stdin)
            code = process.wait()
            if code:
                self._give_up(reason or f"it ended with code {code}")

    def _forget(self) -> None:
        self._unseen.clear()
        self._followed.clear()
        self._claims.clear()
        self._changed.notify_all()

    def _give_up(self, reason: str) -> None:
        self._is_off = True
        logger.warning(
            "bulk writes are indexed in this process, on one core: there is no helper process (%s)",
            reason,
        )

    def _after_fork_in_child(self) -> None:
        # The process is the parent's, and must not live as long as this one.
        self._changed = threading.Condition()
        process, self._process = self._process, None
        with self._changed:
            self._forget()
        if process is not None:
            process.returncode = 0  # nothing to wait for, or to warn of
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        os.close(pipe.fileno())


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = _CGROUP_LIMIT.read_text().split()
        if quota != "max":
            cores = min(cores, int(quota) // int(period))
    return max(cores, 1)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(OSError):
            pipe.close()


_HELPERS = renewed_in_child("_after_fork_in_child")
