"""Runs a program of examples/ as a reader would: in a process and a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def environment(**variables: str) -> dict[str, str]:
    """This process's, with these variables and no other setting; the embedder is "hash"."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIPTYCH_")}
    return {**kept, "TRIPTYCH_EMBEDDER": "hash", **variables}


def run(folder: Path, name: str, *arguments: str, stdin: str = "", **variables: str) -> str:
    """What the program prints, which must end well."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        cwd=folder,
        env=environment(**variables),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def notes(folder: Path) -> str:
    """A folder of two notes; its name."""
    (folder / "notes").mkdir()
    (folder / "notes/http.md").write_text("# Retries\n\nA failed request is repeated ten times.\n")
    (folder / "notes/tea.md").write_text("# Tea\n\nGreen tea is steeped for two minutes.\n")
    return "notes"
