"""Runs ``triptych watch`` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def watch_command(
    directory: Path, *arguments: str, **settings: str
) -> Iterator[subprocess.Popen[str]]:
    """``triptych watch`` in ``directory``; whatever still runs at the block's end is killed.

    ``settings`` are environment variables; no ``TRIPTYCH_*`` variable is inherited.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIPTYCH_")}
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-m", "triptych_adapters.cli", "watch", *arguments],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": path, **settings},
    ) as process:
        try:
            yield process
        finally:
            process.kill()
