"""Runs the ``triptych`` command inside the test's process, on a SQLite store of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from triptych_adapters.cli.app import app


@attrs.frozen
class Ran:
    """How a run ended and what it printed."""

    code: int
    out: bytes
    err: str
    both: str
    """Standard output and standard error, as they came."""

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.text.splitlines()]


_command = cache(get_command)


def ran(
    arguments: Sequence[str], *, stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> Ran:
    """Run ``triptych`` with ``arguments``; what it raises comes out.

    As `CliRunner.invoke` does, which makes the commands' tree again for each run.
    """
    ended: object = 0
    with CliRunner().isolation(input=stdin, env=env) as (out, err, both):
        try:
            _command(app).main(args=list(arguments), prog_name="triptych")
        except SystemExit as error:
            ended = error.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        printed = [stream.getvalue() for stream in (out, err, both)]
    assert isinstance(ended, int), ended
    return Ran(int(ended), printed[0], *(each.decode("utf-8") for each in printed[1:]))


@attrs.frozen
class Shell:
    """A person at a prompt, in ``directory``."""

    directory: Path

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Ran:
        return ran(arguments, stdin=stdin)

    @property
    def store(self) -> Path:
        """The store that commands use: the user's own."""
        return self.directory / ".data" / "triptych" / "kb.db"

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path


def fresh_shell(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A prompt in ``directory`` with the hashing embedder, no other setting and no store yet."""
    for variable in [name for name in os.environ if name.startswith("TRIPTYCH_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "hash")
    monkeypatch.setenv("XDG_DATA_HOME", str(directory / ".data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory / ".config"))
    monkeypatch.chdir(directory)
    return Shell(directory)
