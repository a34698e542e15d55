"""Runs the real command in a pseudo-terminal, and reads what a person would see."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

_PIECE = re.compile(
    r"\x1b\[(?P<number>[0-9;?]*)(?P<command>[A-Za-z])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|(?P<text>[^\x1b])",
    re.DOTALL,
)
_SECONDS = 120.0


class Terminal:
    """A terminal of some width in which ``triptych`` is run, by one process for each command.

    The processes are forked from one that has imported the command and done nothing else: to
    import it takes much longer than most commands. A context manager.

    Attributes:
        columns: the width.
        cwd: where the commands run.
    """

    def __init__(self, *, columns: int, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.columns = columns
        self.cwd = cwd
        environment = {
            **{name: value for name, value in os.environ.items() if not _tells(name)},
            "TERM": "xterm-256color",
            "COLUMNS": str(columns),
            **(env or {}),
        }
        self._origin = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("terminal_script.py"))],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._origin.communicate(timeout=_SECONDS)

    def run(self, *arguments: str) -> tuple[int, str]:
        """How ``triptych`` ended, and all it wrote to the terminal, escapes included."""
        import fcntl
        import pty
        import struct
        import termios

        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, self.columns, 0, 0))
        assert self._origin.stdin is not None
        assert self._origin.stdout is not None
        try:
            self._origin.stdin.write(json.dumps([os.ttyname(follower), *arguments]) + "\n")
            self._origin.stdin.flush()
            written = _read(leader, until=self._origin.stdout.fileno())
            code = int(self._origin.stdout.readline())
            os.close(follower)
            follower = -1
            written += _read(leader)
        finally:
            if follower >= 0:
                os.close(follower)
            os.close(leader)
        return code, written.decode("utf-8").replace("\r\n", "\n")


def _read(leader: int, *, until: int | None = None) -> bytes:
    """What is written to a terminal, until nobody has it open or ``until`` can be read."""
    parts = []
    end = time.monotonic() + _SECONDS
    watched = [leader] if until is None else [leader, until]
    while time.monotonic() < end:
        ready = select.select(watched, [], [], 1.0)[0]
        if leader in ready:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other side has closed: Linux says so with EIO
                part = b""
            if not part:
                return b"".join(parts)
            parts.append(part)
        elif ready:
            return b"".join(parts)
    raise TimeoutError(f"the command did not end within {_SECONDS:.0f} seconds")


def seen(output: str) -> str:
    """What stands on the screen in the end: what was drawn over or erased is gone."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for piece in _PIECE.finditer(output):
        text, command = piece["text"], piece["command"]
        if text == "\n":
            row, column = row + 1, 0
            lines += [[] for _ in range(row + 1 - len(lines))]
        elif text == "\r":
            column = 0
        elif text:
            line = lines[row]
            line += [" "] * (column - len(line))
            line[column : column + 1] = [text]
            column += 1
        elif command == "A":
            row = max(0, row - int(piece["number"] or 1))
        elif command == "K":
            lines[row] = []
    return "\n".join("".join(line).rstrip() for line in lines)


_TOLD = frozenset(("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "PY_COLORS", "GITHUB_ACTIONS", "LINES"))


def _tells(name: str) -> bool:
    return name in _TOLD or name.startswith("TRIPTYCH_")
