"""Runs the real command in a pseudo-terminal, and reads what a person would see."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["run_in_terminal", "seen"]

_PIECE = re.compile(
    r"\x1b\[(?P<number>[0-9;?]*)(?P<command>[A-Za-z])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|(?P<text>[^\x1b])",
    re.DOTALL,
)
_SECONDS = 120.0


def run_in_terminal(
    arguments: Sequence[str], *, columns: int, cwd: Path, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """How ``triptych`` ended, and all it wrote to a terminal of this width, escapes included."""
    import fcntl
    import pty
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {
        **{name: value for name, value in os.environ.items() if not _tells(name)},
        "TERM": "xterm-256color",
        "COLUMNS": str(columns),
        **(env or {}),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "triptych_adapters.cli", *arguments],
        cwd=cwd,
        env=environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        close_fds=True,
    )
    os.close(follower)
    parts = []
    until = time.monotonic() + _SECONDS
    try:
        while time.monotonic() < until:
            if not select.select([leader], [], [], 1.0)[0]:
                continue
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other side has closed: Linux says so with EIO
                break
            if not part:
                break
            parts.append(part)
        code = process.wait(timeout=_SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(leader)
    return code, b"".join(parts).decode("utf-8").replace("\r\n", "\n")


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
