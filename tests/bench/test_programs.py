"""Every program of bench can be started: none names what the product no longer has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
_IMPORT = "import importlib, sys; [importlib.import_module(each) for each in sys.argv[1:]]"


def test_every_program_is_imported() -> None:
    names = sorted(each.stem for each in BENCH.glob("*.py"))
    assert len(names) > 20
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, *names],
        cwd=BENCH,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(BENCH), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
