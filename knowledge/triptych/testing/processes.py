"""Another process on the same store, as the kit talks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from triptych.testing.harness import Child


class Worker:
    """A process that runs `triptych.testing.work`. A context manager; leaving it ends it.

    It may open one store after the other, for starting a process takes longer than most tests.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "triptych.testing.work",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.kill()
        self._process.communicate(timeout=60)

    def open(self, child: Child) -> None:
        """Let it open a store, which it closes when the next one is opened or it ends."""
        self.ask({"do": "open", "opener": child.opener, "argument": child.argument})

    def close(self) -> None:
        """Let it close its store."""
        self.ask({"do": "close"})

    def send(self, command: dict[str, Any]) -> None:
        """Give a command, without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """The next answer.

        Raises:
            EOFError: the process is gone; what it had to say is on the standard error.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise EOFError("the worker process has ended")
        return json.loads(line)

    def ask(self, command: dict[str, Any]) -> Any:
        """Give a command and wait for its answer."""
        self.send(command)
        return self.receive()

    def kill(self) -> None:
        """End the process between two instructions, as a crash does."""
        self._process.kill()
