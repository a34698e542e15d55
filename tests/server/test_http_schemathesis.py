"""schemathesis asks every route what its schema allows, and what it does not: ``make doors``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import door_server

pytestmark = [pytest.mark.doors, pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(1800)]

TOOL = Path(sys.prefix, "doors", "bin", "st")


@pytest.mark.skipif(not TOOL.exists(), reason="schemathesis is not installed: make doors")
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    server = [sys.executable, door_server.__file__, str(tmp_path / "kb.db")]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        command = [str(TOOL), "run", f"{url}/v1/openapi.json", "--max-examples", "10"]
        # The routes that ask for a header take any where no keys are checked.
        command += ["-H", "Authorization: Bearer any", "--phases", "examples,coverage,fuzzing"]
        command += ["--no-color", "--request-timeout", "60"]
        # No schema says which filters, queries and pairs of arguments mean something: what fits
        # the schema may still be refused with 400.
        command += ["--exclude-checks", "positive_data_acceptance"]
        try:
            done = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1700
            )
        finally:
            process.kill()
    assert done.returncode == 0, done.stdout[-20_000:]
