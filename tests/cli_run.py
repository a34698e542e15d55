"""Runs the ``triptych`` command inside the test's process, on a SQLite store of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest
from typer.testing import CliRunner

from triptych_adapters.cli.app import app

__all__ = ["Ran", "Shell", "fresh_shell"]


@attrs.frozen
class Ran:
    """How a run ended and what it printed."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.text.splitlines()]


@attrs.frozen
class Shell:
    """A person at a prompt, in ``directory``."""

    directory: Path

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Ran:
        result = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="triptych")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout_bytes, result.stderr)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path


def fresh_shell(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A prompt in ``directory`` with the hashing embedder and no other setting."""
    for variable in [name for name in os.environ if name.startswith("TRIPTYCH_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "hash")
    monkeypatch.chdir(directory)
    return Shell(directory)
